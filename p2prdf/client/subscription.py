"""A subscription as the application sees it: solutions to iterate over, acknowledge and resume from."""

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
    from collections.abc import AsyncIterator

    from p2prdf.client.ledger import Ledger
    from p2prdf.rdf.dictionary import TermNames
    from p2prdf.wire import messages

__all__ = ["Subscription"]

ACKNOWLEDGE_EVERY: Final = 256
"""Solutions taken one by one are acknowledged in steps of so many, and when none is waiting."""


class Home(Protocol):
    """What a subscription asks of its client."""

    def acknowledge(self, subscription: Subscription, identities: list[int]) -> None:
        """Tell the node that these are dealt with."""
        ...

    async def unsubscribe(self, subscription: int) -> None:
        """End it."""
        ...


class Subscription:
    """Solutions of a standing query: ``async for solution in subscription``.

    ``id``: its number.  ``names``: projected names.  ``since``: publications from this time on count (seconds
    since the epoch).  ``order``: the patterns in order of evaluation.  ``opened``: when it was left, by the clock of
    the query's home (0: it was taken up again).

    At most some 16,000 solutions are on their way unacknowledged; further ones wait at the home.
    """

    def __init__(
        self, client: Home, number: int, names: tuple[str, ...], since: float, order: tuple[int, ...],
        ledger: Ledger, *, opened: float = 0.0, query_mark: int = 0, auto_acknowledge: bool = True,
        bookmarks: bool = False, hurry: bool = False,
    ):  # fmt: skip
        self.id = number
        self.names = names
        self.since = since
        self.order = order
        self.ledger = ledger
        self.opened = opened
        self.query_mark = query_mark
        self.bookmarks = bookmarks
        self.hurry = hurry
        self.bookmark: float | None = None
        """Of the last batch that had one: what is born at or before it was given out (:class:`Batch`)."""
        self._client = client
        self._auto = auto_acknowledge
        self._batches: deque[Batch] = deque()
        self._current: Batch | None = None
        self._row = 0
        self._lost_before = 0
        self._changed = asyncio.Event()
        self._ended = False
        self._error: P2PRDFError | None = None

    @property
    def acknowledged(self) -> int:
        """Sequence number of the solution acknowledged last."""
        return self.ledger.acknowledged

    @property
    def lost(self) -> int:
        """Solutions dropped so far because they were not taken in time (batches and solutions say where)."""
        return self.ledger.lost

    @property
    def waiting(self) -> bool:
        """Whether solutions are here that were not given out: the next one is there at once."""
        return any(map(len, self._batches)) or (self._current is not None and self._row < len(self._current))

    @property
    def unsettled(self) -> int:
        """Solutions given out that are not known by all replicas to be acknowledged: what a token names."""
        return len(self.ledger.unsettled)

    def acknowledge(self, sequence: int | None = None) -> None:
        """Acknowledge every solution up to ``sequence``, by default up to the last one given out.

        They will not be needed again, whatever happens: for exactly once, store the :meth:`token` before.
        """
        upto = self.ledger.given if sequence is None else sequence
        if upto > self.ledger.given:
            raise LocalProtocolError(f"solution {upto} is not given out yet, {self.ledger.given} is the last one")
        done = self.ledger.acknowledge(upto)
        if done:
            self._client.acknowledge(self, done)

    def token(self) -> bytes:
        """Return what to store, in one step with what was made of all solutions given out so far.

        Whoever attaches with it, at any node, goes on right there: nothing is missed and nothing comes twice,
        also if this process was killed.  Needs ``auto_acknowledge=False``, and acknowledging only what is stored.
        Of 61 bytes, and eight for each solution given out that is not known by all replicas to be acknowledged.
        """
        ledger = self.ledger
        return Token(self.query_mark, self.id, ledger.given, ledger.lost, tuple(ledger.unsettled)).encode()

    async def unsubscribe(self) -> None:
        """End the subscription."""
        await self._client.unsubscribe(self.id)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Solution:
        if self._auto and self.ledger.given - self.ledger.acknowledged >= ACKNOWLEDGE_EVERY:
            self.acknowledge()
        while self._current is None or self._row >= len(self._current):
            if self._auto and not self._batches:
                self.acknowledge()
            self._current, self._row = await self._next_batch(), 0
            self._lost_before += self._current.lost
        solution = self._current.solution(self._row)
        solution.lost, self._lost_before = self._lost_before, 0
        self._row += 1
        self.ledger.give(solution.sequence, solution.lost)
        return solution

    async def batches(self, *, solutions_max: int = 1 << 30) -> AsyncIterator[Batch]:
        """Yield solutions as they came in, many at a time; acknowledged when the next batch is asked for.

        ``solutions_max``: larger batches are given out in parts, each with a token of its own.
        A batch without solutions tells of a loss after which nothing has come yet, or of a bookmark.
        """
        while True:
            batch: Batch | None
            if self._current is not None and (batch := self._current.since(self.ledger.given)) is not None:
                self._current = None
            else:
                try:
                    batch = await self._next_batch()
                except StopAsyncIteration:
                    return
            if len(batch) > solutions_max:
                self._current, batch = batch, batch.head(solutions_max)
            self.ledger.give(batch.last, batch.lost)
            yield batch
            if self._auto and len(batch):
                self.acknowledge(batch.last)

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
        """Take in solutions; those that were here before are left out, and acknowledged again if they were."""
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
        """Take in a bookmark; of several with nothing between them the last is enough.

        Another node may begin with one that is earlier than the last one given out; it is not news.  It counts if
        the last one is from the future: nodes whose clocks were ahead have told that, and go on with right ones.
        """
        last = self.bookmark
        if last is not None and hlc.seconds(stamp) <= last and not hlc.is_ahead(last, time.time()):
            return
        if self._batches and not len(self._batches[-1]) and not self._batches[-1].lost:
            self._batches.pop()
        nothing: tuple[list[str], ...] = tuple([] for _ in self.names)
        self._batches.append(Batch(self.names, self.ledger.taken + 1, 0, [], [], nothing, hlc.seconds(stamp)))
        self._changed.set()

    def attached_again(self, opened: float) -> None:
        """Note since when the subscription is live; earlier than it was told if the clock of its home was ahead."""
        self.opened = min(self.opened, opened)

    def start_over(self) -> None:
        """Forget what was not given out yet: a home begins to tell it anew."""
        self._batches.clear()
        self._current = None
        self._lost_before = 0
        self.ledger.forget_queued()

    def end(self, error: P2PRDFError | None) -> None:
        """End the iteration after what is already here, with an error or without."""
        self._ended = True
        self._error = error
        self._changed.set()
