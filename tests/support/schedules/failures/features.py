"""Named graphs, rules and windows in fault schedules: their publications, queries and checkers.

Each feature draws from a random stream of its own and has publishers, subscribers and a checker of its own; the
failures of seed n are the same with it and without it.

* *Named graphs*: clients publish and delete quads; queries read them with GRAPH.  At rest a subscriber holds the
  solutions over the quads that the peers hold, and the peers hold all acknowledged quads that no client deleted.
* *Rules*: at rest, the derived graph is the closure of the triples that the peers hold.
* *Windows*: publishers of one stream send watermarks, and close at last.  Every report has exactly the rows of the
  elements in its window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Final

from p2prdf import keys
from p2prdf.continuous.reports import time_of
from p2prdf.rdf import quads
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.rdf.standing.insertion import parse_insertion
from p2prdf.rdf.standing.query import parse_query
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.insertions import insertions
from p2prdf.wire import contract
from schedules.checkers import Problem, describe_bag
from schedules.closure import closed
from schedules.failures.checkers import check_standing, name_of, stored
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.subscriber import ResumingSubscriber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from p2prdf.rdf.algebra import InferenceRule
    from p2prdf.sim.oracle import Row
    from p2prdf.sim.world import Node
    from p2prdf.wire.messages import Query
    from schedules.failures.clients import RepeatedPublishing
    from schedules.failures.world import FailingWorld

__all__ = ["IDLE_SECONDS", "Feature", "NamedGraphs", "Rules", "Windows", "features"]

_LEASE_SECONDS: Final = 86_400.0
_NODES: Final = tuple(f"<urn:f{number}>" for number in range(4))
_P, _Q, _GRAPHS = "<urn:fp>", "<urn:fq>", ("<urn:g1>", "<urn:g2>")
_REMOVED: Final = 0.3
_UNSUBSCRIBED: Final = 0.1
_CONSTANT_SHARE: Final = 0.7


class Feature(ABC):
    """A feature of one schedule."""

    def __init__(self, world: FailingWorld, random: Random):
        self._world = world
        self._random = random
        self._span = world.failures.span_seconds
        self.clients: list[SubscriberClient] = []
        self.publishings: list[RepeatedPublishing] = []
        """Publications in the default graph; the drawn queries of the schedule may match them."""

    @property
    @abstractmethod
    def all_publishings(self) -> Sequence[RepeatedPublishing]:
        """All publications of this feature."""

    @abstractmethod
    def judge(self, *, at_rest: bool) -> Iterator[Problem]:
        """Yield the promises that were broken."""

    def restless(self) -> str | None:
        """Return the pending work as a text; None at rest."""
        for client in self.clients:
            record = client.record
            if record.closed_at is None and (not client.attached or record.unsettled):
                return f"{record.name} is not attached, or its answers are not settled"
        return None

    def _subscribe(self, at: float, query: Query, text: str, *, history: bool = True) -> SubscriberClient:
        name = f"{type(self).__name__} {len(self.clients)}"
        record = ResumingSubscriber(name, query, Algorithm.CSBV, False, _LEASE_SECONDS, text, history)
        client = SubscriberClient(self._world, record, self._random, bookmarks=False)
        self.clients.append(client)
        self._world.schedule(at, client.connect)
        return client


class NamedGraphs(Feature):
    """Quads of two graphs, and queries that read them."""

    _CONSTANT = (
        "SELECT * WHERE {{ GRAPH {g} {{ ?s {p} ?o }} }}",
        "SELECT ?s ?z WHERE {{ GRAPH {g} {{ ?s {p} ?o . ?o {q} ?z }} }}",
        "SELECT ?s ?z WHERE {{ GRAPH {g} {{ ?s {p} ?o }} GRAPH {h} {{ ?o {q} ?z }} }}",
        "SELECT ?s (COUNT(*) AS ?n) WHERE {{ GRAPH {g} {{ ?s {p} ?o }} }} GROUP BY ?s",
        "SELECT * WHERE {{ GRAPH {g} {{ ?s {p} ?o }} OPTIONAL {{ GRAPH {h} {{ ?o {q} ?z }} }} }}",
        "ASK {{ GRAPH {g} {{ ?s {p} ?s }} }}",
        "CONSTRUCT {{ ?o <urn:made> ?s }} WHERE {{ GRAPH {g} {{ ?s {p} ?o }} }}",
    )
    _VARIABLE = (
        "SELECT ?g ?s ?o WHERE {{ GRAPH ?g {{ ?s {p} ?o }} }}",
        "SELECT ?s ?y ?o WHERE {{ GRAPH {g} {{ ?s ?y ?o }} }}",
    )
    """Their patterns match the directory of graphs, too, which is older than the statements: they ask for history."""

    def __init__(self, world: FailingWorld, random: Random):
        super().__init__(world, random)
        self._publisher = Publisher(world, f"graphs of seed {world.options.seed}", random)
        for _ in range(random.randint(1, 2)):
            constant = random.random() < _CONSTANT_SHARE
            shapes, history = (self._CONSTANT, random.random() < 0.5) if constant else (self._VARIABLE, True)
            (p, q), (g, h) = random.sample((_P, _Q), 2), random.sample(_GRAPHS, 2)
            text = random.choice(shapes).format(p=p, q=q, g=g, h=h)
            standing = parse_query(text)
            simple = standing.conjunctive
            query = standing if simple is None or simple.distinct else simple
            at = random.choice((0.0, random.uniform(0.0, self._span / 2)))
            client = self._subscribe(at, query, text, history=history)
            if random.random() < _UNSUBSCRIBED:
                world.schedule(at + random.uniform(1.0, self._span), client.unsubscribe)
        published: list[tuple[str, ...]] = []
        for _ in range(random.randint(5, 10)):
            at = random.uniform(0.0, 0.9 * self._span)
            if published and random.random() < _REMOVED:
                self._publisher.publish(at, [random.choice(published)], removed=True)
                continue
            batch: list[tuple[str, ...]] = [
                (random.choice(_NODES), random.choice((_P, _Q)), random.choice(_NODES), random.choice(_GRAPHS))
                for _ in range(random.choice((1, 1, 2, 4)))
            ]
            published += batch
            self._publisher.publish(at, list(dict.fromkeys(batch)))

    @property
    def all_publishings(self) -> Sequence[RepeatedPublishing]:
        """All publications of this feature."""
        return self._publisher.published

    def judge(self, *, at_rest: bool) -> Iterator[Problem]:
        """Yield solutions that differ from those over the held quads, and acknowledged quads that peers lost."""
        for client in self.clients:
            yield from check_standing(self._world, client.record, at_rest=at_rest)
        published = self._publisher.published
        removed = {triple for each in published if each.removed for triple in each.statements}
        due = {triple for each in published if each.stamps and not each.removed for triple in each.statements}
        if at_rest and (lost := due - removed - set(stored(self._world, 0))):
            text = f"acknowledged, never removed and not held: {describe_bag(Counter(lost))}"
            yield Problem("missing", "named graphs", text)


_FOLLOWS: Final = "<urn:follows>"
_RULES: Final = tuple(
    f"PREFIX : <urn:rule:> {text}"
    for text in (
        "?x :p ?z :- ?x :p ?y , ?y :p ?z .",
        "?x :p ?y :- ?x :q ?y . ?x :q ?y :- ?x :p ?y .",
        "?y :q ?x :- ?x :q ?y . ?x :q ?z :- ?x :q ?y , ?y :p ?z .",
    )
)
_READINGS: Final = (
    "SELECT ?x ?y { GRAPH <urn:follows> { ?x <urn:rule:p> ?y } }",
    "SELECT ?x ?p ?y { GRAPH <urn:follows> { ?x ?p ?y } }",
    "SELECT ?x (COUNT(*) AS ?n) { GRAPH <urn:follows> { ?x <urn:rule:q> ?y } } GROUP BY ?x",
)


class Rules(Feature):
    """Rules that peers evaluate together, triples that match them, and a reader of the derived graph."""

    def __init__(self, world: FailingWorld, random: Random):
        super().__init__(world, random)
        self._publisher = Publisher(world, f"rules of seed {world.options.seed}", random)
        self._rules: set[InferenceRule] = set()
        predicates: set[str] = set()
        for text in insertions(parse_rules(random.choice(_RULES)), _FOLLOWS):
            rule = parse_insertion(text)
            assert rule is not None
            self._subscribe(random.choice((0.0, random.uniform(0.0, self._span / 2))), rule, text)
            self._rules.add(_form(rule))
            predicates.update(atom[1] for atom in _form(rule)[1])
        self._base = sorted(each for each in predicates if not quads.is_reserved(each))
        text = random.choice(_READINGS)
        standing = parse_query(text)
        self._readers = [self._subscribe(random.uniform(0.0, self._span / 2), standing.conjunctive or standing, text)]
        published: list[tuple[str, str, str]] = []
        for _ in range(random.randint(5, 9)):
            at = random.uniform(0.0, 0.9 * self._span)
            if published and random.random() < _REMOVED:
                self._publisher.publish(at, [random.choice(published)], removed=True)
            else:
                triple = random.choice(_NODES), random.choice(self._base), random.choice(_NODES)
                published.append(triple)
                self._publisher.publish(at, [triple])
        self.publishings = self._publisher.published

    @property
    def all_publishings(self) -> Sequence[RepeatedPublishing]:
        """All publications of this feature."""
        return self.publishings

    def judge(self, *, at_rest: bool) -> Iterator[Problem]:
        """Yield unfounded facts of the derived graph, and missing ones."""
        for client in self._readers:
            yield from check_standing(self._world, client.record, at_rest=at_rest)
        if not at_rest:
            return
        triples = stored(self._world, 0)
        base = {each for each in triples if each[1] in self._base}
        held = {each for each in triples if (parts := quads.parts_of(each[1])) is not None and parts[1] == _FOLLOWS}
        owed = closed(self._rules, base) - base
        for kind, facts in (("missing", owed - held), ("extra", held - owed)):
            if facts:
                yield Problem(kind, "rules", f"{describe_bag(Counter(facts))} of {sorted(base)}")


def _form(rule: ConjunctiveQuery) -> InferenceRule:
    """Return a rule as a head and a body of triples, as they are indexed."""

    def atom(pattern: tuple[int, int, int]) -> tuple[str, str, str]:
        s, p, o = (rule.constants[~slot] if slot < 0 else f"?v{slot}" for slot in pattern)
        return s, p, o

    *body, head = map(atom, rule.patterns)
    return head, tuple(body)


_EPOCH_MS: Final = 1_091_944_800_000
_STREAM: Final = "<urn:stream>"
_STEP_MS: Final = 200
"""Least distance in event time between two batches of a publisher, before lateness."""
_SILENT_MS: Final = 60_000
IDLE_SECONDS: Final = 30.0
"""Time that peers wait for a silent publisher: longer than any cut of a schedule."""
_END_PATIENCE_SECONDS: Final = 8.0


class _StreamPublisher(Publisher):
    """A publisher of elements that sends watermarks, and closes after the last element."""

    def __init__(self, world: FailingWorld, name: str, random: Random, late_ms: int):
        super().__init__(world, name, random)
        self._late_ms = late_ms
        self._clock_ms = _EPOCH_MS
        self._left = random.randint(5, 10)
        self.closed = False
        """A peer has confirmed the end of its stream."""

    def begin(self) -> None:
        """Publish elements, one batch after the other, and send watermarks meanwhile."""
        self._heartbeat()
        self._emit()

    @property
    def upto(self) -> int:
        """The watermark: no element up to this time is unacknowledged or still to come."""
        open_times = [time for each in self.published if each.open for time in each.times]
        last = self._clock_ms + 1 if not self._left else self._clock_ms + _STEP_MS - self._late_ms
        return max(_EPOCH_MS, min([last, *open_times]) - 1)

    def crash(self, publishing: RepeatedPublishing) -> None:
        """Do not crash: the reports of a stream would depend on unacknowledged elements."""

    def _emit(self) -> None:
        rng = self._random
        if not self._left:
            self._close_soon()
            return
        self._left -= 1
        self._clock_ms += rng.choice((_STEP_MS, 1000, 2500))
        times = [max(_EPOCH_MS, self._clock_ms - rng.randrange(self._late_ms)) for _ in range(rng.choice((1, 1, 2)))]
        elements = [(rng.choice(_NODES), rng.choice((_P, _Q)), rng.choice(_NODES), _STREAM) for _ in times]
        self.publish(0.0, elements, times=times)
        self._world.schedule(rng.choice((0.05, 0.3, 0.9)), self._emit)

    def _heartbeat(self) -> None:
        if self.closed:
            return
        if serving := self._world.serving():
            said = contract.Heartbeat(keys.term_hash(_STREAM), self.identity, _EPOCH_MS, self.upto, 1)
            self._world.submit(self._random.choice(serving), said)
        self._world.schedule(self._random.choice((0.3, 1.0)), self._heartbeat)

    def _close_soon(self) -> None:
        if any(each.open for each in self.published):
            self._later(0.5, self._close_soon)
        else:
            self._end()

    def _end(self) -> None:
        """Ask one peer after the other to keep the end of the stream, until one confirms."""
        if self.closed:
            return
        node = self._elsewhere()
        if node is not None:
            hashed, upto = keys.term_hash(_STREAM), self.upto
            self._world.request(
                node,
                lambda number: contract.EndStream(number, hashed, self.identity, _EPOCH_MS, upto, 1),
                _Ending(self),
            )
        self._world.schedule(_END_PATIENCE_SECONDS, self._end)

    def ended(self, outcome: contract.Outcome | None) -> None:
        """Take the outcome of the end of the stream; None: the connection is lost."""
        if isinstance(outcome, contract.StreamEnded):
            self.closed = True
        else:
            self._later(0.5, self._end)


class _Ending:
    """One request to keep the end of a stream."""

    def __init__(self, publisher: _StreamPublisher):
        self._publisher = publisher

    def completed(self, _: Node, __: int, outcome: contract.Outcome) -> None:
        self._publisher.ended(outcome)

    def cut_off(self, _: Node) -> None:
        self._publisher.ended(None)


_WINDOW: Final = (
    "REGISTER RSTREAM <urn:out> AS SELECT ?x ?v FROM NAMED WINDOW <urn:w> ON {stream} "
    "[RANGE {range}ms STEP {step}ms] WHERE {{ WINDOW <urn:w> {{ {pattern} }} }}"
)


class Windows(Feature):
    """One or two publishers of a stream, and a query with a window over it (RSTREAM)."""

    def __init__(self, world: FailingWorld, random: Random):
        super().__init__(world, random)
        self._joined = random.random() < 0.4
        self._step = random.choice((1000, 2000, 5000))
        self._range = random.choice((1000, 4000, 9000))
        pattern = f"?x {_P} ?y . ?y {_Q} ?v" if self._joined else f"?x {_P} ?v"
        text = _WINDOW.format(stream=_STREAM, range=self._range, step=self._step, pattern=pattern)
        self._publishers = [
            _StreamPublisher(world, f"stream {late} of seed {world.options.seed}", random, late)
            for late in random.sample((1, 1500, 4000), random.randint(1, 2))
        ]
        self._reader = self._subscribe(0.0, parse_query(text), text)
        self._reader.on_live = self._begin

    def _begin(self) -> None:
        for publisher in self._publishers:
            publisher.begin()

    @property
    def all_publishings(self) -> Sequence[RepeatedPublishing]:
        """All publications of this feature."""
        return [each for publisher in self._publishers for each in publisher.published]

    def restless(self) -> str | None:
        """Return the pending work as a text; None at rest."""
        if not all(publisher.closed for publisher in self._publishers):
            return "the publishers of a stream have not closed"
        return super().restless() or (None if self._got() == self._owed() else "a reader waits for reports of a window")

    def _got(self) -> Counter[Row]:
        return Counter((*row[:-1], str(time_of(row[-1]))) for row in self._reader.record.rows)

    def _owed(self) -> Counter[Row]:
        """Return the rows of all reports up to the largest promise, for all publishers have closed."""
        elements = [
            (time, (s, p, o))
            for each in self.all_publishings
            for time, (s, p, o, *_) in zip(each.times, each.triples, strict=True)
        ]
        owed: Counter[Row] = Counter()
        first, last = -(-_EPOCH_MS // self._step) * self._step, max(publisher.upto for publisher in self._publishers)
        for report in range(first, last + 1, self._step):
            held = {triple for time, triple in elements if report - self._range < time <= report}
            first_atoms = [(s, o) for s, p, o in held if p == _P]
            pairs = [(x, z) for x, y in first_atoms for s, p, z in held if p == _Q and s == y]
            owed.update((x, v, str(report)) for x, v in (pairs if self._joined else first_atoms))
        return owed

    def judge(self, *, at_rest: bool) -> Iterator[Problem]:
        """Yield missing rows of reports, and rows that no window has."""
        where = name_of(self._reader.record)
        for text in self._reader.record.complaints:
            yield Problem("told", where, text)
        if not all(publisher.closed for publisher in self._publishers):
            yield Problem("unanswered", where, "the publishers of the stream never closed")
            return
        got, owed = self._got(), self._owed()
        for kind, rows in (("missing", owed - got), ("extra", got - owed)):
            if rows:
                yield Problem(kind, where, describe_bag(rows) + ("" if at_rest else " (not at rest)"))


_FEATURES: Final = (("graphs", NamedGraphs), ("rules", Rules), ("windows", Windows))


def features(world: FailingWorld, generator: Callable[[str], Random]) -> list[Feature]:
    """Return the features that the options of a world switch on."""
    return [kind(world, generator(name)) for name, kind in _FEATURES if getattr(world.failures, name)]
