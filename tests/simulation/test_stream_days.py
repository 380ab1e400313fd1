"""Through all failures during the publication of streams, each report equals another engine's windows, once."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from stream_days.day import run_seed

from p2prdf import keys
from p2prdf.continuous import counts
from p2prdf.continuous.counts import Mark, Place
from p2prdf.continuous.records import Subscription
from p2prdf.continuous.reports import time_of
from p2prdf.peer import PeerConfig
from p2prdf.peer.progress.event_watermarks import Watermarks
from p2prdf.peer.progress.retention import Retention
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.world import WorldOptions
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.horizons import Horizons
from p2prdf.wire.contract import Heartbeat
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

SEEDS = [1, 5, 53, 404]
MORE_SEEDS = [13, 18, 54]
WRONG = 53
"""Seed of a short schedule with streams of reports."""
TIED = 1
"""Seed of a schedule with several elements of one time."""
TAKEN_OVER = 54
"""Seed of a schedule with a failover in a window by count: the successor depends on the dropped elements."""


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in MORE_SEEDS)])
def test_every_report_is_right(seed: int) -> None:
    verdict = run_seed(seed)
    assert not verdict.problems, verdict.report()
    assert verdict.counts["rows told"]


FIGURE = {
    1: "AB", 2: "AB BC AC", 3: "AB BC AC CD AD BD", 4: "AB BC AC CD AD BD AE ED",
    11: "AB BC AC CD AD BD AE ED", 12: "BC CD BD AE ED AD", 13: "CD AE ED AD", 14: "AE ED AD", 15: "",
}  # fmt: skip
"""Figure 4 of the stream-reasoning paper: the pairs in a transitive relation at each second."""
FIGURE |= dict.fromkeys(range(5, 11), FIGURE[4])
STREAM = {1: ["AB"], 2: ["BC"], 3: ["CD"], 4: ["AE", "ED"]}
PLACES = """PREFIX : <urn:> REGISTER RSTREAM :out AS
    SELECT ?x ?y FROM NAMED WINDOW :w ON :s [RANGE 11s STEP 1s] WHERE { WINDOW :w { ?x :isIn ?y } }"""
IS_IN = (("?x", "<urn:isIn>", "?z"), (("?x", "<urn:isIn>", "?y"), ("?y", "<urn:isIn>", "?z")))


def test_figure_4_of_the_paper_through_seven_peers() -> None:
    """An element counts for ten seconds and the second it comes in, as in the figure."""
    config = PeerConfig(replicas=3, copies_min=2, durable=True, hot_keys=False, stream_idle_seconds=2.0)
    world = FailingWorld(WorldOptions(peers=7, seed=4, config=config), Failures())
    query = parse_query(PLACES, rules=[IS_IN])
    record = ResumingSubscriber("places", query, Algorithm.CSBV, False, 86_400.0, PLACES, True)
    SubscriberClient(world, record, Random(1)).connect()
    world.run_for(2.0)
    publisher = Publisher(world, "places", Random(2))
    for second in range(1, 20):
        quads = [(f"<urn:{x}>", "<urn:isIn>", f"<urn:{y}>", "<urn:s>") for x, y in STREAM.get(second, ())]
        if quads:
            publisher.publish(0.0, quads, times=[1000 * second] * len(quads))
        world.run_for(1.0)
        said = Heartbeat(keys.term_hash("<urn:s>"), publisher.identity, 1000, min(15, second) * 1000)
        world.submit(world.nodes[second % 7], said)
    world.run_for(3.0)
    told: dict[int, set[str]] = {second: set() for second in FIGURE}
    for x, y, time in record.rows:
        told[time_of(time) // 1000].add(f"{x[5]}{y[5]}")
    assert told == {second: set(held.split()) for second, held in FIGURE.items()}
    assert len(record.rows) == sum(map(len, told.values()))
    assert not record.complaints


def test_reports_are_wrong_if_nobody_waits_for_publishers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedules are of use: they detect reports made before their elements are there."""
    monkeypatch.setattr(Watermarks, "upto", lambda *_: 1_091_944_805_000)
    assert run_seed(WRONG, configurations="varied").problems


FORGETFUL = 3
"""A schedule in which a query needs more of a stream than is retained without it."""


COLUMNAR = 335
"""One in which all peers have columnar tables, and elements are dropped."""


def test_reports_are_wrong_if_needed_elements_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retention, "_needed", lambda _: {})
    assert any("missing" in each for each in run_seed(FORGETFUL, configurations="varied").problems)


@pytest.mark.parametrize(
    ("owner", "name", "seed"), [(Horizons, "grow", WRONG), (ColumnarTables, "_forget_elements", COLUMNAR)]
)
def test_mutants_that_never_drop_elements_are_killed(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, seed: int
) -> None:
    monkeypatch.setattr(owner, name, lambda *_: False)
    assert any("at rest" in each for each in run_seed(seed, configurations="varied").problems)


def test_reports_are_wrong_if_a_successor_counts_from_the_first_element_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Subscription, "mark", property(lambda self: Mark(self.reported)))
    assert run_seed(TAKEN_OVER, configurations="varied").problems


def test_reports_are_wrong_if_elements_of_one_time_are_counted_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(
        counts, "Place", lambda time, text, row: Place(time, (f"{next(numbers):012}", *text), row)
    )
    assert run_seed(TIED, configurations="varied").problems
