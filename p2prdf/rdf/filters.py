"""Filters as text: canonical, self-contained, and divided into conjuncts that can be decided early.

A filter is sent between peers as text (:class:`~p2prdf.rdf.query.Filter`).  This module spells that text from the
symbols of a query: IRIs and literals in canonical form, variables as ``?v0``, ``?v1`` ..., variables out of scope as
``?u0``, ``?u1`` ..., one space between symbols.  A conjunction becomes several filters; each is decided as soon as
its own variables are bound.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from p2prdf.rdf import arithmetic
from p2prdf.rdf.execution import VALUE_OF
from p2prdf.rdf.fulltext.calls import FULL_TEXT
from p2prdf.rdf.functions import FUNCTIONS
from p2prdf.rdf.terms import XSD
from p2prdf.rdf.tokens import Symbol, misplaced, refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = ["IRI_WITH_BASE", "conjuncts", "prepare", "spell"]

IRI_WITH_BASE: Final = "<urn:p2prdf:iri>"
"""The function that replaces ``IRI(x)`` under a BASE; its arguments are x and the base."""

_WORDS: Final = frozenset(FUNCTIONS) | {"BOUND", "IF", "COALESCE", "IN", "NOT", "TRUE", "FALSE"}
_SYNONYMS: Final = {"URI": "IRI", "ISURI": "ISIRI"}
_SYNONYM_IRIS: Final = {"<http://wikiba.se/ontology#isSomeValue>": "ISBLANK"}
"""Functions of other engines that are functions of SPARQL: Wikidata has blank nodes for unknown values."""
_MARKS: Final = frozenset(("(", ")", ",", "=", "!=", "<", ">", "<=", ">=", "&&", "||", "!", *"+-*/"))
_CASTS: Final = {f"<{name}>": name for name in arithmetic.CASTS}


def prepare(text: str, symbols: list[Symbol], more: Collection[str] = ()) -> list[Symbol]:
    """Check the symbols of an expression and normalise the spelling of words.

    ``more``: functions that are allowed beside the usual ones.

    Raises QueryRefused, with the construct and its position, for symbols that a filter cannot have.  A signed number
    after an operand is an operator and a number (SPARQL 1.1, 19.8, note 8).
    """
    prepared: list[Symbol] = []
    for symbol, following in itertools.zip_longest(symbols, symbols[1:]):
        before = prepared[-1] if prepared else None
        if symbol.kind == "word":
            prepared.append(_word(text, symbol, following, more))
        elif symbol.kind == "blank" or (symbol.kind == "mark" and symbol.value not in _MARKS):
            raise refusal(text, symbol.at, "syntax error", f"{symbol.value!r} is out of place in a filter")
        elif symbol.kind == "iri" and following is not None and following.is_mark("("):
            if symbol.value in _SYNONYM_IRIS:
                prepared.append(Symbol("word", _SYNONYM_IRIS[symbol.value], symbol.at))
                continue
            if symbol.value not in _CASTS and symbol.value not in (IRI_WITH_BASE, FULL_TEXT, VALUE_OF):
                reason = "custom functions are not supported"
                raise refusal(text, symbol.at, f"function {symbol.value}", reason)
            prepared.append(symbol)
        elif symbol.signed and before is not None and _ends_operand(before):
            prepared.append(Symbol("mark", symbol.value[1], symbol.at))
            prepared.append(Symbol("literal", '"' + symbol.value[2:], symbol.at + 1))
        else:
            prepared.append(symbol)
    return prepared


def _word(text: str, symbol: Symbol, following: Symbol | None, more: Collection[str]) -> Symbol:
    word = _SYNONYMS.get(symbol.value.upper(), symbol.value.upper())
    alone = word == "NOT" and (following is None or not following.is_word("IN"))
    if alone or (word not in _WORDS and word not in more):
        raise misplaced(text, symbol)
    if word in ("TRUE", "FALSE"):
        return Symbol("literal", f'"{word.lower()}"^^<{XSD}boolean>', symbol.at)
    return Symbol("word", word, symbol.at)


def _ends_operand(symbol: Symbol) -> bool:
    return symbol.kind in ("var", "iri", "literal") or symbol.is_mark(")")


def conjuncts(symbols: list[Symbol]) -> Iterator[list[Symbol]]:
    """Divide ``( A && B )`` into A and B, unless an operator in it binds more loosely."""
    if not _is_bracketed(symbols):
        yield symbols
        return
    inner = symbols[1:-1]
    depth, cuts = 0, [-1]
    for at, symbol in enumerate(inner):
        depth += symbol.is_mark("(") - symbol.is_mark(")")
        if depth == 0 and symbol.is_mark("||"):
            yield inner
            return
        if depth == 0 and symbol.is_mark("&&"):
            cuts.append(at)
    for start, end in itertools.pairwise([*cuts, len(inner)]):
        part = inner[start + 1 : end]
        yield from conjuncts(part) if _is_bracketed(part) else (part,)


def _is_bracketed(symbols: list[Symbol]) -> bool:
    """Tell whether the first symbol is a bracket that the last one closes."""
    if len(symbols) < 2 or not symbols[0].is_mark("("):
        return False
    depth = 0
    for at, symbol in enumerate(symbols):
        depth += symbol.is_mark("(") - symbol.is_mark(")")
        if depth == 0:
            return at == len(symbols) - 1
    return False


def spell(
    symbols: list[Symbol], numbers: Mapping[str, int], base: str | None
) -> tuple[str, tuple[int, ...]]:
    """Return the canonical text of an expression and the numbers of its variables, ascending.

    ``numbers``: the number of each variable in scope, by name.
    """
    unbound: dict[str, int] = {}
    found: set[int] = set()
    parts: list[str] = []
    depth = 0
    with_base: list[int] = []  # depths at which an IRI function under a base closes
    for symbol in symbols:
        value = symbol.value
        if symbol.kind == "var":
            if value in numbers:
                found.add(numbers[value])
                value = f"?v{numbers[value]}"
            else:
                value = f"?u{unbound.setdefault(value, len(unbound))}"
        elif symbol.is_word("IRI") and base is not None:
            with_base.append(depth)
            value = IRI_WITH_BASE
        depth += symbol.is_mark("(") - symbol.is_mark(")")
        if symbol.is_mark(")") and with_base and with_base[-1] == depth:
            with_base.pop()
            parts += [",", f"<{base}>"]
        parts.append(value)
    return " ".join(parts), tuple(sorted(found))
