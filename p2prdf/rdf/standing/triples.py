"""Read triples with all their abbreviations, and property paths, from the symbols of a query.

Turtle's abbreviations are expanded at once: ``[ ]`` and ``( )`` become hidden variables and their triples, which
follow the triple that contains them (those of a subject precede it).
"""

from __future__ import annotations

from typing import Final

from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.syntax import Alternative, Inverse, Link, Negated, Path, Repeat, Sequence, Triple
from p2prdf.rdf.terms import RDF, XSD
from p2prdf.rdf.tokens import Symbol

__all__ = ["TriplesReader"]

_TYPE: Final = f"<{RDF}type>"
_FIRST: Final = f"<{RDF}first>"
_REST: Final = f"<{RDF}rest>"
_NIL: Final = f"<{RDF}nil>"


class TriplesReader:
    """Reads triples; without ``paths``, those of a template."""

    def __init__(self, cursor: Cursor, *, paths: bool = True):
        self._cursor = cursor
        self._paths = paths
        self._triples: list[Triple] = []

    def read(self) -> list[Triple]:
        """Read triples up to a symbol that cannot be part of one."""
        while True:
            self._same_subject()
            ended = self._cursor.take_mark(".")
            if not self.sees_term():
                return self._triples
            if not ended:
                raise self._cursor.misplaced(self._cursor.next())

    def sees_term(self) -> bool:
        """Tell whether the next symbol can begin a triple."""
        symbol = self._cursor.peek()
        if symbol is None:
            return False
        return symbol.kind in ("var", "iri", "literal", "blank") or symbol.is_mark("[", "(") or _boolean(symbol) != ""

    def _same_subject(self) -> None:
        begins = self._cursor.peek()
        alone = begins is not None and begins.is_mark("[", "(") and not self._is_empty()
        subject = self._node()
        if alone and not self._sees_verb():
            return  # [ :p 1 ] and ( 1 ) are complete without further properties
        self._properties(subject)

    def _is_empty(self) -> bool:
        following = self._cursor.peek(1)
        return following is not None and following.is_mark("]", ")")

    def _sees_verb(self) -> bool:
        symbol = self._cursor.peek()
        if symbol is None:
            return False
        if symbol.kind in ("var", "iri") or symbol.value == "a":
            return True
        return self._paths and symbol.is_mark("^", "!", "(")

    def _properties(self, subject: str) -> None:
        while True:
            at = self._cursor.peek()
            verb = self._verb()
            while True:
                assert at is not None, "a verb was read from it"
                self._object(subject, verb, at.at)
                if not self._cursor.take_mark(","):
                    break
            if not self._cursor.sees_mark(";"):
                return
            while self._cursor.take_mark(";"):
                pass
            if not self._sees_verb():
                return

    def _object(self, subject: str, verb: Path, at: int) -> None:
        place = len(self._triples)
        found = self._node()
        self._triples.insert(place, Triple(subject, verb, found, at))

    # --- nodes -------------------------------------------------------------------------------

    def _node(self) -> str:
        """Read a node; the triples of its abbreviation are appended."""
        cursor = self._cursor
        symbol = cursor.next()
        match symbol.kind:
            case "var":
                return "?" + symbol.value
            case "iri" | "literal":
                return symbol.value
            case "blank":
                return "?" + self._label(symbol)
        if symbol.is_mark("["):
            node = "?" + cursor.hidden("b")
            if not cursor.sees_mark("]"):
                self._properties(node)
            cursor.expect_mark("]")
            return node
        if symbol.is_mark("("):
            return self._collection()
        boolean = _boolean(symbol)
        if not boolean:
            raise cursor.misplaced(symbol)
        return boolean

    def _label(self, symbol: Symbol) -> str:
        cursor = self._cursor
        if symbol.value not in cursor.labels:
            cursor.labels[symbol.value] = cursor.hidden("b"), cursor.basic
        name, basic = cursor.labels[symbol.value]
        if basic != cursor.basic:
            reason = f"_:{symbol.value} occurs in two basic graph patterns"
            raise cursor.refusal(symbol.at, "blank node label", reason)
        return name

    def _collection(self) -> str:
        cursor = self._cursor
        if cursor.take_mark(")"):
            return _NIL
        first = cell = "?" + cursor.hidden("b")
        while True:
            at = cursor.peek()
            assert at is not None, "the tokenizer has seen the closing bracket"
            self._object(cell, Link(_FIRST), at.at)
            ends = cursor.take_mark(")")
            following = _NIL if ends else "?" + cursor.hidden("b")
            self._triples.append(Triple(cell, Link(_REST), following, at.at))
            if ends:
                return first
            cell = following

    # --- paths -------------------------------------------------------------------------------

    def _verb(self) -> Path:
        cursor = self._cursor
        symbol = cursor.peek()
        if symbol is not None and symbol.kind == "var":
            return Link("?" + cursor.next().value)
        return self._alternative() if self._paths else Link(self._predicate())

    def _predicate(self) -> str:
        symbol = self._cursor.next()
        if symbol.kind == "iri":
            return symbol.value
        if symbol.kind == "word" and symbol.value == "a":
            return _TYPE
        raise self._cursor.misplaced(symbol)

    def _alternative(self) -> Path:
        paths = [self._sequence()]
        while self._cursor.take_mark("|"):
            paths.append(self._sequence())
        return paths[0] if len(paths) == 1 else Alternative(tuple(paths))

    def _sequence(self) -> Path:
        paths = [self._step()]
        while self._cursor.take_mark("/"):
            paths.append(self._step())
        return paths[0] if len(paths) == 1 else Sequence(tuple(paths))

    def _step(self) -> Path:
        if self._cursor.take_mark("^"):
            return Inverse(self._element())
        return self._element()

    def _element(self) -> Path:
        cursor = self._cursor
        if cursor.take_mark("("):
            path = self._alternative()
            cursor.expect_mark(")")
        elif cursor.take_mark("!"):
            path = self._negated()
        else:
            path = Link(self._predicate())
        symbol = cursor.peek()
        if symbol is not None and symbol.is_mark("*", "+", "?"):
            path = Repeat(path, cursor.next().value)
        return path

    def _negated(self) -> Path:
        cursor = self._cursor
        ways: dict[bool, list[str]] = {True: [], False: []}
        several = cursor.take_mark("(")
        while not (several and cursor.sees_mark(")")):
            inverse = cursor.take_mark("^")
            ways[not inverse].append(self._predicate())
            if not several or not cursor.take_mark("|"):
                break
        if several:
            cursor.expect_mark(")")
        forward, backward = ways[True], ways[False]
        return Negated(tuple(forward) if forward or not backward else None, tuple(backward) if backward else None)


def _boolean(symbol: Symbol) -> str:
    if symbol.is_word("TRUE", "FALSE"):
        return f'"{symbol.value.lower()}"^^<{XSD}boolean>'
    return ""
