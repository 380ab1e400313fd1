"""Full-text conditions as calls in queries.

``ftcontains(?v, "olympic" ftAND "games")``, or ``?v ftcontains "olympic" ftAND "games"`` as in the paper, becomes a
call of one function with a variable and a constant, the condition as text; so does ``ftsimilar(?v, "games", 0.4)``.
The call is an ordinary expression: it is sent, abstracted and compiled like others, and decided as soon as its
variable is bound.
"""

from __future__ import annotations

import re
from typing import Final

from p2prdf.rdf import terms
from p2prdf.rdf.fulltext.expression import Condition
from p2prdf.rdf.fulltext.syntax import parse_call, parse_condition, parse_infix
from p2prdf.rdf.tokens import Symbol, refusal

__all__ = ["FULL_TEXT", "sole_condition", "with_full_text"]

FULL_TEXT: Final = "<urn:p2prdf:ftcontains>"
"""The function's IRI; its arguments are a variable and a plain literal that spells the condition."""

EXPANDED_BYTES_MAX: Final = 16 << 10
"""Longest canonical text of a condition in UTF-8 bytes."""

_SOLE: Final = re.compile(re.escape(FULL_TEXT) + r' \( \?v([0-9]{1,9}) , ("(?:[^"\\]|\\.)*") \)')


def sole_condition(text: str) -> tuple[int, Condition] | None:
    """Return the variable's number and the condition of a filter that is one call of ``FULL_TEXT``.

    Return None for any other filter.  ``text`` is that of a filter: canonical, and one conjunct
    (:mod:`p2prdf.rdf.filters`).  Raises QueryRefused for an invalid condition, as compiling the filter does.
    """
    found = _SOLE.fullmatch(text)
    return None if found is None else (int(found[1]), parse_condition(terms.lexical(found[2])))


def with_full_text(text: str, symbols: list[Symbol]) -> list[Symbol]:
    """Return the symbols of a query with a call of ``FULL_TEXT`` for each full-text condition.

    Raises QueryRefused, with the position in the query, for an invalid condition.
    """
    if not any(symbol.is_word("FTCONTAINS", "FTSIMILAR") for symbol in symbols):
        return symbols
    found: list[Symbol] = []
    behind = 0
    for number, symbol in enumerate(symbols):
        if symbol.at < behind:
            continue
        if not symbol.is_word("FTCONTAINS", "FTSIMILAR"):
            found.append(symbol)
        elif symbol.is_word("FTCONTAINS") and found and found[-1].kind == "var":
            following = symbols[number + 1].at if number + 1 < len(symbols) else len(text)
            condition, behind = parse_infix(text, following)
            found += _call(text, found.pop().value, condition, symbol.at)
        else:
            variable, condition, behind = parse_call(text, symbol.at)
            found += _call(text, variable, condition, symbol.at)
    return found


def _call(text: str, variable: str, condition: Condition, at: int) -> list[Symbol]:
    written = str(condition)
    if (size := len(written.encode())) > EXPANDED_BYTES_MAX:
        reason = f"expanded, it has {size} bytes, more than {EXPANDED_BYTES_MAX}"
        raise refusal(text, at, "full-text condition", reason)
    spelled = terms.literal(written)
    parts = (("iri", FULL_TEXT), ("mark", "("), ("var", variable), ("mark", ","), ("literal", spelled), ("mark", ")"))
    return [Symbol(kind, value, at) for kind, value in parts]
