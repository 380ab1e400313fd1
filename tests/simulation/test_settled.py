"""Settled delivery: pyoxigraph judges every mark of random histories, and mutants are caught."""

from __future__ import annotations

import heapq

import pytest
from settled_days.day import QUERIES, History, run_history

from p2prdf import hlc
from p2prdf.continuous.settled import SettledEvaluation
from p2prdf.peer.joins.exact import ExactLeaves
from p2prdf.rdf.query import Plan


def test_every_mark_is_the_answer_to_the_graph_as_of_its_stamp():
    marks = 0
    for seed in range(4):
        report = run_history(seed)
        assert report.good, (report.differs[:3], report.problems[:3])
        marks += report.marks
    assert marks > 300


def test_every_mark_is_the_answer_while_peers_and_subscribers_crash():
    marks = crashes = 0
    for seed in range(3):
        report = run_history(seed, faults=True)
        assert report.good, (report.differs[:3], report.problems[:3])
        marks, crashes = marks + report.marks, crashes + report.crashes
    assert marks > 200
    assert crashes > 0


@pytest.mark.parametrize("faults", [False, True])
def test_all_queries_of_a_cohort_answer_one_graph_at_every_mark(faults):
    marks = 0
    for seed in range(1 if faults else 2):
        report = run_history(seed, faults=faults, cohorts=True)
        assert report.good, (report.differs[:3], report.problems[:3])
        marks += report.marks
    assert marks > 100


def mark_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a low watermark for one cut later than it is."""
    known_upto = SettledEvaluation.known_upto
    later = hlc.from_seconds(0.005)
    monkeypatch.setattr(
        SettledEvaluation, "known_upto", lambda self, upto, at, view: known_upto(self, upto + later, at, view)
    )


def split_net_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver the last change of each mark with the next one."""
    go_on = SettledEvaluation.go_on

    def late(self: SettledEvaluation) -> bool:
        begun = go_on(self)
        if begun and len(self._waiting) > 1:
            leaf, row, weight = self._waiting.pop()
            self._serial += 1
            heapq.heappush(self._held, (self._goal, self._serial, leaf, row, weight))
        return begun

    monkeypatch.setattr(SettledEvaluation, "go_on", late)


def states_instead_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell the states that the tables have after an arrival."""
    monkeypatch.setattr(ExactLeaves, "derive", lambda _self, _batch, _probed: iter(()))
    monkeypatch.setattr(Plan, "__init__", _without_exact(Plan.__init__))


def _without_exact(init):  # type: ignore[no-untyped-def]
    def made(self, *parts, **named):  # type: ignore[no-untyped-def]
        named.pop("exact", None)
        init(self, *parts[:10], **named)

    return made


@pytest.mark.parametrize("mutant", [mark_too_early, split_net_change, states_instead_of_events])
def test_a_mutant_is_caught(mutant, monkeypatch):
    mutant(monkeypatch)
    assert any(run_history(seed).differs for seed in range(6))


def test_a_cohort_out_of_step_is_caught(monkeypatch):
    """The changes of the first query come with the next mark."""
    begin, deliver = SettledEvaluation.__init__, SettledEvaluation._deliver

    def begun(self, query, leaves, dictionary, clock):
        begin(self, query, leaves, dictionary, clock)
        self.behind, self.first = {}, None
        if ":" in query.names[0]:
            self.first = dictionary.intern('"0"^^<http://www.w3.org/2001/XMLSchema#integer>')

    def late(self, rows, log):
        now = dict.fromkeys(rows)
        then = {row: None for row in now if row and row[-1] == self.first}
        now, self.behind = {row: None for row in now if row not in then} | self.behind, then
        return deliver(self, now, log)

    monkeypatch.setattr(SettledEvaluation, "__init__", begun)
    monkeypatch.setattr(SettledEvaluation, "_deliver", late)
    differs = next(found for seed in range(4) if (found := run_history(seed, cohorts=True).differs))
    assert all(" | " in each for each in differs)


def test_immediate_delivery_shows_states_that_never_existed():
    assert any(run_history(seed, settled=False).differs for seed in range(4))


def test_the_marks_of_a_quiet_query_go_on():
    history = History(1, faults=False)
    record = history.subscribe(QUERIES[8])
    history.world.run_for(20.0)
    stamps = [stamp for _, stamp, _ in record.marks]
    assert stamps == sorted(set(stamps))
    assert hlc.seconds(stamps[-1]) > history.world.now - 3.0
    assert 10 < len(stamps) < 60


def test_a_mark_costs_one_message_for_each_coordinator_and_entry_peer():
    history = History(3, faults=False)
    world = history.world
    records = [history.subscribe(f"SELECT * WHERE {{ ?x <urn:p{at}> ?y }}") for at in range(100)]
    world.run_for(8.0)
    for record in records:
        record.marks.clear()
    before = world.counts.messages["BookmarksResponse"]
    world.run_for(20.0)
    messages = world.counts.messages["BookmarksResponse"] - before
    marks = sum(len(record.marks) for record in records)
    stamps, peers = {stamp for record in records for _, stamp, _ in record.marks}, len(world.serving())
    print(f"{marks} marks of {len(records)} subscriptions at {len(stamps)} stamps, {peers} peers: {messages} messages")
    assert marks > 15 * len(records)
    assert messages <= peers * (peers - 1) * len(stamps)
