"""Balance of load under skewed data, with splitting of hot keys and without.

A quarter of the triples or more have the predicate rdf:type, and classes and predicates are Zipf-distributed, the k-th
with frequency k^-1.1.  Load is the paper's QPL: triples, once per index, and rows to be checked.  It is counted over
the whole run, and over its last rounds alone, after the depths of split keys have settled and reached the publishers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.sim.oracle import Oracle
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.workloads.random_queries import conjunctive_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.sim.oracle import Triple

__all__ = ["TYPE", "Balance", "SkewRun", "hot_queries", "run_skew", "zipf_triples"]

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"

Ids = npt.NDArray[np.uint32]

_NAMESPACE = "http://example.org/"


def zipf_triples(
    dictionary: TermDictionary,
    count: int,
    exponent: float = 1.1,
    *,
    typed: float = 0.25,
    subjects: int = 100_000,
    predicates: int = 200,
    classes: int = 1_000,
    seed: int = 0,
) -> tuple[Ids, Ids, Ids]:
    """Return ``count`` triples as columns of term identifiers, ``typed`` of them rdf:type.

    Subjects are uniform, predicates and classes Zipf-distributed.  Half of the other objects are subjects, half are
    literals, of which there are as many.
    """
    rng = np.random.default_rng(seed)
    is_type = rng.random(count) < typed
    subject = rng.integers(subjects, size=count)
    predicate = _zipf(rng, predicates, exponent, count)
    entity = rng.integers(2 * subjects, size=count)
    kind = _zipf(rng, classes, exponent, count)
    named = _Names(dictionary, subjects)
    p = named.intern([f"<{_NAMESPACE}p{each}>" for each in range(predicates)])[predicate]
    o = np.where(
        is_type,
        named.intern([f"<{_NAMESPACE}C{each}>" for each in range(classes)])[kind],
        named.of(entity),
    )
    return named.of(subject), np.where(is_type, named.intern([TYPE])[0], p), o


def _zipf(rng: np.random.Generator, size: int, exponent: float, count: int) -> npt.NDArray[np.int64]:
    """Draw from 0..size-1, where k has the weight (k + 1)^-exponent."""
    weights = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    return np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(count)).clip(max=size - 1)


class _Names:
    """Terms of subjects (codes below the number of subjects) and of literals."""

    def __init__(self, dictionary: TermDictionary, subjects: int):
        self._dictionary = dictionary
        self._subjects = subjects

    def intern(self, texts: list[str]) -> Ids:
        return np.array(self._dictionary.intern_all(texts), np.uint32)

    def of(self, codes: npt.NDArray[np.int64]) -> Ids:
        used, places = np.unique(codes, return_inverse=True)
        return self.intern([self._text(code) for code in used.tolist()])[places]

    def _text(self, code: int) -> str:
        return f"<{_NAMESPACE}i{code}>" if code < self._subjects else f'"v{code - self._subjects}"'


def hot_queries(triples: Sequence[Triple] | None = None) -> list[ConjunctiveQuery]:
    """Return queries that wait on the hottest keys of some triples: rdf:type, a class, predicates.

    Without triples, the hottest keys of the Zipf data.
    """
    first, second, kind = f"<{_NAMESPACE}p0>", f"<{_NAMESPACE}p1>", f"<{_NAMESPACE}C0>"
    if triples is not None:
        predicates = Counter(triple[1] for triple in triples if triple[1] != TYPE)
        (first, _), (second, _) = predicates.most_common(2)
        kind = Counter(triple[2] for triple in triples if triple[1] == TYPE).most_common(1)[0][0]
    return [
        conjunctive_query([("?x", TYPE, "?c")], ["?c"], distinct=True),
        conjunctive_query([("?x", TYPE, kind)], ["?x"]),
        conjunctive_query([("?x", TYPE, kind), ("?x", first, "?y")], ["?x", "?y"]),
        conjunctive_query([("?x", first, "?y"), ("?y", second, "?z")], ["?x", "?z"]),
    ]


@dataclass(frozen=True, slots=True)
class Balance:
    """Loads of all peers, in their order."""

    loads: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean load of the peers with any load."""
        return sum(self.loads) / max(1, sum(map(bool, self.loads)))

    @property
    def worst(self) -> float:
        """Load of the busiest peer, in multiples of the mean."""
        return max(self.loads) / self.mean if any(self.loads) else 0.0


@dataclass(frozen=True, slots=True)
class SkewRun:
    """The outcome of a run.

    ``whole``: loads over the whole run; ``settled``: over its last rounds.  ``wrong``: missing and surplus answers of
    all queries.
    """

    whole: Balance
    settled: Balance
    keys_split: int
    depth_max: int
    answers: int
    wrong: int


def run_skew(
    options: WorldOptions,
    queries: Sequence[ConjunctiveQuery],
    *,
    typed: float = 0.25,
    data: Sequence[Triple] | None = None,
    algorithm: Algorithm = Algorithm.CSBV,
    publishers: int = 8,
    round_triples: int = 4_000,
    settling_rounds: int = 12,
    measured_rounds: int = 3,
) -> SkewRun:
    """Publish triples in rounds to standing queries, and compare all answers with the oracle's.

    The triples are those of ``data`` in their order, or Zipf-distributed.  A round of ``round_triples`` takes half a
    ``hot_interval_seconds``, from ``publishers`` peers in turn.  Loads of the last ``measured_rounds`` are reported
    separately.
    """
    run = _Skew(options, queries, typed, data, algorithm, publishers, round_triples)
    for _ in range(settling_rounds):
        run.publish()
    settled = run.loads()
    for _ in range(measured_rounds):
        run.publish()
    whole = run.loads()
    after = tuple(now - then for now, then in zip(whole, settled, strict=True))
    depths = [depth for node in run.world.nodes for depth in node.peer.split_keys.values()]
    answers, wrong = run.compare()
    return SkewRun(Balance(whole), Balance(after), len(depths), max(depths, default=0), answers, wrong)


class _Skew:
    """One run."""

    def __init__(
        self, options: WorldOptions, queries: Sequence[ConjunctiveQuery], typed: float, data: Sequence[Triple] | None,
        algorithm: Algorithm, publishers: int, round_triples: int,
    ):  # fmt: skip
        """Subscribe to the queries before the first publication."""
        self.world = World(options)
        self._typed = typed
        self._data = data
        self._publishers = min(publishers, options.peers)
        self._triples = round_triples
        self._rounds = 0
        self.subscribers = [
            self.world.subscribe(0.0, at % options.peers, query, algorithm) for at, query in enumerate(queries)
        ]
        self.world.run_until_quiet()
        self.world.run_for(0.01)

    def publish(self) -> None:
        """Publish the next round and wait until all of it has arrived."""
        world = self.world
        triples = self._round()
        span = world.options.config.hot_interval_seconds / 2
        share = -(-self._triples // self._publishers)
        for at in range(self._publishers):
            batch = triples[at * share : (at + 1) * share]
            peer = at * len(world.nodes) // self._publishers
            if batch:
                world.publish(span * at / self._publishers, peer, batch)
        self._rounds += 1
        world.run_for(span)
        world.run_until_quiet()

    def _round(self) -> list[Triple]:
        """Return the triples of the next round."""
        if self._data is not None:
            start = self._rounds * self._triples
            return list(self._data[start : start + self._triples])
        dictionary = self.world.nodes[0].dictionary
        columns = zipf_triples(dictionary, self._triples, typed=self._typed, seed=self._rounds)
        return list(zip(*(dictionary.texts(column.tolist()) for column in columns), strict=True))

    def loads(self) -> tuple[int, ...]:
        """Return the load of each peer so far."""
        return tuple(int(str(node.peer.status()["processing_load"])) for node in self.world.nodes)

    def compare(self) -> tuple[int, int]:
        """Return the numbers of answers and of wrong answers."""
        oracle = Oracle(self.world.log())
        wrong = answers = 0
        for subscriber in self.subscribers:
            if subscriber.since is None or subscriber.complaints:
                raise LocalProtocolError(f"{subscriber.name}: {subscriber.failed} {subscriber.complaints}")
            owed, got = oracle.answers(subscriber.query, subscriber.since), subscriber.bag
            wrong += (owed - got).total() + (got - owed).total()
            answers += Counter(got).total()
        return answers, wrong
