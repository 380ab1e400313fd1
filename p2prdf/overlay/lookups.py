"""The lookups of one peer without a view: a bounded number in flight, others in a queue."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from p2prdf.overlay.routed_messages import Answer, FindOwners, Names
from p2prdf.overlay.search import Search
from p2prdf.wire.contract import OwnersFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.overlay.routed_peer import RoutedPeer
    from p2prdf.overlay.talk import Talk
    from p2prdf.wire.messages import Contact

__all__ = ["Lookups"]

_SILENCES: Final = 2
"""A lookup skips a peer after so many unanswered requests.  A ping decides whether it is gone."""

S = TypeVar("S", bound=Search)


class Lookups(Generic[S]):
    """The lookups of one peer, as ``make`` begins them."""

    def __init__(self, talk: Talk, peer: RoutedPeer, make: Callable[[int], S]):
        self._talk = talk
        self._peer = peer
        self._make = make
        self._waiting: deque[int] = deque()
        self._under_way = 0
        self._starting = self._stopped = False

    def find_owner(self, key: int) -> None:
        """Look up the owners of a key as soon as this peer is a member; the outcome is an effect."""
        if self._stopped or len(self._waiting) >= self._talk.config.lookups_waiting_max:
            self._talk.count("lookups_refused")
            self._talk.effect(OwnersFound(key, (), complete=False))
        else:
            self._waiting.append(key)
            self.start()

    @property
    def waiting(self) -> int:
        """Number of lookups that have not started."""
        return len(self._waiting)

    def start(self) -> None:
        """Start as many lookups as may be in flight."""
        if self._starting or not self._peer.member:
            return  # a lookup that ends at once calls this method again, and must not nest
        self._starting = True
        while self._waiting and self._under_way < self._talk.config.lookups_max:
            self._under_way += 1
            self.search(self._make(self._waiting.popleft()), partial(self._found, self._talk.now))
        self._starting = False

    def stop(self) -> None:
        """Fail the queued lookups, and start no more."""
        self._stopped = True
        while self._waiting:
            self._talk.effect(OwnersFound(self._waiting.popleft(), (), complete=False))

    def _found(self, began_at: float, lookup: S) -> None:  # noqa: ARG002
        """Handle the end of a lookup that began at a time."""
        self._report(lookup)

    def _report(self, lookup: S) -> None:
        self._under_way -= 1
        self._talk.contacts.remember(tuple(contact for contact in lookup.result if contact != self._talk.own))
        self._talk.effect(OwnersFound(lookup.target, lookup.result, lookup.complete, lookup.before))
        self.start()

    # --- all lookups -----------------------------------------------------------------------------

    def search(self, lookup: S, done: Callable[[S], None]) -> None:
        """Continue a lookup as far as possible without waiting."""
        for contact in lookup.requests():
            self._talk.ask(
                partial(FindOwners, key=lookup.target),
                contact,
                partial(self._answered, lookup, done, contact),
                partial(self._failed, lookup, done, contact),
                _SILENCES,
            )
        if lookup.done:
            done(lookup)

    def _answered(self, lookup: S, done: Callable[[S], None], contact: Contact, answer: Answer) -> None:
        if isinstance(answer, Names):
            lookup.answered(contact, answer.contacts)
        else:
            lookup.failed(contact)
        self.search(lookup, done)

    def _failed(self, lookup: S, done: Callable[[S], None], contact: Contact) -> None:
        if self._talk.contacts.is_live(contact):
            self._talk.ping(contact)
        lookup.failed(contact)
        self.search(lookup, done)
