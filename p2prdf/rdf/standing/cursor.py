"""Steps over the symbols of a query, with refusals and hidden names for all readers."""

from __future__ import annotations

from collections.abc import Mapping

from p2prdf.errors import QueryRefused
from p2prdf.rdf.execution import Execution
from p2prdf.rdf.tokens import Symbol, misplaced, refusal

__all__ = ["Cursor"]


class Cursor:
    """The symbols after the prologue, and the current position in them."""

    def __init__(self, text: str, symbols: list[Symbol], base: str | None, execution: Execution | None = None):
        self.text = text
        self.base = base
        self.execution = execution
        """The execution of a query that is evaluated once; None for a standing query."""
        self.symbols = symbols
        self._at = 0
        self._hidden = 0
        self.patterns = 0
        """Number of triple patterns and steps of paths so far."""
        self.basic = 0
        """Number of the current basic graph pattern: a blank node's label belongs to one."""
        self.labels: dict[str, tuple[str, int]] = {}
        """The hidden variable of each blank node label, and the basic graph pattern that it belongs to."""

    def peek(self, offset: int = 0) -> Symbol | None:
        """Return the next symbol, or a later one, without taking it."""
        at = self._at + offset
        return self.symbols[at] if at < len(self.symbols) else None

    def next(self) -> Symbol:
        """Take the next symbol.  Raises QueryRefused at the end of the text."""
        symbol = self.peek()
        if symbol is None:
            raise self.refusal(len(self.text.rstrip()), "syntax error", "the text ends too early")
        self._at += 1
        return symbol

    def goto(self, at: int) -> int:
        """Continue at a position among the symbols; return the present one."""
        before, self._at = self._at, at
        return before

    @property
    def position(self) -> int:
        """The position among the symbols."""
        return self._at

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

    def refuse_words(self, refused: Mapping[str, tuple[str, str]]) -> None:
        """Raise the refusal of the first word after the beginning that is in a table.

        ``refused``: the construct and the reason, by the word in capitals.
        """
        for symbol in self.symbols[1:]:
            if symbol.kind == "word" and (found := refused.get(symbol.value.upper())) is not None:
                raise self.refusal(symbol.at, found[0], f"not supported: {found[1]}")

    def refusal(self, at: int, construct: str, reason: str) -> QueryRefused:
        """Return the error that names a construct and its position."""
        return refusal(self.text, at, construct, reason)

    def misplaced(self, symbol: Symbol) -> QueryRefused:
        """Return the refusal of a symbol that is not supported, or not at this position."""
        return misplaced(self.text, symbol)
