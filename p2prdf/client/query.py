"""One-time queries: the results of a query over all triples published and not deleted.

For a client a one-time query is a standing query from the beginning, read up to the first bookmark
(:attr:`p2prdf.client.Batch.bookmark`) after its registration and ended. The node of the client reads and joins
the triples itself if they are few, and keeps nothing; otherwise the overlay evaluates a standing query. If the node
is lost before the bookmark, the query is gone, and the client asks it again at another node.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from p2prdf import hlc
from p2prdf.client.solutions import Bindings
from p2prdf.client.tables import arrow_table, data_frame
from p2prdf.errors import LocalProtocolError, P2PRDFError, StampRefused, SubscriptionGone, Unavailable
from p2prdf.rdf.ordering import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from p2prdf.client.client import Client
    from p2prdf.client.cohort import Cohort
    from p2prdf.client.subscription import Subscription
    from p2prdf.client.tables import DataFrame, Table

__all__ = ["Result", "answer_once", "answer_together", "check_after", "end"]

_LEASE_SECONDS: Final = 30.0
_GOODBYE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.05
"""Seconds until a query is asked again that is gone."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a one-time query.

    ``names``: names of the columns; none for ASK, those of subject, predicate and object for CONSTRUCT.
    ``rows``: canonical terms, None where a variable is unbound; for a true ASK one row without columns.
    Iterating yields each row as :class:`p2prdf.client.Bindings`, with Python values and pyoxigraph terms.
    ``as_of``: all publications up to this time count (seconds since the epoch). ``stamp``: the exact stamp of that
    time, which a conditional transaction takes (:meth:`p2prdf.client.Client.transaction`); 0: unknown.
    """

    names: tuple[str, ...]
    rows: list[tuple[str | None, ...]]
    as_of: float
    stamp: int = 0

    def __bool__(self) -> bool:
        """Return whether there is any row."""
        return bool(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Bindings]:
        return (Bindings(self.names, row) for row in self.rows)

    def to_arrow(self, *, native: bool = True) -> Table:
        """Return the result as a ``pyarrow.Table``, with null where a variable is unbound.

        A column is text in N-Triples form, or, if all its terms are literals of one datatype, of the Arrow type
        for it: integers, decimals, floats, doubles, booleans, dateTimes, dates and strings. The metadata of the
        field names the datatype. A column with a value that the type cannot hold exactly is text.
        ``native``: False: all columns are text in N-Triples form, so the types do not depend on the data.

        Raises LocalProtocolError if pyarrow (extra ``arrow``) is not installed, or for a result without columns.
        """
        return arrow_table(self.names, self.rows, native=native)

    def to_pandas(self, *, native: bool = True) -> DataFrame:
        """Return the result as a ``pandas.DataFrame``, with the column types of :meth:`to_arrow`.

        Integers and booleans with unbound rows are ``Int64`` and ``boolean``, decimals are objects.

        Raises LocalProtocolError if pandas (extra ``arrow``) is not installed, or for a result without columns.
        """
        return data_frame(self.to_arrow(native=native))


async def answer_once(
    client: Client, query: str, *, algorithm: str, timeout_seconds: float, of_seconds: float | None = None,
    rows_max: int | None = None, exact: bool = False,
) -> Result:  # fmt: skip
    """Answer a query once; see :meth:`p2prdf.client.Client.query`.

    ``of_seconds``: the timeout of which ``timeout_seconds`` are left, as errors name it.
    ``rows_max``: stop reading when there are so many rows; the result is then incomplete.
    ``exact``: ask again until no row is later than the bookmark: nothing after the stamp counts.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            result: Result | None = None
            while result is None:
                subscription = await client.subscribe(
                    query, algorithm=algorithm, lease_seconds=_LEASE_SECONDS, bookmarks=True, since="beginning",
                    alone=True, hurry=True, ordered=True, once=True,
                )  # fmt: skip
                try:
                    result = await _read(subscription, rows_max, exact=exact)
                except SubscriptionGone:  # its node was lost, and no other one keeps a query that it reads itself
                    await asyncio.sleep(_AGAIN_SECONDS)
                finally:
                    await end(client, subscription)
            return result
    except TimeoutError:
        raise Unavailable(f"the query was not answered within {of_seconds or timeout_seconds:g} s") from None


async def _read(subscription: Subscription, rows_max: int | None, *, exact: bool) -> Result | None:
    """Return the result; None: a row is later than the bookmark, and ``exact`` is wanted."""
    rows: dict[int, tuple[str | None, ...]] = {}
    latest = 0
    async for batch in subscription.batches():
        if batch.lost:
            raise Unavailable(f"the coordinator dropped {batch.lost} solutions: too many for this client")
        for solution in batch:
            if solution.removed:
                rows.pop(solution.identity, None)
            else:
                rows[solution.identity] = solution.terms
        if rows_max is not None and len(rows) >= rows_max:
            return Result(*in_order(subscription.names, rows.values()), subscription.opened)
        latest = max(latest, *batch.stamps) if exact and len(batch) else latest
        if batch.bookmark is not None and batch.bookmark > subscription.opened:
            if batch.bookmark_stamp < latest:
                return None
            whole = in_order(subscription.names, rows.values())
            return Result(*whole, batch.bookmark, batch.bookmark_stamp)
    raise Unavailable("the subscription of the query has ended")


def check_after(after: int) -> None:
    """Raise LocalProtocolError if ``after`` is no stamp, StampRefused if it lies in the future."""
    if isinstance(after, bool) or not 0 <= after < hlc.ELEMENT:
        raise LocalProtocolError(f"after={after} is no stamp; give the stamp of a transaction or of a result")
    if hlc.is_ahead(hlc.seconds(after), time.time()):
        reason = f"is more than {hlc.DRIFT_MAX_SECONDS:g} s ahead of this clock: compare the clocks of both sides"
        raise StampRefused(f"after={after}, {hlc.shown(after)}, {reason}")


async def answer_together(
    client: Client, queries: Sequence[str], *, after: int, algorithm: str, timeout_seconds: float
) -> list[Result]:
    """Answer several queries at one stamp; see :meth:`p2prdf.client.Client.snapshot`."""
    try:
        async with asyncio.timeout(timeout_seconds):
            cohort = await client.cohort(*queries, algorithm=algorithm, lease_seconds=_LEASE_SECONDS, once=True)
            try:
                return await _read_together(cohort, after)
            finally:
                await end(client, cohort)
    except TimeoutError:
        raise Unavailable(f"the queries were not answered within {timeout_seconds:g} s") from None


async def _read_together(cohort: Cohort, after: int) -> list[Result]:
    rows: list[dict[int, tuple[str | None, ...]]] = [{} for _ in cohort.names]
    async for advance in cohort:
        for held, changes in zip(rows, advance.changes, strict=True):
            for solution in changes:
                if solution.removed:
                    held.pop(solution.identity, None)
                else:
                    held[solution.identity] = solution.terms
        if advance.time is not None and advance.stamp >= after:
            found = zip(cohort.names, rows, strict=True)
            return [Result(names, list(held.values()), advance.time, advance.stamp) for names, held in found]
    raise Unavailable("the subscription of the queries has ended")


async def end(client: Client, subscription: Subscription | Cohort) -> None:
    """End a subscription that is no longer needed; ignore failures, since its lease ends it, too."""
    with contextlib.suppress(P2PRDFError, TimeoutError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await client.unsubscribe(subscription.id)
