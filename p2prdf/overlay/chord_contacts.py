"""Whom a Chord peer knows: who has answered it lately, who fell silent, and whom it told of in lookups.

A peer counts as *live* after it has answered a question of ours as a member, so neither hearsay nor a forged
sender puts anyone here.  Live peers are watched until they fall silent; a bounded number is kept beyond those
the ring itself needs, because they shorten lookups and are a way back should all successors die at once.

Who fell *silent* is remembered for a while, for others will go on naming it until they find out themselves.
Any message from it ends that.  Peers named in the outcome of a lookup are remembered as *told*,
so that a broken connection with one of them can be looked into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from p2prdf.wire.messages import Contact

__all__ = ["Contacts"]

_SILENT_MAX: Final = 256
_TOLD_MAX: Final = 4096


@dataclass(slots=True)
class _Live:
    contact: Contact
    answered_at: float


class Contacts:
    """Live, silent and told peers; by key, as no two live ones can share a position."""

    def __init__(self, *, contacts_max: int, gone_seconds: float):
        self._contacts_max = contacts_max
        self._gone_seconds = gone_seconds
        self._live: dict[int, _Live] = {}
        self._silent: dict[Contact, float] = {}
        self._told: dict[int, Contact] = {}

    def live(self) -> list[Contact]:
        """Return the live peers in the order in which they were met."""
        return [each.contact for each in self._live.values()]

    @property
    def room(self) -> bool:
        """Whether live peers may be kept that the ring does not need."""
        return len(self._live) < self._contacts_max

    def is_live(self, contact: Contact) -> bool:
        """Tell whether a peer is live, under this very address."""
        each = self._live.get(contact.key)
        return each is not None and each.contact == contact

    def answered_since(self, contact: Contact, time: float) -> bool:
        """Tell whether a peer is live and has answered at ``time`` or later."""
        return self.is_live(contact) and self._live[contact.key].answered_at >= time

    def find(self, key: int) -> Contact | None:
        """Return the peer of a key, live or told."""
        each = self._live.get(key)
        return each.contact if each is not None else self._told.get(key)

    def displaced_by(self, contact: Contact) -> list[Contact]:
        """Return the live peers that cannot be there any more: same key elsewhere, or another at the address."""
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
        """Note an answer."""
        self._silent.pop(contact, None)
        each = self._live.get(contact.key)
        if each is not None and each.contact == contact:
            each.answered_at = now
        else:
            self._live[contact.key] = _Live(contact, now)

    def keep(self, needed: list[Contact]) -> None:
        """Watch no longer those met first, of those beyond ``needed``, as are too many."""
        others = [contact for contact in self.live() if contact not in needed]
        for contact in others[: max(0, len(others) - self._contacts_max)]:
            del self._live[contact.key]
            self.tell((contact,))

    def spoke(self, contact: Contact) -> None:
        """Note that a peer sent something."""
        self._silent.pop(contact, None)

    def lose(self, contact: Contact) -> bool:
        """Note that a peer is gone; return whether anyone was told of it."""
        was_live = self.is_live(contact)
        was_told = self._told.get(contact.key) == contact
        if was_live:
            del self._live[contact.key]
        if was_told:
            del self._told[contact.key]
        return was_live or was_told

    def fell_silent(self, contact: Contact, now: float) -> None:
        """Note that a peer does not answer."""
        self._silent.pop(contact, None)
        while len(self._silent) >= _SILENT_MAX:
            del self._silent[next(iter(self._silent))]
        self._silent[contact] = now

    def is_silent(self, contact: Contact, now: float) -> bool:
        """Tell whether a peer fell silent lately and has not been heard of since."""
        at = self._silent.get(contact)
        return at is not None and now - at < self._gone_seconds

    def tell(self, contacts: tuple[Contact, ...]) -> None:
        """Note the outcome of a lookup."""
        for contact in contacts:
            self._told.pop(contact.key, None)
            self._told[contact.key] = contact
        while len(self._told) > _TOLD_MAX:
            del self._told[next(iter(self._told))]
