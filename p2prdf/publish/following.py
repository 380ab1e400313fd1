"""A subscription read in repeatable batches: the basis of a Spark streaming source.

After a crash Spark may compute a batch again and expects the same rows, but unacknowledged solutions arrive
again in any order, mixed with new ones. The end of a batch is therefore a resume token
(:mod:`p2prdf.client.token`), taken when the batch's rows are delivered and none of them is acknowledged. The
batch consists of the identities in it that are not in the token of its beginning. To repeat a batch, the reader
attaches with the token of the beginning and keeps the solutions with these identities. To continue the stream,
it attaches with the token of the end and receives the others. Rows are acknowledged when Spark commits their
batch. With settled delivery a batch ends at a mark, whose time is in its position. All state is in Spark's own log.

One thread calls the stream; the client runs in an event loop in another thread.
docs/explanation/design/spark.md gives the alternatives.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import struct
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from p2prdf import hlc
from p2prdf.client.client import connect
from p2prdf.client.token import Token
from p2prdf.errors import LocalProtocolError, TokenRefused, Unavailable
from p2prdf.wire.messages import WITHDRAWN

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.solutions import Batch, Solution
    from p2prdf.client.subscription import Subscription
    from p2prdf.publish.read_options import ReadOptions

__all__ = ["BEGINNING", "Follower", "Row"]

BEGINNING: Final = ""
"""The beginning of a stream that was never read; its first read makes the subscription."""

_WAIT_SECONDS: Final = 0.05
"""Wait for a first solution; Spark asks again at once."""
_MARK_SECONDS: Final = 2.0
"""Longest wait for the mark behind many unacknowledged rows: nodes may wait for acknowledgements before it."""
_MANY_ROWS: Final = 4096
_GOODBYE_SECONDS: Final = 5.0

T = TypeVar("T")


class Row(NamedTuple):
    """A solution, or the retraction of one (``removed``).

    ``born``: publication time of its newest triple, or time of the deletion, in seconds since the epoch. A
    repeated solution that is retracted by then has the latter.
    """

    terms: tuple[str | None, ...]
    removed: bool
    born: float


class Follower:
    """A subscription as a sequence of batches; positions between them are texts."""

    def __init__(self, options: ReadOptions):
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._at = BEGINNING
        """The position of the subscription."""
        self._read: dict[str, tuple[str, list[Row]]] = {}
        """By their ends: the beginnings and rows of batches that were read and are not committed."""
        self._ends_now = False
        self._until: float | None = None
        """Read everything that is true at this time, then end; None: the stream has no end."""
        self._ended = False

    # --- called by a stream ----------------------------------------------------------------------

    def advance(self, start: str, rows_max: int | None) -> str:
        """Read on from a position; return the new position, or ``start`` if no row has arrived.

        A stream that is to end waits until a row arrives or the end is reached. Raises the errors of
        subscribing, SubscriptionGone if the subscription was ended or its lease ran out, Unavailable for lost
        solutions.
        """
        return self._run(self._advance(start, rows_max))

    def rows(self, start: str, end: str) -> list[Row]:
        """Return the rows between two positions, in the order of their first arrival.

        Raises Unavailable if some do not arrive again, TokenRefused for invalid positions.
        """
        if start == end:
            return []
        begun, rows = self._read.get(end, (None, []))
        return rows if begun == start else self._run(self._read_again(start, end))

    @staticmethod
    def mark(end: str) -> float | None:
        """Return the time as of which all rows before a position are a state of the graph; None: they are none."""
        parts = _bytes(end)
        return float(struct.unpack(">d", parts[2])[0]) if len(parts) > 2 else None

    def done(self, end: str) -> None:
        """Commit everything before a position."""
        self._run(self._done(end))

    def end_now(self) -> None:
        """End the stream after everything that is true at the next read, by the node's clock.

        The local clock could be wrong: a stream that ends at a local time would wait until the nodes' clocks
        reach it.
        """
        self._ends_now = True

    def close(self) -> None:
        """Close the connection.  The subscription stays until its lease runs out."""
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
        if subscription.settled:
            rows, mark = await self._collect_state(subscription, rows_max)
        else:
            rows, mark = await self._collect(subscription, rows_max), None
        if not rows and start != BEGINNING:
            return start
        known = set(_token(start).unstable) if start != BEGINNING else set()
        token = subscription.token()
        others = [each for each in subscription.ledger.unstable if each not in known and each not in rows]
        self._at = _text(token, others, mark)
        self._read[self._at] = (start, list(rows.values()))
        return self._at

    async def _collect(self, subscription: Subscription, rows_max: int | None) -> dict[int, Row]:
        """Return the rows that have arrived, by the identities in tokens."""
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

    async def _collect_state(
        self, subscription: Subscription, rows_max: int | None
    ) -> tuple[dict[int, Row], float | None]:
        """Return the rows up to a mark, and its time; None if the mark has more rows than may come at once."""
        rows: dict[int, Row] = {}
        while True:
            room = 1 << 30 if rows_max is None else rows_max - len(rows)
            patience = _MARK_SECONDS if subscription.unstable >= _MANY_ROWS else self._options.timeout_seconds
            try:
                async with asyncio.timeout(patience if rows else _WAIT_SECONDS):
                    batch = await _next_batch(subscription, max(1, room))
            except TimeoutError:
                if rows or self._until is None:
                    return rows, None
                continue
            if len(batch) and room <= 0:
                subscription.put_back(batch)
                return rows, None
            for solution in batch:
                rows[_identity(solution)] = _row(solution)
            if batch.bookmark is not None:
                self._ended = not rows and self._is_at_end(subscription)
                if rows or self._ended:
                    return rows, batch.bookmark

    def _is_at_end(self, subscription: Subscription) -> bool:
        return self._until is not None and subscription.bookmark is not None and subscription.bookmark > self._until

    def _check_lost(self, solution: Solution) -> None:
        if solution.lost and self._options.fail_on_loss:
            raise Unavailable(
                f"the coordinator dropped {solution.lost} solutions before they were read; "
                "with failOnDataLoss = false the stream continues without them"
            )

    async def _go_to(self, place: str) -> None:
        """Subscribe, or attach at a position."""
        client = await self._connected()
        options = self._options
        if place == BEGINNING:
            self._subscription = await client.subscribe(
                options.query, algorithm=options.algorithm, lease_seconds=options.lease_seconds, since=options.since,
                auto_acknowledge=False, bookmarks=True, settled=options.settled,
            )  # fmt: skip
        else:
            self._subscription = await client.attach(
                _bytes(place)[0], query=options.query, algorithm=options.algorithm, auto_acknowledge=False,
                bookmarks=True,
            )  # fmt: skip
        if options.settled not in (None, self._subscription.settled):
            raise LocalProtocolError(
                "option settled: the checkpoint belongs to a stream with the other value; use the former value, or"
                " another checkpointLocation"
            )
        self._at = place

    async def _connected(self) -> Client:
        """Return a new client: a second attachment of the same client would end the first."""
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
        """Attach at the beginning of a batch, and wait for its rows."""
        after, others = _token(end), _others(end)
        before = Token(after.query, after.subscription, 0, 0, ())
        if start != BEGINNING:
            before = _token(start)
            if before.subscription != after.subscription:
                raise TokenRefused("a batch that begins in one subscription and ends in another")
        wanted = dict.fromkeys(after.unstable)
        for identity in (*before.unstable, *others):
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
                    # An unacknowledged solution does not arrive again itself once it is retracted.
                    found[solution.identity] = _row(solution)._replace(removed=False)
                if (identity := _identity(solution)) in wanted:
                    found[identity] = _row(solution)
        except TimeoutError:
            if self._options.fail_on_loss:
                raise Unavailable(
                    f"{len(wanted) - len(found)} of {len(wanted)} solutions of a batch did not arrive again within "
                    f"{self._options.timeout_seconds:g} s"
                ) from None
        finally:
            await self._let_go()
        rows = [found[identity] for identity in wanted if identity in found]
        self._read[end] = (start, rows)
        return rows

    async def _done(self, end: str) -> None:
        self._read.pop(end, None)
        subscription, delivered = self._subscription, _token(end).delivered
        if subscription is not None and delivered <= subscription.ledger.delivered:
            subscription.acknowledge(delivered)


async def _next(subscription: Subscription) -> Solution:
    try:
        return await anext(subscription)
    except StopAsyncIteration:
        raise Unavailable("the stream's subscription was ended") from None


async def _next_batch(subscription: Subscription, solutions_max: int) -> Batch:
    async with contextlib.aclosing(subscription.batches(solutions_max=solutions_max)) as batches:
        try:
            return await anext(batches)
        except StopAsyncIteration:
            raise Unavailable("the stream's subscription was ended") from None


def _row(solution: Solution) -> Row:
    return Row(solution.terms, solution.removed, solution.born)


def _identity(solution: Solution) -> int:
    return solution.identity ^ (WITHDRAWN if solution.removed else 0)


def _text(token: bytes, others: list[int], mark: float | None) -> str:
    """Return a position.  ``others``: identities in its token besides the batch and earlier batches.

    They belong to solutions that were retracted before they were read.  ``mark``: the mark that the batch ends at.
    """
    parts = [token, struct.pack(f">{len(others)}Q", *others)] if others or mark is not None else [token]
    if mark is not None:
        parts.append(struct.pack(">d", mark))
    return ".".join(base64.b64encode(part).decode("ascii") for part in parts)


def _bytes(place: str) -> list[bytes]:
    try:
        return [base64.b64decode(part, validate=True) for part in place.split(".")]
    except (binascii.Error, ValueError):
        raise TokenRefused(f"{place[:40]!r} is not a position in a stream") from None


def _token(place: str) -> Token:
    return Token.decode(_bytes(place)[0])


def _others(place: str) -> list[int]:
    return [each for part in _bytes(place)[1:2] for (each,) in struct.iter_unpack(">Q", part)]
