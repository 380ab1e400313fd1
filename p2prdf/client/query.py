"""One-time queries: what a query answers over all that is published and not removed.

The idea.  A standing query that counts triples from the beginning on first gets the answers over what is stored, and a
bookmark (:attr:`p2prdf.client.Batch.bookmark`) tells when they are all there, the first one after it was left.  So a
one-time query is one that is left, read up to that bookmark, and ended.  It is as exact as a standing query, also
while nodes come, go and fail, and takes as long as a bookmark that is asked for in a hurry.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from p2prdf.client.solutions import Bindings
from p2prdf.errors import P2PRDFError, Unavailable
from p2prdf.rdf.ordering import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from p2prdf.client.client import Client
    from p2prdf.client.subscription import Subscription

__all__ = ["Result", "answer_once", "end"]

_LEASE_SECONDS: Final = 30.0
_GOODBYE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Result:
    """What a query answered.

    ``names``: of its columns; of ASK none, of CONSTRUCT those of subject, predicate and object.  ``rows``: canonical
    terms, None where a variable is unbound; of ASK one row without columns if it is true, else none.
    Iterating yields each row as :class:`p2prdf.client.Bindings`, which have values of Python and terms of pyoxigraph.
    ``as_of``: all that was published up to this time counts (seconds since the epoch).
    """

    names: tuple[str, ...]
    rows: list[tuple[str | None, ...]]
    as_of: float

    def __bool__(self) -> bool:
        """Return whether there is any answer."""
        return bool(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Bindings]:
        return (Bindings(self.names, row) for row in self.rows)


async def answer_once(client: Client, query: str, *, algorithm: str, timeout_seconds: float) -> Result:
    """Answer a query once; as :meth:`p2prdf.client.Client.query`."""
    try:
        async with asyncio.timeout(timeout_seconds):
            subscription = await client.subscribe(
                query, algorithm=algorithm, lease_seconds=_LEASE_SECONDS, bookmarks=True, since="beginning", alone=True,
                hurry=True, ordered=True, once=True,
            )  # fmt: skip
            try:
                return await _read(subscription)
            finally:
                await end(client, subscription)
    except TimeoutError:
        raise Unavailable(f"the query was not answered within {timeout_seconds:g} s") from None


async def _read(subscription: Subscription) -> Result:
    rows: dict[int, tuple[str | None, ...]] = {}
    async for batch in subscription.batches():
        if batch.lost:
            raise Unavailable(f"{batch.lost} answers were dropped at the query's home: there are too many")
        for solution in batch:
            if solution.removed:
                rows.pop(solution.identity, None)
            else:
                rows[solution.identity] = solution.terms
        if batch.bookmark is not None and batch.bookmark > subscription.opened:
            return Result(*in_order(subscription.names, rows.values()), batch.bookmark)
    raise Unavailable("the subscription of the query has ended")


async def end(client: Client, subscription: Subscription) -> None:
    """End a subscription that was read to its end, as far as that can be."""
    with contextlib.suppress(P2PRDFError, TimeoutError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await client.unsubscribe(subscription.id)
