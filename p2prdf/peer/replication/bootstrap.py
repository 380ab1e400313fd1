"""Bootstrap streaming: a peer that lost its data first receives the misplaced items.

A peer that started empty, or was away too long, normally catches up by comparison with the current replicas of its
keys.  The only holder of an item may not be among them: it replicated the key while the peer was away, and no longer
does so since the peer is back.  That holder would offer the item some time later, as a misplaced item.  Until then, two
empty replicas could confirm to each other that nothing is missing.

A peer that lacks the coordinators' state therefore asks all members.  Each member first hands over the items that the
asking peer should hold and the member itself does not replicate.  It answers the question when those items are stored.
Members that lack data themselves do so as well: a peer that was away still has its own items.

Design: docs/explanation/design/replication.md, "Loss of a disk".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from p2prdf.peer.replication.digests import Items
from p2prdf.wire.messages import BucketDigests, Contact

__all__ = ["Handoff"]

U64 = npt.NDArray[np.uint64]
_NOTHING: Final[U64] = np.zeros(0, np.uint64)

_Place: TypeAlias = tuple[int, int]
"""The key of a peer, and an item type."""


class Handoff:
    """The items being handed to peers that lack them, and the questions that wait for the handoff.

    ``offer`` offers items of a type to a peer, and returns the identities by the numbers of the offers.
    """

    def __init__(self, offer: Callable[[Contact, int, Items], Iterable[tuple[int, U64]]]):
        self._offer = offer
        self._under_way: dict[int, tuple[_Place, U64]] = {}
        self._handed: dict[_Place, U64] = {}
        """The identities that each peer has taken in its present process."""
        self._questions: dict[_Place, tuple[Contact, BucketDigests]] = {}

    def first(self, sender: Contact, question: BucketDigests, items: Items) -> bool:
        """Return whether items must be handed to a peer before its question is answered; if so, offer them."""
        place = sender.key, question.kind
        left = items.only(~np.isin(items.identities, self._handed.get(place, _NOTHING)))
        if not len(left):
            return False
        self._questions[place] = (sender, question)
        if not self._is_under_way(place):
            self._under_way |= {
                request: (place, identities) for request, identities in self._offer(sender, question.kind, left)
            }
        return True

    def taken(self, sender: Contact, request: int) -> tuple[Contact, BucketDigests] | None:
        """Note that a peer has stored an offer; return its question if no further offer is pending."""
        place, identities = self._under_way.get(request, ((0, 0), _NOTHING))
        if place[0] != sender.key or not len(identities):
            return None
        del self._under_way[request]
        self._handed[place] = np.union1d(self._handed.get(place, _NOTHING), identities)
        return None if self._is_under_way(place) else self._questions.pop(place, None)

    def _is_under_way(self, place: _Place) -> bool:
        return any(each == place for each, _ in self._under_way.values())

    def view_changed(self) -> None:
        """Forget all pending offers: a peer that still lacks items asks again."""
        self._under_way.clear()
        self._questions.clear()

    def forget(self, key: int) -> None:
        """Forget a peer that is gone, or has been replaced by a new process."""
        self._under_way = {request: each for request, each in self._under_way.items() if each[0][0] != key}
        self._handed = {place: each for place, each in self._handed.items() if place[0] != key}
        self._questions = {place: each for place, each in self._questions.items() if place[0] != key}
