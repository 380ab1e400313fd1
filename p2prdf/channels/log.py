"""The graphs of a knowledge base that hold, from what was published and deleted: pure, told of triples as they come.

*Order.*  A deletion takes statements away from the graphs that were published before it, and from no others, in
whatever order one hears of them: a graph that is heard of late is trimmed, one with a later stamp is let alone.

*The log must not grow for ever.*  So whoever evaluates rewrites graphs that a deletion has trimmed: the trimmed graph
is published, with the stamp of the first publication, and when that is acknowledged the old one is retracted.  A
deletion all of whose graphs are rewritten is retracted, but only when it is ``GRACE_MS`` old: who was taken for gone,
and writes a trimmed graph late, finds it trimmed by later deletions all the same.  A crash anywhere leaves graphs and
deletions that come to the same, and the next one does it again; two that do it write the same literals.

*The same again.*  Who does not know whether a graph was published publishes it again, with the same identifier and a
later stamp: it is the same publication, the first stamp counts, and the other triple is rewritten.

*What goes is dealt with at bookmarks.*  Triples of different owners come in any order, so one may hear that the old
graph is gone before one hears of the trimmed one, or that a deletion is gone before its graphs are.  At a bookmark all
has come that was published before it, and a trimmed graph was published before the old one was retracted.
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

__all__ = ["GRACE_MS", "Heard", "Log"]

GRACE_MS: Final = 60_000
"""So long a deletion stays in the overlay, at least: longer than anybody's lease that is renewed as it should."""
_REFUSED_MAX: Final = 1_000


@dataclass(slots=True)
class _Graph:
    identifier: str
    stamp: int
    """Of the first publication with this identifier."""
    holding: dict[Triple, None]
    """Statements that no deletion has taken away."""
    touched: bool = False
    """Whether it should be written in another way."""
    rewritten: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """What a triple of the log comes to.

    ``graph``: statements that were published together; ``lost``: statements that no graph has any more.
    """

    graph: tuple[Triple, ...] = ()
    lost: list[Triple] = field(default_factory=list)


class Log:
    """Graphs and deletions of one knowledge base."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        """What was published and is neither, with the reason."""
        self._triples: Counter[tuple[str, str]] = Counter()
        self._graphs: dict[str, _Graph] = {}
        self._known: dict[str, set[str]] = {}
        """Literals by the identifier of their graph."""
        self._deletions: dict[str, Deletion] = {}
        self._leaving: dict[tuple[str, str], int] = {}
        """Triples that were retracted, by predicate and literal, with the time in milliseconds."""
        self._times: Counter[Triple] = Counter()
        """In how many graphs a statement is."""

    @property
    def graphs(self) -> int:
        """The number of graphs that hold."""
        return len(self._graphs)

    @property
    def deletions(self) -> int:
        """The number of deletions that are under way."""
        return sum((DELETE, literal) not in self._leaving for literal in self._deletions)

    def content(self) -> list[tuple[Triple, ...]]:
        """Return what holds of each graph, in the order of publication."""
        found = sorted(self._graphs.items(), key=lambda each: (each[1].stamp, each[0]))
        return [tuple(graph.holding) for _, graph in found if graph.holding]

    # --- what is heard -------------------------------------------------------------------------

    def take(self, predicate: str, literal: str, stamp: int, *, removed: bool) -> Heard:
        """Take account of a triple that came or went; ``stamp``: when."""
        key = predicate, literal
        before = self._triples[key]
        self._triples[key] += -1 if removed else 1
        if self._triples[key] == 0:
            del self._triples[key]
        if removed:
            if before == 1:
                self._leaving[key] = stamp >> 16
            return Heard()
        if before != 0:
            return Heard()
        if self._leaving.pop(key, None) is not None:  # it came again before it was dealt with that it had gone
            if literal in self._graphs:
                self._graphs[literal].rewritten = False  # somebody wrote late what is written in another way already
            return Heard()
        try:
            return self._take_graph(literal, stamp) if predicate == GRAPH else self._take_deletion(literal, stamp)
        except DataRefused as error:
            if len(self.refused) < _REFUSED_MAX:
                self.refused[literal] = str(error)
            return Heard()

    def _take_graph(self, literal: str, stamp: int) -> Heard:
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
        # What is written in another way is no publication, and brings nothing but what one has missed.
        return Heard(tuple(new if same else graph.holding), lost)

    def _take_deletion(self, literal: str, stamp: int) -> Heard:
        deletion = read_deletion(literal, stamp)
        same = [each.stamp for each in self._deletions.values() if each.identifier == deletion.identifier]
        deletion = self._deletions[literal] = replace(deletion, stamp=min([deletion.stamp, *same]))
        lost: list[Triple] = []
        for graph in self._graphs.values():
            lost += self._less(self._trim(graph, deletion))
        return Heard(lost=lost)

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
        """Count statements less; return those that no graph has any more."""
        lost = []
        for each in statements:
            self._times[each] -= 1
            if not self._times[each]:
                del self._times[each]
                lost.append(each)
        return lost

    # --- at bookmarks --------------------------------------------------------------------------

    def settle(self, bookmark_ms: int) -> list[Triple]:
        """Deal with what went before a bookmark; return statements that no graph has any more."""
        lost: list[Triple] = []
        for (predicate, literal), at in list(self._leaving.items()):
            if at >= bookmark_ms:
                continue
            if predicate == DELETE:
                deletion = self._deletions.get(literal)
                if deletion is not None and max(at, deletion.stamp >> 16) + GRACE_MS >= bookmark_ms:
                    continue  # a graph that somebody writes late is still trimmed by it
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
        """Return literals of graphs that are to be written in another way, each with that; at most so many.

        None: nothing is left of it.  They count as rewritten then.
        """
        found: list[tuple[str, str | None]] = []
        for literal, graph in self._graphs.items():
            if len(found) >= most:
                break
            if graph.touched and not graph.rewritten and (GRAPH, literal) not in self._leaving:
                graph.rewritten = True
                try:
                    left = graph_literal(graph.identifier, graph.stamp, graph.holding) if graph.holding else None
                except DataRefused:  # in a spelling that made it smaller: it stays, and so does the deletion
                    continue
                found.append((literal, left))
        return found

    def retry(self, literals: Iterable[str]) -> None:
        """Take note that graphs could not be rewritten."""
        for literal in literals:
            if literal in self._graphs:
                self._graphs[literal].rewritten = False

    def applied(self, bookmark_ms: int) -> list[str]:
        """Return the literals of deletions that are not needed any more."""
        if any(graph.touched for graph in self._graphs.values()):
            return []
        return [
            literal for literal, deletion in self._deletions.items()
            if (DELETE, literal) not in self._leaving and (deletion.stamp >> 16) + GRACE_MS < bookmark_ms
        ]  # fmt: skip
