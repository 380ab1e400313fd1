"""Calls of other endpoints in one-time queries and updates (SPARQL 1.1 Federated Query), as text.

``SERVICE <endpoint> { pattern }`` is joined with its group like any other part.  The pattern is therefore sent to the
endpoint, and VALUES with its solutions take the place of the call: the rest is an ordinary query.  The calls of a
query are replaced in the order of the text.

A pattern alone may have far more solutions than the query needs.  The endpoint hence gets VALUES with the *bindings*
that can be joined with them: those of the elements before the call, and of all triples beside it, in its group and
the groups around it, up to a sub-SELECT.  Filters are left out, since they may read variables that the call binds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf import tokens
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.standing.labels import LABEL_SERVICE

__all__ = ["SERVICES_MAX", "ServiceCall", "first_service", "without_services"]

SERVICES_MAX: Final = 8
"""Most calls of other endpoints in one query."""
_TEXT_BYTES_MAX: Final = 8 << 20
"""Longest query with the solutions of its calls; nodes accept less."""
_FORMS: Final = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
_WITH_GROUP: Final = {"OPTIONAL": 1, "MINUS": 1, "GRAPH": 2, "WINDOW": 2, "STREAM": 2}
"""Places between a word and the group that it introduces."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceCall:
    """A call: the IRI of its endpoint, its variables, and its place in the text of the query.

    ``pattern``: the text in the braces; ``prologue``: the declarations for it.  ``names``: its variables, of which
    the rest of the query mentions those ``needed``.  ``joined``: variables that the rest may bind; ``bindings``: the
    query for their values, None if there are none.
    """

    text: str
    endpoint: str
    silent: bool
    prologue: str
    pattern: str
    names: tuple[str, ...]
    needed: frozenset[str]
    joined: tuple[str, ...]
    bindings: str | None
    start: int
    end: int

    def query(self, rows: Sequence[Sequence[str | None]] | None = None) -> str:
        """Return the query for the endpoint, restricted to some values of ``joined``."""
        restriction = "" if rows is None else f" {_values(self.joined, rows)}"
        return f"{self.prologue}SELECT * WHERE {{ {self.pattern} }}{restriction}"

    def replaced(self, names: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
        """Return the query with solutions in the place of the call."""
        kept = [at for at, name in enumerate(names) if name in self.needed]
        cells = [[row[at] for at in kept] for row in rows]
        return self._with(f"{{ {_values([names[at] for at in kept], cells)} }}")

    def left_out(self) -> str:
        """Return the query with one empty solution in the place of the call: a failed SERVICE SILENT."""
        return self._with("{ }")

    def refusal(self, reason: str) -> QueryRefused:
        """Return the refusal of the call, with its position."""
        return tokens.refusal(self.text, self.start, "SERVICE", f"{self.endpoint}: {reason}")

    def _with(self, other: str) -> str:
        return self.text[: self.start] + other + self.text[self.end :]


@as_written
def first_service(text: str) -> ServiceCall | None:
    """Return the first call of an endpoint in a query; None if there is none.

    Raises QueryRefused for text without tokens, and for an endpoint that is no IRI.
    """
    query = _Query(text)
    return next((query.call(at) for at in query.calls()), None)


@as_written
def without_services(text: str) -> str:
    """Return a query with empty groups instead of its calls, of the same length, to check the rest of it.

    Raises QueryRefused as :func:`first_service` does, and for too many calls.
    """
    query = _Query(text)
    for number, at in enumerate(query.calls()):
        call = query.call(at)
        if number == SERVICES_MAX:
            raise call.refusal(f"a query calls other endpoints at most {SERVICES_MAX} times")
        inside = "".join(character if character == "\n" else " " for character in text[call.start : call.end])
        text = f"{text[: call.start]}{{{inside[1:-1]}}}{text[call.end :]}"
    return text


class _Query:
    """The tokens of a query, with the closing place of each bracket."""

    def __init__(self, text: str):
        self._text = text
        self._found = tokens.scan(text, _TEXT_BYTES_MAX)
        self._closes: dict[int, int] = {}
        self._around: list[tuple[int, ...]] = []
        """The open braces at each token."""
        brackets: list[int] = []
        for at, token in enumerate(self._found):
            if token.kind == "mark" and token.text in ")]}":
                self._closes[brackets.pop()] = at
            self._around.append(tuple(each for each in brackets if self._found[each].text == "{"))
            if token.kind == "mark" and token.text in "([{":
                brackets.append(at)

    def calls(self) -> Iterator[int]:
        """Yield the places of the calls, in order; those inside the pattern of another call belong to it."""
        at = 0
        while at < len(self._found):
            opens = self._opens(at) if self._is_word(at, "SERVICE") and self._around[at] else None
            if opens is None:
                at += 1
                continue
            if not self._is_label(opens - 1):
                yield at
            at = self._closes[opens]

    def _opens(self, at: int) -> int | None:
        """Return the place of the brace of a call; None if the word is no call."""
        opens = at + 2 + self._is_word(at + 1, "SILENT")
        return opens if opens in self._closes and self._found[opens].text == "{" else None

    def _is_label(self, at: int) -> bool:
        return self._found[at].kind in ("iri", "name") and self._iri(at) == LABEL_SERVICE

    def _iri(self, at: int) -> str:
        """Return an IRI or a prefixed name as a canonical term."""
        (symbol,), _ = tokens.symbols(self._text, [*self._found[: self._prologue_end()], self._found[at]])
        return symbol.value

    def call(self, at: int) -> ServiceCall:
        """Return the call at a place."""
        found, text, opens = self._found, self._text, self._opens(at)
        assert opens is not None, "it was found by calls"
        name = found[opens - 1]
        if name.kind not in ("iri", "name"):
            reason = f"{name.text:.60} is no endpoint; name it by its IRI"
            if name.kind == "var":
                reason = f"the endpoint {name.text} is a variable; name it by its IRI, or ask a query for each"
            raise tokens.refusal(text, name.at, "SERVICE", reason)
        closes = self._closes[opens]
        names = tuple(dict.fromkeys(self._variables(opens, closes)))
        outside = [*range(at), *range(closes, len(found))]
        needed = frozenset(names if self._projects_all() else ()).union(
            found[each].text[1:] for each in outside if found[each].kind == "var"
        )
        around = self._beside(at)
        joined, bindings = self._bindings(names, around)
        return ServiceCall(
            text, self._iri(opens - 1)[1:-1], self._is_word(at + 1, "SILENT"),
            text[: self._position(self._prologue_end())], text[found[opens].at + 1 : found[closes].at], names, needed,
            joined, bindings, found[at].at, found[closes].at + 1,
        )  # fmt: skip

    def _bindings(self, names: Iterable[str], around: str) -> tuple[tuple[str, ...], str | None]:
        bound = {token.text[1:] for token in tokens.scan(around, _TEXT_BYTES_MAX) if token.kind == "var"}
        joined = tuple(name for name in names if name in bound)
        if not joined:
            return (), None
        form = next((at for at, around in enumerate(self._around) if not around and self._is_word(at, *_FORMS)), 0)
        clauses = " ".join(self._dataset(form))
        variables = " ".join(f"?{name}" for name in joined)
        head = self._text[: self._position(form)]
        return joined, f"{head}SELECT DISTINCT {variables} {clauses} WHERE {{ {around} }}"

    def _dataset(self, form: int) -> Iterator[str]:
        for at in range(form, len(self._found)):
            if not self._around[at] and self._is_word(at, "FROM"):
                name = at + 1 + self._is_word(at + 1, "NAMED")
                yield self._text[self._found[at].at : self._position(name + 1)]

    def _projects_all(self) -> bool:
        """Tell whether a SELECT or an aggregate reads all visible variables."""
        return any(
            token.text == "*" and self._is_word(at - 1, "SELECT", "DISTINCT", "REDUCED")
            for at, token in enumerate(self._found)
        )

    # --- the parts around a call -----------------------------------------------------------------

    def _beside(self, at: int) -> str:
        """Return a pattern that each solution matches which is joined with those of a call."""
        levels: list[int] = []
        for opens in self._around[at]:
            levels = [] if self._is_word(opens + 1, "SELECT") else [*levels, opens]
        text = ""
        for opens, inner in reversed([*itertools.pairwise([*levels, at])]):
            parts = [*self._parts(opens, inner), text]
            text = " ".join(filter(None, parts))
            if text and self._is_word(opens - 2, "GRAPH"):
                text = f"GRAPH {self._found[opens - 1].text} {{ {text} }}"
            elif text:
                text = f"{{ {text} }}"
        return text

    def _parts(self, opens: int, inner: int) -> Iterator[str]:
        """Yield the parts of a group beside the element that contains a token."""
        for word, first, last in self._elements(opens + 1, self._closes[opens]):
            contains = first <= inner < last
            if contains or word in ("FILTER", "SERVICE") or (last > inner and word):
                continue
            part = self._text[self._found[first].at : self._end(last - 1)]
            yield part if word else f"{part} ."

    def _elements(self, at: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Yield the elements of a group: the word that begins one, empty for triples, and its first and last place."""
        while at < end:
            first, token = at, self._found[at]
            word = token.text.upper() if token.kind == "word" else ""
            if token.text == ".":
                at += 1
                continue
            if token.text == "{":
                at = self._closes[at] + 1
                while self._is_word(at, "UNION"):
                    at = self._closes[at + 1] + 1
                word = "{"
            elif word in _WITH_GROUP:
                at = self._closes[at + _WITH_GROUP[word]] + 1
            elif word in ("SERVICE", "FILTER", "BIND", "VALUES"):
                at = self._after(word, at)
            else:
                word, at = "", self._after_triples(at, end)
            yield word, first, at if word else self._without_dots(at)

    def _after(self, word: str, at: int) -> int:
        """Return the place after the last bracket of an element."""
        brackets = 2 if word == "VALUES" and self._found[at + 1].text == "(" else 1
        for _ in range(brackets):
            at += 1
            while at not in self._closes:
                at += 1
            at = self._closes[at]
        return at + 1

    def _after_triples(self, first: int, end: int) -> int:
        at = first
        while at < end:
            token = self._found[at]
            is_term = token.kind != "word" or token.text == "a" or token.text.upper() in ("TRUE", "FALSE")
            if at > first and (token.text == "{" or not is_term):
                break
            at = self._closes.get(at, at) + 1
        return at

    def _without_dots(self, at: int) -> int:
        while self._found[at - 1].text == ".":
            at -= 1
        return at

    # --- tokens ----------------------------------------------------------------------------------

    def _prologue_end(self) -> int:
        at = 0
        while self._is_word(at, "BASE", "PREFIX"):
            at += 2 + self._is_word(at, "PREFIX")
        return at

    def _is_word(self, at: int, *words: str) -> bool:
        found = self._found
        return 0 <= at < len(found) and found[at].kind == "word" and found[at].text.upper() in words

    def _position(self, at: int) -> int:
        return self._found[at].at if at < len(self._found) else len(self._text)

    def _end(self, at: int) -> int:
        return self._found[at].at + len(self._found[at].text)

    def _variables(self, start: int, end: int) -> Iterator[str]:
        return (token.text[1:] for token in self._found[start:end] if token.kind == "var")


def _values(names: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
    cells = " ".join(f"({' '.join('UNDEF' if term is None else term for term in row)})" for row in rows)
    return f"VALUES ({' '.join(f'?{name}' for name in names)}) {{ {cells} }}"


