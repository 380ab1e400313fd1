"""The graphs of a knowledge base that are in force, from its publications and deletions.

Pure: the caller reports triples as they arrive, in any order. A deletion removes statements from all graphs
with earlier stamps and from no others.

*Compaction.* A worker publishes each trimmed graph with its original stamp and, once that is acknowledged,
retracts the old one. A deletion is retracted when all its graphs are rewritten and it is ``GRACE_MS`` old;
until then it also trims graphs written late by a worker considered dead. After a crash at any point the next
worker repeats the step; two workers write equal literals.

*Repetition.* A graph repeated with the same identifier and a later stamp is the same publication with the first
stamp; the other triple is rewritten.

*Bookmarks.* Triples of different owners arrive in any order, so removals take effect at bookmarks: then all
earlier publications have arrived, the trimmed graphs among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from p2prdf.channels.publication import (
    DELETE,
    GRAPH,
    Deletion,
    graph_literal,
    matches,
    read_deletion,
    read_graph,
)
from p2prdf.errors import DataRefused
from p2prdf.reasoning import Triple

__all__ = ["GRACE_MS", "Log", "LogChange"]

GRACE_MS: Final = 60_000
"""Least time that a deletion stays in the overlay: longer than any properly renewed lease."""
_REFUSED_MAX: Final = 1_000


@dataclass(slots=True)
class _Graph:
    identifier: str
    stamp: int
    """Of the first publication with this identifier."""
    holding: dict[Triple, None]
    """Statements that no deletion has removed."""
    touched: bool = False
    """Whether it should be rewritten."""
    rewritten: bool = False


@dataclass(frozen=True, slots=True)
class LogChange:
    """The effect of a triple of the log.

    ``graph``: statements that were published together; ``lost``: statements that no graph contains any more.
    """

    graph: tuple[Triple, ...] = ()
    lost: list[Triple] = field(default_factory=list)


class Log:
    """Graphs and deletions of one knowledge base."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        """Published literals that are neither graphs nor deletions, with the reason."""
        self._triples: Counter[tuple[str, str]] = Counter()
        self._graphs: dict[str, _Graph] = {}
        self._known: dict[str, set[str]] = {}
        """Literals by the identifier of their graph."""
        self._deletions: dict[str, Deletion] = {}
        self._leaving: dict[tuple[str, str], int] = {}
        """Retracted triples, by predicate and literal, with the time in milliseconds."""
        self._times: Counter[Triple] = Counter()
        """The number of graphs that contain each statement."""

    @property
    def graphs(self) -> int:
        """The number of graphs in force."""
        return len(self._graphs)

    @property
    def deletions(self) -> int:
        """The number of deletions in force."""
        return sum((DELETE, literal) not in self._leaving for literal in self._deletions)

    def content(self) -> list[tuple[Triple, ...]]:
        """Return the statements in force of each graph, in the order of publication."""
        found = sorted(self._graphs.items(), key=lambda each: (each[1].stamp, each[0]))
        return [tuple(graph.holding) for _, graph in found if graph.holding]

    # --- arrivals ------------------------------------------------------------------------------

    def take(self, predicate: str, literal: str, stamp: int, *, removed: bool) -> LogChange:
        """Take in a triple that was published or removed at ``stamp``."""
        key = predicate, literal
        before = self._triples[key]
        self._triples[key] += -1 if removed else 1
        if self._triples[key] == 0:
            del self._triples[key]
        if removed:
            if before == 1:
                self._leaving[key] = stamp >> 16
            return LogChange()
        if before != 0:
            return LogChange()
        if self._leaving.pop(key, None) is not None:  # it came again before a bookmark completed its removal
            if literal in self._graphs:
                self._graphs[literal].rewritten = False  # a late worker wrote a graph that has been rewritten
            return LogChange()
        try:
            return self._take_graph(literal, stamp) if predicate == GRAPH else self._take_deletion(literal, stamp)
        except DataRefused as error:
            if len(self.refused) < _REFUSED_MAX:
                self.refused[literal] = str(error)
            return LogChange()

    def _take_graph(self, literal: str, stamp: int) -> LogChange:
        published = read_graph(literal, stamp)
        same = [self._graphs[each] for each in self._known.get(published.identifier, ())]
        first = min([published.stamp, *(each.stamp for each in same)])
        graph = _Graph(published.identifier, first, dict.fromkeys(published.statements), first < published.stamp)
        lost: list[Triple] = []
        for each in same:
            if each.stamp > first:
                each.stamp, each.touched = first, True
                for deletion in self._deletions.values():
                    lost += self._less(self._trim(each, deletion))
        for deletion in self._deletions.values():
            self._trim(graph, deletion)
        new = [each for each in graph.holding if not self._times[each]]
        self._times.update(graph.holding.keys())
        self._graphs[literal] = graph
        self._known.setdefault(published.identifier, set()).add(literal)
        # A rewritten graph is no new publication: it adds only statements missed so far.
        return LogChange(tuple(new if same else graph.holding), lost)

    def _take_deletion(self, literal: str, stamp: int) -> LogChange:
        deletion = read_deletion(literal, stamp)
        same = [each.stamp for each in self._deletions.values() if each.identifier == deletion.identifier]
        deletion = self._deletions[literal] = replace(deletion, stamp=min([deletion.stamp, *same]))
        lost: list[Triple] = []
        for graph in self._graphs.values():
            lost += self._less(self._trim(graph, deletion))
        return LogChange(lost=lost)

    @staticmethod
    def _trim(graph: _Graph, deletion: Deletion) -> list[Triple]:
        if graph.stamp >= deletion.stamp:
            return []
        gone = [each for each in graph.holding if matches(deletion.pattern, each)]
        for each in gone:
            del graph.holding[each]
        graph.touched = graph.touched or bool(gone)
        return gone

    def _less(self, statements: Iterable[Triple]) -> list[Triple]:
        """Decrease the counts of statements; return those that no graph contains any more."""
        lost = []
        for each in statements:
            self._times[each] -= 1
            if not self._times[each]:
                del self._times[each]
                lost.append(each)
        return lost

    # --- at bookmarks --------------------------------------------------------------------------

    def settle(self, bookmark_ms: int) -> list[Triple]:
        """Complete removals before a bookmark; return statements that no graph contains any more."""
        lost: list[Triple] = []
        for (predicate, literal), at in list(self._leaving.items()):
            if at >= bookmark_ms:
                continue
            if predicate == DELETE:
                deletion = self._deletions.get(literal)
                if deletion is not None and max(at, deletion.stamp >> 16) + GRACE_MS >= bookmark_ms:
                    continue  # it still trims graphs that a worker writes late
                self._deletions.pop(literal, None)
            elif (graph := self._graphs.pop(literal, None)) is not None:
                lost += self._less(graph.holding)
                self._known[graph.identifier].discard(literal)
                if not self._known[graph.identifier]:
                    del self._known[graph.identifier]
            del self._leaving[predicate, literal]
            self.refused.pop(literal, None)
        return lost

    def rewrites(self, most: int) -> list[tuple[str, str | None]]:
        """Return at most ``most`` literals of graphs to rewrite, each with its replacement.

        None: nothing is left of the graph. The graphs count as rewritten then.
        """
        found: list[tuple[str, str | None]] = []
        for literal, graph in self._graphs.items():
            if len(found) >= most:
                break
            if graph.touched and not graph.rewritten and (GRAPH, literal) not in self._leaving:
                graph.rewritten = True
                try:
                    left = graph_literal(graph.identifier, graph.stamp, graph.holding) if graph.holding else None
                except DataRefused:  # it fitted in a shorter spelling only: graph and deletion stay
                    continue
                found.append((literal, left))
        return found

    def retry(self, literals: Iterable[str]) -> None:
        """Note that graphs could not be rewritten."""
        for literal in literals:
            if literal in self._graphs:
                self._graphs[literal].rewritten = False

    def applied(self, bookmark_ms: int) -> list[str]:
        """Return the literals of deletions that are no longer needed."""
        if any(graph.touched for graph in self._graphs.values()):
            return []
        return [
            literal for literal, deletion in self._deletions.items()
            if (DELETE, literal) not in self._leaving and (deletion.stamp >> 16) + GRACE_MS < bookmark_ms
        ]  # fmt: skip
