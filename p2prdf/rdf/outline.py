"""The outline of a SELECT query, with unsupported constructs refused before a grammar runs.

One walk over the symbols of a query

- refuses each construct that a standing query cannot have, with its name and position;
- separates the filters, each with the variables in its scope: a FILTER sees the variables of its own
  group, nested groups included; any other variable is unbound in it, even if the query binds it
  elsewhere (SPARQL 1.1, 18.2.2);
- writes the *shape*: the query with ``SELECT *``, variables and constants numbered, filters left
  out.  The grammar (:mod:`p2prdf.rdf.sparql`) parses shapes only.  Queries that differ in names,
  constants, projection or filters share one shape and are parsed once.

Plain nested groups stay in the shape: since a basic graph pattern binds all its variables, joining groups is the same
as joining their patterns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from p2prdf.rdf.terms import RDF, XSD
from p2prdf.rdf.tokens import Symbol, refusal

if TYPE_CHECKING:
    from p2prdf.errors import QueryRefused

__all__ = ["FILTERS_MAX", "PATTERNS_MAX", "FilterOutline", "Outline", "Piece", "make_outline", "refuse_word"]

PATTERNS_MAX: Final = 16
FILTERS_MAX: Final = 64
_TERMS_MAX: Final = 3 * PATTERNS_MAX
_PIECES_MAX: Final = 256
"""Longest shape in symbols: the grammar takes a millisecond for each."""

_FORMS: Final = {
    "REGISTER": "a query with windows is more than conjunctive",
    **dict.fromkeys(("ASK", "CONSTRUCT", "DESCRIBE"), "a standing query is a SELECT"),
    **dict.fromkeys(
        ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH", "USING"),
        "updates are not queries",
    ),
}
_MODIFIERS: Final = {
    **dict.fromkeys(("GROUP", "HAVING"), "solutions of a standing query are not grouped"),
    **dict.fromkeys(("ORDER", "LIMIT", "OFFSET"), "solutions come as they become true, without order or end"),
    **dict.fromkeys(("VALUES", "BINDINGS"), "inline data is not supported"),
}
_GROUP_WORDS: Final = {
    "OPTIONAL": "a standing query joins all its patterns",
    "UNION": "subscribe to each side on its own",
    "MINUS": "negation is not supported",
    "BIND": "computed variables are not supported",
    "GRAPH": "a basic graph pattern is about the default graph",
    "SERVICE": "federation is not supported",
    "SELECT": "sub-queries are not supported",
}
_EXPRESSION_WORDS: Final = {
    **dict.fromkeys(("EXISTS", "NOT EXISTS"), "a filter is decided on one solution alone"),
    **dict.fromkeys(
        ("RAND", "NOW", "UUID", "STRUUID", "BNODE"), "its value differs from peer to peer"
    ),
    **dict.fromkeys(
        ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"), "aggregates are not supported"
    ),
}
_ELSEWHERE: Final = {
    "FROM": "a query chooses its graphs by GRAPH, pattern by pattern", "AS": "computed variables are not supported"
}  # fmt: skip
_REASONS: Final = {**_FORMS, **_MODIFIERS, **_GROUP_WORDS, **_EXPRESSION_WORDS, **_ELSEWHERE}
_CONSTRUCTS: Final = {"GROUP": "GROUP BY", "ORDER": "ORDER BY"}
_PATH_MARKS: Final = {
    "|": "path alternatives need a union",
    "*": "paths of any length are not supported",
    "+": "paths of any length are not supported",
    "?": "optional path steps are not supported",
    "!": "negated property sets are not supported",
}


@dataclass(slots=True)
class Piece:
    """A symbol of the shape: its spelling in the shape, and its position in the query's text."""

    text: str
    at: int


@dataclass(slots=True)
class FilterOutline:
    """A filter's expression and the names of the variables that its group binds."""

    symbols: list[Symbol]
    scope: set[str]


@dataclass(slots=True)
class Outline:
    """A query divided into its shape (spelled by ``pieces``) and its data (the other fields)."""

    distinct: bool = False
    projection: list[Symbol] | None = None
    """Projected variables; None for ``*``."""
    pieces: list[Piece] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    """Names by number in the shape."""
    constants: list[str] = field(default_factory=list)
    """Canonical terms by number in the shape."""
    filters: list[FilterOutline] = field(default_factory=list)


def refuse_word(text: str, symbol: Symbol, following: Symbol | None = None) -> QueryRefused:
    """Return the refusal of a word that is misplaced or not supported."""
    word = symbol.value.upper()
    if word == "NOT" and following is not None and following.is_word("EXISTS"):
        word = "NOT EXISTS"
    if word in _REASONS:
        construct = "sub-SELECT" if word == "SELECT" else _CONSTRUCTS.get(word, word)
        return refusal(text, symbol.at, construct, f"not supported: {_REASONS[word]}")
    return refusal(text, symbol.at, "syntax error", f"{symbol.value!r} is out of place")


def make_outline(text: str, symbols: list[Symbol]) -> Outline:
    """Return the outline of a query given as the symbols after its prologue."""
    return _Walk(text, symbols).run()


class _Walk:
    def __init__(self, text: str, symbols: list[Symbol]):
        self._text = text
        self._symbols = symbols
        self._at = 0
        self._outline = Outline()
        self._numbers: dict[str, int] = {}
        self._constants: dict[str, int] = {}
        self._labels: dict[str, tuple[int, int]] = {}
        """The number of each blank node label, and the basic graph pattern that it belongs to."""
        self._groups: list[set[str]] = []
        """The names bound in each open group, the innermost group last."""
        self._basic = 0
        self._terms = 0

    def run(self) -> Outline:
        self._head()
        self._body()
        self._tail()
        return self._outline

    # --- steps over the symbols --------------------------------------------------------------

    def _peek(self, offset: int = 0) -> Symbol | None:
        at = self._at + offset
        return self._symbols[at] if at < len(self._symbols) else None

    def _next(self) -> Symbol:
        symbol = self._peek()
        if symbol is None:
            raise refusal(self._text, len(self._text.rstrip()), "syntax error", "the query ends too early")
        self._at += 1
        return symbol

    def _refuse(self, symbol: Symbol) -> QueryRefused:
        if symbol.kind == "word":
            return refuse_word(self._text, symbol, self._peek())
        return refusal(self._text, symbol.at, "syntax error", f"{symbol.value!r} is out of place")

    # --- SELECT ... WHERE --------------------------------------------------------------------

    def _head(self) -> None:
        outline = self._outline
        first = self._next()
        if not first.is_word("SELECT"):
            raise self._refuse(first)
        self._emit("SELECT *", first.at)
        symbol = self._next()
        if symbol.is_word("DISTINCT", "REDUCED"):
            outline.distinct = symbol.is_word("DISTINCT")
            symbol = self._next()
        if symbol.is_mark("*"):
            symbol = self._next()
        else:
            outline.projection = []
            while symbol.kind == "var":
                if all(symbol.value != known.value for known in outline.projection):
                    outline.projection.append(symbol)
                symbol = self._next()
            if symbol.is_mark("("):
                raise refusal(
                    self._text, symbol.at, "expression in SELECT", "computed variables are not supported"
                )
            if not outline.projection:
                raise self._refuse(symbol)
        if symbol.is_word("WHERE"):
            symbol = self._next()
        if not symbol.is_mark("{"):
            raise self._refuse(symbol)
        self._at -= 1

    def _tail(self) -> None:
        symbol = self._peek()
        if symbol is not None:
            self._at += 1
            raise self._refuse(symbol)

    # --- { ... } -----------------------------------------------------------------------------

    def _body(self) -> None:
        while True:
            symbol = self._next()
            match symbol.kind:
                case "mark":
                    self._mark(symbol)
                    if not self._groups:
                        return
                case "word":
                    self._word(symbol)
                case _:
                    self._term(symbol)

    def _mark(self, symbol: Symbol) -> None:
        if symbol.value == "{":
            self._basic += 1
            self._groups.append(set())
        elif symbol.value == "}":
            self._basic += 1
            bound = self._groups.pop()
            if self._groups:
                self._groups[-1] |= bound
        elif symbol.value in _PATH_MARKS:
            reason = _PATH_MARKS[symbol.value]
            raise refusal(self._text, symbol.at, f"property path {symbol.value}", reason)
        elif symbol.value not in (".", ";", ",", "(", ")", "[", "]", "/", "^"):
            raise self._refuse(symbol)
        self._emit(symbol.value, symbol.at)

    def _word(self, symbol: Symbol) -> None:
        if symbol.value == "a":
            self._constant(Symbol("iri", f"<{RDF}type>", symbol.at), "a")
        elif symbol.is_word("TRUE", "FALSE"):
            self._constant(Symbol("literal", f'"{symbol.value.lower()}"^^<{XSD}boolean>', symbol.at))
        elif symbol.is_word("FILTER"):
            self._filter(symbol)
        else:
            raise self._refuse(symbol)

    def _term(self, symbol: Symbol) -> None:
        if symbol.kind == "var":
            number = self._numbers.setdefault(symbol.value, len(self._numbers))
            if number == len(self._outline.variables):
                self._outline.variables.append(symbol.value)
            self._groups[-1].add(symbol.value)
            self._count(symbol)
            self._emit(f"?v{number}", symbol.at)
        elif symbol.kind == "blank":
            number, basic = self._labels.setdefault(symbol.value, (len(self._labels), self._basic))
            if basic != self._basic:
                raise refusal(
                    self._text, symbol.at, "blank node label",
                    f"_:{symbol.value} occurs in two basic graph patterns",
                )  # fmt: skip
            self._count(symbol)
            self._emit(f"_:b{number}", symbol.at)
        else:
            self._constant(symbol)

    def _constant(self, symbol: Symbol, spelling: str | None = None) -> None:
        number = self._constants.setdefault(symbol.value, len(self._constants))
        if number == len(self._outline.constants):
            self._outline.constants.append(symbol.value)
        if spelling is None:
            spelling = f"<c:{number}>" if symbol.kind == "iri" else f'"{number}"'
        self._count(symbol)
        self._emit(spelling, symbol.at)

    def _count(self, symbol: Symbol) -> None:
        """Bound the size of the grammar's input: n patterns hold at most 3n terms."""
        self._terms += 1
        if self._terms > _TERMS_MAX:
            reason = f"a query has at most {PATTERNS_MAX} triple patterns"
            raise refusal(self._text, symbol.at, "triple patterns", reason)

    def _emit(self, text: str, at: int) -> None:
        if len(self._outline.pieces) >= _PIECES_MAX:
            reason = f"a query has at most {_PIECES_MAX} symbols outside its filters"
            raise refusal(self._text, at, "query length", reason)
        self._outline.pieces.append(Piece(text, at))

    # --- FILTER ------------------------------------------------------------------------------

    def _filter(self, symbol: Symbol) -> None:
        """Separate a filter; in the shape, a filter that is always true ends the triples before it."""
        if len(self._outline.filters) >= FILTERS_MAX:
            raise refusal(self._text, symbol.at, "FILTER", f"a query has at most {FILTERS_MAX} filters")
        start = self._at
        first = self._next()
        if first.is_word("EXISTS") or (first.is_word("NOT") and self._peek_is_exists()):
            raise self._refuse(first)
        if not first.is_mark("("):
            if first.kind not in ("word", "iri"):
                raise self._refuse(first)
            opening = self._next()
            if not opening.is_mark("("):
                raise self._refuse(first)
        depth = 1
        while depth:
            inner = self._next()
            depth += inner.is_mark("(") - inner.is_mark(")")
        # The group's own set grows until the group is closed, so the scope is complete by then.
        self._outline.filters.append(FilterOutline(self._symbols[start : self._at], self._groups[-1]))
        self._emit("FILTER(true)", symbol.at)

    def _peek_is_exists(self) -> bool:
        following = self._peek()
        return following is not None and following.is_word("EXISTS")
