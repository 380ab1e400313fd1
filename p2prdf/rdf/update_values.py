"""Values of one execution in the WHERE of an update: NOW, UUID, STRUUID and BNODE without argument.

The WHERE is evaluated by nodes, as a query with the same values at all of them.  So NOW becomes a
literal before the query is sent.  UUID, STRUUID and BNODE differ by solution: each call becomes a constant, its
*mark*, and the client puts a new value in place of the mark in every solution.  The result is that of SPARQL only if
the mark passes unchanged from its BIND to the templates.  Therefore a call stands in BIND, within functions that keep
their text, and nothing else in WHERE uses the variable.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from p2prdf.rdf.terms import BNODE_PREFIX, XSD
from p2prdf.rdf.tokens import QUERY_BYTES_MAX, Token, refusal

__all__ = ["Substituted", "substitute"]

_KEEPING: Final = ("CONCAT", "IRI", "URI", "STR", "STRDT", "STRLANG", "COALESCE")
"""Functions that keep a text argument unchanged in their result."""
_SAME_LENGTH: Final = {"NOW": '"now"', "STRUUID": '"struuid"', "UUID": "<urn:>", "BNODE": "<urn:b>"}
"""Constants as long as the calls, so that refusals of the rest of the query name the right columns."""


class Substituted(NamedTuple):
    """A group with constants for its calls: ``checked`` has the columns of the text, ``sent`` the values.

    ``marks``: texts in its solutions that stand for a new UUID in each.
    """

    checked: str
    sent: str
    marks: tuple[str, ...]


def substitute(text: str, found: Sequence[Token], scope: str, now: str) -> Substituted:
    """Return the group of these tokens with constants for calls without arguments.

    ``scope``: identifier of the execution; ``now``: its time, the lexical form of an xsd:dateTime.  A group that is
    too long for a query is returned as it is; the parser of queries refuses it.  Raises QueryRefused for a call of
    UUID, STRUUID or BNODE at another place than described above.
    """
    begins, ends = found[0].at, found[-1].at + len(found[-1].text)
    if ends - begins > QUERY_BYTES_MAX:
        return Substituted(text[begins:ends], text[begins:ends], ())
    places = _Places(text, found)
    checked, sent, marks, done = "", "", list[str](), begins
    for place, token in enumerate(found):
        name = token.text.upper()
        without_argument = [each.text for each in found[place + 1 : place + 3]] == ["(", ")"]
        if token.kind != "word" or name not in _SAME_LENGTH or not without_argument:
            continue
        value = f'"{now}"^^<{XSD}dateTime>'
        if name != "NOW":
            places.check(place)
            marks.append(_mark(f"{scope} {token.at}"))
            value = {
                "STRUUID": f'"{marks[-1]}"', "UUID": f"<urn:uuid:{marks[-1]}>",
                "BNODE": f"<{BNODE_PREFIX}{scope}:{marks[-1]}>",
            }[name]  # fmt: skip
        after = found[place + 2].at + 1
        written = text[token.at : after]
        padding = "".join(char if char == "\n" else " " for char in written[len(_SAME_LENGTH[name]) :])
        checked += text[done : token.at] + _SAME_LENGTH[name] + padding
        sent += text[done : token.at] + value + " "
        done = after
    return Substituted(checked + text[done:ends], sent + text[done:ends], tuple(marks))


def _mark(text: str) -> str:
    """Return a constant of the form of a UUID."""
    digits = hashlib.sha256(text.encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


class _Places:
    """The brackets and variables of a group, found in one pass."""

    def __init__(self, text: str, found: Sequence[Token]):
        self._text = text
        self._found = found
        self._uses = Counter(token.text[1:] for token in found if token.kind == "var")
        self._enclosing: list[int] = []
        """For each token the place of the innermost bracket around it; -1 for the outermost one."""
        self._closing: dict[int, int] = {}
        """Places of closing brackets by those of the opening ones; the scanner has checked that they match."""
        opened = [-1]
        for place, token in enumerate(found):
            if token.text in (")", "]", "}"):
                self._closing[opened.pop()] = place
            self._enclosing.append(opened[-1])
            if token.text in ("(", "[", "{"):
                opened.append(place)

    def check(self, place: int) -> None:
        """Raise QueryRefused unless a call stands in BIND, and its value goes to the templates only."""
        found = self._found
        at = self._enclosing[place]
        while at > 0 and found[at - 1].text.upper() in _KEEPING:
            at = self._enclosing[at]
        variable = None
        if at > 0 and found[at - 1].text.upper() == "BIND":
            variable = found[self._closing[at] - 1].text[1:]
            if self._uses[variable] == 1:
                return
        what = "BIND(... AS ?x)" if variable is None else f"its BIND, and ?{variable} nowhere else in WHERE"
        kept = ", ".join(_KEEPING)
        reason = f"write it in {what}, at most within {kept}: its value differs from solution to solution"
        raise refusal(self._text, found[place].at, found[place].text.upper(), reason)
