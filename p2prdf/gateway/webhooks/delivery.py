"""Delivery of one webhook: attaches its subscription, and posts solutions until the receiver accepts them.

*At least once, in order.*  A gateway may be killed at any moment, and its successor cannot know whether the receiver
accepted the last request.  So one request is in flight at a time, and its solutions are acknowledged to the
coordinator exactly when the receiver has answered 2xx.  The coordinator sends all unacknowledged solutions and
retractions, in order, to the gateway that attaches next.

*Retries.*  A failed request is repeated after a pause that doubles.  In between this gateway only remembers the
request's number of solutions, and its mark: it detaches the subscription, and the coordinator keeps the solutions on
its disk, within the retention.  The retry is cut at the same place, so it is the same request.  Failing receivers thus
cost no memory, and as each webhook has its own connection to a node, none delays another.

Rejected: *a record of each request in the overlay*, so that a successor cuts at the same places.  It would cost two
publications per request, each with a term that nodes keep forever, to spare some receivers the check of identities
after a gateway was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
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
from p2prdf.gateway.webhooks.message import Mark, Request, cut, gap_request, request_of
from p2prdf.gateway.webhooks.registration import Stop, WebhookRegistration
from p2prdf.gateway.webhooks.registry import Webhook
from p2prdf.gateway.webhooks.sender import Sender

__all__ = ["Delivery", "DeliveryConfig", "Notes"]

_AGAIN_SECONDS: Final = 0.5
"""Longest wait for each further solution of a repeated request."""
_REST_SECONDS: Final = 1.0
"""How long a settled webhook waits for the rest of a change, and its mark: nodes may wait for acknowledgements first
(setting ``solutions_window``)."""
_OVERLAY_PAUSE_SECONDS: Final = (0.5, 15.0)
"""First and longest pause after nodes could not be reached."""
_SURE_SECONDS: Final = 0.05
_JITTER: Final = 0.2
"""Share by which pauses are shortened at random, so that webhooks of one receiver do not retry all at once."""


@dataclass(frozen=True, slots=True)
class DeliveryConfig:
    """Retry settings of a delivery.

    ``pause_seconds``: pause after the first failure; it doubles up to ``pause_seconds_max``.  ``give_up_seconds``: a
    webhook with a receiver that fails for this long is paused until it is resumed.  ``touch_seconds``: interval at
    which the subscription of a paused webhook is attached for a moment, which renews its lease.
    """

    pause_seconds: float = 1.0
    pause_seconds_max: float = 300.0
    give_up_seconds: float = 86_400.0
    touch_seconds: float = 3600.0


class Notes(Protocol):
    """Writes the state of a webhook into the overlay."""

    async def failing(self, webhook: Webhook, since: float, error: str) -> None:
        """Record that a receiver fails."""
        ...

    async def recovered(self, webhook: Webhook) -> None:
        """Record that a receiver no longer fails."""
        ...

    async def stopped(self, webhook: Webhook, stop: Stop) -> None:
        """Record that delivery has stopped."""
        ...

    async def resubscribe(self, webhook: Webhook) -> None:
        """Subscribe again, and record that there is a gap before the new solutions."""
        ...

    async def gap_sent(self, webhook: Webhook) -> None:
        """Record that the receiver knows of the gap."""
        ...

    async def unsubscribe(self, webhook: Webhook) -> None:
        """End the subscription."""
        ...


class _Failed(Exception):
    """A request failed; the text is the reason."""


class _Ended(Exception):
    """The receiver answered 410 Gone."""


class Delivery:
    """Delivery of one webhook; runs until cancelled."""

    def __init__(
        self, webhook: Webhook, connect: Callable[[str], Awaitable[Client]], sender: Sender, keys: SigningKeys,
        notes: Notes, config: DeliveryConfig, *, holds_lease: Callable[[], bool],
        now: Callable[[], float] | None = None,
    ):  # fmt: skip
        """``connect`` opens a connection that acts as a client of a name.  ``holds_lease``: :meth:`Worker.holds_lease`.

        ``now``: seconds since 1970; by default the wall clock at the start, advanced by the monotonic clock, so that
        a change of the wall clock does not make the delivery give up.
        """
        self.webhook = webhook
        self.error = ""
        """Last error, "" if there was none since."""
        self.failing_since = webhook.failing[0] if webhook.failing else 0.0
        """Start of the failures, in seconds since 1970; 0: no failure."""
        self.delivered = 0
        """Solutions that the receiver accepted from this gateway."""
        self.tried_at = 0.0
        self._connect = connect
        self._sender = sender
        self._secret = keys.secret(webhook.registration.key, webhook.registration.identity)
        self._notes = notes
        self._config = config
        self._holds_lease = holds_lease
        self._now = now or _steady_clock()
        self._session = secrets.token_hex(8)
        self._sequence = 0
        self._has_gap = webhook.has_gap
        self._gap_sent = False
        self._failures = 0
        self._cut_before = 0
        """Number of solutions in the request to be repeated; 0: none."""
        self._marked_before: tuple[str, float] | None = None
        """Name and mark of the request to be repeated: its solutions come again, but not the mark behind them."""
        self._between_marks = True
        """Whether the receiver may have solutions later than its last mark, so it needs the next one."""
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
        """Deliver, and retry after failures, until cancelled."""
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
            except P2PRDFError as error:  # for example, its client has lost the permission to read
                await self._wait_after(str(error))

    async def close(self, task: asyncio.Task[None], *, seconds: float) -> None:
        """Cancel the task that runs this, after the request in flight is answered or ``seconds`` have passed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._busy.acquire()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    # --- attached subscription ---------------------------------------------------------------------------------

    async def _deliver(self) -> None:
        """Attach the subscription and deliver its solutions until an error occurs."""
        async with await self._connect(self._made.client) as client:
            with contextlib.suppress(SubscriptionGone):
                subscription = await client.attach(self._made.number, auto_acknowledge=False, again=True)
                await self._deliver_from(subscription)
        await self._resubscribe()

    async def _deliver_from(self, subscription: Subscription) -> None:
        await self._note_recovered()
        if self._has_gap and not self._gap_sent:
            await self._send(gap_request(self._made, None, session=self._session, sequence=self._sequence))
            self._gap_sent = True
        if self._has_gap:
            await self._notes.gap_sent(self.webhook)
            self._has_gap = False
        rows: deque[Solution | int | Mark] = deque()
        async with _Reader(subscription, self._made.batch) as reader:
            while True:
                most = self._cut_before or self._made.batch
                while len(rows) < most and not (rows and isinstance(rows[-1], Mark)):
                    if (batch := await reader.more(wait=not rows, pause=self._pause())) is None:
                        break
                    if batch.lost:
                        rows.append(batch.lost)
                    rows.extend(batch)
                    if self._made.settled and batch.bookmark is not None:
                        rows.append(Mark(batch.bookmark))
                if isinstance(rows[0], int):
                    lost = rows.popleft()
                    assert isinstance(lost, int)
                    await self._send(gap_request(self._made, lost, session=self._session, sequence=self._sequence))
                elif (found := cut(rows, most)) or self._made.settled:
                    await self._send_solutions(subscription, found, _mark_of(rows))

    async def _send_solutions(self, subscription: Subscription, found: list[Solution], mark: float | None) -> None:
        """Send solutions; ``mark``: that of a settled webhook behind them, None if further solutions follow."""
        self._cut_before = len(found)
        request_at = functools.partial(
            request_of, self._made, subscription.names, found, session=self._session, sequence=self._sequence
        )
        request = request_at(mark=mark)
        if self._marked_before is not None and self._marked_before[0] == request.name:
            mark = self._marked_before[1]
            request = request_at(mark=mark)
        if found or self._between_marks:
            self._marked_before = (request.name, mark) if mark is not None else None
            await self._send(request, subscription)
            self._between_marks = mark is None
        self._cut_before, self._marked_before = 0, None

    def _pause(self) -> float:
        """Return the wait for further solutions while some are here."""
        if self._made.settled:
            return _REST_SECONDS
        return _AGAIN_SECONDS if self._cut_before else 0.0

    async def _hold(self, *, ended: bool) -> None:
        """Renew the lease of a paused webhook's subscription; end the subscription of an ended webhook."""
        if ended:
            await self._notes.unsubscribe(self.webhook)
        else:
            async with await self._connect(self._made.client) as client:
                is_there = False
                with contextlib.suppress(SubscriptionGone):
                    await client.attach(self._made.number, auto_acknowledge=False, again=True)
                    is_there = True
            if not is_there:
                await self._resubscribe()
        self.error = ""
        await asyncio.sleep(self._config.touch_seconds)

    async def _resubscribe(self) -> None:
        """Subscribe again, then wait: the changed registration starts another delivery in place of this one."""
        await self._notes.resubscribe(self.webhook)
        await asyncio.Event().wait()

    # --- one request -------------------------------------------------------------------------------------------

    async def _send(self, request: Request, subscription: Subscription | None = None) -> None:
        """Post a request, and acknowledge its solutions when it is accepted.  Raises _Failed, _Ended."""
        while not self._holds_lease():  # another gateway may have taken over
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
        """Record that the receiver no longer fails, if it has accepted a request since it was recorded as failing."""
        if self._noted_failing and not self.failing_since:
            await self._notes.recovered(self.webhook)
            self._noted_failing = False

    async def _wait_after(self, error: str) -> None:
        """Wait after a failure; stop the webhook after ``give_up_seconds`` of failures."""
        self.error = error
        self.failing_since = min(self.failing_since or self._now(), self._now())  # another gateway's clock may be ahead
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
        """Record that delivery has stopped, then wait: the changed registry starts another delivery instead."""
        self.error = stop.reason
        while True:
            try:
                await self._notes.stopped(self.webhook, stop)
                await asyncio.Event().wait()
            except P2PRDFError:
                await asyncio.sleep(_OVERLAY_PAUSE_SECONDS[1])


def _mark_of(rows: deque[Solution | int | Mark]) -> float | None:
    """Remove the mark at the beginning of the rows, if there is one."""
    if rows and isinstance(rows[0], Mark):
        mark = rows.popleft()
        assert isinstance(mark, Mark)
        return mark.time
    return None


def _steady_clock() -> Callable[[], float]:
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


def _shortened(seconds: float) -> float:
    return seconds * (1.0 - _JITTER * random.random())  # noqa: S311 - it only spreads attempts


class _Reader:
    """Reads batches of a subscription, with a timeout."""

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
        """Return the next batch; None if there is none within ``pause``.  ``wait``: wait without a limit.

        Raises the error that ended the subscription.
        """
        if self._next is None:
            if not wait and not pause and not self._subscription.waiting:
                return None
            self._next = asyncio.ensure_future(anext(self._batches, None))
        # Solutions that are already here come at once, so wait for them too.
        timeout = None if wait or self._subscription.waiting else pause
        await asyncio.wait((self._next,), timeout=timeout)
        if not self._next.done():
            return None
        told, self._next = self._next.result(), None
        if told is None:
            raise Unavailable("the subscription has ended")
        return told
