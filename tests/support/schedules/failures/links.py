"""Cuts of links between peers, and their shapes.

A *link* is one direction between two peers, by index.  A *cut* is a set of links that carry nothing until the cut is
healed; several cuts may overlap.  Failure detectors notice some cuts and not others, such as short ones or those of a
firewall that passes probes only.

Shapes: *halves*, two separate sides; *one way*, in which one side still receives from the other; *bridge*, two sides
and one peer with links to both; *ring*, in which each peer reaches a majority, but no two peers the same one.
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
    """The links that carry nothing at present, and those that failure detectors notice."""

    def __init__(self) -> None:
        self._cut: Counter[Link] = Counter()
        """Cuts by link; healed links are left out, so that it is mostly empty."""
        self._noticed: Counter[Link] = Counter()

    def cut(self, links: Cut, *, noticed: bool) -> None:
        """Cut these links until each is healed as often as it was cut."""
        self._cut.update(links)
        if noticed:
            self._noticed.update(links)

    def mend(self, links: Cut, *, noticed: bool) -> None:
        """Undo one cut of these links."""
        self._cut.subtract(links)
        for link in links:
            if not self._cut[link]:
                del self._cut[link]
        if noticed:
            self._noticed.subtract(links)

    def carries(self, sender: int, receiver: int) -> bool:
        """Return whether a link carries envelopes."""
        return not self._cut or self._cut[sender, receiver] <= 0

    def visible(self, observer: int, other: int) -> bool:
        """Return whether a failure detector's probe and its answer arrive."""
        return self._noticed[observer, other] <= 0 and self._noticed[other, observer] <= 0


def draw_cut(random: Random, peers: Sequence[int], shape: str) -> Cut:
    """Draw a cut of a shape among these peers, at least two."""
    order = random.sample(peers, len(peers))
    if shape == "ring" and len(order) >= 5:
        return _ring(order)
    if shape == "bridge" and len(order) >= 3:
        order = order[1:]  # the first peer is the bridge
    border = random.randint(1, len(order) - 1)
    left, right = order[:border], order[border:]
    there = tuple((one, other) for one in left for other in right)
    if shape == "one way":
        return there
    return there + tuple((other, one) for one, other in there)


def _ring(order: Sequence[int]) -> Cut:
    """Cut each peer from the opposite peers of a circle; it keeps the nearest majority."""
    count = len(order)
    reach = (count // 2 + 1) // 2  # neighbours on each side, a majority with the peer itself
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
