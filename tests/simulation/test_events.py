"""Queries over timed events: the command's runs, against results worked out by hand and by the oracle."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf.query import Algorithm
from p2prdf.sim.events import Event, Standing, options_for, parse_events, replay, run_events
from p2prdf.sim.oracle import Oracle, Publication
from p2prdf_lab.workloads.random_queries import conjunctive_query, draw_query, draw_triples, draw_vocabulary

P = "<urn:p>"
ALL = conjunctive_query([("?x", P, "?y")], ["?x", "?y"])


def _events(*timed: tuple[float, str]) -> list[Event]:
    return [Event(time, (f"<urn:{name}>", P, "<urn:o>")) for time, name in timed]


def _names(run, place: int = 0) -> list[str]:
    return sorted(row[0][5:-1] for row in run.results[place].rows)


def test_events_at_the_time_of_the_subscription_and_of_the_end_count():
    events = _events((1, "early"), (5, "first"), (7, "mid"), (9, "last"), (9.5, "late"))
    run = run_events(5, 1, [ALL], events, subscribe_at=5, until=9)
    assert _names(run) == ["first", "last", "mid"]
    assert run.events == 4


def test_without_times_everything_counts_in_any_order_of_the_file():
    run = run_events(3, 1, [ALL, ALL], _events((2, "b"), (-4, "a"), (2, "c")))
    assert _names(run, 0) == _names(run, 1) == ["a", "b", "c"]


def test_a_triple_published_again_after_the_subscription_counts_and_does_so_once():
    events = _events((1, "a"), (3, "a"), (4, "a"))
    assert _names(run_events(3, 1, [ALL], events, subscribe_at=2)) == ["a"]
    assert _names(run_events(3, 1, [ALL], events, subscribe_at=2, per_event=True)) == ["a", "a"]


def test_checkpoints_show_the_solutions_held_at_each_moment():
    events = _events((1, "a"), (2, "b"), (3, "c"))
    standing = [Standing(ALL, subscribe_at=None), Standing(ALL, subscribe_at=2.0), Standing(ALL, subscribe_at=3.0)]
    runs = replay(options_for(3, 1), standing, events, [2.0, None, 1.0])
    assert [[_names(run, place) for place in range(3)] for run in runs] == [
        [["a", "b"], ["b"], []], [["a", "b", "c"], ["b", "c"], ["c"]], [["a"], [], []],
    ]  # fmt: skip
    assert [run.events for run in runs] == [2, 3, 1]


@pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda algorithm: algorithm.value)
@pytest.mark.parametrize("per_event", [False, True], ids=["per triple", "per event"])
@pytest.mark.parametrize("batch_max", [1, 3, 1000])
def test_random_streams_agree_with_the_oracle_at_each_checkpoint(algorithm, per_event: bool, batch_max: int):
    rng = random.Random(f"{algorithm.value} {per_event}")
    vocabulary = draw_vocabulary(rng)
    data = draw_triples(rng, vocabulary, 60)
    events = [Event(float(at // 4), triple) for at, triple in enumerate(data)]
    standing = [
        Standing(draw_query(rng, data[:40], vocabulary), algorithm, per_event, float(rng.randint(0, 12)))
        for _ in range(6)
    ]
    checkpoints = [4.0, 9.0, None]
    runs = replay(options_for(6, 2), standing, events, checkpoints, batch_max=batch_max)
    for end, run in zip(checkpoints, runs, strict=True):
        log = [
            Publication(int(event.time), number, event.triple)
            for number, event in enumerate(events)
            if end is None or event.time <= end
        ]
        for asked, result in zip(standing, run.results, strict=True):
            expected = Oracle(log).answers(asked.query, int(asked.subscribe_at or 0), per_event=per_event)
            if end is None or (asked.subscribe_at or 0) <= end:
                assert Counter(result.rows) == expected
            else:
                assert not result.rows


@pytest.mark.parametrize("overlay", ["kademlia", "chord"])
def test_a_run_reports_results_as_sparql_json_and_counts(overlay: str):
    run = run_events(8, 3, [ALL], [Event(0, ("<urn:s>", P, '"1"@en'))], algorithm=Algorithm.CQC, overlay=overlay)
    shown = run.as_dict()
    assert shown["results"] == [{
        "head": {"vars": ["x", "y"]},
        "results": {"bindings": [
            {"x": {"type": "uri", "value": "urn:s"}, "y": {"type": "literal", "value": "1", "xml:lang": "en"}}
        ]},
    }]  # fmt: skip
    assert shown["events"] == 1
    assert shown["network"]["hops"] == run.counts.hops > 0
    assert shown["load"]["processing_load"]["total"] >= 1
    assert shown["load"]["storage_load"]["max"] >= 1


def test_progress_is_reported_as_events_are_published():
    told: list[int] = []
    run_events(2, 1, [ALL], _events(*((at, f"n{at}") for at in range(10))), progress=told.append)
    assert sum(told) == 10


def test_event_lines_are_read_with_and_without_sign():
    lines = [
        b"# comment\n", b"\n", b"1.5\t<urn:s> <urn:p> \"a\\tb\" .\n", b"2\tA\t<urn:s> <urn:p> _:b .\r\n",
        b'3\t<urn:s> <urn:p> "tab\there" .\n',
    ]  # fmt: skip
    events = parse_events(lines, publication_id="x")
    assert [event.time for event in events] == [1.5, 2.0, 3.0]
    assert events[0].triple == ("<urn:s>", "<urn:p>", '"a\\tb"')
    assert events[1].triple[2].startswith("<urn:bnode:x:")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"7\tX\t<urn:s> <urn:p> <urn:o> .", "A .added. or D .removed."),
        (b"7\tX\t<urn:s> <urn:p> <urn:o> .", "not 'X'|'X'"),
        (b"<urn:s> <urn:p> <urn:o> .", "not an event"),
        (b"soon\t<urn:s> <urn:p> <urn:o> .", "not a time: 'soon'"),
        (b"nan\t<urn:s> <urn:p> <urn:o> .", "not a time"),
        (b"1\t<urn:s> <urn:p> .", "file.tsv:3"),
        (b"1\t<urn:s> \xff <urn:o> .", "file.tsv:3"),
        (b"1\t", "0|not an event"),
    ],
)
def test_bad_lines_are_refused_with_their_number_and_the_reason(line: bytes, named: str):
    good = b"0\t<urn:s> <urn:p> <urn:o> .\n"
    with pytest.raises(DataRefused, match=named) as refusal:
        parse_events([good, b"\n", line, good], source="file.tsv")
    assert refusal.value.line == 3
    assert refusal.value.source == "file.tsv"
