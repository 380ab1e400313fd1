"""Links between peers that are cut, and the shapes that cuts come in.

A *link* is one direction between two peers, by index.  A *cut* is a set of links that carry nothing
until it is mended; several may be in force at once.  Some cuts are noticed by failure detectors and
some are not: a firewall that drops data but lets probes pass, or one too short.

The shapes: *halves*, two sides that hear nothing of each other; *one way*, where one side still hears
the other; a *bridge*, two sides and one peer that talks to both; a *ring*, where each peer
talks to a majority, but no two to the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

__all__ = ["SHAPES", "Cut", "Link", "Links", "around", "draw_cut"]

Link = tuple[int, int]
"""From one peer to another, by index."""

Cut = tuple[Link, ...]

SHAPES: Final = ("halves", "one way", "bridge", "ring")


class Links:
    """Which links carry nothing at present, and of which of them failure detectors know."""

    def __init__(self) -> None:
        self._cut: Counter[Link] = Counter()
        self._noticed: Counter[Link] = Counter()

    def cut(self, links: Cut, *, noticed: bool) -> None:
        """Let these links carry nothing until they are healed as often as they were cut."""
        self._cut.update(links)
        if noticed:
            self._noticed.update(links)

    def mend(self, links: Cut, *, noticed: bool) -> None:
        """Undo one cut of these links."""
        self._cut.subtract(links)
        if noticed:
            self._noticed.subtract(links)

    def carries(self, sender: int, receiver: int) -> bool:
        """Return whether a link carries parcels."""
        return self._cut[sender, receiver] <= 0

    def visible(self, observer: int, other: int) -> bool:
        """Return whether a failure detector gets through, there and back."""
        return self._noticed[observer, other] <= 0 and self._noticed[other, observer] <= 0


def draw_cut(random: Random, peers: Sequence[int], shape: str) -> Cut:
    """Draw a cut of a shape among these peers, at least two."""
    order = random.sample(peers, len(peers))
    if shape == "ring" and len(order) >= 5:
        return _ring(order)
    if shape == "bridge" and len(order) >= 3:
        order = order[1:]  # the first one is the bridge
    border = random.randint(1, len(order) - 1)
    left, right = order[:border], order[border:]
    there = tuple((one, other) for one in left for other in right)
    if shape == "one way":
        return there
    return there + tuple((other, one) for one, other in there)


def _ring(order: Sequence[int]) -> Cut:
    """Cut each peer off from those that lie opposite in a circle: it keeps the nearest majority."""
    count = len(order)
    reach = (count // 2 + 1) // 2  # neighbours on each side, with itself a majority
    return tuple(
        (order[one], order[other])
        for one in range(count)
        for other in range(count)
        if one != other and min((one - other) % count, (other - one) % count) > reach
    )


def around(peer: int, peers: Sequence[int]) -> Cut:
    """Return all links of one peer to and from the others."""
    others = [other for other in peers if other != peer]
    return tuple((peer, other) for other in others) + tuple((other, peer) for other in others)
