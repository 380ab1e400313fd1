"""Replay of timed events against standing queries in the simulator (``p2prdf simulate``).

Events are lines, fields separated by tabs::

    time [A|D] N-Quads-statement

``A`` publishes a statement, ``D`` deletes it.

A subscription at time T counts events at T and later.  The times of the file only define an order:
events between two subscriptions (or checkpoints) are published in batches in this order, at the pace of
virtual time.  Each subscription enters at its coordinator's peer, and the world is at rest before it, so
no delay shifts its stamp.
"""

from __future__ import annotations

import io
import math
from codecs import BOM_UTF8
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from p2prdf.errors import DataRefused, LocalProtocolError, error_from_code
from p2prdf.peer import PeerConfig, home_key
from p2prdf.rdf.algebra import Form, StandingQuery
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.quads import DEFAULT, Quad
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.results import document
from p2prdf.sim.network import Counts
from p2prdf.sim.world import World, WorldOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from p2prdf.rdf.ntriples import TripleBatch
    from p2prdf.sim.oracle import Row, Triple
    from p2prdf.sim.subscriber import Subscriber
    from p2prdf.wire.contract import Failed
    from p2prdf.wire.messages import Query

__all__ = ["Event", "Load", "QueryResult", "Run", "Standing", "parse_events", "quads_of", "replay", "run_events"]

_BATCH_MAX = 2_000
_LISTS_PEERS_MIN = 200
"""With this many peers or more, tables are dictionaries: they are faster than a thousand small arrays."""


@dataclass(frozen=True, slots=True)
class Event:
    """A triple published or deleted at a time; ``graph`` is ``quads.DEFAULT`` or the IRI of a named graph."""

    time: float
    triple: Triple
    graph: str = DEFAULT
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """A query to subscribe to at a time; None: before all events."""

    query: Query
    algorithm: Algorithm = Algorithm.CSBV
    per_event: bool = False
    subscribe_at: float | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The solutions of one subscriber."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]
    order: tuple[int, ...]
    asks: bool = False

    def document(self) -> dict[str, object]:
        """Return SPARQL 1.1 Query Results JSON: a boolean for ASK, triples as solutions for CONSTRUCT."""
        if self.asks:
            return {"head": {}, "boolean": bool(self.rows)}
        return document(self.names, [[value or None for value in row] for row in self.rows])


@dataclass(frozen=True, slots=True)
class Load:
    """The papers' loads, peer by peer: QPL (``processing_load``) and SL (``storage_load``)."""

    processing_load: tuple[int, ...]
    storage_load: tuple[int, ...]

    def as_dict(self) -> dict[str, object]:
        """Return totals and maxima under stable names, for JSON."""
        return {
            name: {"total": sum(values), "max": max(values), "active_peers": sum(map(bool, values))}
            for name, values in (
                ("processing_load", self.processing_load), ("storage_load", self.storage_load)
            )
        }  # fmt: skip


@dataclass(slots=True)
class Run:
    """The outcome of a run: ``results`` in the order of the queries."""

    results: list[QueryResult] = field(default_factory=list)
    events: int = 0
    counts: Counts = field(default_factory=Counts)
    load: Load = Load((0,), (0,))

    def as_dict(self) -> dict[str, Any]:
        """Return all values, ready for JSON."""
        hops = self.counts.hops
        return {
            "results": [result.document() for result in self.results],
            "events": self.events,
            "hops_per_event": round(hops / self.events, 3) if self.events else None,
            "network": self.counts.as_dict(),
            "load": self.load.as_dict(),
        }


def parse_events(lines: Iterable[bytes], *, source: str = "", publication_id: str = "events") -> list[Event]:
    """Read event lines (a binary file is an iterable of them); empty ones and comments (``#``) are skipped.

    Raises DataRefused with the line number for malformed lines.
    """
    times: list[tuple[float, bool]] = []
    numbers: list[int] = []
    statements: list[bytes] = []
    for number, line in enumerate(lines, 1):
        line = (line.removeprefix(BOM_UTF8) if number == 1 else line).rstrip(b"\r\n")
        if line.strip() and not line.startswith(b"#"):
            try:
                time, removed, statement = _split(line)
            except DataRefused as error:
                raise DataRefused(error.reason, source=source, line=number) from None
            times.append((time, removed))
            numbers.append(number)
            statements.append(statement)
    found = _parse(statements, numbers, source, publication_id)
    return [
        Event(time, (s, p, o), graph, removed)
        for (time, removed), (s, p, o, graph) in zip(times, found, strict=True)
    ]


def _split(line: bytes) -> tuple[float, bool, bytes]:
    """Return time, whether it is a deletion, and statement of an event line."""
    when, tab, rest = line.partition(b"\t")
    if not tab:
        raise DataRefused(f"not an event (time TAB [A TAB] statement): {_excerpt(line)}")
    sign, tab, statement = rest.partition(b"\t")
    if not tab or len(sign) != 1:
        sign, statement = b"A", rest
    if sign not in (b"A", b"D"):
        raise DataRefused(f"an event is A (added) or D (removed), not {_excerpt(sign)}")
    try:
        time = float(when)
    except ValueError:
        time = math.nan
    if not math.isfinite(time):
        raise DataRefused(f"not a time: {_excerpt(when)}")
    return time, sign == b"D", statement


def _parse(
    statements: list[bytes], numbers: list[int], source: str, publication_id: str
) -> list[Quad]:
    """Parse one statement per line, all at once; one by one only to report a line without exactly one statement."""
    try:
        triples = _triples(statements, publication_id)
    except DataRefused as error:
        line = None if error.line is None else numbers[error.line - 1]
        raise DataRefused(error.reason, source=source, line=line) from None
    if len(triples) != len(statements):
        for number, statement in zip(numbers, statements, strict=True):
            count = len(_triples([statement], publication_id))
            if count != 1:
                raise DataRefused(f"an event is one statement, not {count}", source=source, line=number)
    return triples


def _triples(statements: list[bytes], publication_id: str) -> list[Quad]:
    stream = io.BytesIO(b"\n".join(statements))
    batches = read_triples(stream, publication_id=publication_id, syntax=Syntax.N_QUADS, strict=True)
    return [quad for batch in batches for quad in quads_of(batch)]


def quads_of(batch: TripleBatch) -> Iterator[Quad]:
    """Yield the statements of a batch, each with its graph."""
    return zip(batch.s, batch.p, batch.o, batch.g or [DEFAULT] * len(batch.s), strict=True)


def _excerpt(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 60 else text[:57] + "...")


def run_events(
    peers: int,
    seed: int,
    queries: Sequence[Query],
    events: Iterable[Event],
    subscribe_at: float | None = None,
    until: float | None = None,
    algorithm: Algorithm = Algorithm.CSBV,
    per_event: bool = False,
    *,
    overlay: str = "kademlia",
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Subscribe to ``queries`` at ``subscribe_at``, and publish ``events`` up to and including ``until``.

    ``progress`` is called with the number of published events after each batch.  Raises the error with which a peer
    refuses a query.
    """
    standing = [Standing(query, algorithm, per_event, subscribe_at) for query in queries]
    replayed = replay(options_for(peers, seed, overlay), standing, events, (until,), progress=progress)
    return replayed[0]


def options_for(peers: int, seed: int, overlay: str = "kademlia", **config: Any) -> WorldOptions:
    """Return a world for bulk runs: a calm network, tables that fit the number of peers."""
    return WorldOptions(
        peers=peers,
        seed=seed,
        overlay=overlay,
        tables="lists" if peers >= _LISTS_PEERS_MIN else "arrays",
        config=PeerConfig(**config),
        routing_contacts=peers <= 1_000,
    )


def replay(
    options: WorldOptions,
    standing: Sequence[Standing],
    events: Iterable[Event],
    checkpoints: Sequence[float | None] = (None,),
    *,
    batch_max: int = _BATCH_MAX,
    progress: Callable[[int], None] | None = None,
) -> list[Run]:
    """Replay the events once and return the subscribers' solutions at each checkpoint (None: the end).

    Events are published in batches of at most ``batch_max``.  A subscription that begins after a checkpoint has no
    solutions there.
    """
    return _Replay(World(options), standing, batch_max, progress).play(list(events), checkpoints)


class _Replay:
    """One pass over events in order of time, with stops for subscriptions and checkpoints."""

    def __init__(
        self, world: World, standing: Sequence[Standing], batch_max: int,
        progress: Callable[[int], None] | None,
    ):  # fmt: skip
        self.world = world
        self._batch_max = batch_max
        self._standing = standing
        self._subscribers: dict[int, Subscriber] = {}
        self._progress = progress
        self._published = 0
        self._after = 0
        """Lower bound for the stamp of the next deletion, or of a publication after one."""

    def play(self, events: list[Event], checkpoints: Sequence[float | None]) -> list[Run]:
        """Publish and subscribe in order of time; return one run per checkpoint, in their order."""
        events.sort(key=lambda event: event.time)
        self._deletes = any(event.removed for event in events)
        infinity = float("inf")
        opens: dict[float, list[int]] = {}
        for place, standing in enumerate(self._standing):
            at = -infinity if standing.subscribe_at is None else standing.subscribe_at
            opens.setdefault(at, []).append(place)
        ends = [infinity if at is None else at for at in checkpoints]
        last = max(ends)
        # At one instant subscriptions come first (0), then events, then checkpoints (1).
        stops = sorted({(at, 0) for at in opens if at <= last} | {(at, 1) for at in ends})
        runs: dict[float, Run] = {}
        start = 0
        for at, kind in stops:
            end = start
            while end < len(events) and (events[end].time < at or (kind == 1 and events[end].time == at)):
                end += 1
            self._publish(events[start:end])
            start = end
            if kind == 0:
                self._open(opens[at])
            else:
                runs[at] = self._snapshot()
        return [runs[at] for at in ends]

    def _publish(self, events: Sequence[Event]) -> None:
        """Publish in batches, each from the next peer, each acknowledged before the next begins."""
        world = self.world
        for batch in self._batches(events):
            peer = len(world.publishings) % len(world.nodes)
            named = any(event.graph for event in batch)
            publishing = world.publish(
                0.0, peer, [event.triple for event in batch], graph=[event.graph for event in batch] if named else (),
                removed=batch[0].removed, after=self._after,
            )  # fmt: skip
            world.run_until(lambda: publishing.completed_at is not None or publishing.failed is not None)  # noqa: B023
            _raise_failed(publishing.failed)
            if self._deletes:
                self._after = publishing.stamp or 0
            self._published += len(batch)
            if self._progress is not None:
                self._progress(len(batch))
        world.run_until_quiet()
        world.run_for(0.01)

    def _batches(self, events: Sequence[Event]) -> Iterator[Sequence[Event]]:
        """Cut events into batches of additions or of deletions."""
        start = 0
        for end in range(1, len(events) + 1):
            if (
                end == len(events)
                or end - start == self._batch_max
                or events[end].removed != events[start].removed
            ):  # fmt: skip
                yield events[start:end]
                start = end

    def _open(self, places: Sequence[int]) -> None:
        world = self.world
        for place in places:
            standing = self._standing[place]
            key = home_key(standing.query, standing.algorithm, per_event=standing.per_event)
            home = world.by_key[world.ring.owner(key).key]
            self._subscribers[place] = world.subscribe(
                0.0, home.index, standing.query, standing.algorithm, per_event=standing.per_event
            )
        world.run_until_quiet()
        world.run_for(0.01)
        for place in places:
            _raise_failed(self._subscribers[place].failed)

    def _snapshot(self) -> Run:
        world = self.world
        results = []
        for place, standing in enumerate(self._standing):
            subscriber = self._subscribers.get(place)
            rows = tuple(subscriber.held) if subscriber else ()
            asks = isinstance(standing.query, StandingQuery) and standing.query.form is Form.ASK
            results.append(QueryResult(standing.query.names, rows, subscriber.order if subscriber else (), asks))
        for subscriber in self._subscribers.values():
            if subscriber.complaints:
                raise LocalProtocolError(f"{subscriber.name}: {'; '.join(subscriber.complaints)}")
        statuses = [node.peer.status() for node in world.nodes]
        load = Load(
            tuple(int(str(status["processing_load"])) for status in statuses),
            tuple(int(str(status["storage_load"])) for status in statuses),
        )
        counts = world.counts
        taken = Counts(
            Counter(counts.messages), counts.lost, counts.duplicated, counts.delayed, counts.bytes,
            counts.lookups, counts.lookup_timeouts,
        )  # fmt: skip
        return Run(results, self._published, taken, load)


def _raise_failed(failed: Failed | None) -> None:
    if failed is not None:
        raise error_from_code(failed.code, failed.text)
