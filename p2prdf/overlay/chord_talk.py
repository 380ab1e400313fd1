"""How a Chord peer talks to others, and how it finds out who lives.

Every question ends in one of two ways: an answer, or so many silences that the peer is taken for gone.  From
both follows what the rest of the machine and the driver are told: a peer that answers as a member for the first
time is *seen*, one that falls silent, says goodbye, or answers that it is no member (it restarted and has not
joined again) is *lost*, taken out of every pointer, and all other questions to it have failed at that moment.

Strangers that speak are pinged, in bounded numbers, if they are of use; nothing is believed before they answer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from p2prdf import keys
from p2prdf.overlay.chord_contacts import Contacts
from p2prdf.overlay.chord_messages import (
    Answer,
    FindSuccessor,
    GetRing,
    Names,
    NotMember,
    Ping,
    Pong,
    Post,
    Question,
    Ring,
    RingBusy,
    RingEffect,
    RingMessage,
)
from p2prdf.overlay.chord_requests import Open, Requests
from p2prdf.wire.contract import ContactLost, ContactSeen, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.overlay.chord_config import ChordConfig
    from p2prdf.wire.messages import Contact

__all__ = ["Pointers", "Talk"]

_ANSWERS: Final[dict[type[Question], tuple[type[Answer], ...]]] = {
    Ping: (Pong,),
    GetRing: (Ring, RingBusy, NotMember),
    FindSuccessor: (Names, NotMember),
}


class Pointers(Protocol):
    """Who points to peers."""

    def wants(self, contact: Contact) -> bool:
        """Tell whether the ring needs to know this peer, room or not."""
        ...

    def met(self, contact: Contact) -> None:
        """Take note that a peer is live."""
        ...

    def drop(self, contact: Contact) -> None:
        """Take a peer that is gone out of all pointers."""
        ...


class Talk:
    """One peer's questions, its contacts, and the effects of the call that is being worked off."""

    def __init__(
        self,
        own: Contact,
        config: ChordConfig,
        pointers: Pointers,
        *,
        first_request: int,
        patience: Callable[[Contact], int] | None,
    ):
        self.own = own
        self.config = config
        self.now = 0.0
        self.counts: dict[str, int] = {}
        self.contacts = Contacts(contacts_max=config.contacts_max, gone_seconds=config.gone_seconds)
        self._effects: list[RingEffect] = []
        self._pointers = pointers
        self._patience = patience
        self._requests = Requests(first=first_request, timeout_seconds=config.timeout_seconds)
        self._pinging: dict[Contact, None] = {}
        self._drawn = 0
        self._stopped = False

    # --- effects ---------------------------------------------------------------------------------

    def observe(self, now: float) -> None:
        """Note the driver's time, which never goes back."""
        self.now = max(self.now, now)

    def effect(self, effect: RingEffect) -> None:
        """Add to what the driver is to do."""
        self._effects.append(effect)

    def post(self, to: Contact, message: RingMessage) -> None:
        """Send a message once."""
        self._effects.append(Post(to, message))

    def trace(self, event: str, **fields: object) -> None:
        """Tell the driver something worth a log line, and count it."""
        self.count(event)
        self._effects.append(Trace(event, fields))

    def count(self, name: str) -> None:
        """Count something."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def flush(self) -> list[RingEffect]:
        """Return the effects gathered so far, and begin anew."""
        effects, self._effects = self._effects, []
        return effects

    def spread(self, part: float) -> float:
        """Return a factor around 1, up to ``part`` off, different from peer to peer and from call to call."""
        self._drawn += 1
        return 1 + part * (keys.fmix(self.own.key + self._drawn) / (1 << 63) - 1)

    # --- questions -------------------------------------------------------------------------------

    def ask(
        self,
        make: Callable[[int], Question],
        to: Contact,
        answered: Callable[[Answer], None],
        failed: Callable[[], None],
        silences: int = 0,
    ) -> None:
        """Ask a peer, again after each silence: as many as prove it gone, if not told otherwise."""
        if not silences:
            silences = self._patience(to) if self._patience else self.config.silences
        question = make(self._requests.number())
        self._requests.ask(Open(to, question, silences, answered, failed, 0.0), self.now)
        self.post(to, question)

    def read(self, contact: Contact, told: Callable[[Ring | RingBusy | None], None]) -> None:
        """Ask a peer for its pointers; None means that it is gone or no member, and has been lost."""

        def answered(answer: Answer) -> None:
            told(answer if isinstance(answer, Ring | RingBusy) else None)

        def failed() -> None:
            self.lose(contact, "silent")
            told(None)

        self.ask(GetRing, contact, answered, failed)

    def check(self, contact: Contact, told: Callable[[bool], None]) -> None:
        """Find out whether a peer lives as a member; if not, it has been lost when that is told."""

        def answered(answer: Answer) -> None:
            told(isinstance(answer, Pong) and answer.member)

        def failed() -> None:
            self.lose(contact, "silent")
            told(False)

        self.ask(Ping, contact, answered, failed)

    def ping(self, contact: Contact) -> None:
        """Find out whether a peer lives, for the record, unless that is under way."""
        if contact not in self._pinging and not self._stopped:
            self._pinging[contact] = None
            self.check(contact, partial(self._pinged, contact))

    def _pinged(self, contact: Contact, _lives: bool) -> None:
        self._pinging.pop(contact, None)

    def meet(self, contact: Contact) -> None:
        """Ping a stranger, if knowing it is of use."""
        if self.contacts.is_live(contact) or len(self._pinging) >= self.config.meetings_max:
            return
        if self.contacts.room or self._pointers.wants(contact):
            self.ping(contact)

    def answer(self, answer: Answer, sender: Contact) -> None:
        """Take in an answer: first what it says of the sender being there, then what was asked."""
        request = self._requests.close(answer.request, sender)
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
        elif contact.key != self.own.key and (self.contacts.room or self._pointers.wants(contact)):
            for other in self.contacts.displaced_by(contact):
                self.lose(other, "replaced")
            self.contacts.answered(contact, self.now)
            self.trace("peer_seen", peer=str(contact))
            self.effect(ContactSeen(contact))
            self._pointers.met(contact)

    def lose(self, contact: Contact, reason: str) -> None:
        """Take a peer for gone."""
        self._pointers.drop(contact)
        if self.contacts.lose(contact):
            self.trace("peer_gone", peer=str(contact), reason=reason)
            self.effect(ContactLost(contact))
        if reason == "silent":
            self.contacts.fell_silent(contact, self.now)
        for request in self._requests.to(contact):
            if self._requests.close(request.question.request, contact) is not None:
                request.failed()

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Ask again what was not answered, and give up what has not been for too long."""
        again, given_up = self._requests.overdue(self.now)
        for request in again:
            self.post(request.to, request.question)
        for request in given_up:
            request.failed()

    @property
    def deadline(self) -> float | None:
        """When :meth:`wake` is due."""
        return self._requests.deadline

    @property
    def waiting(self) -> int:
        """Number of questions under way."""
        return len(self._requests)

    def stop(self) -> None:
        """Forget all questions, and ask none of strangers any more."""
        self._stopped = True
        self._requests.clear()
