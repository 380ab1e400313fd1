"""The contacts of a peer without a view: live ones, recently silent ones, and results of lookups.

A peer is *live* after it has answered a question as a member; neither names in messages nor forged senders suffice.
Live peers are watched until they fall silent.  A bounded number of live peers beyond the ring's pointers is kept: they
shorten lookups, and lead back to the ring if all successors die at once.

A *silent* peer is remembered for a while, because other peers still name it.  Any message from it ends that.  Peers in
the results of lookups are remembered as *found*, so that a broken connection with one of them can be checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from p2prdf.wire.messages import Contact

__all__ = ["Contacts"]

_SILENT_MAX: Final = 256
_FOUND_MAX: Final = 4096


@dataclass(slots=True)
class _Live:
    contact: Contact
    answered_at: float


class Contacts:
    """Live, silent and found peers, by key: at most one live peer has a position."""

    def __init__(self, *, contacts_max: int, silent_seconds: float):
        self._contacts_max = contacts_max
        self._silent_seconds = silent_seconds
        self._live: dict[int, _Live] = {}
        self._silent: dict[Contact, float] = {}
        self._found: dict[int, Contact] = {}

    def live(self) -> list[Contact]:
        """Return the live peers in the order in which they were met."""
        return [each.contact for each in self._live.values()]

    @property
    def room(self) -> bool:
        """Whether there is room for live peers beyond the ring's pointers."""
        return len(self._live) < self._contacts_max

    def is_live(self, contact: Contact) -> bool:
        """Return whether a peer is live under exactly this address."""
        each = self._live.get(contact.key)
        return each is not None and each.contact == contact

    def answered_since(self, contact: Contact, time: float) -> bool:
        """Return whether a peer is live and has answered at ``time`` or later."""
        return self.is_live(contact) and self._live[contact.key].answered_at >= time

    def find(self, key: int) -> Contact | None:
        """Return the live or found peer with a key."""
        each = self._live.get(key)
        return each.contact if each is not None else self._found.get(key)

    def displaced_by(self, contact: Contact) -> list[Contact]:
        """Return the live peers that a new contact replaces: those with its key, or with its address."""
        return [
            each.contact
            for each in self._live.values()
            if each.contact != contact
            and (
                each.contact.key == contact.key
                or (each.contact.host, each.contact.port) == (contact.host, contact.port)
            )
        ]

    def answered(self, contact: Contact, now: float) -> None:
        """Note an answer of a member."""
        self._silent.pop(contact, None)
        each = self._live.get(contact.key)
        if each is not None and each.contact == contact:
            each.answered_at = now
        else:
            self._live[contact.key] = _Live(contact, now)

    def keep(self, needed: list[Contact]) -> None:
        """Drop the oldest live peers outside ``needed``, so that at most ``contacts_max`` of them stay."""
        others = [contact for contact in self.live() if contact not in needed]
        for contact in others[: max(0, len(others) - self._contacts_max)]:
            del self._live[contact.key]
            self.remember((contact,))

    def spoke(self, contact: Contact) -> None:
        """Note a message of a peer."""
        self._silent.pop(contact, None)

    def lose(self, contact: Contact) -> bool:
        """Remove a lost peer; return whether it was live or found."""
        was_live = self.is_live(contact)
        was_found = self._found.get(contact.key) == contact
        if was_live:
            del self._live[contact.key]
        if was_found:
            del self._found[contact.key]
        return was_live or was_found

    def fell_silent(self, contact: Contact, now: float) -> None:
        """Note that a peer does not answer."""
        self._silent.pop(contact, None)
        while len(self._silent) >= _SILENT_MAX:
            del self._silent[next(iter(self._silent))]
        self._silent[contact] = now

    def is_silent(self, contact: Contact, now: float) -> bool:
        """Return whether a peer fell silent recently and has sent nothing since."""
        at = self._silent.get(contact)
        return at is not None and now - at < self._silent_seconds

    def remember(self, contacts: tuple[Contact, ...]) -> None:
        """Remember the result of a lookup."""
        for contact in contacts:
            self._found.pop(contact.key, None)
            self._found[contact.key] = contact
        while len(self._found) > _FOUND_MAX:
            del self._found[next(iter(self._found))]
