"""Read triples with all their abbreviations, and property paths, from the symbols of a query.

Turtle's abbreviations are expanded at once: ``[ ]`` and ``( )`` become hidden variables and their triples, which
follow the triple that contains them (those of a subject precede it).

Reifiers and annotations (SPARQL 1.2) become triples with rdf:reifies and a triple term.  A triple term of constants is
a constant.  One with variables becomes a hidden variable, and its parts are compared by expressions
(:meth:`TriplesReader.opened`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.syntax import (
    Alternative,
    Bind,
    Expression,
    Inverse,
    Link,
    Negated,
    Path,
    Repeat,
    Sequence,
    Triple,
)
from p2prdf.rdf.terms import RDF, XSD
from p2prdf.rdf.tokens import Symbol

__all__ = ["STEPS_MAX", "TriplesReader", "is_triple_term", "names_within", "triple_call"]

STEPS_MAX: Final = 2048
"""Most triple patterns and steps of paths in a query, together."""

_TYPE: Final = f"<{RDF}type>"
_FIRST: Final = f"<{RDF}first>"
_REST: Final = f"<{RDF}rest>"
_NIL: Final = f"<{RDF}nil>"
_REIFIES: Final = f"<{RDF}reifies>"
_TERM: Final = "t"
"""Begins the hidden names of triple terms."""
_PARTS: Final = ("SUBJECT", "PREDICATE", "OBJECT")


class TriplesReader:
    """Reads triples; without ``paths``, those of a template.

    ``opens``: the caller evaluates :meth:`opened` or :meth:`made`.  ``keeps``: triple terms keep their variables,
    ``<<( ?s ?p ?o )>>``.
    """

    def __init__(self, cursor: Cursor, *, paths: bool = True, opens: bool = False, keeps: bool = False):
        self._cursor = cursor
        self._paths = paths
        self._opens = opens
        self._keeps = keeps
        self._triples: list[Triple] = []
        self._opened: list[tuple[str, tuple[str, str, str], int]] = []
        """Triple terms with variables, outer ones first: hidden variable, parts, position."""

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
        kinds, marks = ("var", "iri", "literal", "blank"), ("[", "(", "<<", "<<(")
        return symbol.kind in kinds or symbol.is_mark(*marks) or _boolean(symbol) != ""

    def _same_subject(self) -> None:
        begins = self._cursor.peek()
        alone = begins is not None and begins.is_mark("[", "(", "<<") and not self._is_empty()
        subject = self._term()
        if alone and not self._sees_verb():
            return  # [ :p 1 ], ( 1 ) and << :s :p 1 >> are complete without further properties
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

    def _count(self, at: int) -> None:
        """Count the next pattern or step of a path of a query; refuse too many, since translation compares them."""
        if self._paths:
            self._cursor.patterns += 1
            if self._cursor.patterns > STEPS_MAX:
                reason = f"a query has at most {STEPS_MAX} triple patterns and steps of paths"
                raise self._cursor.refusal(at, "query size", reason)

    def _object(self, subject: str, verb: Path, at: int) -> None:
        self._count(at)
        place = len(self._triples)
        found = self._term()
        self._triples.insert(place, Triple(subject, verb, found, at))
        self._annotations(subject, verb, found, at)

    # --- nodes -------------------------------------------------------------------------------

    def _term(self) -> str:
        return self._triple_term() if self._cursor.sees_mark("<<(") else self._node()

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
        if symbol.is_mark("<<"):
            return self._reified(symbol)
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

    # --- triple terms ------------------------------------------------------------------------

    def _annotations(self, subject: str, verb: Path, found: str, at: int) -> None:
        """Read the reifiers and annotations after an object."""
        cursor = self._cursor
        reifier = ""
        while cursor.sees_mark("~", "{|"):
            mark = cursor.next()
            if not isinstance(verb, Link):
                raise cursor.refusal(mark.at, "annotation", "only a triple is annotated, not a property path")
            if mark.value == "~" or not reifier:
                reifier = self._reifier() if mark.value == "~" else "?" + cursor.hidden("b")
                self._reify(reifier, (subject, verb.predicate, found), at)
            if mark.value == "{|":
                self._properties(reifier)
                cursor.expect_mark("|}")
                reifier = ""

    def _reified(self, opening: Symbol) -> str:
        """Read ``s p o ~ reifier >>`` and return the reifier."""
        cursor = self._cursor
        parts = self._part(opening), self._term_verb(), self._part(opening, is_object=True)
        reifier = self._reifier() if cursor.take_mark("~") else "?" + cursor.hidden("b")
        cursor.expect_mark(">>")
        self._reify(reifier, parts, opening.at)
        return reifier

    def _reifier(self) -> str:
        symbol = self._cursor.peek()
        if symbol is not None and (symbol.kind in ("var", "iri", "blank") or symbol.is_mark("[")):
            return self._part(symbol)
        return "?" + self._cursor.hidden("b")

    def _reify(self, reifier: str, parts: tuple[str, str, str], at: int) -> None:
        self._triples.append(Triple(reifier, Link(_REIFIES), self._term_of(parts, at), at))

    def _triple_term(self) -> str:
        """Read ``<<( s p o )>>``."""
        opening = self._cursor.expect_mark("<<(")
        place = len(self._opened)
        parts = self._part(opening), self._term_verb(), self._part(opening, is_object=True)
        self._cursor.expect_mark(")>>")
        return self._term_of(parts, opening.at, place)

    def constant(self) -> str:
        """Read a triple term of constants."""
        opening = self._cursor.peek()
        found = self._triple_term()
        if opening is not None and found.startswith("?"):
            raise self._cursor.refusal(opening.at, "triple term", "a triple term among data has no variables")
        return found

    def _part(self, opening: Symbol, *, is_object: bool = False) -> str:
        """Read a subject or an object of a triple term or a reified triple."""
        cursor = self._cursor
        symbol = cursor.peek()
        if symbol is not None and symbol.is_mark("<<("):
            return self._triple_term()
        if symbol is not None and symbol.is_mark("<<"):
            if opening.value == "<<":
                return self._reified(cursor.next())
        elif symbol is not None and symbol.is_mark("["):
            cursor.next()
            cursor.expect_mark("]")
            return "?" + cursor.hidden("b")
        elif symbol is not None and (is_object or (symbol.kind != "literal" and not _boolean(symbol))):
            if symbol.is_mark("("):
                raise cursor.misplaced(symbol)
            return self._node()
        raise cursor.misplaced(cursor.next())

    def _term_verb(self) -> str:
        symbol = self._cursor.peek()
        if symbol is not None and symbol.kind == "var":
            return "?" + self._cursor.next().value
        return self._predicate()

    def _term_of(self, parts: tuple[str, str, str], at: int, place: int | None = None) -> str:
        """Return the triple term of some parts, or a hidden variable if there are variables among them."""
        cursor = self._cursor
        if self._keeps and any(map(names_within, parts)):
            return f"<<( {' '.join(parts)} )>>"
        if not any(part.startswith("?") for part in parts):
            try:
                return terms.triple_term(*parts)
            except DataRefused as error:
                raise cursor.refusal(at, "triple term", error.reason) from None
        if not self._opens:
            reason = "it cannot have variables or blank nodes here; use SUBJECT(), PREDICATE() and OBJECT()"
            raise cursor.refusal(at, "triple term", reason)
        hidden = "?" + cursor.hidden(_TERM)
        self._opened.insert(len(self._opened) if place is None else place, (hidden, parts, at))
        return hidden

    def opened(self) -> list[Bind | Expression]:
        """Return the elements that compare the parts of triple terms, or bind variables to them."""
        bound = {
            part[1:]
            for each in self._triples
            for part in (each.subject, each.object, each.path.predicate if isinstance(each.path, Link) else "")
            if part.startswith("?")
        }
        found: list[Bind | Expression] = []
        for hidden, parts, at in self._opened:
            found.append(Expression([Symbol("word", "ISTRIPLE", at), _OPEN, Symbol("var", hidden[1:], at), _CLOSE], at))
            for function, part in zip(_PARTS, parts, strict=True):
                call = [Symbol("word", function, at), _OPEN, Symbol("var", hidden[1:], at), _CLOSE]
                if part.startswith("?") and part[1:] not in bound:
                    bound.add(part[1:])
                    found.append(Bind(Expression(call, at), part[1:], at))
                    continue
                compared = [Symbol("word", "SAMETERM", at), _OPEN, *call, _COMMA, *_symbols_of(part), _CLOSE]
                found.append(Expression(compared, at))
        return found

    def made(self) -> list[Bind]:
        """Return the elements that make the triple terms of a template from its variables."""
        found = []
        for hidden, parts, at in reversed(self._opened):
            if any(part.startswith("?.b") for part in parts):
                reason = "a triple term of a template has no blank nodes"
                raise self._cursor.refusal(at, "triple term", reason)
            call = triple_call(map(_symbols_of, parts), at)
            found.append(Bind(Expression(call, at), hidden[1:], at))
        return found

    # --- paths -------------------------------------------------------------------------------

    def _verb(self) -> Path:
        cursor = self._cursor
        symbol = cursor.peek()
        if symbol is not None and symbol.kind == "var":
            return Link("?" + cursor.next().value)
        return self._alternative() if self._paths else Link(self._predicate())

    def _predicate(self) -> str:
        symbol = self._cursor.next()
        self._count(symbol.at)
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


_OPEN: Final = Symbol("mark", "(", 0)
_CLOSE: Final = Symbol("mark", ")", 0)
_COMMA: Final = Symbol("mark", ",", 0)


def is_triple_term(name: str) -> bool:
    """Tell whether a hidden name is that of a triple term."""
    return name.startswith("." + _TERM)


def names_within(term: str) -> list[str]:
    """Return the names of a variable, or of those in a triple term that keeps them."""
    if terms.is_triple(term):
        return [name for part in terms.triple_parts(term) for name in names_within(part)]
    return [term[1:]] if term.startswith("?") else []


def triple_call(parts: Iterable[list[Symbol]], at: int) -> list[Symbol]:
    """Return the call of TRIPLE with these arguments."""
    found = [Symbol("word", "TRIPLE", at), _OPEN]
    for part in parts:
        found += [*part, _COMMA]
    return [*found[:-1], _CLOSE]


def _symbols_of(term: str) -> list[Symbol]:
    """Return the symbols of a constant term or a variable in an expression."""
    if terms.is_triple(term):
        return triple_call(map(_symbols_of, terms.triple_parts(term)), 0)
    if term.startswith("?"):
        return [Symbol("var", term[1:], 0)]
    return [Symbol("literal" if term.startswith('"') else "iri", term, 0)]


def _boolean(symbol: Symbol) -> str:
    if symbol.is_word("TRUE", "FALSE"):
        return f'"{symbol.value.lower()}"^^<{XSD}boolean>'
    return ""
