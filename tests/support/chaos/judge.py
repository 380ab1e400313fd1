"""The verdict: the answers delivered to each query, against those owed to it and those possible for it.

``must``: the answers over all acknowledged publications; ``may``: over all attempted ones.  Right is must <=
delivered <= may, as bags, and no identity twice.

*Publications that count* for a query.  A publication is owed if its acknowledged attempt was called after
``subscribe`` had returned.  A publication does not count if it was acknowledged, at its only attempt, before
``subscribe`` was called; all other attempts may count: an attempt of unknown outcome may be carried out late.

*Torn.*  A triple that was never acknowledged may appear or not, but as a whole: under all its keys or under
none. The inventories (queries that show all triples of a predicate) show the content of the cluster.  From it
every other query's answers follow, exactly; a difference, beyond lost and phantom answers, is torn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Self

import pyoxigraph as ox

from chaos.following import Followed
from chaos.publishing import Publication
from chaos.queries import Query, Row, Triple, evaluate, store_of

__all__ = ["Judge", "Loss", "Verdict"]

LOSSES_MAX: Final = 20
"""Bound on the lost answers that are explained; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A lost answer: the publication that should have completed it, and its time in seconds since the start."""

    query: str
    row: Row
    published_at: float
    acknowledged_at: float
    attempts: tuple[str, ...]


@dataclass(slots=True)
class Verdict:
    """Answers of one query, or of all: numbers of rows."""

    acknowledged: int = 0
    """Owed: answers over acknowledged publications."""
    attempted: int = 0
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    phantom: int = 0
    torn: int = 0
    gaps: int = 0
    """Answers that the coordinator reported as dropped."""
    gone: int = 0
    """Subscriptions that were refused when they were resumed."""
    taken_back: int = 0
    """Answers that were retracted."""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        wrong = (self.lost, self.duplicated, self.phantom, self.torn, self.gaps, self.gone, self.taken_back)
        return not any(wrong)

    def __iadd__(self, other: Verdict) -> Self:
        """Add up."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


@dataclass(slots=True)
class _Database:
    """Publications that count for some queries, and their answers."""

    events: Counter[Triple]
    store: ox.Store
    answers: dict[Query, Counter[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, triples: Iterable[Triple]) -> _Database:
        events = Counter(triples)
        return cls(events, store_of(events))

    def rows(self, query: Query) -> Counter[Row]:
        if query not in self.answers:
            self.answers[query] = evaluate(query, self.store, self.events)
        return self.answers[query]


class Judge:
    """Judges queries by the publishers' ledger, once that is complete."""

    def __init__(self, ledger: Iterable[Publication], *, started_at: float = 0.0):
        self._ledger = list(ledger)
        self.started_at = started_at
        self._databases: dict[frozenset[int], _Database] = {}
        self._owed: dict[Followed, Counter[Row]] = {}

    def owed(self, followed: Followed) -> Counter[Row]:
        """Return the answers that a query is owed."""
        if followed not in self._owed:
            self._owed[followed] = self._database(
                publication for publication in self._ledger
                if publication.acknowledged_at and publication.attempts[-1].called_at > followed.live_at
            ).rows(followed.query)  # fmt: skip
        return self._owed[followed]

    def possible(self, followed: Followed) -> Counter[Row]:
        """Return the answers that a query may be given."""
        return self._database(
            publication for publication in self._ledger
            if not (len(publication.attempts) == 1 and 0 < publication.acknowledged_at < followed.called_at)
        ).rows(followed.query)  # fmt: skip

    def complete(self, all_followed: Iterable[Followed]) -> bool:
        """Tell whether every query has at least as many answers as it is owed."""
        return all(each.held >= self.owed(each).total() for each in all_followed)

    def judge(self, followed: Followed, held: _Database | None = None) -> Verdict:
        """Return the verdict on one query; ``held``: the cluster's content by its inventories, if that is complete."""
        rows, owed, possible = followed.rows, self.owed(followed), self.possible(followed)
        lost, phantom = owed - rows, rows - possible
        torn: Counter[Row] = Counter()
        if held is not None:
            exact = held.rows(followed.query)
            torn = ((exact - rows) - lost) + ((rows - exact) - phantom)
        return Verdict(
            owed.total(), possible.total(), followed.held, lost.total(), followed.repeated,
            phantom.total() + followed.contradicted, torn.total(), followed.gap, bool(followed.gone),
            len(followed.taken_back),
        )  # fmt: skip

    def judge_all(self, all_followed: Sequence[Followed]) -> tuple[Verdict, dict[str, Verdict]]:
        """Return the verdict on all queries together, and on each."""
        early = [each for each in all_followed if self._saw_everything(each)]
        inventories, triples = self.holdings(early)
        held = _Database.of(triples)
        total, by_query = Verdict(), {}
        for number, each in enumerate(all_followed, 1):
            query = each.query
            known = not query.per_event and {p for _, p, _ in query.patterns} <= inventories
            verdict = self.judge(each, held if known and each in early else None)
            by_query[f"Q{number} {query}"] = verdict
            total += verdict
        return total, by_query

    def _saw_everything(self, followed: Followed) -> bool:
        return all(publication.attempts[0].called_at > followed.live_at for publication in self._ledger)

    @staticmethod
    def holdings(all_followed: Iterable[Followed]) -> tuple[set[str], set[Triple]]:
        """Return the predicates that inventories show, and the triples that they show."""
        predicates: set[str] = set()
        triples: set[Triple] = set()
        for each in all_followed:
            predicate = each.query.inventory
            if predicate is not None:
                predicates.add(predicate)
                triples.update((s, predicate, o) for s, o in each.answers.values())
        return predicates, triples

    def losses(self, all_followed: Iterable[Followed]) -> list[Loss]:
        """Explain some lost answers by the latest publication that each is made of."""
        first: dict[Triple, Publication] = {}
        for publication in self._ledger:
            if publication.acknowledged_at:
                for triple in publication.triples:
                    known = first.setdefault(triple, publication)
                    first[triple] = min(known, publication, key=lambda each: each.due)
        found: list[Loss] = []
        for each in all_followed:
            lost = self.owed(each) - each.rows
            if lost and len(found) < LOSSES_MAX:
                found.extend(self._explained(each.query, lost, first))
        return found[:LOSSES_MAX]

    def _explained(self, query: Query, lost: Counter[Row], first: dict[Triple, Publication]) -> Iterable[Loss]:
        variables = query.variables
        explained = 0
        for solution in store_of(first).query(query.full_text):
            bound = dict(zip(variables, map(str, solution), strict=True))
            row = tuple(bound[name] for name in query.select)
            if row not in lost:
                continue
            triples = [(bound.get(s, s), bound.get(p, p), bound.get(o, o)) for s, p, o in query.patterns]
            publication = max((first[triple] for triple in triples), key=lambda publication: publication.due)
            yield Loss(
                str(query), row, round(publication.due - self.started_at, 3),
                round(publication.acknowledged_at - self.started_at, 3),
                tuple(f"{a.node} at {a.called_at - self.started_at:.3f}" for a in publication.attempts),
            )  # fmt: skip
            explained += 1
            if explained >= 3:
                return

    def _database(self, publications: Iterable[Publication]) -> _Database:
        chosen = list(publications)
        name = frozenset(map(id, chosen))
        if name not in self._databases:
            self._databases[name] = _Database.of(triple for publication in chosen for triple in publication.triples)
        return self._databases[name]

