"""Kademlia's lookup as a state machine.

It finds the ``count`` live peers closest to a key, none missing, by asking peers for the closest contacts they know.

*Rolling window.*  All contacts are kept by distance, without the failed ones; the closest ``count`` are the *front*.
At most ``parallel`` requests to the front are in flight.  When the whole front has answered, it is the result.

*Horizon.*  An answer names ``count`` contacts, dead ones included, so it may omit live ones further away.  The result
ends at the smallest distance up to which an answer was exhaustive.

Only peers that answered are returned, each key once.  One key at two addresses makes two contacts.  A lookup without
any answer has an empty result.

Bounds: :mod:`p2prdf.overlay.search`.  Design: docs/explanation/design/routing.md.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from p2prdf.overlay.search import ANSWERED, Search

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from p2prdf.wire.messages import Contact

__all__ = ["Lookup", "closest"]

_RING: Final = 1 << 64


class Lookup(Search):
    """One lookup.  Ask the peers of :meth:`requests` and report the outcomes, until :attr:`done`."""

    __slots__ = ("_horizon",)

    def __init__(
        self, target: int, own: Contact, start: Iterable[Contact], *, count: int = 8, parallel: int = 3
    ):
        """Look for the ``count`` peers closest to ``target``, starting from the peers in ``start``."""
        super().__init__(target, own, count=count, parallel=parallel)
        self._horizon = _RING
        for contact in start:
            self._hear(contact)
        self._advance()

    def answered(self, contact: Contact, contacts: Sequence[Contact]) -> None:
        """Add the contacts that ``contact`` named.  An unexpected answer changes nothing."""
        if self._take_answer(contact):
            named = contacts[: 2 * self.count]
            for heard in named:
                self._hear(heard)
            self._horizon = min(self._horizon, self._seen_by(contact, named))
            self._advance()

    def failed(self, contact: Contact) -> None:
        """Note that an asked peer is gone or silent."""
        if self._take_failure(contact):
            self._advance()

    @property
    def result(self) -> tuple[Contact, ...]:
        """The live peers closest to the target, closest first; empty if the lookup failed."""
        others = [state for contact, state in self._state.items() if contact is not self.own]
        if self._too_many or (others and ANSWERED not in others):
            return ()
        if self.done and self._waiting():
            return ()
        found: dict[int, Contact] = {}
        for distance, *_, contact in self._ranked:
            if len(found) == self.count or (distance > self._horizon and found):
                break
            if self._state[contact] == ANSWERED:
                found.setdefault(contact.key, contact)
        return tuple(found.values())

    @property
    def complete(self) -> bool:
        """Whether the result is the whole network: fewer than ``count`` peers, and all known ones answered."""
        whole = len(self._state) < self.count and all(state == ANSWERED for state in self._state.values())
        return self.done and whole

    def _distance(self, key: int) -> int:
        return key ^ self.target

    def _candidates(self) -> list[Contact]:
        return [contact for *_, contact in self._ranked[: self.count]]

    def _seen_by(self, contact: Contact, contacts: Sequence[Contact]) -> int:
        """Return the distance up to which a peer's answer is exhaustive.

        A peer that names fewer than ``count`` contacts knows no others.  A peer may count itself among the ``count`` or
        not.
        """
        distances = [other.key ^ self.target for other in contacts if other.key != contact.key]
        if len(distances) == self.count - 1:
            distances.append(contact.key ^ self.target)
        return max(distances) if len(distances) >= self.count else _RING


def closest(table: Iterable[Contact], key: int, count: int) -> list[Contact]:
    """Return the ``count`` contacts of a table closest to a key, closest first."""
    return nsmallest(count, table, key=lambda contact: contact.key ^ key)
