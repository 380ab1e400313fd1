"""Steps over the symbols of a query, with refusals and hidden names for all readers."""

from __future__ import annotations

from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf.tokens import Symbol, refusal

__all__ = ["Cursor"]

_SHOWN_MAX: Final = 60
"""Most characters of a symbol that a refusal repeats."""

_REASONS: Final = {
    "GRAPH": "it belongs in a group; a template has no graphs",
    "FROM": "a query chooses its graphs by GRAPH, pattern by pattern",
    "SERVICE": "federation is not supported",
    "DESCRIBE": "the description of a resource is not defined; use CONSTRUCT",
    **dict.fromkeys(("RAND", "NOW", "UUID", "STRUUID", "BNODE"), "its value differs from peer to peer"),
    **dict.fromkeys(
        ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"),
        "aggregates belong in SELECT, HAVING or ORDER BY, and not in each other",
    ),
    **dict.fromkeys(
        ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH", "USING"),
        "updates are not queries",
    ),
}


class Cursor:
    """The symbols after the prologue, and the current position in them."""

    def __init__(self, text: str, symbols: list[Symbol], base: str | None):
        self.text = text
        self.base = base
        self._symbols = symbols
        self._at = 0
        self._hidden = 0
        self.basic = 0
        """Number of the current basic graph pattern: a blank node's label belongs to one."""
        self.labels: dict[str, tuple[str, int]] = {}
        """The hidden variable of each blank node label, and the basic graph pattern that it belongs to."""

    def peek(self, offset: int = 0) -> Symbol | None:
        """Return the next symbol, or a later one, without taking it."""
        at = self._at + offset
        return self._symbols[at] if at < len(self._symbols) else None

    def next(self) -> Symbol:
        """Take the next symbol.  Raises QueryRefused at the end of the text."""
        symbol = self.peek()
        if symbol is None:
            raise self.refusal(len(self.text.rstrip()), "syntax error", "the text ends too early")
        self._at += 1
        return symbol

    def sees_mark(self, *values: str) -> bool:
        """Tell whether one of these marks comes next."""
        symbol = self.peek()
        return symbol is not None and symbol.is_mark(*values)

    def sees_word(self, *values: str) -> bool:
        """Tell whether one of these words comes next."""
        symbol = self.peek()
        return symbol is not None and symbol.is_word(*values)

    def take_mark(self, value: str) -> bool:
        """Take the mark if it comes next; tell whether it did."""
        found = self.sees_mark(value)
        self._at += found
        return found

    def take_word(self, value: str) -> bool:
        """Take the word if it comes next; tell whether it did."""
        found = self.sees_word(value)
        self._at += found
        return found

    def expect_mark(self, value: str) -> Symbol:
        """Take the given mark.  Raises QueryRefused if another symbol comes next."""
        symbol = self.next()
        if not symbol.is_mark(value):
            raise self.misplaced(symbol)
        return symbol

    def expect_word(self, value: str) -> Symbol:
        """Take the given word.  Raises QueryRefused if another symbol comes next."""
        symbol = self.next()
        if not symbol.is_word(value):
            raise self.misplaced(symbol)
        return symbol

    def expect_variable(self) -> Symbol:
        """Take a variable.  Raises QueryRefused if another symbol comes next."""
        symbol = self.next()
        if symbol.kind != "var":
            raise self.misplaced(symbol)
        return symbol

    def hidden(self, what: str) -> str:
        """Return a name that no query can spell, distinct from all others."""
        self._hidden += 1
        return f".{what}{self._hidden}"

    def refusal(self, at: int, construct: str, reason: str) -> QueryRefused:
        """Return the error that names a construct and its position."""
        return refusal(self.text, at, construct, reason)

    def misplaced(self, symbol: Symbol) -> QueryRefused:
        """Return the refusal of a symbol that is not supported, or not at this position."""
        word = symbol.value.upper()
        if symbol.kind == "word" and word in _REASONS:
            return self.refusal(symbol.at, word, f"not supported: {_REASONS[word]}")
        shown = symbol.value if len(symbol.value) <= _SHOWN_MAX else symbol.value[:_SHOWN_MAX] + "..."
        return self.refusal(symbol.at, "syntax error", f"{shown!r} is out of place")
