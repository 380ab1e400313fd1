"""The ledger of a load is judged: lost, doubled, phantom and retracted publications."""

from __future__ import annotations

import pytest
from cluster_check.counts import Counts, count, read_last_line, read_values


def test_each_acknowledged_publication_delivered_once_is_good() -> None:
    counts = Counts(**count(3, 3, [(2, False), (0, False), (1, False)]))
    assert counts.good
    assert (counts.delivered, counts.lost) == (3, 0)


def test_an_acknowledged_publication_that_is_not_delivered_is_lost() -> None:
    counts = Counts(**count(3, 2, [(0, False), (2, False)]))
    assert not counts.good
    assert (counts.lost, counts.phantom) == (1, 0)


def test_an_unacknowledged_publication_may_be_delivered_or_not() -> None:
    assert Counts(**count(3, 2, [(0, False), (1, False)])).good
    assert Counts(**count(3, 2, [(0, False), (1, False), (2, False)])).good


@pytest.mark.parametrize(
    ("solution", "name"),
    [((0, False), "doubled"), ((7, False), "phantom"), ((-1, False), "phantom"), ((0, True), "retracted")],
)
def test_a_solution_too_many_is_counted_by_its_kind(solution: tuple[int, bool], name: str) -> None:
    counts = Counts(**count(2, 2, [(0, False), (1, False), solution]))
    assert getattr(counts, name) == 1
    assert counts.delivered == 2
    assert not counts.good


def test_a_load_that_published_nothing_or_failed_is_not_good() -> None:
    assert not Counts(**count(0, 0, [])).good
    assert not Counts(**count(1, 1, [(0, False)]), error="publisher: Unavailable").good


def test_the_ledger_of_a_load_keeps_pause_reconnections_and_error() -> None:
    ledger = {"sent": 2, "acknowledged": 2, "solutions": [[0, False], [1, False]], "pause": 1.25, "reconnections": 3}
    counts = Counts.of_ledger({**ledger, "error": "", "unknown": 1})
    assert counts == Counts(sent=2, acknowledged=2, delivered=2, pause=1.25, reconnections=3)
    assert str(counts).startswith("2 acknowledged of 2 sent, 2 delivered, 0 lost, 0 doubled")


def test_the_last_line_of_a_client_is_its_report() -> None:
    assert read_last_line('live\n{"sent": 1}\n') == {"sent": 1}
    for output in ("", "live\n", "live\n[1]\n", "Traceback\nValueError: no\n"):
        with pytest.raises(ValueError, match="without a report"):
            read_last_line(output)


def test_rows_of_a_query_are_its_bindings_and_not_its_lines() -> None:
    results = '{"head":{"vars":["o"]},"results":{"bindings":[\n{"o":{"type":"literal","value":"7"}},\n'
    results += '{"o":{"type":"literal","value":"7"}}\n]}}\n'
    assert read_values(results, "o") == ["7", "7"]
    assert read_values('{"head":{"vars":["o"]},"results":{"bindings":[]}}', "o") == []
