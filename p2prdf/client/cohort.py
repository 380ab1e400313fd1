"""A cohort: several standing queries with settled delivery that advance together, from one stamp to the next.

The node makes one query of all members (:func:`p2prdf.rdf.standing.settling.cohort_query`), so the cohort has one
subscription, one mark, one resume token and one end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from p2prdf.client.solutions import Solution
from p2prdf.client.token import canonical_query, query_mark
from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.rdf.python_values import python_value
from p2prdf.rdf.standing.settling import COHORT_MAX, cohort_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.client.solutions import Batch
    from p2prdf.client.subscription import Subscription

__all__ = ["Advance", "Cohort", "check_cohort", "cohort_mark"]

PART_MAX: Final = 4096
"""Solutions of an advance after which it is divided: nodes deliver only so many unacknowledged ones."""


@dataclass(frozen=True, slots=True)
class Advance:
    """The changes of all members between two marks.

    ``changes``: for each query in order its new and retracted solutions (:attr:`Solution.removed`).
    ``stamp``: the mark. With these changes, the solutions of each query that are not retracted are its answer to the
    graph as of this stamp. 0: a part of a change of more than some 4,000 solutions; the next advance continues it.
    ``time``: the time of the mark in seconds since the epoch; None without mark.
    """

    changes: tuple[tuple[Solution, ...], ...]
    stamp: int
    time: float | None


class Cohort:
    """Several queries with one settled subscription: ``async for advance in cohort``.

    ``names``: for each query the names of its columns. An advance is acknowledged when the next one is requested,
    unless the cohort was made with ``auto_acknowledge=False``; then call :meth:`acknowledge`.
    """

    def __init__(self, subscription: Subscription, *, auto_acknowledge: bool):
        """``subscription``: of the common query, without automatic acknowledgements.  Raises QueryRefused."""
        self.names = cohort_names(subscription.names)
        self._subscription = subscription
        self._auto = auto_acknowledge
        self._batches: list[Batch] = []
        """Of the last advance."""

    @property
    def id(self) -> int:
        """Number of the subscription."""
        return self._subscription.id

    @property
    def time(self) -> float | None:
        """The last mark in seconds since the epoch; None: there was none."""
        return self._subscription.bookmark

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Advance:
        if self._auto:
            self.acknowledge()
        self._batches = await self._subscription.until_bookmark(solutions_max=PART_MAX)
        return self._advance(self._batches)

    def _advance(self, batches: list[Batch]) -> Advance:
        changes: list[list[Solution]] = [[] for _ in self.names]
        for batch in batches:
            for row in batch:
                member: Any = python_value(row.terms[-1] or "")
                names = self.names[member]
                changes[member].append(
                    Solution(
                        names, row.terms[: len(names)], sequence=row.sequence, identity=row.identity, born=row.born,
                        lost=row.lost, removed=row.removed,
                    )
                )
        return Advance(tuple(map(tuple, changes)), batches[-1].bookmark_stamp, batches[-1].bookmark)

    def put_back(self, _: Advance) -> None:
        """Take back the last advance, which did not reach the application; the next request returns it again.

        Until then a token and an acknowledgement do not cover it.
        """
        self._subscription.put_back_gathered(self._batches)

    def acknowledge(self) -> None:
        """Acknowledge all advances so far: their solutions are never delivered again."""
        self._subscription.acknowledge()

    def token(self) -> bytes:
        """Return the resume token of all members, for :meth:`p2prdf.client.Client.cohort`.

        It covers all advances so far: store it in one transaction with their effects
        (:meth:`p2prdf.client.Subscription.token`).
        """
        return self._subscription.token()

    async def unsubscribe(self) -> None:
        """End the subscription of all members."""
        await self._subscription.unsubscribe()


def check_cohort(queries: Sequence[str]) -> None:
    """Raise QueryRefused or LocalProtocolError if queries are no cohort."""
    if isinstance(queries, str) or not all(isinstance(each, str) for each in queries):
        raise LocalProtocolError("the queries of a cohort are separate arguments, each a text")
    if not 0 < len(queries) <= COHORT_MAX:
        raise QueryRefused(f"a cohort of {len(queries)} queries: it has 1 to {COHORT_MAX}", construct="query size")


def cohort_mark(queries: Sequence[str], algorithm: str) -> int:
    """Return a number, never 0, that distinguishes tokens of this cohort from those of other queries."""
    return query_mark(repr(tuple(map(canonical_query, queries))), algorithm, per_event=False)
