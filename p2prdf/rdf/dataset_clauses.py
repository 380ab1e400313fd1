"""Replace the dataset clauses of a query (SPARQL 1.1, 13.2) by a dataset that is given beside it.

The SPARQL Protocol lets a client name graphs in the parameters of a request.  They take the place of the query's own
FROM and FROM NAMED (SPARQL 1.1 Protocol, 2.1.4).  Clauses of streams stay, as the protocol's graphs are no streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from p2prdf.rdf import terms, tokens
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.tokens import Token

__all__ = ["with_dataset"]

_FORMS: Final = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")


@as_written
def with_dataset(text: str, default: Iterable[str], named: Iterable[str], *, bytes_max: int) -> str:
    """Return a query over other graphs; ``default`` and ``named``: IRIs without angle brackets.

    ``bytes_max``: longest text.  Raises QueryRefused for text that is not tokenizable, DataRefused for a name that is
    no absolute IRI.  A text without a query form, which the parser refuses, is returned unchanged.
    """
    clauses = [f"FROM {terms.iri(each)} " for each in default] + [f"FROM NAMED {terms.iri(each)} " for each in named]
    found = tokens.scan(text, bytes_max)
    start = _after_form(found)
    if start is None:
        return text
    removed, end = _clauses(found, start)
    at = found[end].at if end < len(found) else len(text)
    pieces, done = [], 0
    for first, last in removed:
        pieces.append(text[done : first.at])
        done = last.at + len(last.text)
        pieces.append(re.sub(r"[^\n]", " ", text[first.at : done]))
    return "".join((*pieces, text[done:at], " " * (end == len(found)), *clauses, text[at:]))


def _outermost(found: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside of brackets, opening brackets included, with their places."""
    depth = 0
    for place, token in enumerate(found):
        depth -= token.kind == "mark" and token.text in (")", "]", "}")
        if depth == 0:
            yield place, token
        depth += token.kind == "mark" and token.text in ("(", "[", "{")


def _is_word(found: Sequence[Token], place: int, *words: str) -> bool:
    return place < len(found) and found[place].kind == "word" and found[place].text.upper() in words


def _after_form(found: Sequence[Token]) -> int | None:
    """Return the place after the form of the query, and after the template of CONSTRUCT; None without a form."""
    start = next((place for place, _ in _outermost(found) if _is_word(found, place, *_FORMS)), None)
    if start is None:
        return None
    start += 1
    if _is_word(found, start - 1, "CONSTRUCT") and start < len(found) and found[start].text == "{":
        return next((place + start for place, token in _outermost(found[start:]) if token.text == "}"), start) + 1
    return start


def _clauses(found: Sequence[Token], start: int) -> tuple[list[tuple[Token, Token]], int]:
    """Return the first and last token of each clause that names a graph, and the place where the pattern begins."""
    removed: list[tuple[Token, Token]] = []
    for offset, token in _outermost(found[start:]):
        place = start + offset
        if token.text == "{" or _is_word(found, place, "WHERE"):
            return removed, place
        if not _is_word(found, place, "FROM"):
            continue
        name = place + 1 + _is_word(found, place + 1, "NAMED")
        if name < len(found) and not _is_word(found, name, "STREAM", "WINDOW"):
            removed.append((token, found[name]))
    return removed, len(found)
