"""The open subscriptions of a client: dispatch of solutions, and reattachment to new sessions.

After a reconnection every subscription attaches at the new node, with the identities of its acknowledged
solutions. Solutions not yet delivered are forgotten and arrive again; delivered ones are recognised by identity
and dropped (:mod:`p2prdf.client.ledger`). The application thus gets each solution exactly once. If a
subscription no longer exists, it ends at once; if its coordinator does not answer, it ends after the client's
``reconnect_seconds``.

A node may execute an attach request late, after the client has lost that node and given the request up. The
late request takes the subscription away from the present node. To this client it looks as if another client had
attached the subscription. For each request given up recently, the client therefore attaches once more before it
ends the subscription.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from p2prdf import hlc
from p2prdf.client.session import Silent
from p2prdf.client.sessions import Retry, Sessions
from p2prdf.errors import Busy, P2PRDFError, SubscriptionGone, Unavailable, error_from_code
from p2prdf.wire import messages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from p2prdf.client.session import Session
    from p2prdf.client.subscription import Subscription
    from p2prdf.rdf.dictionary import TermNames

__all__ = ["Attachments"]

ACKNOWLEDGED_MAX: Final = 16_384
"""Bound on the identities in one message."""
ACKNOWLEDGE_AGAIN_SECONDS: Final = 1.0
"""Pause before an acknowledgement is repeated that the coordinator did not confirm."""
EARLY_ROWS_MAX: Final = 100_000
"""Bound on the solutions stored for subscriptions with a confirmation still in flight."""
EARLY_ENDS_MAX: Final = 64
"""Bound on the remembered ends of unknown subscriptions: their confirmations may still be in flight."""
GIVEN_UP_SECONDS: Final = 120.0
"""Time after which a node no longer executes a request that was given up."""
AT_ONCE_MAX: Final = 1024
"""Bound on concurrent reattachments."""


class Attachments:
    """The open subscriptions of a client."""

    def __init__(self, sessions: Sessions):
        self._sessions = sessions
        self._held: dict[int, Subscription] = {}
        self._early: dict[int, list[tuple[messages.ClientRows, TermNames]]] = {}
        self._early_rows = 0
        self._early_ends: dict[int, messages.ClientEnded] = {}
        self._retries: dict[int, Retry] = {}
        """Of subscriptions that are not attached now."""
        self._given_up: dict[int, list[float]] = {}
        """Times at which attach requests were given up, by subscription."""
        self._work: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)

    # --- subscriptions come and go ---------------------------------------------------------------

    def add(self, session: Session, subscription: Subscription) -> None:
        """Hold a subscription that ``session`` has confirmed."""
        self._end_former(subscription.id)
        self._held[subscription.id] = subscription
        if self._sessions.ended is not None:
            self._end(subscription, self._sessions.ended)
        elif (live := self._sessions.live) is session:
            self._want_bookmarks(session, subscription)
            for rows, terms in self._early.pop(subscription.id, ()):
                self._early_rows -= len(rows)
                subscription.take(rows, terms)
            if (ended := self._early_ends.pop(subscription.id, None)) is not None:
                self._sub_ended(ended)
        elif live is not None:  # the session that confirmed it has been lost since
            self._spawn(self._attach_again(live, subscription))

    async def attach(self, number: int, have: list[int]) -> tuple[Session, messages.ClientSubscribed]:
        """Attach a subscription here; ``have`` lists its acknowledged solutions.

        If the client holds the subscription already, the former iteration ends. Raises SubscriptionGone, Busy,
        Unavailable.
        """
        self._end_former(number)  # later messages are not for the former holder

        async def ask(make: Callable[[int], Any]) -> Any:
            return await self._sessions.ask(make)

        confirmed: tuple[Session, messages.ClientSubscribed] = await _attach(ask, number, have)
        return confirmed

    def remove(self, number: int) -> None:
        """End the iteration of a subscription that was ended."""
        held = self._held.get(number)
        if held is not None:
            self._end(held, None)

    def _end_former(self, number: int) -> None:
        held = self._held.get(number)
        if held is not None:
            self._end(held, Unavailable(f"subscription {number:016x} was attached again"))

    def _end(self, subscription: Subscription, error: P2PRDFError | None) -> None:
        """End the iteration of a held subscription; only the first call has an effect."""
        if self._held.get(subscription.id) is subscription:
            del self._held[subscription.id]
            self._retries.pop(subscription.id, None)
            self._given_up.pop(subscription.id, None)
            subscription.end(error)

    # --- sessions come and go --------------------------------------------------------------------

    def use(self, session: Session) -> None:
        """Attach all subscriptions at a new session.  Called before any other use of the session."""
        session.on_rows = self._rows
        session.on_bookmark = self._bookmark
        session.on_ended = self._sub_ended
        self._stop_work()
        self._early.clear()
        self._early_ends.clear()
        self._early_rows = 0
        for subscription in self._held.values():
            subscription.start_over()
            self._spawn(self._attach_again(session, subscription))

    def down(self, error: P2PRDFError) -> None:
        """End all subscriptions: there is no session, and none will follow."""
        self._stop_work()
        for subscription in list(self._held.values()):
            self._end(subscription, error)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name="p2prdf-attach")
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _stop_work(self) -> None:
        for task in self._work:
            task.cancel()

    async def _attach_again(self, session: Session, subscription: Subscription) -> None:
        """Attach a subscription at a session; stop when the session is lost, as the next one repeats this.

        While the node answers pings, keep waiting for its answer: after a second request, here or elsewhere, a
        slow coordinator would begin to send everything again.
        """
        seconds = self._sessions.reconnect_seconds
        retry = self._retries.get(subscription.id)
        if retry is None:
            retry = Retry(self._sessions, busy_seconds=seconds, stay=True, since=time.monotonic())
            self._retries[subscription.id] = retry

        async def ask(make: Callable[[int], Any]) -> Any:
            try:
                return await session.ask(make, timeout_seconds=seconds)
            except (P2PRDFError, asyncio.CancelledError) as error:
                if session.lost is not None or isinstance(error, Silent):
                    self._given_up.setdefault(subscription.id, []).append(time.monotonic())
                raise

        while session.lost is None and self._held.get(subscription.id) is subscription:
            try:
                async with self._slots:
                    answer = await _attach(ask, subscription.id, subscription.ledger.dealt_with)
            except (Busy, Unavailable) as error:
                try:
                    await retry.after(session, error)
                except (Busy, Unavailable) as last:
                    self._end(subscription, last)
            except P2PRDFError as error:
                self._end(subscription, error)
            else:
                self._retries.pop(subscription.id, None)
                subscription.attached_again(hlc.seconds(answer.opened))
                self._want_bookmarks(session, subscription)
                self.acknowledge(subscription, subscription.ledger.dealt_with)
                return

    # --- what comes in ---------------------------------------------------------------------------

    def _rows(self, rows: messages.ClientRows, terms: TermNames) -> None:
        subscription = self._held.get(rows.subscription)
        if subscription is not None:
            subscription.take(rows, terms)
        elif self._early_rows + len(rows) <= EARLY_ROWS_MAX:
            # The confirmation was read in the same chunk, and its waiter has not run yet.
            self._early.setdefault(rows.subscription, []).append((rows, terms))
            self._early_rows += len(rows)

    @staticmethod
    def _want_bookmarks(session: Session, subscription: Subscription) -> None:
        if subscription.bookmarks:
            session.tell(messages.ClientWantBookmarks(subscription.id, subscription.hurry))

    def _bookmark(self, message: messages.ClientBookmark) -> None:
        held = self._held.get(message.subscription)
        if held is not None:
            held.take_bookmark(message.time)

    def _sub_ended(self, message: messages.ClientEnded) -> None:
        held, session = self._held.get(message.subscription), self._sessions.live
        if held is None:  # it was ended here, or its confirmation was read in the same chunk
            if message.code == SubscriptionGone.code:
                self._early_ends[message.subscription] = message
                if len(self._early_ends) > EARLY_ENDS_MAX:
                    del self._early_ends[next(iter(self._early_ends))]
            return
        if message.code == Unavailable.code and session is not None and self._was_given_up(held):
            held.start_over()
            self._spawn(self._attach_again(session, held))
            return
        reason = f"subscription {message.subscription:016x}: {message.text}"
        self._end(held, error_from_code(message.code, reason))

    def _was_given_up(self, subscription: Subscription) -> bool:
        """Return whether a late request of this client may have taken a subscription; consume that request."""
        attempts = self._given_up.pop(subscription.id, [])
        lately = [at for at in attempts if at > time.monotonic() - GIVEN_UP_SECONDS]
        if lately:
            self._given_up[subscription.id] = lately[1:]
        return bool(lately)

    # --- acknowledgements ------------------------------------------------------------------------

    def acknowledge(self, subscription: Subscription, identities: list[int]) -> None:
        """Acknowledge solutions at the node, and note when they are stable.

        Without a session they stay unstable, and the next attachment acknowledges them again.
        """
        session = self._sessions.live
        if session is None:
            return
        for start in range(0, len(identities), ACKNOWLEDGED_MAX):
            some = identities[start : start + ACKNOWLEDGED_MAX]
            answer = session.start(
                lambda request, some=some: messages.ClientAcknowledge(request, subscription.id, some)  # type: ignore[misc]
            )
            answer.add_done_callback(partial(self._confirmed, session, subscription, some))

    def _confirmed(
        self, session: Session, subscription: Subscription, identities: list[int], answer: asyncio.Future[Any]
    ) -> None:
        if answer.cancelled():
            return
        if answer.exception() is None:
            subscription.ledger.mark_stable(identities)
        elif session.lost is None and self._held.get(subscription.id) is subscription:
            again = partial(self._acknowledge_again, session, subscription, identities)
            asyncio.get_running_loop().call_later(ACKNOWLEDGE_AGAIN_SECONDS, again)

    def _acknowledge_again(self, session: Session, subscription: Subscription, identities: list[int]) -> None:
        if session.lost is None:
            self.acknowledge(subscription, identities)


async def _attach(ask: Callable[[Callable[[int], Any]], Awaitable[Any]], number: int, have: list[int]) -> Any:
    """Attach with any number of acknowledged solutions; return the answer to the attach request."""
    while len(have) > ACKNOWLEDGED_MAX:
        some, have = have[:ACKNOWLEDGED_MAX], have[ACKNOWLEDGED_MAX:]
        await ask(lambda request, some=some: messages.ClientAcknowledge(request, number, some))  # type: ignore[misc]
    return await ask(lambda request: messages.ClientAttach(request, number, have))
