"""A CONSTRUCT query as rules: its template contains the heads, its basic graph pattern is the body.

A user of SPARQL can thus write rules as queries.  Blank nodes of the pattern are variables, as in SPARQL.  In a
template they would be new nodes for each solution, so a rule over its own output would never end; they are refused.
The reader of queries and updates reads triples with all abbreviations.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from p2prdf.rdf import terms
from p2prdf.rdf.standing.syntax import Link, Triple
from p2prdf.rdf.standing.triples import TriplesReader
from p2prdf.reasoning.rule import Atom, Rule
from p2prdf.reasoning.rule_cursor import RuleCursor, made_rules

__all__ = ["read_construct"]


def read_construct(cursor: RuleCursor) -> tuple[Rule, ...]:
    """Return the rules of a CONSTRUCT query, one for each triple of its template.

    Raises QueryRefused if the query is malformed or not a rule.
    """
    start = cursor.expect_word("CONSTRUCT")
    if not cursor.sees_mark("{"):
        raise cursor.refusal(start.at, "CONSTRUCT WHERE", "a rule with its body as heads concludes nothing")
    heads = [_atom(cursor, triple) for triple in _braced(cursor, paths=False)]
    if not heads:
        raise cursor.refusal(start.at, "empty template", "a rule has a head")
    cursor.take_word("WHERE")
    patterns = [_atom(cursor, triple, blanks=True) for triple in _braced(cursor, paths=True)]
    if not patterns:
        raise cursor.refusal(start.at, "empty pattern", "a rule has a body")
    following = cursor.peek()
    if following is not None:
        raise cursor.misplaced(following)
    body = _named(patterns)
    return tuple(made_rules(cursor, start.at, heads, body))


def _braced(cursor: RuleCursor, *, paths: bool) -> list[Triple]:
    cursor.expect_mark("{")
    reader = TriplesReader(cursor, paths=paths)
    found = reader.read() if reader.sees_term() else []
    cursor.expect_mark("}")
    return found


def _atom(cursor: RuleCursor, triple: Triple, *, blanks: bool = False) -> Atom:
    if not isinstance(triple.path, Link):
        raise cursor.refusal(triple.at, "property path", "a rule has one predicate in each pattern")
    atom = Atom(triple.subject, triple.path.predicate, triple.object)
    if not blanks and any(name.startswith("?.") for name in atom.variables):
        raise cursor.refusal(triple.at, "blank node", "a rule creates no new nodes")
    if terms.is_object_only(atom.s):
        raise cursor.refusal(triple.at, "literal", "a literal is the subject of no triple")
    return atom


def _named(patterns: Iterable[Atom]) -> tuple[Atom, ...]:
    """Return patterns in which the variables of blank nodes have names that can be written."""
    patterns = tuple(patterns)
    taken = frozenset[str]().union(*(atom.variables for atom in patterns))
    fresh = (free for number in count(1) if (free := f"?b{number}") not in taken)
    names: dict[str, str] = {}

    def name(part: str) -> str:
        if not part.startswith("?."):
            return part
        if part not in names:
            names[part] = next(fresh)
        return names[part]

    return tuple(Atom(*map(name, atom)) for atom in patterns)
