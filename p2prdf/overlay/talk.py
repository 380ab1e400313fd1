"""Messages and failure detection of a peer without a view.

Each question has a number and is repeated after ``timeout_seconds`` without an answer.  It ends with an answer of the
asked peer, or after as many silences as its caller allows, or as prove the peer gone.  A timeout that is noticed too
late does not count as silence: this process was stalled, and the answer may lie unread in the socket.

A peer that answers as a member for the first time is *seen*.  A peer is *lost* if it falls silent, says goodbye, or
answers that it is no member (it has restarted and not joined again).  A lost peer is removed from all pointers, and all
other questions to it fail at once.

Unknown senders are pinged, in bounded numbers, if they are useful; they become contacts only by their answers.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from p2prdf import keys
from p2prdf.overlay.contacts import Contacts
from p2prdf.overlay.membership import Packet, Post
from p2prdf.overlay.routed_messages import (
    Answer,
    FindOwners,
    GetRing,
    Names,
    NotMember,
    Ping,
    Pong,
    Question,
    Ring,
    RingBusy,
    RingEffect,
    RingMessage,
)
from p2prdf.wire.contract import ContactLost, ContactSeen, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.overlay.routed_config import RoutedConfig
    from p2prdf.overlay.routed_peer import RoutedPeer
    from p2prdf.wire.messages import Contact

__all__ = ["Talk"]

_NUMBERS: Final = (1 << 63) - 1
"""Questions have numbers from 1 to this one."""
_ANSWERS: Final[dict[type[Question], tuple[type[Answer], ...]]] = {
    Ping: (Pong,),
    GetRing: (Ring, RingBusy, NotMember),
    FindOwners: (Names, NotMember),
}


@dataclass(slots=True, eq=False)
class _Open:
    """A pending question.  ``silences_max``: allowed silences; 0: as many as ``patience`` returns for the peer."""

    to: Contact
    question: Question
    silences_max: int
    answered: Callable[[Answer], None]
    failed: Callable[[], None]
    due: float = 0.0
    silences: int = 0


class Talk:
    """Questions and contacts of one peer, and the effects of the current call."""

    def __init__(
        self,
        own: Contact,
        config: RoutedConfig,
        peer: RoutedPeer,
        *,
        first_request: int,
        patience: Callable[[Contact], int] | None,
    ):
        self.own = own
        self.config = config
        self.now = 0.0
        self.counts: dict[str, int] = {}
        self.contacts = Contacts(contacts_max=config.contacts_max, silent_seconds=config.silent_seconds)
        self._effects: list[RingEffect] = []
        self._peer = peer
        self._next = first_request
        self._patience = patience or (lambda _: config.silences)
        self._open: dict[int, _Open] = {}
        self._due: list[tuple[float, int]] = []
        self._pinging: dict[Contact, None] = {}
        self._drawn = 0
        self._stopped = False

    # --- effects ---------------------------------------------------------------------------------

    def observe(self, now: float) -> None:
        """Note the driver's time, which never goes back."""
        self.now = max(self.now, now)

    def effect(self, effect: RingEffect) -> None:
        """Add an effect for the driver."""
        self._effects.append(effect)

    def post(self, to: Contact, message: RingMessage) -> None:
        """Send a message once."""
        self._effects.append(Post(to, Packet(self.own, message)))

    def trace(self, event: str, **fields: object) -> None:
        """Report an event for the log, and count it."""
        self.count(event)
        self._effects.append(Trace(event, fields))

    def count(self, name: str) -> None:
        """Increment a counter."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def flush(self) -> list[RingEffect]:
        """Return and clear the collected effects."""
        effects, self._effects = self._effects, []
        return effects

    def spread(self, part: float) -> float:
        """Return a factor 1 +- ``part`` that differs between peers and calls."""
        self._drawn += 1
        return 1 + part * (keys.fmix(self.own.key + self._drawn) / (1 << 63) - 1)

    # --- questions -------------------------------------------------------------------------------

    def ask(
        self,
        make: Callable[[int], Question],
        to: Contact,
        answered: Callable[[Answer], None],
        failed: Callable[[], None],
        silences_max: int = 0,
    ) -> None:
        """Ask a peer, and repeat after each silence.

        ``silences_max``: number of silences after which the question fails; 0: as many as prove the peer gone.
        """
        self._next = self._next % _NUMBERS + 1
        question = make(self._next)
        self._open[self._next] = request = _Open(to, question, silences_max, answered, failed)
        self._schedule(request)
        self.post(to, question)

    def _schedule(self, request: _Open) -> None:
        request.due = self.now + self.config.timeout_seconds
        heapq.heappush(self._due, (request.due, request.question.request))

    def _close(self, number: int, sender: Contact) -> _Open | None:
        """Remove the question that ``sender`` answers, if it is pending."""
        request = self._open.get(number)
        return self._open.pop(number) if request is not None and request.to == sender else None

    def read(self, contact: Contact, done: Callable[[Ring | RingBusy | None], None]) -> None:
        """Ask a peer for its pointers; the result None means that the peer is gone or no member, and was lost."""

        def answered(answer: Answer) -> None:
            done(answer if isinstance(answer, Ring | RingBusy) else None)

        def failed() -> None:
            self.lose(contact, "silent")
            done(None)

        self.ask(GetRing, contact, answered, failed)

    def check(self, contact: Contact, done: Callable[[bool], None]) -> None:
        """Find out whether a peer lives as a member; otherwise it is lost before ``done`` is called."""

        def answered(answer: Answer) -> None:
            done(isinstance(answer, Pong) and answer.member)

        def failed() -> None:
            self.lose(contact, "silent")
            done(False)

        self.ask(Ping, contact, answered, failed)

    def ping(self, contact: Contact) -> None:
        """Check whether a peer lives, unless a check is under way."""
        if contact not in self._pinging and not self._stopped:
            self._pinging[contact] = None
            self.check(contact, partial(self._pinged, contact))

    def _pinged(self, contact: Contact, _lives: bool) -> None:
        self._pinging.pop(contact, None)

    def meet(self, contact: Contact) -> None:
        """Ping an unknown peer, if it is useful as a contact."""
        if self.contacts.is_live(contact) or len(self._pinging) >= self.config.meetings_max:
            return
        if self.contacts.room or self._peer.wants(contact):
            self.ping(contact)

    def answer(self, answer: Answer, sender: Contact) -> None:
        """Handle an answer: first the liveness of its sender, then the question."""
        request = self._close(answer.request, sender)
        if request is None:
            self.count("answers_late")
        elif not isinstance(answer, _ANSWERS[type(request.question)]):
            self.trace("answer_malformed", sender=str(sender), answer=type(answer).__name__)
            request.failed()
        else:
            if isinstance(answer, NotMember) or (isinstance(answer, Pong) and not answer.member):
                self.lose(sender, "not_member")
            else:
                self._lives(sender)
            request.answered(answer)

    def _lives(self, contact: Contact) -> None:
        """Note that a member is live; keep it if the ring needs it or there is room."""
        if self.contacts.is_live(contact):
            self.contacts.answered(contact, self.now)
        elif contact.key != self.own.key and (self.contacts.room or self._peer.wants(contact)):
            for other in self.contacts.displaced_by(contact):
                if other.key == contact.key:  # it has moved, unless the other address still answers
                    self._check_known(other, contact)
                    return
                self.lose(other, "replaced")
            self.contacts.answered(contact, self.now)
            self.trace("peer_seen", peer=str(contact))
            self.effect(ContactSeen(contact))
            self._peer.met(contact)

    def _check_known(self, known: Contact, newcomer: Contact) -> None:
        """Check whether the known peer of a position lives; if so, it keeps the position."""
        if known in self._pinging:
            return

        def done(lives: bool) -> None:
            self._pinging.pop(known, None)
            if lives:
                self.trace("position_taken", by=str(known), claimed_by=str(newcomer))
            else:
                self.meet(newcomer)

        self._pinging[known] = None
        self.check(known, done)

    def lose(self, contact: Contact, reason: str) -> None:
        """Remove a peer that is gone."""
        self._peer.drop(contact)
        if reason == "silent":
            self.contacts.fell_silent(contact, self.now)
        if self.contacts.lose(contact):
            self.trace("peer_gone", peer=str(contact), reason=reason)
            self.effect(ContactLost(contact))
        for request in [each for each in self._open.values() if each.to == contact]:
            if self._close(request.question.request, contact) is not None:
                request.failed()

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Repeat unanswered questions, and fail those that are out of time."""
        given_up = []
        while self._due and self._due[0][0] <= self.now:
            due, number = heapq.heappop(self._due)
            if self._stale(due, number):
                continue
            request = self._open[number]
            request.silences += self.now - due <= self.config.timeout_seconds
            if request.silences < (request.silences_max or self._patience(request.to)):
                self._schedule(request)
                self.post(request.to, request.question)
            else:
                given_up.append(self._open.pop(number))
        for request in given_up:
            request.failed()

    def _stale(self, due: float, number: int) -> bool:
        request = self._open.get(number)
        return request is None or request.due != due

    @property
    def deadline(self) -> float | None:
        """The time of the next call of :meth:`wake`."""
        while self._due and self._stale(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    @property
    def waiting(self) -> int:
        """Number of pending questions."""
        return len(self._open)

    def stop(self) -> None:
        """Drop all questions, and ping unknown peers no more."""
        self._stopped = True
        self._open.clear()
