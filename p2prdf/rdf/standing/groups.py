"""Read group graph patterns from the symbols of a query (SPARQL 1.1, 19.8, rules 53 to 69)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from p2prdf.rdf.query import FILTERS_MAX
from p2prdf.rdf.standing import syntax
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.expressions import ExpressionReader
from p2prdf.rdf.standing.labels import LABEL_SERVICE, read_labels, resolve_labels
from p2prdf.rdf.standing.triples import TriplesReader
from p2prdf.rdf.standing.windows import WindowReader
from p2prdf.rdf.terms import XSD
from p2prdf.rdf.tokens import Symbol

__all__ = ["COLUMNS_MAX", "GROUPS_MAX", "PARTS_MAX", "VALUES_MAX", "GroupReader"]

GROUPS_MAX: Final = 128
"""Most groups in a query."""
COLUMNS_MAX: Final = 1024
"""Most variables of SELECT or VALUES."""
VALUES_MAX: Final = 20_000
"""Most rows of VALUES in a query."""
PARTS_MAX: Final = 128
"""Most parts of a query.

Parts are the elements of its groups, and the computed columns, keys and conditions of its clauses.
"""


_HINTS: Final = "<http://www.bigdata.com/queryHints#"


class GroupReader:
    """Reads groups; ``select`` reads a sub-query, ``windows`` holds the windows declared before."""

    def __init__(self, cursor: Cursor, select: Callable[[], syntax.Select], windows: WindowReader):
        self._cursor = cursor
        self._select = select
        self._windows = windows
        self._named: dict[str, int] = {}
        """The positions of named sub-queries."""
        self._readable = len(cursor.symbols)
        """The position before which sub-queries are defined that the present text may include."""
        self._within = ""
        """The keyword of the innermost block for a graph or window."""
        self._groups = 0
        self._filters = 0
        self._parts = 0
        self._rows = 0
        self.expressions = ExpressionReader(cursor, self.group)

    def group(self) -> syntax.Group:
        """Read ``{ }``."""
        cursor = self._cursor
        opening = cursor.expect_mark("{")
        self._groups += 1
        if self._groups > GROUPS_MAX:
            raise cursor.refusal(opening.at, "groups", f"a query has at most {GROUPS_MAX}")
        cursor.basic += 1
        found = syntax.Group([], opening.at)
        if cursor.sees_word("SELECT"):
            found.elements.append(self._select())
        else:
            while not cursor.sees_mark("}"):
                found.elements.append(self._element())
        cursor.expect_mark("}")
        resolve_labels(found, cursor)
        cursor.basic += 1
        return found

    def named_queries(self) -> None:
        """Read definitions of sub-queries, ``WITH { SELECT ... } AS %name``, as Blazegraph has them.

        Each INCLUDE reads the text again, so it is the same as the sub-query in its place.
        """
        cursor = self._cursor
        while cursor.sees_word("WITH"):
            cursor.next()
            begins = cursor.position
            opening, depth = cursor.expect_mark("{"), 1
            if not cursor.sees_word("SELECT"):
                raise cursor.refusal(opening.at, "WITH", "a named sub-query begins with SELECT")
            while depth:
                symbol = cursor.next()
                depth += symbol.is_mark("{") - symbol.is_mark("}")
            cursor.expect_word("AS")
            name = cursor.next()
            if name.kind != "subquery":
                raise cursor.refusal(name.at, "WITH", "the name of a sub-query begins with %")
            if name.value in self._named:
                raise cursor.refusal(name.at, "WITH", f"two sub-queries have the name {name.value}")
            self._named[name.value] = begins

    def _included(self, word: Symbol) -> syntax.Group:
        cursor = self._cursor
        name = cursor.next()
        begins = self._named.get(name.value, self._readable)
        if name.kind != "subquery" or begins >= self._readable:
            raise cursor.misplaced(word)
        behind, readable, labels = cursor.goto(begins), self._readable, cursor.labels
        self._readable, cursor.labels = begins, {}
        found = self.group()
        self._readable, cursor.labels = readable, labels
        cursor.goto(behind)
        return found

    def count(self) -> None:
        """Count the next part; refuse too many, as each one is a level of recursion in later walks."""
        self._parts += 1
        if self._parts > PARTS_MAX:
            symbol = self._cursor.peek()
            at = len(self._cursor.text) if symbol is None else symbol.at
            raise self._cursor.refusal(at, "query size", f"a query has at most {PARTS_MAX} parts")

    def _element(self) -> syntax.Element:
        cursor = self._cursor
        self.count()
        triples = TriplesReader(cursor, opens=True)
        begins = cursor.peek()
        if begins is not None and triples.sees_term():
            found = syntax.Triples(_without_hints(triples.read()))
            more = triples.opened()
            for _ in more:
                self.count()
            return syntax.OpenedTriples([found, *more], begins.at) if more else found
        if cursor.sees_mark("{"):
            element: syntax.Element = self._group_or_union()
        else:
            element = self._by_word()
        cursor.take_mark(".")
        return element

    def _group_or_union(self) -> syntax.Group | syntax.UnionGroups:
        groups = [self.group()]
        while self._cursor.take_word("UNION"):
            groups.append(self.group())
        return groups[0] if len(groups) == 1 else syntax.UnionGroups(groups)

    def _by_word(self) -> syntax.Element:
        cursor = self._cursor
        word = cursor.next()
        if word.kind == "word":
            match word.value.upper():
                case "OPTIONAL":
                    return syntax.OptionalGroup(self.group(), word.at)
                case "MINUS":
                    return syntax.MinusGroup(self.group())
                case "GRAPH":
                    return self._about_graph(word)
                case "WINDOW" | "STREAM" if (name := cursor.peek()) is not None and name.kind == "var":
                    return self._about_each_window(word)
                case "WINDOW" | "STREAM":
                    return self._about_window(self._windows.named(word), word)
                case "FILTER":
                    self._filters += 1
                    if self._filters > FILTERS_MAX:
                        raise cursor.refusal(word.at, "FILTER", f"a query has at most {FILTERS_MAX} filters")
                    return self.expressions.constraint()
                case "BIND":
                    return self._bind(word.at)
                case "VALUES":
                    return self.inline_data()
                case "SERVICE":
                    return self._service(word)
                case "INCLUDE":
                    return self._included(word)
        raise cursor.misplaced(word)

    def _service(self, word: Symbol) -> syntax.LabelService:
        cursor = self._cursor
        cursor.take_word("SILENT")
        endpoint = cursor.next()
        if endpoint.kind == "var":
            reason = f"the endpoint ?{endpoint.value} is a variable; name it by its IRI"
            raise cursor.refusal(word.at, "SERVICE", reason)
        if endpoint.kind != "iri" or endpoint.value != LABEL_SERVICE:
            raise cursor.misplaced(word)
        found = read_labels(cursor, word.at)
        for _ in found.labels:
            self.count()
        return found

    def _about_graph(self, word: Symbol) -> syntax.GraphGroup | syntax.WindowGroup:
        """Read an IRI or a variable, and a group, after GRAPH."""
        symbol = self._cursor.next()
        if symbol.kind not in ("iri", "var"):
            raise self._cursor.misplaced(symbol)
        window = self._windows.stream_as_graph(symbol.value) if symbol.kind == "iri" else None
        if window is not None:
            return self._about_window(window, word)
        if self._within == "WINDOW":
            reason = "elements of a window have no graphs; write it outside of the braces of the window"
            raise self._cursor.refusal(word.at, "GRAPH in WINDOW", reason)
        name = symbol.value if symbol.kind == "iri" else "?" + symbol.value
        return syntax.GraphGroup(name, self._inner("GRAPH"), word.at)

    def _about_window(self, window: syntax.StreamWindow, word: Symbol) -> syntax.WindowGroup:
        if self._within:
            reason = "a pattern reads one window or one graph; write it outside of the other braces"
            raise self._cursor.refusal(word.at, f"{word.value.upper()} in {self._within}", reason)
        return syntax.WindowGroup(window, self._inner("WINDOW"))

    def _about_each_window(self, word: Symbol) -> syntax.UnionGroups:
        """Read a variable and a group after WINDOW: the solutions in each window, with its name."""
        windows, variable = self._windows.each(word), self._cursor.next()
        groups = []
        group = self._about_window(windows[0], word).group
        if variable.value in syntax.visible(group):
            reason = "it has no value inside its own braces; write conditions on the window after the braces"
            raise self._cursor.refusal(variable.at, f"WINDOW ?{variable.value}", reason)
        for window in windows:
            name = syntax.Expression([Symbol("iri", window.name, variable.at)], variable.at)
            bind = syntax.Bind(name, variable.value, variable.at)
            groups.append(syntax.Group([syntax.WindowGroup(window, group), bind], word.at))
        return syntax.UnionGroups(groups)

    def _inner(self, within: str) -> syntax.Group:
        outer, self._within = self._within, within
        group = self.group()
        self._within = outer
        return group

    def _bind(self, at: int) -> syntax.Bind:
        cursor = self._cursor
        cursor.basic += 1
        cursor.expect_mark("(")
        expression = self.expressions.up_to_name()
        cursor.expect_word("AS")
        name = cursor.expect_variable().value
        cursor.expect_mark(")")
        return syntax.Bind(expression, name, at)

    def inline_data(self) -> syntax.InlineData:
        """Read the variables and rows after VALUES."""
        cursor = self._cursor
        single = not cursor.take_mark("(")
        names = {cursor.expect_variable().value: None} if single else {}
        while not single and not cursor.take_mark(")"):
            variable = cursor.expect_variable()
            if variable.value in names:
                raise cursor.refusal(variable.at, "syntax error", f"VALUES names ?{variable.value} twice")
            if len(names) == COLUMNS_MAX:
                raise cursor.refusal(variable.at, "VALUES", f"more than {COLUMNS_MAX} variables")
            names[variable.value] = None
        opening = cursor.expect_mark("{")
        rows: list[tuple[str | None, ...]] = []
        while not cursor.sees_mark("}"):
            self._rows += 1
            if self._rows > VALUES_MAX:
                raise cursor.refusal(opening.at, "VALUES", f"a query has at most {VALUES_MAX:,} rows of VALUES")
            rows.append((self._datum(),) if single else self._row(len(names)))
        cursor.next()
        cursor.basic += 1
        return syntax.InlineData(tuple(names), tuple(rows))

    def _row(self, width: int) -> tuple[str | None, ...]:
        cursor = self._cursor
        opening = cursor.expect_mark("(")
        cells = []
        while not cursor.take_mark(")"):
            cells.append(self._datum())
        if len(cells) != width:
            raise cursor.refusal(opening.at, "syntax error", f"{len(cells)} values for {width} variables")
        return tuple(cells)

    def _datum(self) -> str | None:
        if self._cursor.sees_mark("<<("):
            return TriplesReader(self._cursor).constant()
        symbol = self._cursor.next()
        if symbol.kind in ("iri", "literal"):
            return symbol.value
        if symbol.is_word("TRUE", "FALSE"):
            return f'"{symbol.value.lower()}"^^<{XSD}boolean>'
        if symbol.is_word("UNDEF"):
            return None
        raise self._cursor.misplaced(symbol)


def _without_hints(triples: list[syntax.Triple]) -> list[syntax.Triple]:
    """Return triples without those that are Blazegraph's hints for its planner."""
    return [
        each
        for each in triples
        if not (isinstance(each.path, syntax.Link) and each.path.predicate.startswith(_HINTS))
    ]
