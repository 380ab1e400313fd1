"""Rules as text: parser and writer.

Users write rules by hand, so the syntax is that of Datalog with the terms of SPARQL::

    PREFIX : <http://example.org/>
    trans: ?x :isIn ?z :- ?x :isIn ?y , ?y :isIn ?z .        # a name, a head, a body
    ?x a :Place , ?y a :Place :- ?x :isIn ?y .               # two rules of one body
    isIn(?y, ?x) :- holds(?x, ?y) .                          # as :isIn and :holds, of the empty prefix
    Place(?x) :- isIn(?x, ?y) .                              # one argument: a class

A name is a word and a colon, followed by a space.  A text that begins with CONSTRUCT is a SPARQL query: its pattern
is the body, its template contains the heads (:mod:`p2prdf.reasoning.construct_text`).

Constructs beyond patterns (FILTER, negation, paths, new nodes) are not positive Datalog and are refused by name, with
line and column: facts with labels could not be maintained under such rules.  The tokens are those of queries, so the
length is bounded and the text is tokenised in linear time before it is parsed.

A written rule has one head and no abbreviations except prefixes; read again it is equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.rdf import tokens
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.terms import RDF, XSD
from p2prdf.rdf.tokens import Symbol, Token
from p2prdf.reasoning.construct_text import read_construct
from p2prdf.reasoning.rule import Atom, Rule
from p2prdf.reasoning.rule_cursor import REFUSED_WORDS, RuleCursor, made_rules

__all__ = ["RULES_BYTES_MAX", "parse_rules", "write_rules"]

RULES_BYTES_MAX: Final = 1 << 20
"""Longest text in UTF-8 bytes."""

_DECLARATIONS: Final = ("PREFIX", "BASE")
_TYPE: Final = f"<{RDF}type>"
_LOCAL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@as_written
def parse_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text, in order; there may be none.

    Raises QueryRefused, with the construct and its place, if the text is malformed or contains something that is no
    rule.
    """
    symbols, base = tokens.symbols(text, _marked(text, tokens.scan(text, RULES_BYTES_MAX)))
    cursor = RuleCursor(text, symbols, base)
    if cursor.sees_word("CONSTRUCT"):
        return read_construct(cursor)
    return tuple(_RuleReader(cursor).rules())


def write_rules(rules: Iterable[Rule], prefixes: Mapping[str, str] | None = None) -> str:
    """Return rules as text, one per line.  ``prefixes``: namespaces (IRIs without brackets) to abbreviate, by prefix.

    Raises LocalProtocolError for a rule with a name that could not be read again.
    """
    lines, used = [], dict[str, str]()

    def spelled(part: str, place: int) -> str:
        if place == 1 and part == _TYPE:
            return "a"
        for prefix, namespace in (prefixes or {}).items():
            if part.startswith(f"<{namespace}") and _LOCAL.fullmatch(local := part[len(namespace) + 1 : -1]):
                used[prefix] = namespace
                return f"{prefix}:{local}"
        return part

    def atom(of: Atom) -> str:
        return " ".join(spelled(part, place) for place, part in enumerate(of))

    for rule in rules:
        body = " , ".join(map(atom, rule.body))
        lines.append(f"{_label(rule)}{atom(rule.head)} :- {body} .\n")
    return "".join([*(f"PREFIX {prefix}: <{used[prefix]}>\n" for prefix in sorted(used)), *lines])


class _RuleReader:
    """Reads rules up to the end."""

    def __init__(self, cursor: RuleCursor):
        self._cursor = cursor

    def rules(self) -> Iterator[Rule]:
        cursor = self._cursor
        while (first := cursor.peek()) is not None:
            name = cursor.next().value if first.kind == "label" else ""
            start = cursor.peek()
            heads = self._atoms()
            if cursor.sees_mark(".") and start is not None:
                raise cursor.refusal(start.at, "fact", "it has no body, so it is not a rule: publish it instead")
            cursor.expect_mark(":-")
            body = self._atoms()
            cursor.expect_mark(".")
            assert start is not None, "atoms were read from it"
            yield from made_rules(cursor, start.at, heads, body, name)

    def _atoms(self) -> list[Atom]:
        found = [self._atom()]
        while self._cursor.take_mark(","):
            found.append(self._atom())
        return found

    def _atom(self) -> Atom:
        cursor = self._cursor
        first = cursor.next()
        if first.kind in ("iri", "var") and cursor.take_mark("("):
            return self._arguments(_variable_or_value(first))
        subject = self._node(first)
        if subject.startswith('"'):
            raise cursor.refusal(first.at, "literal", "a literal is the subject of no triple")
        return Atom(subject, self._predicate(cursor.next()), self._node(cursor.next()))

    def _arguments(self, predicate: str) -> Atom:
        """Read the arguments behind ``predicate(``: a single argument is an individual of that class."""
        cursor = self._cursor
        first = cursor.next()
        subject = self._node(first)
        if subject.startswith('"'):
            raise cursor.refusal(first.at, "literal", "a literal is the subject of no triple")
        if cursor.take_mark(")"):
            return Atom(subject, _TYPE, predicate)
        cursor.expect_mark(",")
        obj = self._node(cursor.next())
        if cursor.sees_mark(","):
            raise cursor.refusal(cursor.next().at, "arguments", "a predicate has two, a class has one")
        cursor.expect_mark(")")
        return Atom(subject, predicate, obj)

    def _node(self, symbol: Symbol) -> str:
        if symbol.kind in ("var", "iri", "literal"):
            return _variable_or_value(symbol)
        if symbol.is_word("TRUE", "FALSE"):
            return f'"{symbol.value.lower()}"^^<{XSD}boolean>'
        if symbol.is_mark("("):
            raise self._cursor.refusal(symbol.at, "collection", "a list is written as its triples")
        raise self._cursor.misplaced(symbol)

    def _predicate(self, symbol: Symbol) -> str:
        if symbol.kind in ("var", "iri"):
            return _variable_or_value(symbol)
        if symbol.kind == "word" and symbol.value == "a":
            return _TYPE
        if symbol.kind == "literal":
            raise self._cursor.refusal(symbol.at, "literal", "a literal is the predicate of no triple")
        raise self._cursor.misplaced(symbol)


def _variable_or_value(symbol: Symbol) -> str:
    return "?" + symbol.value if symbol.kind == "var" else symbol.value


def _marked(text: str, found: list[Token]) -> list[Token]:
    """Return the tokens with those of rules among them: ``:-``, names of rules, predicates without a prefix."""
    at, first = _declarations_end(found), True
    result = found[:at]
    while at < len(found):
        token, following = found[at], found[at + 1] if at + 1 < len(found) else Token("end", "", -1)
        at += 1
        if token.text == ":" and following.text == "-" and following.at == token.at + 1:
            token = Token("mark", ":-", token.at)
            at += 1
        elif first and token.kind == "name" and token.text.index(":") == len(token.text) - 1 and token.text != ":":
            token = Token("label", token.text[:-1], token.at)
        elif token.kind == "word" and following.text == "(" and token.text.upper() not in REFUSED_WORDS:
            token = Token("name", ":" + token.text, token.at)
        elif token.kind == "word" and token.text.upper() in _DECLARATIONS:
            raise tokens.refusal(text, token.at, token.text.upper(), REFUSED_WORDS[token.text.upper()])
        result.append(token)
        first = token.text == "." and token.kind == "mark"
    return result


def _declarations_end(found: list[Token]) -> int:
    at = 0
    while at < len(found) and found[at].kind == "word" and found[at].text.upper() in _DECLARATIONS:
        at += 3 if found[at].text.upper() == "PREFIX" else 2
    return min(at, len(found))


def _label(rule: Rule) -> str:
    """Return a rule's name as it is written in front of the rule."""
    if not rule.name:
        return ""
    label = f"{rule.name}:"
    try:
        read = tokens.scan(label)
    except QueryRefused:
        read = []
    if [(token.kind, token.text) for token in read] != [("name", label)] or label.index(":") != len(label) - 1:
        raise LocalProtocolError(f"{rule}: {rule.name!r} cannot be read again as a name: use a word of letters and -")
    return label + " "
