"""One subscription read batch by batch, each of which can be read again: what a stream of Spark is made of.

The problem.  Spark notes where a batch ends before it computes it, and that it is done afterwards.  Killed in between
it computes the batch once more, and expects the same rows; so do sinks that know batches by number.  But answers have
no order that one could go back in: whatever is not acknowledged comes again, in any order, and mixed with new ones.

The idea.  The end of a batch is a resume token (:mod:`p2prdf.client.token`), taken when its rows have been given out
and none of them acknowledged.  So the identities in it that are not in the token of its beginning are the batch.  Who
reads it again attaches with the beginning's token and keeps what these identities name; the rest comes again to who
attaches with the end's token, which is how the stream goes on.  Rows are acknowledged when Spark says that their batch
is done.  Nothing is kept here that is not in Spark's own log.

A stream is read by calls from one thread, the client lives in a loop of its own in another.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import struct
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from p2prdf import hlc
from p2prdf.client.client import connect
from p2prdf.client.token import Token
from p2prdf.errors import TokenRefused, Unavailable
from p2prdf.wire.messages import WITHDRAWN

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.solutions import Solution
    from p2prdf.client.subscription import Subscription
    from p2prdf.publish.read_options import ReadOptions

__all__ = ["BEGINNING", "Follower", "Row"]

BEGINNING: Final = ""
"""Where a stream begins that has not been read yet: its subscription is made when it is."""

_WAIT_SECONDS: Final = 0.05
"""For a first answer; Spark asks again at once."""
_GOODBYE_SECONDS: Final = 5.0

T = TypeVar("T")


class Row(NamedTuple):
    """An answer, or that one is not true any more (``removed``).

    ``born``: when its latest triple was published, or it was removed, in seconds since the epoch.  Of an answer that is
    read again, and is not true any more by then, the latter.
    """

    terms: tuple[str | None, ...]
    removed: bool
    born: float


class Follower:
    """A subscription as a sequence of batches; places between them are texts."""

    def __init__(self, options: ReadOptions):
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._at = BEGINNING
        """Where the subscription is."""
        self._read: dict[str, tuple[str, list[Row]]] = {}
        """By their ends: where batches that were read, and are not done, begin, and their rows."""
        self._ends_now = False
        self._until: float | None = None
        """All that is true at this time is to be read, and then no more; None: the stream has no end."""
        self._ended = False

    # --- what a stream calls ---------------------------------------------------------------------

    def advance(self, start: str, rows_max: int | None) -> str:
        """Read on from a place; return the place behind what has come, or ``start`` if nothing has.

        A stream that is to end waits until something has come or it has ended.  Raises what subscribing raises,
        SubscriptionGone if the subscription was ended or its lease has run out, Unavailable for answers that are lost.
        """
        return self._run(self._advance(start, rows_max))

    def rows(self, start: str, end: str) -> list[Row]:
        """Return the rows between two places, in the order in which they came first.

        Raises Unavailable if some do not come again, TokenRefused for places that are none.
        """
        if start == end:
            return []
        begun, rows = self._read.get(end, (None, []))
        return rows if begun == start else self._run(self._read_again(start, end))

    def done(self, end: str) -> None:
        """Note that everything before a place is done, for good."""
        self._run(self._done(end))

    def end_now(self) -> None:
        """Let the stream end when all has been read that is true when it is read next, by the node's clock.

        The own clock may be wrong: a stream that is to end at a time of it would wait until the nodes' clocks show it.
        """
        self._ends_now = True

    def close(self) -> None:
        """End the connection.  The subscription stays, as long as its lease says."""
        if self._loop is None:
            return
        self._run(self._let_go())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = None

    # --- in the loop -----------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="p2prdf reading", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _advance(self, start: str, rows_max: int | None) -> str:
        if self._ended:
            return start
        if self._subscription is None or self._at != start:
            await self._go_to(start)
        subscription = self._subscription
        assert subscription is not None
        if self._ends_now and self._until is None:
            assert self._client is not None
            self._until = hlc.seconds(await self._client.stamp())
        rows = await self._collect(subscription, rows_max)
        if not rows and start != BEGINNING:
            return start
        known = set(_token(start).unsettled) if start != BEGINNING else set()
        token = subscription.token()
        others = [each for each in subscription.ledger.unsettled if each not in known and each not in rows]
        self._at = _text(token, others)
        self._read[self._at] = (start, list(rows.values()))
        return self._at

    async def _collect(self, subscription: Subscription, rows_max: int | None) -> dict[int, Row]:
        """Return what has come, by the identities that tokens know it by."""
        rows: dict[int, Row] = {}
        while rows_max is None or len(rows) < rows_max:
            if not subscription.waiting:
                self._ended = not rows and self._is_at_end(subscription)
                if rows or self._ended:
                    break
            try:
                async with asyncio.timeout(_WAIT_SECONDS):
                    solution = await _next(subscription)
            except TimeoutError:
                if self._until is None:
                    break
                continue
            self._check_lost(solution)
            rows[_identity(solution)] = _row(solution)
        return rows

    def _is_at_end(self, subscription: Subscription) -> bool:
        return self._until is not None and subscription.bookmark is not None and subscription.bookmark > self._until

    def _check_lost(self, solution: Solution) -> None:
        if solution.lost and self._options.fail_on_loss:
            raise Unavailable(
                f"{solution.lost} answers were dropped at the query's home before they were read; "
                "with failOnDataLoss = false the stream goes on without them"
            )

    async def _go_to(self, place: str) -> None:
        """Subscribe, or attach where the stream is."""
        client = await self._connected()
        options = self._options
        if place == BEGINNING:
            self._subscription = await client.subscribe(
                options.query, algorithm=options.algorithm, lease_seconds=options.lease_seconds, since=options.since,
                auto_acknowledge=False, bookmarks=True,
            )  # fmt: skip
        else:
            self._subscription = await client.attach(
                _bytes(place)[0], query=options.query, algorithm=options.algorithm, auto_acknowledge=False,
                bookmarks=True,
            )  # fmt: skip
        self._at = place

    async def _connected(self) -> Client:
        """Return a new client: an attachment of another one would be told that it was taken."""
        await self._let_go()
        options = self._options
        self._client = await connect(
            ",".join(options.peers), connect_seconds=options.connect_seconds,
            reconnect_seconds=options.reconnect_seconds, tls=options.tls,
        )  # fmt: skip
        return self._client

    async def _let_go(self) -> None:
        client, self._client, self._subscription = self._client, None, None
        if client is not None:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await client.close()

    async def _read_again(self, start: str, end: str) -> list[Row]:
        """Attach where a batch began, and wait for what is in it."""
        after, others = _token(end), _others(end)
        before = Token(after.query, after.subscription, 0, 0, ())
        if start != BEGINNING:
            before = _token(start)
            if before.subscription != after.subscription:
                raise TokenRefused("a batch that begins in one subscription and ends in another")
        wanted = dict.fromkeys(after.unsettled)
        for identity in (*before.unsettled, *others):
            wanted.pop(identity, None)
        client = await self._connected()
        subscription = await client.attach(
            before.encode(), query=self._options.query, algorithm=self._options.algorithm, auto_acknowledge=False,
            again=True,
        )  # fmt: skip
        found: dict[int, Row] = {}
        deadline = time.monotonic() + self._options.timeout_seconds
        try:
            while len(found) < len(wanted):
                async with asyncio.timeout(deadline - time.monotonic()):
                    solution = await _next(subscription)
                if solution.removed and solution.identity in wanted and solution.identity not in found:
                    # Once it is taken back, what was not acknowledged does not come any more itself.
                    found[solution.identity] = _row(solution)._replace(removed=False)
                if (identity := _identity(solution)) in wanted:
                    found[identity] = _row(solution)
        except TimeoutError:
            if self._options.fail_on_loss:
                raise Unavailable(
                    f"{len(wanted) - len(found)} of {len(wanted)} answers of a batch did not come again within "
                    f"{self._options.timeout_seconds:g} s"
                ) from None
        finally:
            await self._let_go()
        rows = [found[identity] for identity in wanted if identity in found]
        self._read[end] = (start, rows)
        return rows

    async def _done(self, end: str) -> None:
        self._read.pop(end, None)
        subscription, given = self._subscription, _token(end).given
        if subscription is not None and given <= subscription.ledger.given:
            subscription.acknowledge(given)


async def _next(subscription: Subscription) -> Solution:
    try:
        return await anext(subscription)
    except StopAsyncIteration:
        raise Unavailable("the stream's subscription has been ended") from None


def _row(solution: Solution) -> Row:
    return Row(solution.terms, solution.removed, solution.born)


def _identity(solution: Solution) -> int:
    return solution.identity ^ (WITHDRAWN if solution.removed else 0)


def _text(token: bytes, others: list[int]) -> str:
    """Return a place.  ``others``: what its token names beside the batch and what came before it.

    These are answers that were taken back before they were read.
    """
    parts = [token, struct.pack(f">{len(others)}Q", *others)] if others else [token]
    return ".".join(base64.b64encode(part).decode("ascii") for part in parts)


def _bytes(place: str) -> list[bytes]:
    try:
        return [base64.b64decode(part, validate=True) for part in place.split(".")]
    except (binascii.Error, ValueError):
        raise TokenRefused(f"{place[:40]!r} is no place in a stream") from None


def _token(place: str) -> Token:
    return Token.decode(_bytes(place)[0])


def _others(place: str) -> list[int]:
    return [each for part in _bytes(place)[1:] for (each,) in struct.iter_unpack(">Q", part)]
