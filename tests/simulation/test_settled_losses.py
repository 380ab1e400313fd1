"""Settled delivery after a loss: marks go on soon, and a large transaction is never told in parts."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import pytest
from settled_days import day
from settled_days.day import QUERIES, History, Report

from p2prdf.sim.faults import Faults
from schedules.failures.options import Failures

DETECTED_SECONDS = 0.3
"""After this time all members know that a process was killed (docs/explanation/design/membership.md)."""
TRIPLES = 240
ROWS_PER_MESSAGE = 16


def history(monkeypatch: pytest.MonkeyPatch, seed: int, **config: object) -> History:
    """Return a world with the delays of one data centre, and the detection of killed processes."""
    monkeypatch.setattr(
        day, "Failures",
        lambda **wanted: Failures(**{**wanted, "detect_min_seconds": 0.2, "detect_max_seconds": DETECTED_SECONDS}),
    )  # fmt: skip
    monkeypatch.setattr(day, "Faults", lambda **_: Faults(delay_min_seconds=0.001, delay_max_seconds=0.004))
    make = day.PeerConfig
    monkeypatch.setattr(day, "PeerConfig", lambda **wanted: replace(make(**wanted), **config))
    found = History(seed, faults=True)
    monkeypatch.undo()
    return found


def test_marks_go_on_soon_after_a_peer_is_killed(monkeypatch):
    """2.1 s: the loss is known after 0.3 s, all data is compared after another second, and two cuts follow."""
    found = history(monkeypatch, 0)
    world = found.world
    records = [found.subscribe(text) for text in QUERIES[:8]]
    for at in range(80):
        world.schedule(at * 0.1, found._draw)
    world.run_for(4.0)
    killed = world.now
    world.crash(world.nodes[-1])
    world.run_for(6.0)
    gaps = []
    for record in records:
        times = [*(arrived for arrived, _, _ in record.marks), world.now]
        gaps.append(max(after - before for before, after in itertools.pairwise(times) if after > killed))
    print(f"the longest time without a mark, of {len(records)} subscriptions: {max(gaps):.2f} s")
    assert max(gaps) < 3.0


def test_a_large_transaction_is_told_as_a_whole_whenever_its_entry_peer_is_killed(monkeypatch):
    """Its rows fill many messages to all owners; the entry peer is killed at random times while it sends them."""
    found = history(monkeypatch, 1, batch_rows_max=ROWS_PER_MESSAGE)
    world, rng, killed = found.world, Random(1), 0
    counted = found.subscribe("SELECT (COUNT(*) AS ?n) WHERE { ?x <urn:large> ?y }")
    found.subscribe("SELECT ?y (COUNT(*) AS ?n) WHERE { ?x <urn:large> ?y } GROUP BY ?y")
    world.run_for(4.0)
    for number in range(6):
        node = rng.choice(world.serving())
        with monkeypatch.context() as only:
            only.setattr(found.random, "choice", lambda _, node=node: node)
            found.transact([], [(f"<urn:x{at}>", "<urn:large>", f"<urn:y{number}>") for at in range(TRIPLES)])
        world.run_for(rng.uniform(0.0, 0.08))
        killed += found.attempts[-1].acknowledged_at is None
        world.crash(node)
        world.run_for(3.0)
        world.restart(node)
        world.run_for(12.0)
    world.run_for(20.0)
    report = Report(1)
    found.judge(report)
    counts = {int(row[0].split('"')[1]) for _, _, held in counted.marks for row in held}
    print(f"{killed} of 6 killed before the acknowledgement; counts told: {sorted(counts)}")
    assert report.good, (report.differs[:3], report.problems[:3])
    assert killed > 2
    assert all(count % TRIPLES == 0 for count in counts)
    assert max(counts) == 6 * TRIPLES
