"""Which of many sets of small numbers are contained in a given one: a trie over their elements.

Every set is a path of its elements, in an order that the caller chooses for each: rarest first, so that most paths end
before they begin.  A node is a dictionary from elements to what is below; a path that is shared with no other is not
laid out but kept as the rest of it, which one operation on sets compares.  What it takes to find all sets that are
contained in a given one depends on how many paths it has the beginnings of, and not on how many sets there are.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

__all__ = ["END", "Leaf", "SetTrie"]

END: Final = -1
"""Stands in a node for the set whose path ends there: an element that every set given to ``find`` has to have."""

_T = TypeVar("_T")


class Leaf(Generic[_T]):
    """The end of a path: what is left of it, and what is filed there."""

    __slots__ = ("filed", "tail")

    def __init__(self, tail: tuple[int, ...], filed: list[_T]):
        self.tail = tail
        self.filed = filed


class SetTrie(Generic[_T]):
    """Things filed under sets of distinct numbers from 0."""

    def __init__(self) -> None:
        self._root: dict[int, _Child[_T]] = {}

    def add(self, path: tuple[int, ...], thing: _T) -> None:
        """File a thing under a set, its elements in the order to be used."""
        node = self._root
        for at, element in enumerate(path):
            child = node.get(element)
            rest = path[at + 1 :]
            if child is None:
                node[element] = Leaf(rest, [thing])
                return
            if isinstance(child, Leaf):
                if child.tail == rest:
                    child.filed.append(thing)
                    return
                below: dict[int, _Child[_T]] = {}
                below[child.tail[0] if child.tail else END] = child
                child.tail = child.tail[1:]
                node[element] = below
                child = below
            node = child
        own = node.get(END)
        if isinstance(own, Leaf):
            own.filed.append(thing)
        else:
            node[END] = Leaf((), [thing])

    def remove(self, path: tuple[int, ...], thing: _T) -> None:
        """Take a thing out that was filed under this path; nodes that are no longer needed go."""
        node = self._root
        above: list[tuple[dict[int, _Child[_T]], int]] = []
        for element in (*path, END):
            child = node[element]
            above.append((node, element))
            if isinstance(child, Leaf):
                child.filed.remove(thing)
                if not child.filed:
                    self._prune(above)
                return
            node = child
        raise AssertionError("a path ends at a leaf")

    def find(self, present: set[int]) -> list[Leaf[_T]]:
        """Return the leaves of all sets that are contained in a given one, which has to have END in it."""
        found = []
        waiting = [self._root]
        contained = present.issuperset
        while waiting:
            node = waiting.pop()
            for element in node.keys() & present:  # of the two, the smaller is gone through
                child = node[element]
                if type(child) is dict:
                    waiting.append(child)
                elif not child.tail or contained(child.tail):  # type: ignore[union-attr]
                    found.append(child)
        return found  # type: ignore[return-value]

    def _prune(self, above: list[tuple[dict[int, _Child[_T]], int]]) -> None:
        """Take out an empty leaf, and lay together what is left of nodes that then have one path only."""
        node, element = above.pop()
        del node[element]
        while above and len(node) < 2:
            first, child = next(iter(node.items()), (END, None))
            if isinstance(child, dict):
                return
            parent, element = above.pop()
            if child is None:
                del parent[element]
            else:
                child.tail = child.tail if first == END else (first, *child.tail)
                parent[element] = child
            node = parent


_Child = dict[int, "_Child[_T]"] | Leaf[_T]
