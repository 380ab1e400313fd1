"""Rows of joins within a window, with the window's range as a bound on joined elements, and without.

Traffic sensors of CityBench, as they were recorded, through seven peers with three copies of everything:
readings of two places that fall into one window, and two readings of the same property, one above the other.
Both cases report the same.

A further table has the cost of reading one pattern through a window by count: its coordinator receives all
elements of the stream.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest import mock

from rich.console import Console
from rich.table import Table

from p2prdf import keys
from p2prdf.continuous.leaf import Leaf
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.messenger import Messenger
from p2prdf.rdf.query import Algorithm, make_plan
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.world import Node, WorldOptions
from p2prdf.wire.contract import EndStream, Outcome
from p2prdf.wire.messages import Answers, Forward, IndexTriples
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from real_streams.data import DATA, Dataset, available, load

STREAM = "<urn:city>"
HOURS, HOURS_QUICK = 6, 3
RANGE_SECONDS = 600
PEERS = 7
_CITY = "http://www.insight-centre.org/dataset/SampleEventService#AarhusTrafficData"
QUERIES = {
    "two places": "?a s:observedBy <{one}> ; v:hasValue ?v . ?b s:observedBy <{two}> ; v:hasValue ?w",
    "one property": "?a s:observedBy <{one}> ; s:observedProperty ?p ; v:hasValue ?v ."
    " ?b s:observedProperty ?p ; v:hasValue ?w FILTER(?v < ?w)",
}
"""The patterns in the window."""
EXTENTS = ("RANGE 600s STEP 300s", "ELEMENTS 100 STEP 50")


@dataclass
class _Counted:
    """Rows, over all peers."""

    indexed: int = 0
    """Elements sent to other peers for storage, one for each copy."""
    forwarded: int = 0
    """Partial results and answers sent to other peers."""
    held: int = 0
    """Rows waiting in tables."""
    answers: int = 0
    """Answers held by coordinators."""
    too_wide: int = 0
    told: Counter[tuple[str, ...]] = field(default_factory=Counter)


@contextlib.contextmanager
def _counting(counted: _Counted) -> Iterator[None]:
    """Count rows that peers send each other; repeated messages are not counted again."""
    send = Messenger.send

    def counts(self: Messenger, to: object, message: object, *rest: object) -> None:
        if isinstance(message, Forward | Answers):
            counted.forwarded += len(message.rows)
        elif isinstance(message, IndexTriples):
            counted.indexed += len(message.s)
        send(self, to, message, *rest)  # type: ignore[arg-type]

    with mock.patch.object(Messenger, "send", counts):
        yield


class _Nobody:
    """A requester; all its requests succeed here."""

    def completed(self, node: Node, request: int, outcome: Outcome) -> None:
        """Ignore the outcome."""

    def cut_off(self, node: Node) -> None:
        """Ignore the end."""


def _unbounded(leaf: Leaf, order: list[int]) -> object:
    return make_plan(leaf.query, order, leaf.group.algorithm, per_event=leaf.per_event)


def _play(dataset: Dataset, text: str) -> _Counted:
    counted = _Counted()
    config = PeerConfig(replicas=3, copies_min=2, durable=True, hot_keys=False, stream_idle_seconds=2.0)
    world = FailingWorld(WorldOptions(peers=PEERS, seed=1, config=config), Failures())
    record = ResumingSubscriber("windows", parse_query(text), Algorithm.CSBV, False, 86_400.0, text, True)
    SubscriberClient(world, record, Random(1)).connect()
    world.run_for(3.0)
    publisher = Publisher(world, "windows", Random(2))
    by_time: dict[int, list[tuple[str, str, str, str]]] = {}
    for element in dataset.elements:
        by_time.setdefault(element.time, []).append((*element.triple, STREAM))
    with _counting(counted):
        for time, quads in by_time.items():
            publisher.publish(0.0, quads, times=[time] * len(quads))
            world.run_for(0.2)
        world.run_for(2.0)
    first, last = min(by_time), dataset.end
    stream, name = keys.term_hash(STREAM), publisher.identity
    world.request(world.nodes[0], lambda number: EndStream(number, stream, name, first, last, 1), _Nobody())
    told = -1
    while told != len(record.rows):
        told = len(record.rows)
        world.run_for(30.0)
    for node in world.nodes:
        sizes = node.peer._tables.sizes()
        counted.held += sizes.rows
        counted.too_wide += sizes.too_wide
        counted.answers += sum(len(leaf.answers or ()) for leaf in node.peer._coordinator.home.live_leaves())
    counted.told = Counter(record.rows)
    return counted


def run(console: Console, quick: bool) -> bool:
    """Print rows with and without the bound; return whether the reports are equal, with fewer rows for the bound."""
    if not available():
        console.print(f"the shared data is not at {DATA}")
        return True
    hours = HOURS_QUICK if quick else HOURS
    city = load("citybench", STREAM[1:-1])
    places = sorted({o for _, p, o in (each.triple for each in city.elements) if p.endswith("observedBy>")})
    traffic = [each for each in places if _CITY in each][:2]
    chosen = {s for s, p, o in (each.triple for each in city.elements) if o in traffic}
    dataset = city.upto(city.elements[0].time / 1000 + 3600 * hours)
    dataset.elements[:] = [each for each in dataset.elements if each.triple[0] in chosen]
    table = Table("query", "range", "rows sent", "rows waiting", "answers at homes", "pairs too wide", "rows told")
    good = True
    for name, pattern in QUERIES.items():
        text = f"""PREFIX s: <http://purl.oclc.org/NET/ssnx/ssn#> PREFIX v: <http://purl.oclc.org/NET/sao/>
            REGISTER ISTREAM <urn:out> AS SELECT ?a ?b ?v ?w
            FROM NAMED WINDOW <urn:w> ON {STREAM} [RANGE PT{RANGE_SECONDS}S STEP PT{RANGE_SECONDS // 2}S]
            WHERE {{ WINDOW <urn:w> {{ {pattern.format(one=traffic[0][1:-1], two=traffic[1][1:-1])} }} }}"""
        with mock.patch.object(Leaf, "plan_in", _unbounded):
            without = _play(dataset, text)
        bounded = _play(dataset, text)
        for what, each in (("no bound", without), (f"{RANGE_SECONDS} s", bounded)):
            numbers = (each.forwarded, each.held, each.answers, each.too_wide, sum(each.told.values()))
            table.add_row(name, what, *(f"{number:,}" for number in numbers))
        good &= bounded.told == without.told and bounded.held < without.held and bounded.forwarded < without.forwarded
    console.print(f"{len(dataset.elements):,} elements of {hours} hours, {PEERS} peers, 3 copies")
    console.print(table)
    return _by_count(console, dataset) and good


def _by_count(console: Console, dataset: Dataset) -> bool:
    """Print the cost of one pattern by time and by count; return whether both reported anything."""
    table = Table("window", "elements sent to be kept", "rows sent", "answers at homes", "rows told")
    good = True
    for extent in EXTENTS:
        text = f"""PREFIX v: <http://purl.oclc.org/NET/sao/> REGISTER ISTREAM <urn:out> AS SELECT ?a ?v
            FROM NAMED WINDOW <urn:w> ON {STREAM} [{extent}] WHERE {{ WINDOW <urn:w> {{ ?a v:hasValue ?v }} }}"""
        found = _play(dataset, text)
        numbers = (found.indexed, found.forwarded, found.answers, sum(found.told.values()))
        table.add_row(extent, *(f"{number:,}" for number in numbers))
        good &= bool(found.told)
    console.print(table)
    return good
