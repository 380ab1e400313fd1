"""Output for people and for machines."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from p2prdf.client import Gap, Solution
from p2prdf_cli import render, terminal

XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIXES = {"": "http://e.org/", "city": "http://e.org/city/", "empty": ""}


@pytest.mark.parametrize(
    ("term", "shown"),
    [
        ("<http://e.org/city/US.Reno>", "city:US.Reno"),
        ("<http://e.org/x>", ":x"),
        ("<http://else.org/x>", "<http://else.org/x>"),
        ('"plain"', "plain"),
        ('""', ""),
        ('"say \\"hi\\" \\\\o/"', 'say "hi" \\o/'),
        ('"line\\nfeed"', "line\\nfeed"),
        ('"chat"@fr', '"chat"@fr'),
        (f'"4.5"^^<{XSD}decimal>', "4.5"),
        (f'"x"^^<{XSD}date>', f'"x"^^<{XSD}date>'),
    ],
)
def test_terms_are_shortened_only_where_nothing_is_lost(term: str, shown: str) -> None:
    assert render.short_term(term, PREFIXES) == shown


def test_a_literal_cannot_steer_the_terminal() -> None:
    assert render.printable("a\x1b[31mred\u202e") == "a\\u001B[31mred\\u202E"


def _solution(sequence: int = 7) -> Solution:
    terms = ("<urn:a>", '"2"^^<http://www.w3.org/2001/XMLSchema#integer>')
    return Solution(("s", "n"), terms, sequence=sequence, identity=255, born=1.5, lost=0)


def test_a_json_line_is_a_sparql_binding_with_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    render.JsonLines().solution(_solution())
    assert json.loads(capsys.readouterr().out) == {
        "sequence": 7,
        "identity": "00000000000000ff",
        "born": "1970-01-01T00:00:01.500Z",
        "bindings": {
            "s": {"type": "uri", "value": "urn:a"},
            "n": {"type": "literal", "value": "2", "datatype": XSD + "integer"},
        },
    }


def test_gaps_and_bookmarks_are_json_lines_and_nothing_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (True, False):
        writer = render.solution_writer(("s", "n"), {}, as_json=as_json)
        capsys.readouterr()
        writer.gap(Gap(8, 12))
        writer.bookmark(1.5)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert lines == [{"gap": {"first": 8, "last": 12}}, {"bookmark": "1970-01-01T00:00:01.500Z"}] * as_json


def test_a_pipe_gets_tab_separated_values_with_a_header_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    writer = render.solution_writer(("s", "n"), {}, as_json=False)
    assert capsys.readouterr().out == "?s\t?n\n"
    writer.solution(_solution())
    assert capsys.readouterr().out == f'<urn:a>\t"2"^^<{XSD}integer>\n'


def test_a_terminal_gets_columns_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(terminal, "output", lambda: Console(file=screen, width=40, highlight=False))
    writer = terminal.TerminalColumns(("s", "n"), {"": "urn:"})
    writer.solution(_solution())
    long = "<urn:" + "x" * 100 + ">"
    writer.solution(Solution(("s", "n"), (long, '"1"'), sequence=8, identity=1, born=0.0, lost=0))
    lines = screen.getvalue().splitlines()
    assert [line.split() for line in lines[:2]] == [["#", "s", "n"], ["7", ":a", "2"]]
    assert "…" in lines[2]
    assert all(len(line) <= 40 for line in lines)


PARTLY_BOUND = Solution(("s", "n", "m"), ("<urn:a>", None, '"2"'), sequence=1, identity=1, born=0.0, lost=0)
TRUE = Solution((), (), sequence=1, identity=2, born=0.0, lost=0)
TRUE_NO_MORE = Solution((), (), sequence=2, identity=2, born=0.0, lost=0, removed=True)


def test_an_unbound_variable_is_an_empty_cell_and_no_binding(capsys: pytest.CaptureFixture[str]) -> None:
    render.TabSeparated(("s", "n", "m"), header=False).solution(PARTLY_BOUND)
    assert capsys.readouterr().out == '<urn:a>\t\t"2"\n'
    nothing = Solution(("s",), (None,), sequence=1, identity=1, born=0.0, lost=0, removed=True)
    render.TabSeparated(("s",), header=False).solution(nothing)
    assert capsys.readouterr().out == "-\t\n"
    render.JsonLines().solution(PARTLY_BOUND)
    assert json.loads(capsys.readouterr().out)["bindings"] == {
        "s": {"type": "uri", "value": "urn:a"}, "m": {"type": "literal", "value": "2"},
    }  # fmt: skip


def test_an_ask_subscription_has_no_columns_and_is_true_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    writer = render.solution_writer((), {}, as_json=False)
    writer.solution(TRUE)
    writer.solution(TRUE_NO_MORE)
    assert capsys.readouterr().out == "true\n-\ttrue\n"
    lines = render.JsonLines()
    lines.solution(TRUE)
    lines.solution(TRUE_NO_MORE)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["bindings"], line.get("removed", False)) for line in told] == [({}, False), ({}, True)]


def test_a_terminal_leaves_unbound_variables_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(terminal, "output", lambda: Console(file=screen, width=40, highlight=False))
    terminal.TerminalColumns(("s", "n", "m"), {"": "urn:"}).solution(PARTLY_BOUND)
    head, row = screen.getvalue().splitlines()
    assert (row.index(":a"), row.index("2")) == (head.index("s"), head.index("m"))
    assert row.split() == ["1", ":a", "2"]


def test_a_terminal_shows_that_something_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(terminal, "output", lambda: Console(file=screen, width=40, highlight=False))
    writer = terminal.TerminalColumns((), {})
    writer.solution(TRUE)
    writer.solution(TRUE_NO_MORE)
    assert [line.split() for line in screen.getvalue().splitlines()] == [["#"], ["1", "true"], ["-2", "true"]]


def test_sizes_and_counts_are_spelled_for_people() -> None:
    assert [render.human_bytes(value) for value in (0, 1023, 1536, 5 << 20, 3 << 30)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB",
    ]  # fmt: skip


def test_columns_of_numbers_are_set_to_the_right() -> None:
    table = terminal.table("T", ("name", "count"), [("a", 1), ("b", 12_345)])
    assert [column.justify for column in table.columns] == ["left", "right"]
    screen = io.StringIO()
    Console(file=screen, width=60).print(table)
    assert "12,345" in screen.getvalue()
