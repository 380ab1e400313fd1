"""One history: transactions from several publishers, settled subscriptions, perhaps crashes; and its judgement.

After each mark, the rows that a subscriber holds must be the answer that pyoxigraph gives for the graph as of the
mark's stamp: all transactions up to it, each as a whole.  A transaction that was not acknowledged when the mark
arrived may be missing, but only as a whole.  The rows of a cohort must be the answers of all its queries to one graph.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

import pyoxigraph

from p2prdf import hlc
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.standing.settling import cohort_names, cohort_query, settled_query
from p2prdf.sim.faults import Faults
from p2prdf.sim.world import WorldOptions
from p2prdf.wire import contract
from schedules.failures.clients import SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from p2prdf.sim.oracle import Row, Triple
    from p2prdf.sim.world import Node
    from p2prdf.wire.contract import Outcome

__all__ = ["History", "Report", "run_history"]

QUERIES: Final = (
    "SELECT * WHERE { ?x <urn:a> ?y }",
    "SELECT * WHERE { ?x <urn:a> ?y . ?y <urn:b> ?z }",
    "SELECT ?x ?z WHERE { ?x <urn:a> ?y . ?y <urn:b> ?z . ?z <urn:c> ?u }",
    "SELECT * WHERE { ?x <urn:a> ?y OPTIONAL { ?x <urn:b> ?z } }",
    "SELECT * WHERE { ?x <urn:a> ?y OPTIONAL { ?y <urn:b> ?z . ?z <urn:c> ?u } }",
    "SELECT * WHERE { ?x <urn:a> ?y MINUS { ?x <urn:b> ?z } }",
    "SELECT * WHERE { ?x <urn:a> ?y FILTER NOT EXISTS { ?y <urn:b> ?z } }",
    "SELECT * WHERE { ?x <urn:a> ?y FILTER EXISTS { ?x <urn:b> ?y } }",
    "SELECT (COUNT(*) AS ?n) WHERE { ?x <urn:a> ?y }",
    "SELECT (COUNT(DISTINCT ?y) AS ?n) WHERE { ?x <urn:a> ?y . ?x <urn:b> ?z }",
    "SELECT ?x (COUNT(*) AS ?n) WHERE { ?x ?p ?y } GROUP BY ?x",
    "SELECT ?x (SUM(?v) AS ?n) WHERE { ?x <urn:v> ?v } GROUP BY ?x",
    "SELECT (SUM(?v) AS ?n) WHERE { ?x <urn:v> ?v . ?x <urn:a> ?y }",
    "SELECT ?x (MAX(?v) AS ?n) WHERE { ?x <urn:v> ?v OPTIONAL { ?x <urn:a> ?y } } GROUP BY ?x",
    "SELECT DISTINCT ?y WHERE { ?x <urn:a> ?y }",
    "SELECT DISTINCT ?x WHERE { { ?x <urn:a> ?y } UNION { ?x <urn:b> ?y } }",
    "SELECT * WHERE { { ?x <urn:a> ?y } UNION { ?x <urn:b> ?y . ?y <urn:c> ?z } }",
    "SELECT * WHERE { ?x <urn:v> ?v FILTER(?v > 2) . ?x <urn:a> ?y }",
    "SELECT * WHERE { ?x <urn:a> ?y . ?x <urn:b> ?z FILTER(?y != ?z) }",
    "ASK { ?x <urn:a> ?y FILTER NOT EXISTS { ?x <urn:b> ?y } }",
)  # fmt: skip
_INTEGER: Final = "^^<http://www.w3.org/2001/XMLSchema#integer>"
_OPTIONAL_MAX: Final = 8
"""Most transactions that may be missing in the judgement of one mark: each doubles the graphs to try."""
_AGAIN_SECONDS: Final = 2.5


@dataclass(slots=True, eq=False)
class Attempt:
    """A transaction at one entry peer: its stamp, its statements, and the time of its acknowledgement, if any."""

    stamp: int
    deletions: Sequence[Triple]
    additions: Sequence[Triple]
    acknowledged_at: float | None = None


@dataclass(slots=True, eq=False)
class Held(ResumingSubscriber):
    """A subscriber that stores its rows at each mark."""

    now: Callable[[], float] = lambda: 0.0
    cohort: tuple[str, ...] = ()
    """The queries of a cohort; empty: the subscription has one query."""
    marks: list[tuple[float, int, Counter[Row]]] = field(default_factory=list)
    """Each mark with the time of its arrival, its stamp, and the rows held."""

    def bookmark(self, stamp: int) -> None:
        """Store a mark."""
        self.marks.append((self.now(), stamp, self.bag))


@dataclass(slots=True)
class Report:
    """The judgement of one history."""

    seed: int
    marks: int = 0
    skipped: int = 0
    """Marks with too many unacknowledged transactions to judge them."""
    transactions: int = 0
    crashes: int = 0
    differs: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether every mark is the answer, and the last one covers everything."""
        return not self.differs and not self.problems


class History:
    """A world with publishers of transactions and settled subscribers."""

    def __init__(self, seed: int, *, faults: bool, settled: bool = True, forgetting: bool = False):
        self.random = Random(seed)
        rng = self.random
        self.faults = faults
        self.attempts: list[Attempt] = []
        delays = Faults(
            delay_min_seconds=0.001, delay_max_seconds=rng.choice([0.004, 0.03, 0.1]),
            straggler_probability=rng.choice([0.0, 0.02]), straggler_seconds=0.3,
            loss_probability=0.01 if faults else 0.0, duplicate_probability=0.01,
            turn_seconds_max=rng.choice([0.0, 0.01]), skew_seconds_max=rng.choice([0.0, 0.01]),
        )  # fmt: skip
        config = PeerConfig(
            hot_keys=rng.random() < 0.3, replicas=3, copies_min=2, durable=True, forget_intervals=forgetting
        )
        tables = rng.choice(["lists", "arrays", "mixed"])
        options = WorldOptions(
            peers=rng.randint(4, 6), seed=seed, config=config, faults=delays, tables=tables, through_codec=True,
            events_max=4_000_000,
        )  # fmt: skip
        failures = Failures(handle_seconds_max=0.02, detect_max_seconds=1.5, bookmarks=not settled)
        self.world = FailingWorld(options, failures)
        self.world.run_for(4.0)
        self.subscribers: list[tuple[Held, SubscriberClient]] = []
        self._settled = settled
        self._down: list[Node] = []
        self.crashes = 0

    # --- activity --------------------------------------------------------------------------------

    def subscribe(self, text: str) -> Held:
        """Open a settled subscription now."""
        query = parse_query(text)
        return self._open(Held(
            text, settled_query(query) if self._settled else query, Algorithm.CSBV, False, 86_400.0, text, history=True
        ))  # fmt: skip

    def subscribe_cohort(self, texts: Sequence[str]) -> Held:
        """Open a cohort now."""
        query, name = cohort_query([parse_query(text) for text in texts]), " | ".join(texts)
        return self._open(
            Held(name, query, Algorithm.CSBV, False, 86_400.0, name, history=True, cohort=tuple(texts))
        )

    def _open(self, record: Held) -> Held:
        record.now = lambda: self.world.now
        client = SubscriberClient(self.world, record, Random(self.random.random()))
        client.connect()
        self.subscribers.append((record, client))
        return record

    def transact(self, deletions: Sequence[Triple], additions: Sequence[Triple]) -> None:
        """Publish a transaction at a random peer, with repeats until it is acknowledged."""
        serving = self.world.serving()
        if not serving:
            self.world.schedule(0.5, self.transact, deletions, additions)
            return
        node = self.random.choice(serving)
        made: list[int] = []
        redelivery = node.peer._engine.redelivery
        begin = redelivery.begin

        def note(stamp: int) -> None:
            made.append(stamp)
            begin(stamp)

        redelivery.begin = note  # type: ignore[method-assign]
        intern, make = node.dictionary.intern_all, node.columns.column
        s, p, o = (make(intern(terms), "uint32") for terms in zip(*deletions, *additions, strict=True))
        waiting = _Waiting(self, deletions, additions)
        self.world.request(
            node,
            lambda request: contract.Publish(
                request, 1 + self.random.getrandbits(32), 0, s, p, o, deletions=len(deletions), atomic=True
            ),
            waiting,
        )
        redelivery.begin = begin  # type: ignore[method-assign]
        if made:
            waiting.attempt = Attempt(made[0], deletions, additions)
            self.attempts.append(waiting.attempt)
        self.world.schedule(_AGAIN_SECONDS, waiting.again)

    def activity(self, seconds: float) -> None:
        """Publish transactions, and let peers and subscribers crash, for some time."""
        rng, world = self.random, self.world
        rate = rng.choice([5, 15, 40])
        for _ in range(int(rate * seconds)):
            world.schedule(rng.uniform(0.0, seconds), self._draw)
        if self.faults:
            for _ in range(rng.randint(1, 3)):
                world.schedule(rng.uniform(0.0, seconds), self._crash)
            for _, client in self.subscribers:
                if rng.random() < 0.4:
                    world.schedule(rng.uniform(0.0, seconds), client.crash, rng.uniform(0.05, 2.0))
        world.run_for(seconds)

    def _draw(self) -> None:
        """Publish a random transaction; half of them change values, so that they delete and add."""
        rng = self.random
        subjects = [f"<urn:s{number}>" for number in range(4)]

        def triple() -> Triple:
            predicate = rng.choice(["<urn:a>", "<urn:b>", "<urn:c>", "<urn:v>"])
            thing = f'"{rng.randint(1, 4)}"{_INTEGER}' if predicate == "<urn:v>" else rng.choice(subjects)
            return rng.choice(subjects), predicate, thing

        changed = {triple(): rng.random() < 0.45 for _ in range(rng.randint(1, 5))}
        deletions = [each for each, deleted in changed.items() if deleted]
        self.transact(deletions, [each for each, deleted in changed.items() if not deleted])

    def _crash(self) -> None:
        living = [node for node in self.world.living() if node not in self._down]
        if self._down or len(living) < 4:
            return
        node = self.random.choice(living)
        self._down.append(node)
        self.crashes += 1
        self.world.crash(node)
        self.world.schedule(self.random.uniform(0.1, 5.0), self._restart, node)

    def _restart(self, node: Node) -> None:
        self.world.restart(node)
        self.world.schedule(4.0, self._down.remove, node)

    # --- judgement -------------------------------------------------------------------------------

    def judge(self, report: Report) -> None:
        """Compare the rows held at each mark with the answer to the graph as of its stamp."""
        self.attempts.sort(key=lambda attempt: attempt.stamp)
        answers: dict[tuple[frozenset[Triple], str], Counter[Row]] = {}
        for record, _ in self.subscribers:
            report.problems += record.complaints
            for arrived, stamp, held in record.marks:
                report.marks += 1
                if not self._is_answer(record, arrived, stamp, held, answers, report):
                    at = (arrived - self.world.started, hlc.seconds_ms(stamp) - 1_000_000_000)
                    report.differs.append(f"seed {report.seed}: {record.text} at {at}: {_spelled(held)}")
            last = record.marks[-1][1] if record.marks else 0
            if not self.attempts or last < max(attempt.stamp for attempt in self.attempts):
                report.problems.append(f"seed {report.seed}: the last mark of {record.text} is {last}")

    def _is_answer(
        self, record: Held, arrived: float, stamp: int, held: Counter[Row],
        answers: dict[tuple[frozenset[Triple], str], Counter[Row]], report: Report,
    ) -> bool:  # fmt: skip
        before = [attempt for attempt in self.attempts if attempt.stamp <= stamp]
        doubtful = [each for each in before if each.acknowledged_at is None or each.acknowledged_at > arrived]
        if not self.faults:
            doubtful = []
        if len(doubtful) > _OPTIONAL_MAX:
            report.skipped += 1
            return True
        for missing in _subsets(doubtful):
            graph = _graph([each for each in before if each not in missing])
            if _expected(record, graph, answers) == held:
                return True
        return False


class _Waiting:
    """A transaction that waits for its acknowledgement."""

    def __init__(self, history: History, deletions: Sequence[Triple], additions: Sequence[Triple]):
        self._history = history
        self._statements = deletions, additions
        self._done = False
        self.attempt: Attempt | None = None

    def completed(self, _node: Node, _request: int, outcome: Outcome) -> None:
        """Note the acknowledgement, or try again."""
        if isinstance(outcome, contract.Published) and self.attempt is not None:
            assert outcome.time == self.attempt.stamp
            self.attempt.acknowledged_at = self._history.world.now
            self._done = True

    def cut_off(self, _node: Node) -> None:
        """Wait for the repetition."""

    def again(self) -> None:
        """Repeat the transaction unless it is acknowledged."""
        if not self._done:
            self._done = True
            self._history.transact(*self._statements)


def _subsets(of: list[Attempt]) -> Iterator[tuple[Attempt, ...]]:
    for size in range(len(of) + 1):
        yield from itertools.combinations(of, size)


def _graph(attempts: list[Attempt]) -> frozenset[Triple]:
    """Return the graph after some transactions in the order of their stamps; at equal stamps a deletion wins."""
    graph: dict[Triple, None] = {}
    for _, together in itertools.groupby(attempts, key=lambda attempt: attempt.stamp):
        these = list(together)
        graph.update(dict.fromkeys(each for attempt in these for each in attempt.additions))
        for attempt in these:
            for each in attempt.deletions:
                graph.pop(each, None)
    return frozenset(graph)


def _expected(
    record: Held, graph: frozenset[Triple], answers: dict[tuple[frozenset[Triple], str], Counter[Row]]
) -> Counter[Row]:
    """Return the answer to a graph; of a cohort those of all queries, each row with the number of its query."""

    def of(text: str, names: tuple[str, ...]) -> Counter[Row]:
        if (graph, text) not in answers:
            answers[graph, text] = _answer(graph, text, names)
        return answers[graph, text]

    if not record.cohort:
        return of(record.text, record.query.names)
    width = len(record.query.names) - 1
    found: Counter[Row] = Counter()
    for number, (text, names) in enumerate(zip(record.cohort, cohort_names(record.query.names), strict=True)):
        for row, count in of(text, names).items():
            found[(*row, *[""] * (width - len(row)), f'"{number}"{_INTEGER}')] += count
    return found


def _answer(graph: frozenset[Triple], text: str, names: tuple[str, ...]) -> Counter[Row]:
    store = pyoxigraph.Store()
    for triple in sorted(graph):
        store.extend(pyoxigraph.parse(f"{' '.join(triple)} .".encode(), pyoxigraph.RdfFormat.N_TRIPLES))
    found = store.query(text)
    if isinstance(found, pyoxigraph.QueryBoolean):
        return Counter([()] if found else [])
    assert isinstance(found, pyoxigraph.QuerySolutions)
    return Counter(tuple("" if each[name] is None else str(each[name]) for name in names) for each in found)


def _spelled(held: Counter[Row]) -> str:
    return "; ".join(" ".join(row) for row in sorted(held.elements()))[:300]


def run_history(
    seed: int, *, faults: bool = False, settled: bool = True, cohorts: bool = False, forgetting: bool = False
) -> Report:
    """Run one history and judge it; ``cohorts``: with a cohort of two to five queries instead of one of three.

    ``forgetting``: with the setting ``forget_intervals``.
    """
    history = History(seed, faults=faults, settled=settled, forgetting=forgetting)
    rng, world = history.random, history.world
    for text in rng.sample(QUERIES, 2 if cohorts else 3):
        history.subscribe(text)
    if cohorts:
        history.subscribe_cohort(rng.choices(QUERIES, k=rng.randint(2, 5)))
    if rng.random() < 0.7:
        world.run_for(2.0)
    history.activity(3.0)
    if cohorts and rng.random() < 0.5:
        history.subscribe_cohort(rng.sample(QUERIES, 3))
    else:
        history.subscribe(rng.choice(QUERIES))
    history.activity(rng.choice([1.0, 3.0]))
    world.run_for(45.0 if faults else 12.0)
    report = Report(seed, transactions=len(history.attempts), crashes=history.crashes)
    history.judge(report)
    return report
