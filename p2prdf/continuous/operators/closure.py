"""Transitive closure: the nodes reachable from each start, under edges that come and go.

A node may be reached by many paths, in cycles by infinitely many, so counting paths fails.  Deleting everything that
a lost edge may have carried and deriving it again (DRed) is correct, but deletes all nodes behind the edge, however
many other paths there are.

Here each start keeps a *tree* of the nodes it reaches: each node with the node from which it was first reached.
Removing an edge outside the tree changes nothing.  Removing an edge of the tree loosens only the branch behind it.  A
loose node with an edge from a node in the tree is attached there, with its followers; the others are unreachable.  A
new edge matters only to starts that reach its source and not its target.

Costs.  A new edge: one look-up for each start that reaches its source, and the edges of each newly reached node.  A
removed edge: one look-up for each such start, and in trees that use it the edges of the loose branch.  Memory: two
entries per pair, from start to node and back.  With seeds only the seeds have trees.
"""

from __future__ import annotations

from typing import cast

from p2prdf.continuous.operators.zset import Delta, add

__all__ = ["Closure"]

_Node = int | tuple[int, int]
"""A node, with its graph before it if there are several graphs."""
_Nodes = dict[_Node, None]
"""An ordered set."""


class Closure:
    """Output: the pairs (start, node) connected by a path of one or more edges, each once.

    Edges are rows (from, to) with multiplicity above zero.  Starts are the seeds, rows of one node with multiplicity
    above zero; without seeds, all nodes with an outgoing edge.  ``reflexive``: also (start, start).  ``backward``:
    paths are followed from their end, and pairs are (node, start).  ``keyed``: all rows have a graph in front, and
    paths stay in one graph.
    """

    def __init__(self, *, seeded: bool, backward: bool, reflexive: bool, keyed: bool = False):
        assert seeded or not reflexive, "nobody knows all nodes"
        self._seeded = seeded
        self._backward = backward
        self._reflexive = reflexive
        self._keyed = keyed
        self._edges: Delta = {}
        self._seeds: Delta = {}
        self._after: dict[_Node, _Nodes] = {}
        self._before: dict[_Node, _Nodes] = {}
        self._trees: dict[_Node, dict[_Node, _Node]] = {}
        """For each start, the nodes it reaches, each with its predecessor on the path."""
        self._starts: dict[_Node, _Nodes] = {}
        """For each node, the starts that reach it."""
        self._pairs = 0
        self._out: Delta = {}

    @property
    def rows_held(self) -> int:
        """Number of rows in its state: edges, seeds and pairs."""
        return len(self._edges) + len(self._seeds) + self._pairs

    def apply(self, *changes: Delta) -> Delta:
        """See the package.  Inputs: edges and, if seeded, seeds."""
        self._out = {}
        gone, come = self._transitions(self._edges, changes[0])
        for row in gone:
            self._cut(*self._edge(row))
        for row in come:
            self._tie(*self._edge(row))
        if self._seeded:
            gone_seeds, new_seeds = self._transitions(self._seeds, changes[1])
            for row in gone_seeds:
                self._drop(self._node(row))
            for row in new_seeds:
                self._begin(self._node(row))
        return self._out

    def _node(self, row: tuple[int, ...]) -> _Node:
        return (row[0], row[1]) if self._keyed else row[0]

    def _edge(self, row: tuple[int, ...]) -> tuple[_Node, _Node]:
        a, b = row[-2:]
        first, last = (b, a) if self._backward else (a, b)
        return ((row[0], first), (row[0], last)) if self._keyed else (first, last)

    def _transitions(self, held: Delta, change: Delta) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Take in a change; return the rows that vanished and those that appeared."""
        gone: list[tuple[int, ...]] = []
        come: list[tuple[int, ...]] = []
        for row, weight in change.items():
            before = held.get(row, 0)
            add(held, row, weight)
            if (before > 0) != (before + weight > 0):
                (gone if before > 0 else come).append(row)
        return gone, come

    # --- starts ------------------------------------------------------------------------------

    def _begin(self, start: _Node) -> None:
        self._trees[start] = {}
        if self._reflexive:
            self._emit(start, start, 1)
        for node in self._after.get(start, ()):
            self._grow(start, node, start)

    def _drop(self, start: _Node) -> None:
        for node in self._trees.pop(start):
            self._leave(start, node)
        if self._reflexive:
            self._emit(start, start, -1)

    def _emit(self, start: _Node, node: _Node, times: int) -> None:
        first, last = (node, start) if self._backward else (start, node)
        if self._keyed:
            (graph, first), (_, last) = cast("tuple[int, int]", first), cast("tuple[int, int]", last)
            add(self._out, (graph, first, last), times)
        else:
            add(self._out, cast("tuple[int, int]", (first, last)), times)

    def _leave(self, start: _Node, node: _Node) -> None:
        starts = self._starts[node]
        del starts[start]
        if not starts:
            del self._starts[node]
        self._pairs -= 1
        if not (self._reflexive and node == start):
            self._emit(start, node, -1)

    # --- edges -------------------------------------------------------------------------------

    def _tie(self, a: _Node, b: _Node) -> None:
        """Add an edge."""
        self._after.setdefault(a, {})[b] = None
        self._before.setdefault(b, {})[a] = None
        if not self._seeded and a not in self._trees:
            self._begin(a)
        for start in self._starts_at(a):
            self._grow(start, b, a)

    def _starts_at(self, node: _Node) -> list[_Node]:
        """Return the starts that reach a node, including the node itself if it is a start."""
        starts = list(self._starts.get(node, ()))
        if node in self._trees and node not in self._starts.get(node, ()):
            starts.append(node)
        return starts

    def _grow(self, start: _Node, node: _Node, before: _Node) -> None:
        """Make a node, and everything reachable from it, reachable from a start."""
        tree = self._trees[start]
        if node in tree:
            return
        tree[node] = before
        reached = [node]
        while reached:
            node = reached.pop()
            self._starts.setdefault(node, {})[start] = None
            self._pairs += 1
            if not (self._reflexive and node == start):
                self._emit(start, node, 1)
            for following in self._after.get(node, ()):
                if following not in tree:
                    tree[following] = node
                    reached.append(following)

    def _cut(self, a: _Node, b: _Node) -> None:
        """Remove an edge."""
        starts = self._starts_at(a)
        for edges, one, other in ((self._after, a, b), (self._before, b, a)):
            del edges[one][other]
            if not edges[one]:
                del edges[one]
        for start in starts:
            if self._trees[start].get(b) == a:
                self._loosen(start, b)
        if not self._seeded and a not in self._after:
            self._drop(a)

    def _loosen(self, start: _Node, top: _Node) -> None:
        """Attach the branch under a node elsewhere, and remove the nodes that are no longer reachable."""
        tree = self._trees[start]
        loose: _Nodes = {top: None}
        for node in (branch := [top]):
            if node == start:
                continue  # the start's followers hang on the start itself, not on a cycle back to it
            for following in self._after.get(node, ()):
                if following not in loose and tree.get(following) == node:
                    loose[following] = None
                    branch.append(following)
        tied = []
        for node in branch:
            hold = next((p for p in self._before.get(node, ()) if p == start or (p in tree and p not in loose)), None)
            if hold is not None:
                tree[node] = hold
                tied.append(node)
        for node in tied:
            loose.pop(node, None)
        while tied:
            node = tied.pop()
            for following in self._after.get(node, ()):
                if following in loose:
                    del loose[following]
                    tree[following] = node
                    tied.append(following)
        for node in loose:
            del tree[node]
            self._leave(start, node)
