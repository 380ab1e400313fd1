"""The common part of the lookups of both overlays: contacts by distance to a key, requests in flight, bounds.

The own peer counts as answered.  A peer is asked once; late answers count until the lookup is done.  At most
``REQUESTS_MAX`` peers are asked and ``HEARD_MAX`` remembered, and of one answer ``2 * count`` contacts are used.  A
lookup that exceeds them has an empty result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from p2prdf.wire.messages import Contact

__all__ = ["ANSWERED", "FAILED", "HEARD_MAX", "REQUESTS_MAX", "Search"]

REQUESTS_MAX: Final = 256
HEARD_MAX: Final = 2048

HEARD, ASKED, ANSWERED, FAILED = range(4)
"""States of a contact."""


class Search(ABC):
    """One lookup.  Ask the peers of :meth:`requests` and report the outcomes, until ``done``."""

    __slots__ = (
        "_ranked", "_state", "_too_many", "_under_way", "asked", "count", "done", "own", "parallel", "target",
    )  # fmt: skip

    def __init__(self, target: int, own: Contact, *, count: int, parallel: int):
        assert count >= 1
        assert parallel >= 1
        self.target = target
        self.own = own
        self.count = count
        self.parallel = parallel
        self.asked = 0  # number of requests so far
        self.done = False
        self._under_way = 0
        self._too_many = False
        self._state: dict[Contact, int] = {own: ANSWERED}
        self._ranked: list[tuple[int, str, int, Contact]] = []  # contacts that have not failed, nearest first
        self._enter(own)

    def requests(self) -> list[Contact]:
        """Return the peers to ask now for the target; each is returned once."""
        asking: list[Contact] = []
        for contact in () if self.done else self._candidates():
            if self._under_way >= self.parallel or self.asked >= REQUESTS_MAX:
                break
            if self._state[contact] == HEARD:
                self._state[contact] = ASKED
                self._under_way += 1
                self.asked += 1
                asking.append(contact)
        return asking

    @abstractmethod
    def answered(self, contact: Contact, contacts: Sequence[Contact]) -> None:
        """Add the contacts that ``contact`` named.  An unexpected answer changes nothing."""

    @abstractmethod
    def failed(self, contact: Contact) -> None:
        """Note that an asked peer is gone or silent."""

    @property
    @abstractmethod
    def result(self) -> tuple[Contact, ...]:
        """The owner and the next peers, closest first; empty if the lookup failed."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether the result is the whole network."""

    @property
    def before(self) -> Contact | None:
        """The last peer before the target, if the overlay has one."""
        return None

    @abstractmethod
    def _distance(self, key: int) -> int:
        """Return the distance of a peer to the target."""

    @abstractmethod
    def _candidates(self) -> Iterable[Contact]:
        """Return the contacts that must answer, nearest first."""

    def _hear(self, contact: Contact) -> None:
        """Remember a contact that an answer named, within the bound."""
        if contact.key == self.own.key or contact in self._state:
            return
        self._too_many |= len(self._state) >= HEARD_MAX
        if not self._too_many:
            self._state[contact] = HEARD
            self._enter(contact)

    def _take_answer(self, contact: Contact) -> bool:
        """Note that a contact has answered; return whether the answer counts."""
        state = self._state.get(contact)
        if self.done or state not in (ASKED, FAILED):
            return False
        if state == ASKED:
            self._under_way -= 1
        else:
            self._enter(contact)
        self._state[contact] = ANSWERED
        return True

    def _take_failure(self, contact: Contact) -> bool:
        """Note that an asked contact is gone or silent; return whether it was asked."""
        if self.done or self._state.get(contact) != ASKED:
            return False
        self._under_way -= 1
        self._state[contact] = FAILED
        del self._ranked[bisect_left(self._ranked, self._place(contact))]
        return True

    def _place(self, contact: Contact) -> tuple[int, str, int, Contact]:
        return self._distance(contact.key), contact.host, contact.port, contact

    def _enter(self, contact: Contact) -> None:
        insort(self._ranked, self._place(contact))

    def _waiting(self) -> bool:
        """Return whether a candidate has not answered yet."""
        return any(self._state[contact] != ANSWERED for contact in self._candidates())

    def _advance(self) -> None:
        exhausted = self.asked >= REQUESTS_MAX and self._under_way == 0
        self.done = self._too_many or exhausted or not self._waiting()
