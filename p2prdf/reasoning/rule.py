"""Rules: positive Datalog over triples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["BODY_ATOMS_MAX", "Atom", "Rule", "is_transitivity", "predicates_of"]

BODY_ATOMS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Atom:
    """A triple pattern of a rule; each part is a canonical term, or a variable (``?name``)."""

    s: str
    p: str
    o: str

    def __iter__(self) -> Iterator[str]:
        return iter((self.s, self.p, self.o))

    def __str__(self) -> str:
        return f"{self.s} {self.p} {self.o}"

    @property
    def variables(self) -> frozenset[str]:
        """The names of its variables, with their question marks."""
        return frozenset(part for part in self if part.startswith("?"))


@dataclass(frozen=True, slots=True)
class Rule:
    """A positive Datalog rule: ``head`` holds wherever all of ``body`` does.

    Raises LocalProtocolError for a body that is empty or too long, and for a variable of the head that the body
    lacks.
    """

    head: Atom
    body: tuple[Atom, ...]
    name: str = field(default="", compare=False)
    """A name for display; it does not distinguish rules."""

    def __post_init__(self) -> None:
        if not 0 < len(self.body) <= BODY_ATOMS_MAX:
            count = len(self.body)
            raise LocalProtocolError(f"{self}: the body has {count} patterns, and may have 1 to {BODY_ATOMS_MAX}")
        free = self.head.variables.difference(*(atom.variables for atom in self.body))
        if free:
            raise LocalProtocolError(f"{self}: {', '.join(sorted(free))} of the head is not in the body")

    def __str__(self) -> str:
        text = f"{self.head} :- {', '.join(map(str, self.body))} ."
        return f"{self.name}: {text}" if self.name else text


def is_transitivity(rule: Rule) -> bool:
    """Return whether a rule states the transitivity of one constant predicate, and nothing else."""
    if len(rule.body) != 2 or rule.head.p.startswith("?"):
        return False
    for first, second in (rule.body, rule.body[::-1]):
        x, y, z = first.s, first.o, second.o
        chained = second.s == y and rule.head.s == x and rule.head.o == z
        alike = len({rule.head.p, first.p, second.p}) == 1
        if chained and alike and len({x, y, z}) == 3 and all(each.startswith("?") for each in (x, y, z)):
            return True
    return False


def predicates_of(rules: Iterable[Rule]) -> frozenset[str] | None:
    """Return the predicates of facts that matter to any of the rules; None: any predicate may."""
    found = {atom.p for rule in rules for atom in rule.body}
    return None if any(p.startswith("?") for p in found) else frozenset(found)
