"""Delivers one webhook: takes its subscription up, and posts answers until its receiver has taken them.

The problem
-----------
Whoever delivers may be killed at any moment, and somebody else goes on.  An answer may then have been taken by its
receiver or not, and nobody knows.

The idea
--------
One request is under way at a time, and its answers are acknowledged to their home when, and only when, the receiver has
answered 2xx.  Who takes the subscription up is told by its home all that is not acknowledged, in order, withdrawals
among it whatever was told before: so each answer is delivered at least once, and one after the other.

A request that is not taken is sent again after a pause that doubles.  Between attempts nothing is held here but how
many answers it had: the subscription is let go of, and its home keeps what waits, on its disk, for as long as answers
are kept.  It is then cut where it was cut before, so it is the same request again.  So receivers that fail cost no
memory, however many they are and whatever waits for them; and each webhook has its own connection to a node, so none
delays another.

Rejected: *noting each request in the overlay before it is sent*, so that whoever takes over cuts as it was cut.  That
would be two publications a request, each with a term that nodes keep for ever, so that some receivers need not look at
the identities of answers after a gateway was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, Self

from p2prdf.client import Batch, Client, Solution, Subscription
from p2prdf.errors import Busy, P2PRDFError, SubscriptionGone, Unavailable
from p2prdf.gateway.webhooks.keys import SigningKeys
from p2prdf.gateway.webhooks.message import Request, cut, gap_request, request_of
from p2prdf.gateway.webhooks.registration import Stop, WebhookRegistration
from p2prdf.gateway.webhooks.registry import Webhook
from p2prdf.gateway.webhooks.sender import Sender

__all__ = ["Delivery", "DeliveryConfig", "Notes"]

_AGAIN_SECONDS: Final = 0.5
"""How long the answers of a request that is sent again may take to come, one after the other."""
_OVERLAY_PAUSE_SECONDS: Final = (0.5, 15.0)
"""After nodes could not be reached: at first, and at most."""
_SURE_SECONDS: Final = 0.05
_JITTER: Final = 0.2
"""Pauses are up to so much of them shorter, or many webhooks at one receiver would come back all at once."""


@dataclass(frozen=True, slots=True)
class DeliveryConfig:
    """``pause_seconds``: after the first failure; then twice that and so on, up to ``pause_seconds_max``.

    ``give_up_seconds``: a receiver that fails for so long is delivered nothing more until somebody says so.
    ``touch_seconds``: how often the subscription of a webhook that is paused is taken up for a moment, so it stays.
    """

    pause_seconds: float = 1.0
    pause_seconds_max: float = 300.0
    give_up_seconds: float = 86_400.0
    touch_seconds: float = 3600.0


class Notes(Protocol):
    """Who writes into the overlay what becomes of a webhook."""

    async def failing(self, webhook: Webhook, since: float, error: str) -> None:
        """Note that a receiver fails."""
        ...

    async def recovered(self, webhook: Webhook) -> None:
        """Note that it does so no more."""
        ...

    async def stopped(self, webhook: Webhook, stop: Stop) -> None:
        """Note that nothing more is delivered."""
        ...

    async def left_anew(self, webhook: Webhook) -> None:
        """Leave its query again, and note that its answers have a gap."""
        ...

    async def told_gap(self, webhook: Webhook) -> None:
        """Note that its receiver knows of the gap."""
        ...

    async def unsubscribe(self, webhook: Webhook) -> None:
        """End its subscription."""
        ...


class _Failed(Exception):
    """A request was not taken; it says why."""


class _Ended(Exception):
    """The receiver says that it is gone."""


class Delivery:
    """What is delivered of one webhook; it ends when it is cancelled."""

    def __init__(
        self, webhook: Webhook, connect: Callable[[str], Awaitable[Client]], sender: Sender, keys: SigningKeys,
        notes: Notes, config: DeliveryConfig, *, is_sure: Callable[[], bool], now: Callable[[], float] | None = None,
    ):  # fmt: skip
        """``connect`` is given the name of the client to speak for.  ``is_sure``: as :meth:`Member.is_sure`.

        ``now``: seconds since the epoch; without it the wall clock as it is when the delivery begins, and counted on
        from there: a wall clock that is set meanwhile is no reason to give a receiver up.
        """
        self.webhook = webhook
        self.error = ""
        """What went wrong last, "" if nothing did since."""
        self.failing_since = webhook.failing[0] if webhook.failing else 0.0
        """Seconds since the epoch; 0: it does not."""
        self.delivered = 0
        """Answers taken by the receiver, by this gateway's doing."""
        self.tried_at = 0.0
        self._connect = connect
        self._sender = sender
        self._secret = keys.secret(webhook.registration.key, webhook.registration.identity)
        self._notes = notes
        self._config = config
        self._is_sure = is_sure
        self._now = now or _steady_clock()
        self._session = secrets.token_hex(8)
        self._sequence = 0
        self._has_gap = webhook.has_gap
        self._told_gap = False
        self._failures = 0
        self._cut_before = 0
        """How many answers the request had that is to be sent again; 0: there is none."""
        self._busy = asyncio.Lock()
        """Held from before a request to its acknowledgement."""
        self._noted_failing = webhook.failing is not None

    @property
    def _made(self) -> WebhookRegistration:
        return self.webhook.registration

    @property
    def state(self) -> str:
        """``active``, ``failing``, ``paused`` or ``ended``."""
        if self.webhook.stop is not None:
            return "ended" if self.webhook.stop.ended else "paused"
        return "failing" if self.failing_since else "active"

    async def run(self) -> None:
        """Deliver, and try again for as long as that is to be done."""
        overlay_pause = _OVERLAY_PAUSE_SECONDS[0]
        while True:
            try:
                if self.webhook.stop is not None:
                    await self._hold(ended=self.webhook.stop.ended)
                else:
                    await self._deliver()
            except _Ended as error:
                await self._stop(Stop(True, str(error), self._now()))
            except _Failed as error:
                await self._wait_after(str(error))
                overlay_pause = _OVERLAY_PAUSE_SECONDS[0]
            except (Unavailable, Busy) as error:
                self.error = str(error)
                await asyncio.sleep(_shortened(overlay_pause))
                overlay_pause = min(2 * overlay_pause, _OVERLAY_PAUSE_SECONDS[1])
            except P2PRDFError as error:  # its client may not read this any more, say
                await self._wait_after(str(error))

    async def close(self, task: asyncio.Task[None], *, seconds: float) -> None:
        """End the task that runs this, when the request that is under way is answered, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._busy.acquire()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    # --- a subscription that is taken up -----------------------------------------------------------------------

    async def _deliver(self) -> None:
        """Take the subscription up and deliver what it tells, until something goes wrong."""
        async with await self._connect(self._made.client) as client:
            with contextlib.suppress(SubscriptionGone):
                subscription = await client.attach(self._made.number, auto_acknowledge=False, again=True)
                await self._deliver_from(subscription)
        await self._leave_anew()

    async def _deliver_from(self, subscription: Subscription) -> None:
        await self._note_recovered()
        if self._has_gap and not self._told_gap:
            await self._send(gap_request(self._made, None, session=self._session, sequence=self._sequence))
            self._told_gap = True
        if self._has_gap:
            await self._notes.told_gap(self.webhook)
            self._has_gap = False
        rows: deque[Solution | int] = deque()
        async with _Reader(subscription, self._made.batch) as reader:
            while True:
                most = self._cut_before or self._made.batch
                while len(rows) < most and (batch := await reader.more(wait=not rows, pause=self._pause())) is not None:
                    if batch.lost:
                        rows.append(batch.lost)
                    rows.extend(batch)
                if isinstance(rows[0], int):
                    lost = rows.popleft()
                    assert isinstance(lost, int)
                    await self._send(gap_request(self._made, lost, session=self._session, sequence=self._sequence))
                elif found := cut(rows, most):
                    self._cut_before = len(found)
                    request = request_of(
                        self._made, subscription.names, found, session=self._session, sequence=self._sequence
                    )
                    await self._send(request, subscription)
                    self._cut_before = 0

    def _pause(self) -> float:
        """Return how long more answers are waited for while some are here."""
        return _AGAIN_SECONDS if self._cut_before else 0.0

    async def _hold(self, *, ended: bool) -> None:
        """Keep the subscription of a webhook that is paused, and end that of one that has ended."""
        if ended:
            await self._notes.unsubscribe(self.webhook)
        else:
            async with await self._connect(self._made.client) as client:
                is_there = False
                with contextlib.suppress(SubscriptionGone):
                    await client.attach(self._made.number, auto_acknowledge=False, again=True)
                    is_there = True
            if not is_there:
                await self._leave_anew()
        self.error = ""
        await asyncio.sleep(self._config.touch_seconds)

    async def _leave_anew(self) -> None:
        """Have the query left again, and wait: another takes this one's place when the registration has changed."""
        await self._notes.left_anew(self.webhook)
        await asyncio.Event().wait()

    # --- one request -------------------------------------------------------------------------------------------

    async def _send(self, request: Request, subscription: Subscription | None = None) -> None:
        """Post a request, and acknowledge its answers when it is taken.  Raises _Failed, _Ended."""
        while not self._is_sure():  # another may have taken over
            await asyncio.sleep(_SURE_SECONDS)
        async with self._busy:
            self.tried_at = self._now()
            outcome = await self._sender.post(self._made.url, request, self._secret)
            if outcome.gone:
                raise _Ended(f"{self._made.url}: {outcome.error}")
            if not outcome.taken:
                raise _Failed(f"{self._made.url}: {outcome.error}")
            if subscription is not None:
                subscription.acknowledge(request.upto)
            self._sequence += 1
            self._failures = 0
            self.delivered += request.answers
            self.error, self.failing_since = "", 0.0
        await self._note_recovered()

    async def _note_recovered(self) -> None:
        """Note that the receiver fails no more, if it has taken something since it was noted to fail."""
        if self._noted_failing and not self.failing_since:
            await self._notes.recovered(self.webhook)
            self._noted_failing = False

    async def _wait_after(self, error: str) -> None:
        """Wait after a failure, and give up when there were failures for long."""
        self.error = error
        self.failing_since = min(self.failing_since or self._now(), self._now())  # another's clock may be ahead
        if self._now() - self.failing_since >= self._config.give_up_seconds:
            reason = f"its receiver fails for {self._now() - self.failing_since:,.0f} s: {error}"
            await self._stop(Stop(False, reason, self._now()))
        if not self._noted_failing:
            with contextlib.suppress(P2PRDFError):
                await self._notes.failing(self.webhook, self.failing_since, error)
                self._noted_failing = True
        pause = min(self._config.pause_seconds * 2 ** min(self._failures, 40), self._config.pause_seconds_max)
        self._failures += 1
        await asyncio.sleep(_shortened(pause))

    async def _stop(self, stop: Stop) -> None:
        """Note that nothing more is delivered, and wait: another takes this one's place when that is known."""
        self.error = stop.reason
        while True:
            try:
                await self._notes.stopped(self.webhook, stop)
                await asyncio.Event().wait()
            except P2PRDFError:
                await asyncio.sleep(_OVERLAY_PAUSE_SECONDS[1])


def _steady_clock() -> Callable[[], float]:
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


def _shortened(seconds: float) -> float:
    return seconds * (1.0 - _JITTER * random.random())  # noqa: S311 - it only spreads attempts


class _Reader:
    """Reads what a subscription tells, without an end."""

    def __init__(self, subscription: Subscription, batch: int):
        self._subscription = subscription
        self._batches: AsyncIterator[Batch] = subscription.batches(solutions_max=batch)
        self._next: asyncio.Future[Batch | None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._next is not None:
            self._next.cancel()
            with contextlib.suppress(asyncio.CancelledError, P2PRDFError):
                await self._next

    async def more(self, *, wait: bool, pause: float) -> Batch | None:
        """Return what is told next; None if nothing is here, or comes within a pause.  ``wait``: as long as it takes.

        Raises what the subscription's end is.
        """
        if self._next is None:
            if not wait and not pause and not self._subscription.waiting:
                return None
            self._next = asyncio.ensure_future(anext(self._batches, None))
        # What is here already comes at once, so that is waited for as well.
        timeout = None if wait or self._subscription.waiting else pause
        await asyncio.wait((self._next,), timeout=timeout)
        if not self._next.done():
            return None
        told, self._next = self._next.result(), None
        if told is None:
            raise Unavailable("the subscription has ended")
        return told
