"""Blocking subscriptions, of queries and of channels."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from p2prdf.client import Cohort as AsyncCohort
from p2prdf.client import Subscription as AsyncSubscription
from p2prdf.client.channel_store import ChannelSubscription as AsyncChannelSubscription
from p2prdf.sync.facade import Facade, at_once, blocking

if TYPE_CHECKING:
    from p2prdf.client import Advance, Batch, Solution
    from p2prdf.client.channel_store import ChannelNotification
    from p2prdf.sync.background import Background

__all__ = ["ChannelSubscription", "Cohort", "Subscription"]


class Subscription(Facade[AsyncSubscription]):
    """Solutions of a standing query: ``for solution in subscription``, which waits for each solution.

    :meth:`solutions` and :meth:`batches` take a time after which the iteration ends; another one continues there.
    Threads may share a subscription: each solution goes to one of them.  Then pass ``auto_acknowledge=False``: the
    next request, by any thread, acknowledges all solutions handed out.
    """

    def __init__(self, background: Background, behind: AsyncSubscription):
        super().__init__(background, behind)
        self._turn = threading.Lock()

    acknowledge = at_once(AsyncSubscription.acknowledge)
    token = at_once(AsyncSubscription.token)
    unsubscribe = blocking(AsyncSubscription.unsubscribe)

    @property
    def id(self) -> int:
        """Number of the subscription."""
        return self._behind.id

    @property
    def names(self) -> tuple[str, ...]:
        """Projected names of the query."""
        return self._behind.names

    @property
    def since(self) -> float:
        """Time from which on publications count, in seconds since the epoch."""
        return self._behind.since

    @property
    def order(self) -> tuple[int, ...]:
        """The patterns in order of evaluation."""
        return self._behind.order

    @property
    def opened(self) -> float:
        """Time of the opening by the coordinator's clock, in seconds since the epoch; 0 if resumed."""
        return self._behind.opened

    @property
    def settled(self) -> bool:
        """Whether it has settled delivery (:class:`p2prdf.client.Subscription`)."""
        return self._behind.settled

    @property
    def bookmark(self) -> float | None:
        """The last bookmark, in seconds since the epoch (:class:`p2prdf.client.Batch`)."""
        return self._behind.bookmark

    @property
    def acknowledged(self) -> int:
        """Sequence number of the last acknowledged solution."""
        return self._behind.acknowledged

    @property
    def lost(self) -> int:
        """Number of solutions dropped so far because the subscriber was too slow."""
        return self._behind.lost

    @property
    def waiting(self) -> bool:
        """Whether received solutions are waiting, so that the next one is available at once."""
        return self._background.read(lambda: self._behind.waiting)

    @property
    def unstable(self) -> int:
        """Number of delivered solutions that a resume token names."""
        return self._background.read(lambda: self._behind.unstable)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Solution:
        return self._next(None)

    def solutions(self, *, timeout_seconds: float | None = None) -> Iterator[Solution]:
        """Yield solutions until none has arrived for ``timeout_seconds`` (None: without end)."""
        with contextlib.suppress(TimeoutError, StopIteration):
            while True:
                yield self._next(timeout_seconds)

    def batches(self, *, solutions_max: int = 1 << 30, timeout_seconds: float | None = None) -> Iterator[Batch]:
        """Yield solutions in batches as they arrived, until none has arrived for ``timeout_seconds``.

        A batch is acknowledged when the next one is requested. ``solutions_max``: larger batches are split, and
        each part has a token of its own. A batch without solutions reports a loss that no solution has followed
        yet, or a bookmark.
        """
        batches = self._background.read(lambda: self._behind.batches(solutions_max=solutions_max))
        with contextlib.suppress(TimeoutError, StopAsyncIteration):
            while True:
                with self._in_turn(timeout_seconds) as seconds:
                    batch = self._background.run(
                        lambda: anext(batches), timeout_seconds=seconds, put_back=self._behind.put_back
                    )
                yield batch

    def _next(self, timeout_seconds: float | None) -> Solution:
        try:
            with self._in_turn(timeout_seconds) as seconds:
                return self._background.run(
                    lambda: anext(self._behind), timeout_seconds=seconds, put_back=self._behind.put_back
                )
        except StopAsyncIteration:
            raise StopIteration from None

    @contextlib.contextmanager
    def _in_turn(self, timeout_seconds: float | None) -> Iterator[float | None]:
        """Wait until no other thread waits for a solution; yield the seconds that are left."""
        began = time.monotonic()
        if not self._turn.acquire(timeout=-1 if timeout_seconds is None else timeout_seconds):
            raise TimeoutError
        try:
            yield None if timeout_seconds is None else max(0.0, timeout_seconds - (time.monotonic() - began))
        finally:
            self._turn.release()


class Cohort(Facade[AsyncCohort]):
    """Several queries with one settled subscription: ``for advance in cohort``, which waits for each advance.

    One thread at a time iterates.
    """

    acknowledge = at_once(AsyncCohort.acknowledge)
    token = at_once(AsyncCohort.token)
    unsubscribe = blocking(AsyncCohort.unsubscribe)

    @property
    def id(self) -> int:
        """Number of the subscription."""
        return self._behind.id

    @property
    def names(self) -> list[tuple[str, ...]]:
        """For each query the names of its columns."""
        return self._behind.names

    @property
    def time(self) -> float | None:
        """The last mark, in seconds since the epoch; None: there was none."""
        return self._behind.time

    def __iter__(self) -> Iterator[Advance]:
        return self.advances()

    def advances(self, *, timeout_seconds: float | None = None) -> Iterator[Advance]:
        """Yield advances until none has arrived for ``timeout_seconds`` (None: without end)."""
        with contextlib.suppress(TimeoutError, StopAsyncIteration):
            while True:
                yield self._background.run(
                    lambda: anext(self._behind), timeout_seconds=timeout_seconds, put_back=self._behind.put_back
                )


class ChannelSubscription(Facade[AsyncChannelSubscription]):
    """Notifications of a channel: ``for notification in subscription``, which waits for each notification.

    ``subscription`` has the tokens, the acknowledgements and the end of the underlying subscription.
    """

    def __init__(self, background: Background, behind: AsyncChannelSubscription):
        super().__init__(background, behind)
        self.subscription = Subscription(background, behind.subscription)

    of = at_once(AsyncChannelSubscription.of)

    def __iter__(self) -> Iterator[ChannelNotification]:
        return self.notifications()

    def notifications(self, *, timeout_seconds: float | None = None) -> Iterator[ChannelNotification]:
        """Yield notifications until no solution has arrived for ``timeout_seconds`` (None: without end)."""
        for solution in self.subscription.solutions(timeout_seconds=timeout_seconds):
            found = self.of(solution)
            if found is not None:
                yield found
