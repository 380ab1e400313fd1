"""Phases after a kill in virtual time: detection, the first answers, bookmarks, restored copies.

    python -m schedules.failover_times --slowness 20 --rate 6

Five peers have the configuration of daemons.  *Probes*, small publications with a timed answer, come every 100 ms
beside larger publications, similarly to ``make chaos``.  One peer is killed and restarted from its disk.  Another one
is killed just after that, while the replicas compare their data: ``make chaos`` does so on a slow machine.

Views change with the delays of the failure detector, measured in :mod:`schedules.swim_world`.  The work of each peer
takes its nominal cost times ``slowness`` in virtual time.  Load is thus a parameter, and figures repeat.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Final

from p2prdf.peer import Pace, PeerConfig
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.sim.faults import CALM
from p2prdf.sim.world import Node, WorldOptions
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld
from schedules.shares import as_daemons
from schedules.swim_world import SwimWorld

if TYPE_CHECKING:
    from p2prdf.wire.contract import Notify

__all__ = ["Figures", "Times", "detection", "measure"]

PEERS: Final = 5
PROBE_SECONDS: Final = 0.1
SINGLE: Final = 3
JOINED: Final = 2
WARM_SECONDS: Final = 4.0
BEFORE_SECONDS: Final = 1.0
AFTER_SECONDS: Final = 4.0
"""A gap is the longest delay of a probe due from 1 s before an event to 4 s after it, as in ``make chaos``."""
POLL_SECONDS: Final = 0.05
REST_SECONDS: Final = 30.0


@dataclass(slots=True)
class Times:
    """Phases after one event, in seconds from it; infinite for phases that did not come.

    ``lost``: each other peer's view is without the peer (after a restart: with it).  ``first``: the first answer to a
    probe due after the event.  ``served``: the first answers of all queries.  ``in_sync``: every peer may coordinate
    subscriptions.  ``bookmark``: a bookmark later than the event.  ``whole``: no copy is missing by the peers' status.
    ``gap``: the longest delay of a probe.
    """

    event: str
    lost: list[float] = field(default_factory=list)
    first: float = math.inf
    served: float = math.inf
    in_sync: float = math.inf
    bookmark: float = math.inf
    whole: float = math.inf
    gap: float = math.inf

    def __str__(self) -> str:
        phases = {
            "views": f"{min(self.lost, default=math.inf):.2f} to {max(self.lost, default=math.inf):.2f}",
            "first answer": f"{self.first:.2f}", "all queries": f"{self.served:.2f}",
            "in sync": f"{self.in_sync:.2f}", "bookmark": f"{self.bookmark:.2f}", "copies": f"{self.whole:.2f}",
            "gap": f"{self.gap:.2f}",
        }  # fmt: skip
        return f"{self.event:>16}: " + ", ".join(f"{name} {value}" for name, value in phases.items())


@dataclass(slots=True)
class Figures:
    """The result of a run."""

    times: list[Times]
    steady: float
    """The longest delay of a probe before the first kill."""
    messages: Counter[str]
    """Messages from the first kill until rest, by type."""
    items_sent: int
    retries: int


class _Subscriber(ResumingSubscriber):
    """A subscriber that notes when it has stored the first answer with each first term."""

    arrived: dict[str, float]

    def store(self, notify: Notify, rows: list[tuple[str, ...]], now: float) -> list[int]:
        """Store answers with their time."""
        for row in rows:
            self.arrived.setdefault(row[0], now)
        return ResumingSubscriber.store(self, notify, rows, now)


class _World(FailingWorld):
    """A world in which the work of every peer takes equally long."""

    def _pace(self, index: int, config: PeerConfig) -> Pace:
        return Pace(config.turn_budget_seconds, slowness=self.failures.slowness_max)


def detection(seed: int) -> tuple[float, float]:
    """Return the shortest and the longest time from a kill until another of five members knows it."""
    world = SwimWorld(seed)
    for _ in range(PEERS):
        world.join()
        world.run_for(1.0)
    world.run_for(5.0)
    world.kill(world.living[2])
    world.run_for(10.0)
    noticed = world.noticed["process"]
    assert len(noticed) == PEERS - 1, "every other member knows it"
    return min(noticed), max(noticed)


class _Story:
    """A world with its clients, and the times that they measure."""

    def __init__(self, seed: int, slowness: float, rate: float):
        low, high = detection(seed)
        config = PeerConfig(durable=True, has_seeds=True)
        options = WorldOptions(
            peers=PEERS, seed=seed, config=config, places="even",
            faults=replace(CALM, delay_min_seconds=0.0005, delay_max_seconds=0.002),
        )  # fmt: skip
        failures = Failures(
            living_only=True, bookmarks=True, detect_min_seconds=low, detect_max_seconds=high, meet_max_seconds=0.05,
            handle_seconds_max=0.005, publisher_crash_probability=0.0, slowness_max=slowness,
            patience_min_seconds=30.0, patience_max_seconds=30.0,
        )  # fmt: skip
        self.world = _World(as_daemons(options), failures)
        self.random = Random(f"failover times {seed}")
        self.due: dict[str, tuple[float, str]] = {}
        self.arrived: dict[str, float] = {}
        self.rate = rate
        self.clients: list[SubscriberClient] = []
        self.watched: list[tuple[float, Times]] = []
        self._number = 0
        self._open = True

    def start(self) -> None:
        """Subscribe, and begin to publish."""
        self.world.run_for(8.0)
        for number in range(SINGLE):
            self._subscribe(ConjunctiveQuery(((0, ~0, 1),), (f"<urn:probe/{number}>",), (0,), ("s",)))
        for number in range(JOINED):
            terms = (f"<urn:joined/{number}>", f"<urn:link/{number}>")
            self._subscribe(ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), terms, (0,), ("s",)))
        for number in range(8):
            terms = (f"<urn:load/{number}>", f"<urn:of/{number % 3}>")
            self._subscribe(ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), terms, (0, 1, 2), ("s", "o", "x")))
        self.world.run_for(4.0)
        assert all(client.attached for client in self.clients), "every query is live"
        self._publisher = Publisher(self.world, "prober", Random(1))
        self._loader = Publisher(self.world, "loader", Random(2))
        self._probe()
        self._load()

    def _subscribe(self, query: ConjunctiveQuery) -> None:
        record = _Subscriber(f"subscriber {len(self.clients)}", query, Algorithm.CSBV, False, 3600.0)
        record.arrived = self.arrived
        client = SubscriberClient(self.world, record, Random(len(self.clients)))
        self.clients.append(client)
        client.connect()

    def stop(self) -> None:
        """Publish no more."""
        self._open = False

    def _probe(self) -> None:
        if not self._open:
            return
        self._number += 1
        kind = self._number % (SINGLE + JOINED)
        subject, each = f"<urn:p/{self._number}>", kind - SINGLE
        if kind < SINGLE:
            name, triples = f"probe/{kind}", [(subject, f"<urn:probe/{kind}>", '"1"')]
        else:
            link, name = f"<urn:l/{self._number}>", f"joined/{each}"
            triples = [(subject, f"<urn:joined/{each}>", link), (link, f"<urn:link/{each}>", '"1"')]
        self.due[subject] = self.world.now, name
        self._publisher.publish(0.0, triples)
        self.world.schedule(PROBE_SECONDS, self._probe)

    def _load(self) -> None:
        if not self._open:
            return
        rows = self.random.randint(1, 40)
        triples = []
        for _ in range(rows):
            number, kind = self.random.randrange(2000), self.random.randrange(8)
            triples.append((f"<urn:s/{self.random.getrandbits(40)}>", f"<urn:load/{kind}>", f"<urn:o/{number}>"))
            if self.random.random() < 0.3:
                triples.append((f"<urn:o/{number}>", f"<urn:of/{kind % 3}>", f'"{self.random.randrange(5)}"'))
        self._loader.publish(0.0, triples)
        self.world.schedule(self.random.expovariate(self.rate), self._load)

    def delays(self, since: float, until: float) -> list[float]:
        """Return the delays of the probes due within a period."""
        return [
            self.arrived.get(subject, math.inf) - due for subject, (due, _) in self.due.items() if since <= due < until
        ]

    def watch(self, event: str, node: Node, *, gone: bool) -> Times:
        """Begin to take the times of an event that happens now."""
        times = Times(event)
        at = self.world.now
        seen: dict[int, None] = {}
        marks = {client.record.name: len(client.record.bookmarks) for client in self.clients[:1]}

        def look() -> None:
            now = self.world.now - at
            living = self.world.living()
            for other in living:
                if other is not node and other.index not in seen:
                    known = node.contact.key in self.world.views.of(other)
                    if known is not gone:
                        seen[other.index] = None
                        times.lost.append(now)
            statuses = [other.peer.status() for other in living]
            viewed = len(seen) == len([other for other in living if other is not node])
            if viewed and math.isinf(times.in_sync) and all(status["in_sync"] for status in statuses):
                times.in_sync = now
            if math.isinf(times.whole) and viewed and all(
                status["in_sync"] and not status["comparing"] and not status["recomputing"] for status in statuses
            ):
                times.whole = now
            record = self.clients[0].record
            later = [stamp for stamp, _ in record.bookmarks[marks[record.name] :] if stamp >> 16 >= int(at * 1000)]
            if later and math.isinf(times.bookmark):
                times.bookmark = now
            if math.isinf(times.whole + times.bookmark):
                self.world.schedule(POLL_SECONDS, look)

        self.world.schedule(POLL_SECONDS, look)
        self.watched.append((at, times))
        return times

    @property
    def restored(self) -> bool:
        """Whether all copies are restored after each event, and bookmarks have come."""
        return all(math.isfinite(times.whole + times.bookmark) for _, times in self.watched)

    def judge(self) -> None:
        """Fill in the times of answers."""
        for at, times in self.watched:
            first: dict[str, float] = {}
            for subject, (due, kind) in self.due.items():
                if due >= at:
                    first[kind] = min(first.get(kind, math.inf), self.arrived.get(subject, math.inf) - at)
            times.first, times.served = min(first.values()), max(first.values())
            times.gap = max(self.delays(at - BEFORE_SECONDS, at + AFTER_SECONDS))


def measure(seed: int = 1, *, slowness: float = 4.0, rate: float = 20.0, down_seconds: float = 3.0) -> Figures:
    """Kill a peer, restart it, kill another one as it is back, restart that; return all times."""
    story = _Story(seed, slowness, rate)
    world = story.world
    story.start()
    world.run_for(WARM_SECONDS)
    first, second = world.nodes[2], world.nodes[3]
    steady = max(story.delays(world.now - WARM_SECONDS / 2, world.now - 1.0))
    before = Counter(world.counts.messages)
    world.crash(first)
    story.watch("kill", first, gone=True)
    world.run_for(down_seconds)
    world.restart(first)
    story.watch("return", first, gone=False)
    world.run_for(0.2)
    world.crash(second)
    story.watch("kill at return", second, gone=True)
    world.run_for(down_seconds)
    world.restart(second)
    story.watch("return", second, gone=False)
    world.run_for(2.0 * AFTER_SECONDS)
    story.stop()
    end = world.now + REST_SECONDS
    while world.now < end and not story.restored:
        world.run_for(1.0)
    story.judge()
    totals = [node.peer.status() for node in world.nodes]
    return Figures(
        [times for _, times in story.watched], steady, world.counts.messages - before,
        sum(int(each["items_sent"]) for each in totals), sum(int(each["retries"]) for each in totals),  # type: ignore[call-overload]
    )  # fmt: skip


def main() -> None:
    """Print the times of some seeds."""
    parser = argparse.ArgumentParser(prog="python -m schedules.failover_times", description="Phases after a kill.")
    parser.add_argument("--slowness", type=float, default=4.0, help="factor of the nominal cost of work")
    parser.add_argument("--rate", type=float, default=20.0, help="publications of 1 to 40 triples a second")
    parser.add_argument("--down", type=float, default=3.0, help="seconds until a killed peer is restarted")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--start", type=int, default=1)
    options = parser.parse_args()
    for seed in range(options.start, options.start + options.seeds):
        found = measure(seed, slowness=options.slowness, rate=options.rate, down_seconds=options.down)
        print(f"seed {seed}: longest delay before {found.steady:.3f} s")
        for times in found.times:
            print(times)
        print(f"  items sent {found.items_sent}, repeated messages {found.retries}, messages {found.messages.total()}")


if __name__ == "__main__":
    main()
