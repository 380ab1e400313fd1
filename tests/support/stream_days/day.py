"""One fault schedule: a few publishers of streams, queries with windows, and random faults meanwhile.

Event times have nothing to do with the clocks of the peers; in one schedule of three they go sixty times as
fast, so that elements expire.  Elements come out of order, within their publishers' promises.  Each publisher
announces its progress, and all are waited for: so every report must equal another engine's windows, though
peers crash, lose their disks or are cut off.

In two schedules of three publishers close, at random times, and some come back.  In the end all have closed,
and send nothing any more: so there must be reports up to the largest promise of any, also for a subscription
that is made only then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from seeded_days import Verdict
from windows_oracle import CountExtent, Element, Extent, Rows, WindowsOracle

from p2prdf import hlc, keys
from p2prdf.columns import as_list
from p2prdf.continuous.leaf import LATE_MS
from p2prdf.continuous.reports import time_of
from p2prdf.peer import Peer
from p2prdf.peer.subscriptions.evaluation import REPORTED_MS
from p2prdf.rdf.algebra import InferenceRule, StandingQuery
from p2prdf.rdf.quads import stream_parts_of
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.terms import lexical
from schedules.checkers import describe_bag
from schedules.closure import closed
from schedules.failures.checkers import check_audits
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.copies import Copies
from schedules.failures.mischief import Mischief
from schedules.failures.replicas import difference
from schedules.failures.scenario import draw_bad_day
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld
from schedules.shares import Configurations, configurations, shown_by_queries
from stream_days.publisher import EPOCH_MS, NODES, STREAMS, StreamPublisher

__all__ = ["run_seed"]

SPAN_SECONDS: Final = 40.0
LONG_SECONDS: Final = 110.0
"""In one schedule of four, elements come for so long: reports are computed and replicated while peers fail."""
IDLE_SECONDS: Final = 30.0
"""How long a silent publisher is waited for: longer than any that is cut off."""
HEAL_SECONDS: Final = 240.0
REST_SECONDS: Final = 90.0
"""Seconds that copies may take to become equal, and to drop expired elements."""
STILL_SECONDS: Final = 60.0
"""After so many seconds of silence, without faults, a subscriber has got everything."""
CLOSE_PROBABILITY: Final = 0.04
REOPEN_PROBABILITY: Final = 0.3
"""Chance that a publisher closes, or comes back, instead of the next element, in schedules in which they do."""
AHEAD_MS: Final = (0, 0, 500, 30_000)
"""Milliseconds by which a closing publisher promises more than it has published."""

PATTERNS: Final = (
    "WINDOW :w { ?x :p ?v }",
    "WINDOW :w { ?x :p ?y . ?y :q ?v }",
    "WINDOW :w { ?x :p ?v . ?x :q ?v }",
    "WINDOW :w { ?x :p ?y } WINDOW :u { ?y :q ?v }",
    "WINDOW :w { ?x :p ?v } ?x :kind ?k",
    "WINDOW :w { ?x :p ?v } OPTIONAL { WINDOW :u { ?x :q ?z } }",
    "WINDOW :w { ?x :p ?v . FILTER(?x != ?v) } FILTER NOT EXISTS { ?v :kind :odd }",
    "{ WINDOW :w { ?x :p ?v } } UNION { WINDOW :u { ?x :q ?v } }",
)
HEADS: Final = ("SELECT ?x ?v", "SELECT DISTINCT ?x", "SELECT ?x (COUNT(*) AS ?n)", "SELECT (COUNT(?v) AS ?n)")
REPORTED: Final = ("RSTREAM", "ISTREAM", "DSTREAM", "")
RULES: Final[tuple[tuple[InferenceRule, ...], ...]] = (
    (), (), (((("?x", "<urn:p>", "?z"), (("?x", "<urn:p>", "?y"), ("?y", "<urn:p>", "?z")))),),
    (
        (("?y", "<urn:q>", "?x"), (("?x", "<urn:q>", "?y"),)),
        (
            ("?x", "<urn:p>", "?z"),
            (("?x", "<urn:q>", "?y"), ("?y", "<urn:kind>", "<urn:odd>"), ("?y", "<urn:p>", "?z")),
        ),
    ),
)  # fmt: skip
"""Rules: none in every other schedule; recursive ones, and ones that need static triples."""


@dataclass(frozen=True)
class Reading:
    """A query with its windows by name."""

    text: str
    reported: str
    windows: dict[str, Extent | CountExtent]
    query: StandingQuery
    rules: tuple[InferenceRule, ...]


class RuledOracle(WindowsOracle):
    """Consequences are in a window as far as they follow from its elements and from static triples."""

    def __init__(self, reading: Reading, static: Sequence[tuple[str, str, str]], elements: Sequence[Element]):
        self._rules = reading.rules
        self._concluded = {head[1] for head, _ in reading.rules}
        self._background = static
        super().__init__(reading.text, reading.windows, closed(reading.rules, static), elements)

    def contents(self, window: str, now: int) -> set[tuple[str, str, str]]:
        """Return the triples in a window at a time."""
        elements = super().contents(window, now)
        follows = closed(self._rules, elements.union(self._background))
        return elements | {fact for fact in follows if fact[1] in self._concluded}


def _draw_reading(rng: Random, rules: tuple[InferenceRule, ...], scale: int) -> Reading:
    pattern, head, reported = rng.choice(PATTERNS), rng.choice(HEADS), rng.choice(REPORTED)
    windows: dict[str, Extent | CountExtent] = {}
    clauses = []
    for name in ("w", "u"):
        if f":{name} " in pattern:
            step = rng.choice((1000, 2000, 3000, 5000)) * scale
            length = rng.choice((1000, 4000, 5000, 9000, 20_000)) * scale
            stream = rng.choice(STREAMS)
            windows[f"<urn:{name}>"] = Extent(stream, length, step)
            clauses.append(f"FROM NAMED WINDOW :{name} ON {stream} [RANGE {length}ms STEP {step}ms]")
    return _reading(pattern, head, reported, windows, clauses, rules)


def _draw_counted(rng: Random, rules: tuple[InferenceRule, ...]) -> Reading:
    """Draw a query with a window by count."""
    pattern = rng.choice([each for each in PATTERNS if ":u " not in each])
    extent = CountExtent(rng.choice(STREAMS), rng.choice((1, 2, 3, 5, 8)), rng.choice((1, 1, 2, 3, 5)))
    clause = f"FROM NAMED WINDOW :w ON {extent.stream} [ELEMENTS {extent.elements} STEP {extent.step}]"
    return _reading(pattern, rng.choice(HEADS), rng.choice(REPORTED), {"<urn:w>": extent}, [clause], rules)


def _reading(
    pattern: str, head: str, reported: str, windows: dict[str, Extent | CountExtent], clauses: Sequence[str],
    rules: tuple[InferenceRule, ...],
) -> Reading:  # fmt: skip
    register = f"REGISTER {reported} <urn:out> AS" if reported else ""
    group = "GROUP BY ?x" if "?x (COUNT" in head else ""
    text = f"PREFIX : <urn:> {register} {head} {' '.join(clauses)} WHERE {{ {pattern} }} {group}"
    return Reading(text, reported.lower(), windows, parse_query(text, rules=rules), rules)


class _Day:
    def __init__(self, seed: int, trace: Callable[[str], None] | None, configurations: Configurations):
        self._rng = Random(f"p2prdf stream day {seed}")
        day = draw_bad_day(seed, configurations)
        self.verdict = Verdict(seed, f"{day}")
        self._scale = self._random("scale").choice((1, 1, 60))
        self._wildcards = day.daemons or self._random("wildcards").random() < 1 / 2
        config = replace(
            day.options.config, replicas=3, copies_min=2, stream_idle_seconds=IDLE_SECONDS,
            indexes="all" if self._wildcards else "csbv",
            stream_retention_seconds=self._random("retention").choice((1.0, 1.0, 30.0)) * self._scale,
        )  # fmt: skip
        self._span = LONG_SECONDS if self._random("span").random() < 1 / 4 else SPAN_SECONDS
        failures = replace(
            day.failures, span_seconds=self._span, publisher_crash_probability=0.0, removals=False, standing=False,
            bookmarks=False,
        )  # fmt: skip
        peers = max(4, day.options.peers)
        self.world = FailingWorld(replace(day.options, config=config, peers=peers), failures, trace=trace)
        self._clients: list[tuple[Reading, SubscriberClient]] = []
        self._publishers = [
            StreamPublisher(
                self.world, f"{seed} {number}", self._random(f"publisher {number}"), late_ms=late, scale=self._scale
            )
            for number, late in enumerate(self._rng.sample((1, 1500, 4000), self._rng.randint(1, 3)))
        ]
        self._rules = self._random("rules").choice(RULES)
        self._ends = self._random("ends")
        self._closes, self._late_subscriber = self._ends.random() < 2 / 3, self._ends.random() < 1 / 2
        self._counts = self._random("counts")
        self._static = Publisher(self.world, f"{seed} static", self._random("static"))
        self._subscribers: list[SubscriberClient] = []
        self._found: tuple[list[dict[int, int]], list[list[Rows]]] | None = None
        """The rows owed to subscribers, and the retention of streams when these were computed."""
        self._horizons: dict[str, set[int]] = {stream: {0} for stream in STREAMS}
        """The latest retention seen of each stream."""
        self._mischief = Mischief(self.world, self._random("mischief"), Copies(self.world), self._subscribers)

    def _random(self, name: str) -> Random:
        return Random(f"p2prdf stream day {self.verdict.seed} {name}")

    def play(self) -> None:
        world, rng = self.world, self._rng
        kinds = [(node, "<urn:kind>", rng.choice(("<urn:odd>", "<urn:even>"))) for node in NODES]
        self._static.publish(0.0, kinds)
        for _ in range(rng.randint(1, 3)):
            self._subscribe(_draw_reading(rng, self._rules, self._scale))
        for _ in range(self._counts.randint(1, 2)):
            self._subscribe(_draw_counted(self._counts, self._rules))
        self._early = len(self._clients)
        self._wait(lambda: all(client.record.opened_at is not None for _, client in self._clients), 60.0)
        for publisher in self._publishers:
            publisher.begin()
        self._mischief.plan()
        end = world.now + self._span
        while world.now < end:
            self._emit(rng.choice(self._publishers))
            world.run_for(rng.choice((0.1, 0.5, 1.5)))
        self._mischief.heal()
        faults = world.network.faults
        world.network.faults = replace(
            faults, loss_probability=0.0, duplicate_probability=0.0, straggler_probability=0.0
        )
        self._wait(lambda: not any(each.open for each in self._publishings()), 60.0)
        self._finish()
        told, since = -1, world.now

        def over() -> bool:
            nonlocal told, since
            now = sum(len(client.record.rows) for _, client in self._clients)
            if now != told:
                told, since = now, world.now
            return self._all_told() or world.now > since + STILL_SECONDS

        self._wait(over, HEAL_SECONDS)
        self._wait(lambda: self._unlike() is None, REST_SECONDS)

    # --- the final state --------------------------------------------------------------------------

    def _peers(self) -> list[Peer]:
        return [node.peer for node in self.world.living()]

    def _unlike(self) -> str | None:
        """Describe the first difference from the right state; None: all copies are the same, and nothing is too old."""
        names = {keys.term_hash(stream): stream for stream in STREAMS}
        horizons = [dict(peer._tables.horizons) for peer in self._peers()]
        if any(each != horizons[0] for each in horizons):
            return f"horizons differ: {horizons}"
        for stream, name in names.items():
            least = self._horizon_due(name)
            if horizons[0].get(stream, 0) < least:
                return f"of {name} all from {horizons[0].get(stream, 0)} on is kept, which is before {least}"
        for node in self.world.living():
            _, predicates, _, times, *_ = node.peer.triples()
            for predicate, at in zip(as_list(predicates), as_list(times), strict=True):
                parts = stream_parts_of(node.peer.dictionary.text(predicate)) if hlc.is_element(at) else None
                if parts is not None and hlc.element_ms(at) < horizons[0].get(keys.term_hash(parts[1]), 0):
                    return f"peer {node.index} holds an element of {hlc.element_ms(at)} on {parts[1]}"
        return difference(self.world, homes=False)

    def _horizon_due(self, stream: str) -> int:
        """Return the time up to which a stream must be dropped in the end; 0 if it has no publisher or no reader."""
        read = {each.stream for reading, _ in self._clients for each in reading.windows.values()}
        if self._closes and stream not in read:
            return 0
        retention = int(self.world.options.config.stream_retention_seconds * 1000)
        last, told = self._last_ms(), 0
        due = last + 1 - retention
        for reading, _ in self._clients:
            report = reading.query.report
            assert report is not None
            told = REPORTED_MS + report.every
            for extent in reading.windows.values():
                if extent.stream == stream and isinstance(extent, CountExtent):
                    due = min(due, self._needed_by_count(extent))
                elif extent.stream == stream:
                    due = min(due, last - told - LATE_MS - 3 * report.every - extent.range)
        due -= retention // 32
        return due if due > EPOCH_MS else 0

    def _needed_by_count(self, extent: CountExtent) -> int:
        """Return a lower bound of the times of the elements held for a window by count in the end."""
        elements = self._elements()
        last = max(extent.reports(elements, self._last_ms()).values(), default=0)
        before = [time for time, _ in extent.ordered(elements) if time < last - REPORTED_MS]
        held = extent.elements + extent.step
        return before[-held] if len(before) >= held else 0

    def _subscribe(self, reading: Reading) -> None:
        number = len(self._clients)
        record = ResumingSubscriber(f"s{number}", reading.query, Algorithm.CSBV, False, 86_400.0, reading.text, True)
        client = SubscriberClient(self.world, record, self._random(f"subscriber {number}"))
        self._subscribers.append(client)
        self._clients.append((reading, client))
        self.world.schedule(0.0, client.connect)

    def _emit(self, publisher: StreamPublisher) -> None:
        """Have a publisher emit, close or come back."""
        if self._closes and not publisher.closing and self._ends.random() < CLOSE_PROBABILITY:
            publisher.close(self._ends.choice(AHEAD_MS))
        elif publisher.closed and self._ends.random() < REOPEN_PROBABILITY:
            after = max(each.furthest_ms for each in self._publishers)
            publisher.reopen(after, another=self._ends.random() < 1 / 2)
        elif not publisher.closing:
            publisher.emit()

    def _finish(self) -> None:
        """Have all publishers publish nothing more, and close if they do."""
        for publisher in self._publishers:
            if self._closes and not publisher.closing:
                publisher.close(self._ends.choice(AHEAD_MS))
            publisher.finish()
        if self._closes:
            self._wait(lambda: all(each.closed for each in self._publishers), 60.0)
            if self._late_subscriber:
                self.world.happened["late subscriber"] += 1
                self._subscribe(_draw_reading(self._ends, self._rules, self._scale))
                if self._wildcards:  # otherwise elements are kept for readers of the whole stream
                    self._subscribe(_draw_counted(self._counts, self._rules))

    def _publishings(self) -> list:
        return [each for publisher in (*self._publishers, self._static) for each in publisher.published]

    def _wait(self, true: Callable[[], bool], seconds: float) -> None:
        end = self.world.now + seconds
        while not true() and self.world.now < end:
            self.world.run_for(1.0)
            self._look_at_horizons()

    def _look_at_horizons(self) -> None:
        """Record the retention of streams: a late subscription begins to count from there."""
        for stream, seen in self._horizons.items():
            seen.update(peer._tables.horizons.of(keys.term_hash(stream)) for peer in self._peers())

    # --- judging ---------------------------------------------------------------------------------

    def _elements(self) -> list[Element]:
        return [
            Element(time, stream, (s, p, o))
            for publisher in self._publishers
            for publishing in publisher.published
            for time, (s, p, o, stream) in zip(publishing.times, publishing.triples, strict=True)
        ]

    def _background(self) -> list[tuple[str, str, str]]:
        """Return the triples that are no elements."""
        return [triple for publishing in self._static.published for triple in publishing.triples]

    def _last_ms(self) -> int:
        """Return up to when there are reports: the least promise, but the largest if all publishers closed."""
        said = [publisher.upto(stream) for publisher in self._publishers for stream in STREAMS]
        return max(said) if self._closes else min(said)

    def _expected(self, reading: Reading, *, late: bool) -> list[Rows]:
        """Return all rows reported in a stream; for changes, the final solutions.

        A late subscription begins with whole windows, and there may be several possible beginnings: they depend
        on the retention at that moment, which is between none and the final one.
        """
        oracle = RuledOracle(reading, self._background(), self._elements())
        report = reading.query.report
        assert report is not None
        every, last = report.every, self._last_ms()
        if not every:
            (extent,) = reading.windows.values()
            assert isinstance(extent, CountExtent)
            firsts = sorted(self._horizons[extent.stream]) if late else [0]
            return [self._expected_by_count(reading, replace(extent, first=first), last) for first in firsts]
        first, last = -(-EPOCH_MS // every) * every, last // every * every
        if not reading.reported:
            return [oracle.solutions(last)[1]]
        held = [(time, oracle.solutions(time)[1]) for time in range(first, last + 1, every)]
        extents = [each for each in reading.windows.values() if isinstance(each, Extent)]
        latest = max((self._whole_from(extent, every) for extent in extents), default=0) if late else 0
        starts = [at for at, (time, _) in enumerate(held) if not at or time <= latest]
        if late and latest > last:
            starts.append(len(held))
        return [_told(reading.reported, held[at:]) for at in starts]

    def _whole_from(self, extent: Extent, every: int) -> int:
        """Return the first report with no dropped element in its window, by the present retention of streams."""
        horizons = (peer._tables.horizons.of(keys.term_hash(extent.stream)) for peer in self._peers())
        before, report = max(horizons), 0
        assert extent.range is not None
        if before:
            report = -(-(before - 1 + extent.range) // every) * every
            while report - report % extent.step - extent.range + 1 < before:
                report += every
        return report

    def _expected_by_count(self, reading: Reading, extent: CountExtent, last: int) -> Rows:
        """Return the same for a window by count: of each report its number, too."""
        elements = self._elements()
        oracle = RuledOracle(replace(reading, windows={"<urn:w>": extent}), self._background(), elements)
        times = extent.reports(elements, last)
        if not reading.reported:
            return oracle.solutions(max(times))[1] if times else Counter()
        told = oracle.told(reading.reported, list(times))
        return Counter({(*row, times[k], k): count for k, rows in told for row, count in rows.items()})

    def _got(self, reading: Reading, record: ResumingSubscriber) -> Rows:
        rows = Counter(record.rows) if reading.reported else record.bag
        unbound = [tuple(None if term == "" else term for term in row) for row in rows.elements()]
        if not reading.reported:
            return Counter(unbound)
        if any(isinstance(each, CountExtent) for each in reading.windows.values()):
            return Counter((*row[:-2], time_of(row[-2]), int(lexical(row[-1]))) for row in unbound)
        return Counter((*row[:-1], time_of(row[-1])) for row in unbound)

    def _all_told(self) -> bool:
        """Whether all subscribers are attached and have the rows owed to them, and everything is acknowledged."""
        return all(
            client.attached and not client.record.unsettled and self._got(reading, client.record) in owed
            for (reading, client), owed in zip(self._clients, self._owed(), strict=True)
        )

    def _owed(self) -> Sequence[list[Rows]]:
        """Return the possible rows of each subscriber."""
        horizons = [dict(peer._tables.horizons) for peer in self._peers()]
        if self._found is None or self._found[0] != horizons:
            late = [number >= self._early for number in range(len(self._clients))]
            pairs = zip(self._clients, late, strict=True)
            self._found = horizons, [self._expected(reading, late=each) for (reading, _), each in pairs]
        return self._found[1]

    def judge(self) -> None:
        verdict = self.verdict
        happened = dict(self.world.happened)
        elements = len(self._elements())
        drawn = f"{self._scale} times as fast, {len(self._rules)} rules, {elements} elements"
        verdict.told += f"; {drawn}; {happened} happened"
        verdict.counts.update(self.world.happened)
        verdict.peers = configurations(self.world)
        verdict.shown = {name for name, count in self.world.happened.items() if count}
        verdict.shown |= shown_by_queries(reading.text for reading, _ in self._clients)
        verdict.shown |= {"rules"} if self._rules else set()
        verdict.counts["elements"] += len(self._elements())
        open_still = [each for each in self._publishers if each.closing and not each.closed]
        verdict.problems += [f"not closed: {each.identity:x}" for each in open_still]
        verdict.problems += [f"not acknowledged: {each.failures[-1:]}" for each in self._publishings() if each.open]
        verdict.problems += map(str, check_audits(self.world))
        if unlike := self._unlike():
            verdict.problems.append(f"at rest: {unlike}")
        verdict.counts["elements forgotten"] += sum(peer.status()["elements_forgotten"] for peer in self._peers())
        verdict.counts["days with something forgotten"] += any(dict(peer._tables.horizons) for peer in self._peers())
        for (reading, client), ways in zip(self._clients, self._owed(), strict=True):
            record = client.record
            got = self._got(reading, record)
            owed = min(ways, key=lambda way: ((way - got) + (got - way)).total())
            verdict.counts["rows told"] += len(record.rows)
            verdict.problems += [f"{record.name} {reading.text}: {text}" for text in record.complaints]
            for what, rows in (("missing", owed - got), ("extra", got - owed)):
                if rows:
                    shown = describe_bag(Counter({tuple(map(str, row)): count for row, count in rows.items()}))
                    verdict.problems.append(f"{what}: {record.name} {reading.text}: {shown}")


def _told(reported: str, held: Sequence[tuple[int, Rows]]) -> Rows:
    """Return the rows reported for the contents of some reports in turn; the first has no report before it."""
    told, before = Rows(), Rows()
    for time, rows in held:
        news = {"rstream": rows, "istream": rows - before, "dstream": before - rows}[reported]
        told.update({(*row, time): count for row, count in news.items()})
        before = rows
    return told


def run_seed(
    seed: int, *, configurations: Configurations = "daemon", trace: Callable[[str], None] | None = None
) -> Verdict:
    """Run the schedule of a seed and check it."""
    day = _Day(seed, trace, configurations)
    day.play()
    day.judge()
    return day.verdict
