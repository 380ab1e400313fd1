"""Read query forms, projections and solution modifiers from the symbols of a query (rules 2 to 28)."""

from __future__ import annotations

from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf import terms, tokens
from p2prdf.rdf.algebra import Form
from p2prdf.rdf.execution import Execution
from p2prdf.rdf.fulltext.calls import with_full_text
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.groups import COLUMNS_MAX, GroupReader
from p2prdf.rdf.standing.syntax import (
    Expression,
    Group,
    Link,
    OpenedTriples,
    Projection,
    Query,
    Select,
    Triple,
    Triples,
)
from p2prdf.rdf.standing.triples import TriplesReader
from p2prdf.rdf.standing.windows import WindowReader
from p2prdf.rdf.terms import XSD

__all__ = ["SLICE_MAX", "TEMPLATE_MAX", "QueryReader", "read_query"]

TEMPLATE_MAX: Final = 64
"""Most triples of a CONSTRUCT template."""
SLICE_MAX: Final = 1 << 31
"""Largest LIMIT and OFFSET."""


def read_query(text: str, execution: Execution | None = None) -> tuple[Cursor, Query]:
    """Return the syntax tree of a query, and the cursor that has read it.

    ``execution``: that of a query which is evaluated once.

    Raises QueryRefused, with the construct and its position, for a malformed query.
    """
    symbols, base = tokens.symbols(text, tokens.scan(text))
    tokens.refuse_reserved(text, symbols)
    cursor = Cursor(text, with_full_text(text, symbols), base, execution)
    try:
        return cursor, QueryReader(cursor).query()
    except RecursionError:  # the caller may have used most of the stack
        raise QueryRefused("the query nests too deeply to be parsed", construct="nesting") from None


class QueryReader:
    """Reads one whole query."""

    def __init__(self, cursor: Cursor):
        self._cursor = cursor
        self._windows = WindowReader(cursor)
        self._groups = GroupReader(cursor, self._sub_select, self._windows)

    def query(self) -> Query:
        """Read a query from its form, or from REGISTER before it, to its end."""
        cursor = self._cursor
        self._windows.registration()
        self._windows.default_graph()
        first = cursor.next()
        self._windows.report_kind()
        template: list[tuple[str, str, str]] = []
        if first.is_word("SELECT"):
            form = Form.SELECT
            select = self._select(first.at, whole=True)
        elif first.is_word("ASK"):
            form = Form.ASK
            self._windows.sources()
            self._groups.named_queries()
            select = self._modified(Select(self._where(), first.at))
        elif first.is_word("CONSTRUCT"):
            form = Form.CONSTRUCT
            template, select = self._construct(first.at)
        else:
            raise cursor.misplaced(first)
        last = cursor.peek()
        if last is not None:
            raise cursor.misplaced(last)
        return Query(form, select, template, cursor.base, self._windows.continuous(form), self._windows.dataset)

    def _sub_select(self) -> Select:
        return self._select(self._cursor.expect_word("SELECT").at)

    def _where(self) -> Group:
        self._cursor.take_word("WHERE")
        return self._groups.group()

    # --- SELECT ------------------------------------------------------------------------------

    def _select(self, at: int, *, whole: bool = False) -> Select:
        """Read a query after SELECT; the ``whole`` query may declare streams."""
        cursor = self._cursor
        distinct = cursor.take_word("DISTINCT")
        if not distinct:
            cursor.take_word("REDUCED")  # it permits removing duplicates, but does not require it
        projection = None if cursor.take_mark("*") else self._projection()
        if whole:
            self._windows.sources()
            self._groups.named_queries()
        select = Select(self._where(), at, projection, distinct)
        return self._modified(select)

    def _projection(self) -> list[Projection]:
        cursor = self._cursor
        found: dict[str, Projection] = {}
        while True:
            symbol = cursor.peek()
            if symbol is not None and len(found) > COLUMNS_MAX:
                raise cursor.refusal(symbol.at, "SELECT", f"more than {COLUMNS_MAX} variables are projected")
            if symbol is not None and symbol.kind == "var":
                cursor.next()
                found.setdefault(symbol.value, Projection(symbol.value, None, symbol.at))
            elif cursor.sees_mark("("):
                projected = self._named(aggregates=True)
                if projected.name in found:
                    reason = f"?{projected.name} is projected already"
                    raise cursor.refusal(projected.at, "expression in SELECT", reason)
                found[projected.name] = projected
            elif found:
                return list(found.values())
            else:
                raise cursor.misplaced(cursor.next())

    def _named(self, *, aggregates: bool) -> Projection:
        """Read ``( expression AS ?name )``."""
        cursor = self._cursor
        self._groups.count()
        opening = cursor.expect_mark("(")
        expression = self._groups.expressions.up_to_name(aggregates=aggregates)
        cursor.expect_word("AS")
        name = cursor.expect_variable().value
        cursor.expect_mark(")")
        return Projection(name, expression, opening.at)

    # --- solution modifiers ------------------------------------------------------------------

    def _modified(self, select: Select) -> Select:
        cursor = self._cursor
        if cursor.take_word("GROUP"):
            cursor.expect_word("BY")
            select.keys = self._keys()
        if cursor.take_word("HAVING"):
            select.having.append(self._groups.expressions.constraint(aggregates=True))
            while self._sees_constraint():
                self._groups.count()
                select.having.append(self._groups.expressions.constraint(aggregates=True))
        if cursor.take_word("ORDER"):
            cursor.expect_word("BY")
            select.order.append(self._order())
            while cursor.sees_word("ASC", "DESC") or self._sees_variable() or self._sees_constraint():
                select.order.append(self._order())
        self._slice(select)
        if cursor.take_word("VALUES"):
            select.data = self._groups.inline_data()
        return select

    def _sees_variable(self) -> bool:
        symbol = self._cursor.peek()
        return symbol is not None and symbol.kind == "var"

    def _sees_constraint(self) -> bool:
        symbol, following = self._cursor.peek(), self._cursor.peek(1)
        if symbol is None or following is None or symbol.is_word("HAVING", "VALUES"):
            return False
        if symbol.is_mark("("):
            return True
        return symbol.is_word("EXISTS", "NOT") or (symbol.kind in ("word", "iri") and following.is_mark("("))

    def _keys(self) -> list[Projection]:
        cursor = self._cursor
        found: list[Projection] = []
        while self._sees_variable() or self._sees_constraint():
            self._groups.count()
            symbol = cursor.peek()
            assert symbol is not None, "it was seen"
            if symbol.kind == "var":
                found.append(Projection(cursor.next().value, None, symbol.at))
            elif symbol.is_mark("("):
                found.append(self._key(symbol.at))
            else:
                expression = self._groups.expressions.constraint()
                found.append(Projection(cursor.hidden("k"), expression, symbol.at))
        if not found:
            raise cursor.misplaced(cursor.next())
        return found

    def _key(self, at: int) -> Projection:
        """Read ``( expression )``, or with ``AS ?name``."""
        cursor = self._cursor
        cursor.next()
        expression = self._groups.expressions.up_to_name()
        name = cursor.expect_variable().value if cursor.take_word("AS") else cursor.hidden("k")
        cursor.expect_mark(")")
        return Projection(name, expression, at)

    def _order(self) -> tuple[Expression, bool]:
        cursor = self._cursor
        self._groups.count()
        expressions = self._groups.expressions
        if cursor.sees_word("ASC", "DESC"):
            descending = cursor.next().is_word("DESC")
            return expressions.bracketed(aggregates=True), descending
        if self._sees_variable():
            symbol = cursor.next()
            return Expression([symbol], symbol.at), False
        return expressions.constraint(aggregates=True), False

    def _slice(self, select: Select) -> None:
        cursor = self._cursor
        seen: set[str] = set()
        while cursor.sees_word("LIMIT", "OFFSET"):
            word = cursor.next()
            name = word.value.upper()
            number = cursor.next()
            if name in seen or number.kind != "literal" or number.signed:
                raise cursor.misplaced(word if name in seen else number)
            seen.add(name)
            lexical, datatype, _ = terms.literal_parts(number.value)
            if datatype != XSD + "integer" or not lexical.isdecimal():
                raise cursor.misplaced(number)
            value = int(lexical) if len(lexical) <= 10 else SLICE_MAX + 1
            if value > SLICE_MAX:
                raise cursor.refusal(number.at, name, f"more than {SLICE_MAX}")
            if name == "LIMIT":
                select.limit = value
            else:
                select.offset = value

    # --- CONSTRUCT ---------------------------------------------------------------------------

    def _construct(self, at: int) -> tuple[list[tuple[str, str, str]], Select]:
        cursor = self._cursor
        self._windows.sources()
        if cursor.sees_word("WHERE"):  # CONSTRUCT WHERE { triples }: the pattern is the template
            group = self._where()
            triples = [triple for element in group.elements for triple in _triples_of(element)]
            if any(not isinstance(element, Triples | OpenedTriples) for element in group.elements):
                raise cursor.refusal(at, "syntax error", "CONSTRUCT WHERE takes triples only")
            return [self._plain(triple) for triple in triples], self._modified(Select(group, at))
        opening = cursor.expect_mark("{")
        reader = TriplesReader(cursor, paths=False, opens=True)
        template = [self._plain(triple) for triple in (reader.read() if reader.sees_term() else [])]
        cursor.expect_mark("}")
        cursor.labels.clear()  # labels of the template have a scope of their own
        if len(template) > TEMPLATE_MAX:
            raise cursor.refusal(opening.at, "CONSTRUCT", f"a template has at most {TEMPLATE_MAX} triples")
        self._windows.sources()
        self._groups.named_queries()
        group = self._where()
        group.elements += reader.made()
        return template, self._modified(Select(group, at))

    def _plain(self, triple: Triple) -> tuple[str, str, str]:
        if not isinstance(triple.path, Link):
            raise self._cursor.refusal(triple.at, "syntax error", "a template has no paths")
        return triple.subject, triple.path.predicate, triple.object


def _triples_of(element: object) -> list[Triple]:
    found = element.elements[0] if isinstance(element, OpenedTriples) else element
    return found.triples if isinstance(found, Triples) else []
