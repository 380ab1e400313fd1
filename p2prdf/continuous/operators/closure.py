"""Closure: which nodes a way of edges leads to, under edges that come and go.

The problem: a node may be reached by many ways, in cycles by endless ones.  Counting ways fails there.  Taking back
everything that a lost edge might have carried, and deriving it again from what is left (DRed), is right, but it
takes back all that lies behind the edge, whatever other ways there are.

The idea: for each start the nodes it reaches are kept as a *tree*: each with the node it was first
reached from.  An edge that a tree does not use can go without changing it.  If it uses it, only the
branch behind the edge is loose, and each loose node that has an edge from a node still in the tree is tied there
again, and what follows from it; the rest is no longer reached.  A new edge matters only to the starts that reach
where it begins and not where it ends.

Costs.  An edge more: for each start that reaches its beginning one look, and for each node newly reached its
edges.  An edge less: for each such start one look, and for trees that use it the edges at the nodes of the loose
branch.  Memory: two entries per pair, from start to node and back.  With seeds there are trees for these alone.
"""

from __future__ import annotations

from p2prdf.continuous.operators.zset import Delta, add

__all__ = ["Closure"]

_Nodes = dict[int, None]
"""An ordered set."""


class Closure:
    """Output: the pairs (start, node) between which a way of one or more edges leads, once.

    Edges are rows (from, to) above zero.  Starts are the seeds, rows of one node above zero, or without them all
    nodes from which an edge leads.  ``reflexive``: also (start, start).  ``backward``: ways are followed
    from their end, and pairs are (node, start).
    """

    def __init__(self, *, seeded: bool, backward: bool, reflexive: bool):
        assert seeded or not reflexive, "nobody knows all nodes"
        self._seeded = seeded
        self._backward = backward
        self._reflexive = reflexive
        self._edges: Delta = {}
        self._seeds: Delta = {}
        self._after: dict[int, _Nodes] = {}
        self._before: dict[int, _Nodes] = {}
        self._trees: dict[int, dict[int, int]] = {}
        """For each start, the nodes it reaches, each with the node before it on the way."""
        self._starts: dict[int, _Nodes] = {}
        """For each node, the starts that reach it."""
        self._pairs = 0
        self._out: Delta = {}

    @property
    def rows_held(self) -> int:
        """Number of rows in its state: edges, seeds and pairs."""
        return len(self._edges) + len(self._seeds) + self._pairs

    def apply(self, *changes: Delta) -> Delta:
        """See the package; edges, and seeds if there are such."""
        self._out = {}
        gone, come = self._transitions(self._edges, changes[0])
        for a, b in gone:
            self._cut(*((b, a) if self._backward else (a, b)))
        for a, b in come:
            self._tie(*((b, a) if self._backward else (a, b)))
        if self._seeded:
            gone_seeds, new_seeds = self._transitions(self._seeds, changes[1])
            for (start,) in gone_seeds:
                self._drop(start)
            for (start,) in new_seeds:
                self._begin(start)
        return self._out

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

    def _begin(self, start: int) -> None:
        self._trees[start] = {}
        if self._reflexive:
            self._emit(start, start, 1)
        for node in self._after.get(start, ()):
            self._grow(start, node, start)

    def _drop(self, start: int) -> None:
        for node in self._trees.pop(start):
            self._leave(start, node)
        if self._reflexive:
            self._emit(start, start, -1)

    def _emit(self, start: int, node: int, times: int) -> None:
        add(self._out, (node, start) if self._backward else (start, node), times)

    def _leave(self, start: int, node: int) -> None:
        starts = self._starts[node]
        del starts[start]
        if not starts:
            del self._starts[node]
        self._pairs -= 1
        if not (self._reflexive and node == start):
            self._emit(start, node, -1)

    # --- edges -------------------------------------------------------------------------------

    def _tie(self, a: int, b: int) -> None:
        """Take in an edge."""
        self._after.setdefault(a, {})[b] = None
        self._before.setdefault(b, {})[a] = None
        if not self._seeded and a not in self._trees:
            self._begin(a)
        for start in self._starts_at(a):
            self._grow(start, b, a)

    def _starts_at(self, node: int) -> list[int]:
        """Return the starts a way leads from to a node, or that are it."""
        starts = list(self._starts.get(node, ()))
        if node in self._trees and node not in self._starts.get(node, ()):
            starts.append(node)
        return starts

    def _grow(self, start: int, node: int, before: int) -> None:
        """Let a start reach a node, and what can be reached from there."""
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

    def _cut(self, a: int, b: int) -> None:
        """Take an edge out."""
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

    def _loosen(self, start: int, top: int) -> None:
        """Tie the branch under a node elsewhere, or let go what cannot be."""
        tree = self._trees[start]
        loose: _Nodes = {top: None}
        for node in (branch := [top]):
            if node == start:
                continue  # what follows the start hangs on the start itself, which a way back to it does not carry
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
