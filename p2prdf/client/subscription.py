"""A subscription: solutions to iterate over, acknowledge and resume from."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, Self

from p2prdf import hlc
from p2prdf.client.solutions import Batch, Solution
from p2prdf.client.token import Token
from p2prdf.columns import as_list
from p2prdf.errors import LocalProtocolError, P2PRDFError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from p2prdf.client.ledger import Ledger
    from p2prdf.rdf.dictionary import TermNames
    from p2prdf.wire import messages

__all__ = ["Subscription"]

BOOKMARK_SECONDS: Final = 1.0
"""How long to wait for the rest of a change: a node may wait for acknowledgements (setting ``solutions_window``)."""
ACKNOWLEDGE_EVERY: Final = 256
"""Automatic acknowledgements are sent after this many solutions, and when no solution is waiting."""


class SubscriptionClient(Protocol):
    """The client's methods that a subscription calls."""

    def acknowledge(self, subscription: Subscription, identities: list[int]) -> None:
        """Acknowledge solutions at the node."""
        ...

    async def unsubscribe(self, subscription: int) -> None:
        """End a subscription."""
        ...


class Subscription:
    """Solutions of a standing query: ``async for solution in subscription``.

    ``id``: its number. ``names``: projected names. ``since``: publications from this time on count (seconds
    since the epoch). ``order``: the patterns in order of evaluation. ``opened``: when the coordinator opened
    it, by the coordinator's clock (seconds since the epoch; 0 for a resumed subscription). ``settled``: whether
    it has settled delivery; False if it was resumed by its number, which does not tell.

    At most some 16,000 solutions are in flight unacknowledged; further ones wait at the coordinator.
    """

    def __init__(
        self, client: SubscriptionClient, number: int, names: tuple[str, ...], since: float, order: tuple[int, ...],
        ledger: Ledger, *, opened: float = 0.0, query_mark: int = 0, auto_acknowledge: bool = True,
        bookmarks: bool = False, hurry: bool = False, settled: bool = False,
    ):  # fmt: skip
        self.id = number
        self.names = names
        self.since = since
        self.order = order
        self.ledger = ledger
        self.opened = opened
        self.query_mark = query_mark
        self.bookmarks = bookmarks
        self.settled = settled
        self.hurry = hurry
        self.bookmark: float | None = None
        """The bookmark of the last batch that had one, in seconds since the epoch (:class:`Batch`)."""
        self._client = client
        self._auto = auto_acknowledge
        self._batches: deque[Batch] = deque()
        self._current: Batch | None = None
        self._row = 0
        self._gathered: list[Batch] = []
        """Batches of a change that no bookmark follows yet; they count as not delivered."""
        self._lost_before = 0
        self._changed = asyncio.Event()
        self._ended = False
        self._error: P2PRDFError | None = None

    @property
    def acknowledged(self) -> int:
        """Sequence number of the last acknowledged solution."""
        return self.ledger.acknowledged

    @property
    def lost(self) -> int:
        """Number of solutions dropped so far because the subscriber was too slow.

        :attr:`Batch.gap` and :attr:`Solution.gap` tell where.
        """
        return self.ledger.lost

    @property
    def waiting(self) -> bool:
        """Whether received solutions are waiting, so that the next one is available at once."""
        return any(map(len, self._batches)) or (self._current is not None and self._row < len(self._current))

    @property
    def unstable(self) -> int:
        """Number of delivered solutions that are not yet stable; a resume token names them.

        A solution is stable when all replicas know its acknowledgement.
        """
        return len(self.ledger.unstable)

    def acknowledge(self, sequence: int | None = None) -> None:
        """Acknowledge every solution up to ``sequence``, by default up to the last one delivered.

        Acknowledged solutions are never delivered again. For exactly-once processing, store the :meth:`token`
        first.
        """
        upto = self.ledger.delivered if sequence is None else sequence
        if upto > self.ledger.delivered:
            raise LocalProtocolError(f"solution {upto} is not delivered yet; the last one is {self.ledger.delivered}")
        done = self.ledger.acknowledge(upto)
        if done:
            self._client.acknowledge(self, done)

    def token(self) -> bytes:
        """Return the resume token of all solutions delivered so far.

        Store it in one transaction with the effects of these solutions. A client that attaches with it, at any
        node, continues exactly there, without loss or repetition, also after a crash of this process. This
        needs ``auto_acknowledge=False``, and acknowledgements only of solutions stored. The token has 61 bytes,
        and eight for each delivered solution that is not stable (:attr:`unstable`).
        """
        ledger = self.ledger
        return Token(
            self.query_mark, self.id, ledger.delivered, ledger.lost, tuple(ledger.unstable), self.settled
        ).encode()

    async def unsubscribe(self) -> None:
        """End the subscription."""
        await self._client.unsubscribe(self.id)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Solution:
        if self._auto and self.ledger.delivered - self.ledger.acknowledged >= ACKNOWLEDGE_EVERY:
            self.acknowledge()
        while self._current is None or self._row >= len(self._current):
            if self._auto and not self._batches:
                self.acknowledge()
            self._current, self._row = await self._next_batch(), 0
            self._lost_before += self._current.lost
        solution = self._current.solution(self._row)
        solution.lost, self._lost_before = self._lost_before, 0
        self._row += 1
        self.ledger.deliver(solution.sequence, solution.lost)
        return solution

    async def batches(self, *, solutions_max: int = 1 << 30) -> AsyncGenerator[Batch, None]:
        """Yield solutions in batches as they arrived; a batch is acknowledged when the next one is requested.

        ``solutions_max``: larger batches are split, and each part has a token of its own. A batch without
        solutions reports a loss that no solution has followed yet, or a bookmark.
        """
        while True:
            batch: Batch | None
            if self._current is not None and (batch := self._current.since(self.ledger.delivered)) is not None:
                self._current = None
            else:
                try:
                    batch = await self._next_batch()
                except StopAsyncIteration:
                    return
            if len(batch) > solutions_max:
                self._current, batch = batch, batch.head(solutions_max)
                self._row = len(batch)
            self.ledger.deliver(batch.last, batch.lost)
            yield batch
            if self._auto and len(batch):
                self.acknowledge(batch.last)

    async def until_bookmark(self, *, solutions_max: int) -> list[Batch]:
        """Return the batches up to the next bookmark; those before it if they have ``solutions_max`` solutions.

        Without it also the batches after which nothing arrived for a second. Raises StopAsyncIteration at the end.
        """
        while self._incomplete(solutions_max):
            try:
                async with asyncio.timeout(BOOKMARK_SECONDS if self._gathered else None):
                    batch = await self._next_batch()
            except TimeoutError:
                break
            self._gathered.append(batch)
        gathered, self._gathered = self._gathered, []
        for batch in gathered:
            self.ledger.deliver(batch.last, batch.lost)
        return gathered

    def put_back_gathered(self, batches: list[Batch]) -> None:
        """Take back the last result of :meth:`until_bookmark`, which did not reach the application."""
        self._gathered = batches + self._gathered
        self.ledger.deliver(batches[0].first - batches[0].lost - 1, -sum(batch.lost for batch in batches))

    def _incomplete(self, solutions_max: int) -> bool:
        gathered = self._gathered
        return not gathered or (gathered[-1].bookmark is None and sum(map(len, gathered)) < solutions_max)

    def put_back(self, taken: Solution | Batch) -> None:
        """Take back the item delivered last, which did not reach the application; the next call delivers it again.

        Ignored if a reconnection has come between: the coordinator sends unacknowledged solutions again.
        """
        if isinstance(taken, Batch):
            first = taken.first
            self._current = self._current or taken
            self._row = first - self._current.first
        elif self._current is None:
            return
        else:
            first, self._lost_before = taken.sequence, taken.lost
            self._row -= 1
        self.ledger.deliver(first - taken.lost - 1, -taken.lost)

    async def _next_batch(self) -> Batch:
        while not self._batches:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        batch = self._batches.popleft()
        if batch.bookmark is not None:
            self.bookmark = batch.bookmark
        return batch

    # --- called by the client --------------------------------------------------------------------

    def take(self, rows: messages.ClientRows, terms: TermNames) -> None:
        """Take in received solutions; drop repeated ones, and acknowledge those again that need it."""
        first, places, again = self.ledger.take(as_list(rows.identity), as_list(rows.born), rows.lost)
        if again:
            self._client.acknowledge(self, again)
        if not places and not rows.lost:
            return
        columns = [as_list(column) for column in rows.bindings] or [[] for _ in self.names]
        identities, born = as_list(rows.identity), as_list(rows.born)
        if len(places) < len(identities):
            columns = [[column[place] for place in places] for column in columns]
            identities, born = ([each[place] for place in places] for each in (identities, born))
        texts = tuple(terms.texts(column) for column in columns)
        self._batches.append(Batch(self.names, first, rows.lost, identities, born, texts))
        self._changed.set()

    def take_bookmark(self, stamp: int) -> None:
        """Take in a bookmark; it replaces a queued one without solutions in between.

        A new node may begin with an earlier bookmark than the last one; it is ignored. It counts if the last
        one lies in the future: nodes with fast clocks reported it, and nodes with correct clocks go on.
        """
        last = self.bookmark
        if last is not None and hlc.seconds(stamp) <= last and not hlc.is_ahead(last, time.time()):
            return
        if self._batches and not len(self._batches[-1]) and not self._batches[-1].lost:
            self._batches.pop()
        nothing: tuple[list[str], ...] = tuple([] for _ in self.names)
        seconds = hlc.seconds(stamp)
        self._batches.append(Batch(self.names, self.ledger.taken + 1, 0, [], [], nothing, seconds, stamp))
        self._changed.set()

    def attached_again(self, opened: float) -> None:
        """Note the opening time, which is earlier than first reported if the coordinator's clock was ahead."""
        self.opened = min(self.opened, opened)

    def start_over(self) -> None:
        """Forget solutions that are not delivered yet: a coordinator sends them again."""
        self._batches.clear()
        self._gathered.clear()
        self._current = None
        self._lost_before = 0
        self.ledger.forget_queued()

    def end(self, error: P2PRDFError | None) -> None:
        """End the iteration after the solutions already received, with or without an error."""
        self._ended = True
        self._error = error
        self._changed.set()
