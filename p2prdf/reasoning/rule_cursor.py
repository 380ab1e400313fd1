"""Common parts of the readers of rules: refusals, and the combination of heads and bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.tokens import Symbol
from p2prdf.reasoning.rule import BODY_ATOMS_MAX, Atom, Rule

__all__ = ["REFUSED_WORDS", "RuleCursor", "made_rules"]

REFUSED_WORDS: Final = {
    "FILTER": "a rule has no conditions besides its patterns",
    "BIND": "a rule computes no values",
    "VALUES": "write a rule for each row",
    "OPTIONAL": "write two rules, with and without the optional part",
    "UNION": "write a rule for each alternative",
    **dict.fromkeys(("MINUS", "NOT", "EXISTS"), "rules have no negation"),
    **dict.fromkeys(("GRAPH", "FROM", "SERVICE"), "rules are about the triples of one graph"),
    "SELECT": "a rule has no subqueries",
    **dict.fromkeys(("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"), "a rule uses each solution by itself"),
    **dict.fromkeys(("ASK", "DESCRIBE"), "of queries only CONSTRUCT is a rule"),
    **dict.fromkeys(("PREFIX", "BASE"), "declarations stand before the first rule"),
}
"""Words of queries and rule texts that a rule may not contain, with the reason."""
_NO_NODES: Final = "a rule creates no new nodes; in a body, write a variable instead"
_PATH_MARKS: Final = ("^", "/", "|", "*", "+")


class RuleCursor(Cursor):
    """Reads the symbols of rules."""

    def misplaced(self, symbol: Symbol) -> QueryRefused:
        """Return the refusal of a symbol; the reasons differ from those for queries."""
        word = symbol.value.upper()
        if symbol.kind == "word" and word in REFUSED_WORDS:
            return self.refusal(symbol.at, word, f"not supported: {REFUSED_WORDS[word]}")
        if symbol.kind == "blank" or symbol.is_mark("["):
            return self.refusal(symbol.at, "blank node", _NO_NODES)
        if symbol.is_mark(*_PATH_MARKS):
            return self.refusal(symbol.at, "property path", "a rule has one predicate in each pattern")
        if symbol.is_mark("!", "!=", "=", "<", ">", "<=", ">="):
            return self.refusal(symbol.at, symbol.value, "not supported: a rule has no conditions and no negation")
        if symbol.is_mark("{"):
            return self.refusal(symbol.at, "group", "a rule has one group of patterns; write UNION as several rules")
        return super().misplaced(symbol)


def made_rules(cursor: Cursor, at: int, heads: Iterable[Atom], body: Iterable[Atom], name: str = "") -> Iterator[Rule]:
    """Yield a rule for each head; raise the refusal, for the symbol ``at`` a place, of invalid ones."""
    body = tuple(body)
    if len(body) > BODY_ATOMS_MAX:
        raise cursor.refusal(at, "rule body", f"{len(body)} patterns, and a body may have {BODY_ATOMS_MAX}")
    known = frozenset[str]().union(*(atom.variables for atom in body))
    for head in dict.fromkeys(heads):
        free = sorted(head.variables - known)
        if free:
            raise cursor.refusal(at, "unsafe variable", f"{', '.join(free)} of the head is not in the body")
        yield Rule(head, body, name)
