"""Answers of a continuous query, computed anew for each report by another engine.

The contents of each window are a set of triples, taken from all elements of its stream by their times, and a
named graph for pyoxigraph; the query is asked of those and the static data, with GRAPH in the place of WINDOW.
Nothing is kept from one report to the next, and nothing is shared with the code under test.

Queries have their patterns on streams in braces (WINDOW, or STREAM), as in RSP-QL.  A graph in them is named:
to the other engine windows are graphs, too, and a variable would stand for them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyoxigraph as ox

__all__ = ["CountExtent", "Element", "Extent", "Rows", "WindowsOracle", "plain_sparql"]

Triple = tuple[str, str, str]
Statement = Triple | tuple[str, str, str, str]
"""A triple, and its graph if that is not the default one; terms as N-Triples has them."""
Rows = Counter[tuple[str | None, ...]]


@dataclass(frozen=True)
class Element:
    """A triple on a stream at a time, in milliseconds since 1970."""

    time: int
    stream: str
    triple: Triple


@dataclass(frozen=True)
class Extent:
    """The elements that a window holds: those of the last ``range`` milliseconds, or all from ``start`` on."""

    stream: str
    range: int | None
    step: int
    start: int = 0

    def holds(self, element: Element, now: int) -> bool:
        """Tell whether an element is in the window at a time."""
        end = now - now % self.step
        begins = self.start <= element.time if self.range is None else end - self.range < element.time
        return element.stream == self.stream and begins and element.time <= end


@dataclass(frozen=True)
class CountExtent:
    """Which elements a window by count holds: at report k those up to the (k * ``step``)-th, the last ``elements``.

    Elements are in the order of their times, and of their triples' text at one time, each once.
    """

    stream: str
    elements: int
    step: int
    first: int = 0
    """The time of the first element that counts."""

    def ordered(self, elements: Iterable[Element]) -> list[tuple[int, Triple]]:
        """Return the elements that count, with their times, in order."""
        return sorted({(e.time, e.triple) for e in elements if e.stream == self.stream and e.time >= self.first})

    def reports(self, elements: Iterable[Element], upto: int) -> dict[int, int]:
        """Return the times of all reports up to one, by number."""
        ordered = [time for time, _ in self.ordered(elements) if time <= upto]
        return {at // self.step: ordered[at - 1] for at in range(self.step, len(ordered) + 1, self.step)}


_DROPPED = (
    re.compile(r"\bREGISTER\b.*?\bAS\b", re.DOTALL),
    re.compile(r"\bFROM\s+(?:NAMED\s+)?(?:WINDOW|STREAM)\b.*?\[.*?\]", re.DOTALL),
    re.compile(r"(?<=\bSELECT)\s+[RID]STREAM\b", re.IGNORECASE),
)
_ANY_GRAPH = re.compile(r"\bGRAPH\s+[?$]")
_BRACES = re.compile(r"\b(?:WINDOW|STREAM)(?=\s+\S+\s*\{)")


def plain_sparql(text: str) -> str:
    """Return a continuous query as SPARQL in which windows are named graphs."""
    for dropped in _DROPPED:
        text = dropped.sub(" ", text)
    return _BRACES.sub("GRAPH", text)


class WindowsOracle:
    """A continuous query over static data and all elements there will ever be."""

    def __init__(
        self, query: str, windows: Mapping[str, Extent | CountExtent], static: Iterable[Statement],
        elements: Sequence[Element],
    ):  # fmt: skip
        """``windows``: their extents by their names, IRIs in brackets, as the query has them."""
        assert not _ANY_GRAPH.search(query), "windows would be among the graphs"
        self._query = plain_sparql(query)
        self._windows = windows
        self._elements = elements
        self._store = ox.Store()
        self._store.extend(map(_quad, static))

    def contents(self, window: str, now: int) -> set[Triple]:
        """Return the triples in a window at a time, or at the report of a number if it is by count."""
        extent = self._windows[window]
        if isinstance(extent, CountExtent):
            return {triple for _, triple in extent.ordered(self._elements)[: now * extent.step][-extent.elements :]}
        return {element.triple for element in self._elements if extent.holds(element, now)}

    def solutions(self, now: int) -> tuple[list[str], Rows]:
        """Return names and bag of the solutions at a time; those of ASK and CONSTRUCT as a standing query has them."""
        for window in self._windows:
            graph = ox.NamedNode(window[1:-1])
            self._store.clear_graph(graph)
            self._store.add_graph(graph)  # a window exists, even an empty one
            self._store.extend(_quad((*triple, window)) for triple in self.contents(window, now))
        found = self._store.query(self._query)
        if isinstance(found, ox.QueryBoolean):
            return [], Counter({(): 1} if found else {})
        if isinstance(found, ox.QueryTriples):
            triples = {(str(each.subject), str(each.predicate), str(each.object)) for each in found}
            return ["subject", "predicate", "object"], Counter(triples)
        names = [variable.value for variable in found.variables]
        return names, Counter(tuple(None if term is None else str(term) for term in row) for row in found)

    def told(self, reported: str, reports: Sequence[int]) -> list[tuple[int, Rows]]:
        """Return the rows reported at each of several reports in turn; the first has no report before it.

        ``reported``: ``rstream``, ``istream`` or ``dstream``.
        """
        found: list[tuple[int, Rows]] = []
        before: Rows = Counter()
        for now in reports:
            rows = self.solutions(now)[1]
            found.append((now, {"rstream": rows, "istream": rows - before, "dstream": before - rows}[reported]))
            before = rows
        return found


def _quad(statement: Statement) -> ox.Quad:
    (quad,) = ox.parse(" ".join((*filter(None, statement), ".")).encode(), format=ox.RdfFormat.N_QUADS)
    return quad
