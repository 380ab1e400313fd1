"""Giving who lost what it knew all that it keeps, before it is told that nothing is missing.

The problem.  Who began with nothing, or was away for so long that nobody waited for it, is in step when it has compared
with those who keep the same as it does now.  But the only one who knows may not be among them: it kept what this one
keeps while that was away, and does not any more, for it is back.  What it holds and does not keep it offers in its own
time, to one of those who do; until then two that know nothing may tell each other that all is well.

The idea.  Who lacks what homes keep asks everybody, and all give it first what they have of what it keeps and they do
not, and answer when that is taken: also those that lack something themselves, for who was away knows what it knew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from p2prdf.peer.replication.digests import Items
from p2prdf.wire.messages import Contact, Summary

__all__ = ["Handing"]

U64 = npt.NDArray[np.uint64]
_NOTHING: Final[U64] = np.zeros(0, np.uint64)

_Place: TypeAlias = tuple[int, int]
"""The key of a peer, and a kind."""


class Handing:
    """What is handed to others that lack it, and their questions that are answered after that.

    ``offer`` offers items of a kind to a peer, and returns the identities by the numbers of the offers.
    """

    def __init__(self, offer: Callable[[Contact, int, Items], Iterable[tuple[int, U64]]]):
        self._offer = offer
        self._under_way: dict[int, tuple[_Place, U64]] = {}
        self._handed: dict[_Place, U64] = {}
        """Identities that each has taken in its present life."""
        self._questions: dict[_Place, tuple[Contact, Summary]] = {}

    def first(self, sender: Contact, question: Summary, items: Items) -> bool:
        """Return whether some items must be handed to a peer before its question is answered; see to it if so."""
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

    def taken(self, sender: Contact, request: int) -> tuple[Contact, Summary] | None:
        """Note that a peer has taken what was offered to it; return its question if that can be answered now."""
        place, identities = self._under_way.get(request, ((0, 0), _NOTHING))
        if place[0] != sender.key or not len(identities):
            return None
        del self._under_way[request]
        self._handed[place] = np.union1d(self._handed.get(place, _NOTHING), identities)
        return None if self._is_under_way(place) else self._questions.pop(place, None)

    def _is_under_way(self, place: _Place) -> bool:
        return any(each == place for each, _ in self._under_way.values())

    def view_changed(self) -> None:
        """Forget what is under way: who still lacks it asks again."""
        self._under_way.clear()
        self._questions.clear()

    def forget(self, key: int) -> None:
        """Forget a peer that is gone, or has another life than the one that it told of."""
        self._under_way = {request: each for request, each in self._under_way.items() if each[0][0] != key}
        self._handed = {place: each for place, each in self._handed.items() if place[0] != key}
        self._questions = {place: each for place, each in self._questions.items() if place[0] != key}
