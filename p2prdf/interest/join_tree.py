"""Join trees: patterns as a tree in which each pattern interacts with its neighbours alone.

Counting the full matches of a triple is exact, but costs as much as there are matches: a place with 20 labels, 20
abstracts and 50 types has 20,000, and one more label adds a thousand.  A triple is of interest if there is *one*
match.

Only the *key* of each pattern therefore takes part in joins: the values of variables that other patterns have too.
Patterns are put into a tree such that everything a pattern shares with the rest, it shares with its neighbour (a join
tree, Beeri et al. 1983; found by removing one *ear* after the other, Graham, and Yu and Özsoyoğlu 1979).  In a tree,
counters of fitting neighbour keys are enough (:mod:`p2prdf.interest.node`, after the dynamic Yannakakis algorithm of
Idris et al. 2017): work is bounded by the changed keys and their neighbours.

Patterns in a cycle have no such tree; a condition on variables of several patterns ties these together likewise.  The
patterns without an ear form one *core*: its matches are enumerated and counted (:mod:`p2prdf.interest.core`), and
form the root of the tree of the others.

Otherwise the root is the pattern with the fewest expected triples, because keys that no root key leads to are
ignored: a label of something that is no place costs one dictionary look-up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from p2prdf.interest.expression import Pattern
from p2prdf.rdf.query import Filter
from p2prdf.rdf.standing.syntax import is_variable

__all__ = ["Branch", "Condition", "JoinTree", "Leaf", "join_tree"]


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A condition, and the names of its variables in the order of their numbers."""

    filter: Filter
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A pattern with its join variables, and the conditions on this pattern alone."""

    pattern: Pattern
    key: tuple[str, ...]
    conditions: tuple[Condition, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """A node: its patterns by number, its neighbour towards the root and the variables that both share.

    Only the core has several patterns.
    """

    members: tuple[int, ...]
    key: tuple[str, ...]
    parent: int | None
    shared: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class JoinTree:
    """The patterns by number, and the nodes: the root first, each behind its parent.

    ``conditions`` are those that the core decides.
    """

    leaves: tuple[Leaf, ...]
    branches: tuple[Branch, ...]
    conditions: tuple[Condition, ...]


def join_tree(
    patterns: Sequence[Pattern], conditions: Iterable[Condition], cost: Callable[[Pattern], tuple[int, ...]], *,
    root: int | None = None, outward: Mapping[int, Iterable[str]] = MappingProxyType({}),
) -> JoinTree:  # fmt: skip
    """Return the join tree of connected patterns.  ``cost``: compares the expected numbers of triples of patterns.

    ``root``: the pattern at the root, unless there is a core.  ``outward``: by pattern, variables that external nodes
    below it use.
    """
    owned: list[list[Condition]] = [[] for _ in patterns]
    across: list[Condition] = []
    for condition in conditions:
        owner = next((at for at, pattern in enumerate(patterns) if set(condition.names) <= set(pattern)), None)
        (across if owner is None else owned[owner]).append(condition)
    held = {name for condition in across for name in condition.names}
    leaves = []
    for at, pattern in enumerate(patterns):
        others = {part for other, each in enumerate(patterns) if other != at for part in each} | held
        others.update(outward.get(at, ()))
        key = tuple(dict.fromkeys(part for part in pattern if is_variable(part) and part in others))
        leaves.append(Leaf(pattern, key, tuple(owned[at])))
    costs = [(*cost(pattern), at) for at, pattern in enumerate(patterns)]
    edges, core = _ears([set(leaf.key) for leaf in leaves], held, costs)
    return JoinTree(tuple(leaves), tuple(_branches(leaves, edges, core, costs, root)), tuple(across))


def _ears(
    keys: list[set[str]], held: set[str], costs: list[tuple[int, ...]]
) -> tuple[list[tuple[int, int]], list[int]]:
    """Remove ears, the costly first; return them with the neighbour of each, and the remaining patterns."""
    left = sorted(range(len(keys)), key=costs.__getitem__, reverse=True)
    edges: list[tuple[int, int]] = []
    while len(left) > 1:
        for at in left:
            others = [other for other in left if other != at]
            needed = keys[at] & held.union(*(keys[other] for other in others))
            fitting = [other for other in others if needed <= keys[other]]
            if fitting:
                edges.append((at, min(fitting, key=costs.__getitem__)))
                left = others
                break
        else:
            break
    return edges, sorted(left)


def _branches(
    leaves: list[Leaf], edges: list[tuple[int, int]], core: list[int], costs: list[tuple[int, ...]], root: int | None
) -> list[Branch]:
    """Return the nodes from the root on: the core, or the cheapest of all patterns."""
    neighbours: dict[int, list[int]] = {at: [] for at in range(len(leaves))}
    for one, other in edges:
        neighbours[one].append(other)
        neighbours[other].append(one)
    cheapest = min(range(len(leaves)), key=costs.__getitem__) if root is None else root
    roots = core if len(core) > 1 else [cheapest]
    key = tuple(dict.fromkeys(name for at in roots for name in leaves[at].key))
    found = [Branch(tuple(roots), key, None, ())]
    waiting = [(at, 0) for at in roots]
    done = set(roots)
    while waiting:
        above, parent = waiting.pop(0)
        for at in neighbours[above]:
            if at in done:
                continue
            done.add(at)
            shared = tuple(name for name in leaves[at].key if name in leaves[above].key)
            waiting.append((at, len(found)))
            found.append(Branch((at,), leaves[at].key, parent, shared))
    return found
