"""Read expressions by their brackets, and separate EXISTS and aggregates from them.

:mod:`p2prdf.rdf.filters` spells an expression, and compiling parses it.  This module only finds its end.  It reads
EXISTS with its group, and an aggregate with its argument, and puts a hidden variable in the place of each: EXISTS
becomes a column with a boolean, an aggregate a column of its group (as in SPARQL 1.1, 18.2.4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from p2prdf.rdf import filters, terms
from p2prdf.rdf.algebra import Function
from p2prdf.rdf.execution import CALLS
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.syntax import AggregateCall, Expression, Group
from p2prdf.rdf.standing.triples import triple_call
from p2prdf.rdf.terms import RDF
from p2prdf.rdf.tokens import Symbol

__all__ = ["EXISTS_MAX", "ExpressionReader"]

EXISTS_MAX: Final = 16
"""Most EXISTS in a query."""

_FUNCTIONS: Final = frozenset(function.value for function in Function)


class ExpressionReader:
    """Reads expressions; ``group`` reads the group after EXISTS."""

    def __init__(self, cursor: Cursor, group: Callable[[], Group]):
        self._cursor = cursor
        self._group = group
        self._exists = 0

    def bracketed(self, *, aggregates: bool = False) -> Expression:
        """Read ``( expression )``."""
        opening = self._cursor.expect_mark("(")
        found = Expression([opening], opening.at)
        self._inside(found, aggregates)
        found.symbols.append(self._cursor.expect_mark(")"))
        return self._checked(found)

    def constraint(self, *, aggregates: bool = False) -> Expression:
        """Read a constraint, as it follows FILTER: brackets, a call, or EXISTS."""
        cursor = self._cursor
        if cursor.sees_mark("("):
            return self.bracketed(aggregates=aggregates)
        first = cursor.next()
        found = Expression([], first.at)
        if self._special(found, first, aggregates):
            return self._checked(found)
        if first.kind not in ("word", "iri") or not cursor.sees_mark("("):
            raise cursor.misplaced(first)
        found.symbols += [first, cursor.next()]
        self._inside(found, aggregates)
        found.symbols.append(cursor.expect_mark(")"))
        return self._checked(found)

    def up_to_name(self, *, aggregates: bool = False) -> Expression:
        """Read an expression inside brackets up to AS or the closing bracket, which is not consumed."""
        symbol = self._cursor.peek()
        assert symbol is not None, "the tokenizer has seen the closing bracket"
        found = Expression([], symbol.at)
        self._inside(found, aggregates)
        return self._checked(found)

    def _inside(self, found: Expression, aggregates: bool) -> None:
        """Read up to AS, ``;`` or a closing bracket at this depth."""
        cursor = self._cursor
        depth = 0
        while True:
            symbol = cursor.peek()
            assert symbol is not None, "the tokenizer has seen the closing bracket"
            if depth == 0 and (symbol.is_mark(")", ";") or symbol.is_word("AS")):
                return
            cursor.next()
            if symbol.is_mark("<<("):
                found.symbols += self._triple_term(symbol)
                continue
            if self._special(found, symbol, aggregates):
                continue
            depth += symbol.is_mark("(") - symbol.is_mark(")")
            found.symbols.append(symbol)

    def _triple_term(self, opening: Symbol) -> list[Symbol]:
        """Read the rest of ``<<( s p o )>>`` and return the call of TRIPLE."""
        cursor = self._cursor
        parts: list[list[Symbol]] = []
        for at in range(3):
            symbol = cursor.next()
            if at == 1 and symbol.kind == "word" and symbol.value == "a":
                parts.append([Symbol("iri", f"<{RDF}type>", symbol.at)])
            elif at == 2 and symbol.is_mark("<<("):
                parts.append(self._triple_term(symbol))
            elif symbol.kind in ("var", "iri") or (at == 2 and (symbol.kind == "literal" or _is_boolean(symbol))):
                parts.append([symbol])
            else:
                raise cursor.misplaced(symbol)
        cursor.expect_mark(")>>")
        return triple_call(parts, opening.at)

    def _special(self, found: Expression, symbol: Symbol, aggregates: bool) -> bool:
        """Read an EXISTS or aggregate that begins with the symbol; tell whether there was one."""
        cursor = self._cursor
        if symbol.kind != "word":
            return False
        word = symbol.value.upper()
        if word == "EXISTS":
            found.symbols.append(self._existence(found, symbol))
        elif word == "NOT" and cursor.sees_word("EXISTS"):
            cursor.next()
            found.symbols += [
                Symbol("mark", "(", symbol.at), Symbol("mark", "!", symbol.at), self._existence(found, symbol),
                Symbol("mark", ")", symbol.at),
            ]  # fmt: skip
        elif aggregates and word in _FUNCTIONS and cursor.sees_mark("("):
            name = cursor.hidden("a")
            found.aggregates[name] = self._aggregate(Function(word), symbol.at)
            found.symbols.append(Symbol("var", name, symbol.at))
        else:
            return False
        return True

    def _existence(self, found: Expression, symbol: Symbol) -> Symbol:
        self._exists += 1
        if self._exists > EXISTS_MAX:
            raise self._cursor.refusal(symbol.at, "EXISTS", f"a query has at most {EXISTS_MAX}")
        name = self._cursor.hidden("e")
        found.groups[name] = self._group()
        return Symbol("var", name, symbol.at)

    def _aggregate(self, function: Function, at: int) -> AggregateCall:
        cursor = self._cursor
        cursor.expect_mark("(")
        distinct = cursor.take_word("DISTINCT")
        separator = " "
        argument: Expression | None = None
        if function is Function.COUNT and cursor.take_mark("*"):
            pass
        else:
            argument = self.up_to_name()
            if function is Function.GROUP_CONCAT and cursor.take_mark(";"):
                separator = self._separator()
        cursor.expect_mark(")")
        return AggregateCall(function, argument, distinct, separator, at)

    def _separator(self) -> str:
        cursor = self._cursor
        cursor.expect_word("SEPARATOR")
        cursor.expect_mark("=")
        symbol = cursor.next()
        if symbol.kind != "literal" or terms.literal_parts(symbol.value)[1:] != (None, None):
            raise cursor.misplaced(symbol)
        return terms.lexical(symbol.value)

    def _checked(self, found: Expression) -> Expression:
        bare = [symbol for symbol in found.symbols if not symbol.is_mark("(", ")")]
        if not bare:
            at = found.symbols[0].at if found.symbols else found.at
            raise self._cursor.refusal(at, "syntax error", "an empty expression")
        for symbol in bare:
            if symbol.is_word(*_FUNCTIONS) or (self._cursor.execution is None and symbol.is_word(*CALLS)):
                raise self._cursor.misplaced(symbol)
        found.symbols = filters.prepare(self._cursor.text, found.symbols, CALLS)
        return found


def _is_boolean(symbol: Symbol) -> bool:
    return symbol.is_word("TRUE", "FALSE")
