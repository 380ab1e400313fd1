"""Find the sets of small numbers that are contained in a given set, by a trie over their elements.

Every set is a path of its elements, in an order that the caller chooses: rarest first, so that most paths end at
their first element.  A node maps elements to blocks.  An unshared rest of a path is kept in a leaf as its tail, which
one set operation compares.  The cost of a search depends on the number of paths with a matching beginning, not on the
number of sets.

The whole trie is in one array of integers, to save cache misses (docs/explanation/full-text.md).  Its blocks,
identified by their start:

* a node: its number of elements, and each element with the block below it; a node has spare room, up to 32 elements,
  and moves when it outgrows it;
* a leaf: -1 minus the length of its tail, the index of its content, and the tail.

A node with more elements is a dictionary, referred to by a negative number; the root elements have their blocks in an
array by element.  0 is no block.  Freed blocks are reused for blocks of the same size.
"""

from __future__ import annotations

from array import array
from itertools import chain, compress
from typing import Final, Generic, TypeVar, cast

__all__ = ["END", "SetTrie"]

END: Final = 0
"""The element that ends each path in a node; every set given to ``find`` must contain it."""

_ROOMS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_ROOM_MOST: Final = _ROOMS[-1]
_ROOM: Final = tuple(min(room for room in _ROOMS if room >= size) for size in range(_ROOM_MOST + 1))
"""The room, in elements, of a node with the given number of elements."""
_T = TypeVar("_T")


class _Several(list[_T]):
    """The contents of a path with more than one."""

    __slots__ = ()


class SetTrie(Generic[_T]):
    """Objects filed under sets of distinct numbers from 1."""

    def __init__(self) -> None:
        self._blocks = array("i", [0])
        self._roots = array("i", [0])
        self._large: list[dict[int, int]] = [{}]
        """Nodes as dictionaries, by the absolute value of their number."""
        self._large_free: list[int] = []
        self._filed: list[_T | _Several[_T] | None] = []
        self._filed_free: list[int] = []
        self._free: dict[int, list[int]] = {}
        """Freed blocks, by size."""

    def __len__(self) -> int:
        return len(self._filed) - len(self._filed_free)

    def add(self, path: tuple[int, ...], thing: _T) -> None:
        """File an object under a set; the elements are in the order of the path."""
        blocks, roots = self._blocks, self._roots
        highest = max(path, default=END)
        if highest >= len(roots):
            roots.frombytes(bytes(roots.itemsize * (highest + 1 - len(roots))))
        above = above_element = node = 0
        element, tail = path[0] if path else END, path[1:]
        while True:
            block = self._below(node, element)
            if not block:
                grown = self._with(node, element, self._leaf(tail, thing))
                if grown != node:
                    self._set(above, above_element, grown)
                return
            if block > 0 and blocks[block] < 0:
                own = self._tail(block)
                if own == tail:
                    self._join(blocks[block + 1], thing)
                    return
                first = (own[0], self._with_tail(block, own[1:])) if own else (END, block)
                block = self._node([first])
                self._set(node, element, block)
            above, above_element, node = node, element, block
            element, tail = tail[0] if tail else END, tail[1:]

    def remove(self, path: tuple[int, ...], thing: _T) -> None:
        """Remove an object filed under this path, and the nodes that are no longer needed."""
        blocks = self._blocks
        above: list[tuple[int, int]] = []
        block = 0
        for element in (*path, END):
            above.append((block, element))
            block = self._below(block, element)
            if block > 0 and blocks[block] < 0:
                break
        place = blocks[block + 1]
        filed = self._filed[place]
        if isinstance(filed, _Several):
            filed.remove(thing)
            if len(filed) == 1:
                self._filed[place] = filed[0]
            return
        self._filed[place] = None
        self._filed_free.append(place)
        self._free_block(block, 1 - blocks[block])
        self._prune(above)

    def find(self, present: set[int]) -> list[_T]:
        """Return the objects filed under all sets contained in a given set, which must contain END."""
        found: list[_T] = []
        blocks, roots, filed, large = self._blocks, self._roots, self._filed, self._large
        if max(present) >= len(roots):
            present = {element for element in present if element < len(roots)}
        has, contained = present.__contains__, present.issuperset
        waiting = [block for block in map(roots.__getitem__, present) if block]
        while waiting:
            pairs = array("i")
            below: list[int] = []
            for block in waiting:
                if block < 0:
                    node = large[-block]
                    below += [node[element] for element in node.keys() & present]  # iterates over the smaller set
                    continue
                size = blocks[block]
                if size >= 0:
                    pairs += blocks[block + 1 : block + 1 + size + size]
                elif size == -1 or (
                    # Most tails fail at their first element, so the rest is rarely extracted.
                    blocks[block + 2] in present and (size == -2 or contained(blocks[block + 3 : block + 1 - size]))
                ):
                    thing = filed[blocks[block + 1]]
                    if type(thing) is _Several:
                        found += thing
                    else:
                        found.append(thing)  # type: ignore[arg-type]
            waiting = [*compress(pairs[1::2], map(has, pairs[::2])), *below]
        return found

    # --- blocks ----------------------------------------------------------------------------------

    def _made(self, head: int, rest: tuple[int, ...]) -> int:
        """Return a new block."""
        free = self._free.get(1 + len(rest))
        if free:
            block = free.pop()
            self._blocks[block : block + 1 + len(rest)] = array("i", (head, *rest))
            return block
        block = len(self._blocks)
        self._blocks.append(head)
        self._blocks.extend(rest)
        return block

    def _free_block(self, block: int, size: int) -> None:
        self._free.setdefault(size, []).append(block)

    def _leaf(self, tail: tuple[int, ...], thing: _T) -> int:
        """Return a new leaf with an object."""
        if self._filed_free:
            place = self._filed_free.pop()
            self._filed[place] = thing
        else:
            place = len(self._filed)
            self._filed.append(thing)
        return self._made(-1 - len(tail), (place, *tail))

    def _join(self, place: int, thing: _T) -> None:
        """File an object under a path that has one already."""
        filed = self._filed[place]
        if isinstance(filed, _Several):
            filed.append(thing)
        else:
            self._filed[place] = _Several((cast("_T", filed), thing))

    def _tail(self, leaf: int) -> tuple[int, ...]:
        return tuple(self._blocks[leaf + 2 : leaf + 1 - self._blocks[leaf]])

    def _with_tail(self, leaf: int, tail: tuple[int, ...]) -> int:
        """Return a leaf that replaces another one, with a different tail."""
        place = self._blocks[leaf + 1]
        self._free_block(leaf, 1 - self._blocks[leaf])
        return self._made(-1 - len(tail), (place, *tail))

    # --- nodes -----------------------------------------------------------------------------------

    def _node(self, children: list[tuple[int, int]]) -> int:
        """Return a new node of elements and the blocks below them."""
        if len(children) > _ROOM_MOST:
            if self._large_free:
                node = self._large_free.pop()
                self._large[node] = dict(children)
            else:
                node = len(self._large)
                self._large.append(dict(children))
            return -node
        spare = (0,) * (2 * (_ROOM[len(children)] - len(children)))
        return self._made(len(children), (*chain.from_iterable(children), *spare))

    def _dissolved(self, node: int) -> list[tuple[int, int]]:
        """Return the elements of a node and the blocks below them, and free the node."""
        if node < 0:
            children = list(self._large[-node].items())
            self._large[-node] = {}
            self._large_free.append(-node)
            return children
        size = self._blocks[node]
        pairs = self._blocks[node + 1 : node + 1 + 2 * size]
        children = list(zip(pairs[::2], pairs[1::2], strict=True))
        self._free_block(node, 1 + 2 * _ROOM[size])
        return children

    def _place(self, node: int, element: int) -> int:
        """Return the position of the block below an element of a small node; 0 if there is no such element."""
        elements = self._blocks[node + 1 : node + 1 + 2 * self._blocks[node] : 2]
        return node + 2 + 2 * elements.index(element) if element in elements else 0

    def _below(self, node: int, element: int) -> int:
        """Return the block below an element of a node; 0 if there is none.  Node 0 is the root."""
        if node > 0:
            place = self._place(node, element)
            return self._blocks[place] if place else 0
        return self._large[-node].get(element, 0) if node else self._roots[element]

    def _set(self, node: int, element: int, block: int) -> None:
        """Replace the block below an existing element of a node."""
        if node > 0:
            self._blocks[self._place(node, element)] = block
        elif node:
            self._large[-node][element] = block
        else:
            self._roots[element] = block

    def _with(self, node: int, element: int, block: int) -> int:
        """Return a node with one more element; it is a new node if there was no room."""
        if node <= 0:
            self._set(node, element, block)
            return node
        size = self._blocks[node]
        if size == _ROOM[size]:
            return self._node([*self._dissolved(node), (element, block)])
        self._blocks[node] = size + 1
        self._blocks[node + 1 + 2 * size] = element
        self._blocks[node + 2 + 2 * size] = block
        return node

    def _without(self, node: int, element: int) -> int:
        """Return a node with one element less; it is a new node if the old one had too much room."""
        if not node:
            self._roots[element] = 0
            return node
        if node < 0:
            del self._large[-node][element]
            return node if len(self._large[-node]) > _ROOM_MOST // 2 else self._node(self._dissolved(node))
        size = self._blocks[node]
        if _ROOM[size - 1] < _ROOM[size]:
            return self._node([child for child in self._dissolved(node) if child[0] != element])
        place, last = self._place(node, element), node + 2 * size
        self._blocks[place - 1], self._blocks[place] = self._blocks[last - 1], self._blocks[last]
        self._blocks[node] = size - 1
        return node

    def _prune(self, above: list[tuple[int, int]]) -> None:
        """Remove an empty leaf, and merge nodes that have a single path left."""
        node, element = above.pop()
        smaller = self._without(node, element)
        if smaller != node:
            self._set(*above[-1], smaller)
        node = smaller
        while above and node > 0 and self._blocks[node] == 1:
            first, block = self._blocks[node + 1], self._blocks[node + 2]
            if block < 0 or self._blocks[block] >= 0:
                return
            self._dissolved(node)
            node, element = above.pop()
            self._set(node, element, block if first == END else self._with_tail(block, (first, *self._tail(block))))
