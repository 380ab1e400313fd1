"""Joining a Chord ring.

The joining peer looks up its own position through a seed.  The result is a peer p that believes to be the last one
before that position.  The joining peer reads the successor list of p.  If its position lies between p and the first
successor, it adopts the list and is a member without a predecessor.  It stabilises at once, which notifies its
successor.

That is one read and one write, as the proof requires (Zave 2017).  Some implementations also read the first successor
before they become a member.  That is a second step, and a peer that joined in between would be skipped.

A position belongs to the peer that has it.  If the list names another address at the own position, it may belong to an
earlier process of this peer; joining continues only if no member answers there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from p2prdf.overlay.chord_lookup import between, successor_list
from p2prdf.overlay.routed_messages import Ring, RingBusy

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.overlay.chord_lookup import Lookup
    from p2prdf.overlay.chord_search import Searches
    from p2prdf.overlay.routed_config import ChordConfig
    from p2prdf.overlay.talk import Talk
    from p2prdf.wire.messages import Contact

__all__ = ["Joining"]

_SEEDS_MAX: Final = 16
"""Maximum number of seeds; further introductions are ignored, because they are repeated."""
_TRIES_MAX: Final = 16
"""After so many reads of a busy predecessor, the position is looked up again."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """One attempt to join.  Callbacks of a finished attempt do nothing."""

    tries: int = 0
    dead_rival: Contact | None = None


class Joining:
    """The attempts of one peer to become a member; ``joined`` is called with its successor list."""

    def __init__(
        self, talk: Talk, searches: Searches, config: ChordConfig, joined: Callable[[tuple[Contact, ...]], None]
    ):
        self._talk = talk
        self._config = config
        self._searches = searches
        self._joined = joined
        self._seeds: dict[int, Contact] = {}
        self._attempt: _Attempt | None = None
        self._next: Callable[[], None] = self._begin
        self._next_at: float | None = None

    def introduce(self, contact: Contact) -> None:
        """Join through this peer, at once if no attempt is under way."""
        if len(self._seeds) < _SEEDS_MAX:
            self._seeds[contact.key] = contact
        if self._attempt is None:
            self._begin()

    def later(self, seed: Contact) -> None:
        """Join through this peer after a pause."""
        self._seeds = {seed.key: seed}
        self._put_off("another peer has this position", self._config.join_seconds)

    def stop(self) -> None:
        """Stop trying."""
        self._seeds.clear()
        self._attempt = self._next_at = None

    @property
    def deadline(self) -> float | None:
        """The time of the next call of :meth:`wake`."""
        return self._next_at

    def wake(self) -> None:
        """Continue after a pause."""
        if self._next_at is not None and self._next_at <= self._talk.now:
            self._next_at = None
            self._next()

    # --- one attempt -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Look up the own position through the next seed."""
        self._next_at = None
        if self._seeds:
            key = next(iter(self._seeds))
            seed = self._seeds[key] = self._seeds.pop(key)  # the other seeds are next
            attempt = self._attempt = _Attempt()
            self._searches.find_place(seed, partial(self._found, attempt, seed))

    def _found(self, attempt: _Attempt, seed: Contact, lookup: Lookup) -> None:
        if self._attempt is not attempt:
            return
        predecessor = lookup.before
        if predecessor is None or predecessor == self._talk.own:
            self._seeds.pop(seed.key, None)
            self._put_off("no member answered", self._config.join_seconds)
        else:
            self._talk.read(predecessor, partial(self._read, attempt, predecessor))

    def _read(self, attempt: _Attempt, predecessor: Contact, ring: Ring | RingBusy | None) -> None:
        """Adopt the successor list of the predecessor, if it still is the predecessor."""
        if self._attempt is not attempt:
            return
        own, config = self._talk.own, self._config
        if ring is None:
            self._put_off("the predecessor is gone", config.retry_seconds)
            return
        if isinstance(ring, RingBusy):
            self._read_again(attempt, predecessor)
            return
        others = [contact for contact in ring.successors if contact.key != own.key] or [predecessor]
        rivals = [contact for contact in ring.successors if contact.key == own.key]
        if not between(predecessor.key, own.key, others[0].key):
            self._put_off("the ring has changed", config.retry_seconds)
        elif rivals and rivals[0] not in (own, attempt.dead_rival):
            self._talk.check(rivals[0], partial(self._checked, attempt, predecessor, rivals[0]))
        else:
            self._joined(successor_list(own, others[0], others[1:], config.successors))
            self._talk.ping(predecessor)  # the ping informs it of this peer

    def _read_again(self, attempt: _Attempt, predecessor: Contact) -> None:
        """Read a busy predecessor again after a moment; start a new attempt if it stays busy."""
        attempt.tries += 1
        retry_seconds = self._config.retry_seconds
        if attempt.tries > _TRIES_MAX:
            self._put_off("the predecessor is busy", retry_seconds)
        else:
            self._next = partial(self._talk.read, predecessor, partial(self._read, attempt, predecessor))
            self._next_at = self._talk.now + attempt.tries * retry_seconds * self._talk.spread(0.5)

    def _checked(self, attempt: _Attempt, predecessor: Contact, rival: Contact, lives: bool) -> None:
        """Continue if no other peer lives at the own position; read again, because time has passed."""
        if self._attempt is not attempt:
            return
        if lives:
            self._talk.trace("position_taken", by=str(rival))
            self._put_off("another peer has this position", self._config.join_seconds)
        else:
            attempt.dead_rival = rival
            self._talk.read(predecessor, partial(self._read, attempt, predecessor))

    def _put_off(self, reason: str, pause: float) -> None:
        self._talk.trace("join_put_off", reason=reason)
        self._attempt = None
        self._next = self._begin
        self._next_at = self._talk.now + pause * self._talk.spread(0.5) if self._seeds else None
