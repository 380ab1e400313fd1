"""Verification of patterns, once for a publication and pattern, shared by all queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from p2prdf.rdf.fulltext import Condition, condition_holds
from p2prdf.text.joins import agrees, joinable
from p2prdf.text.publication import Publication, Triple
from p2prdf.text.query import TextPattern, is_constant, is_variable

__all__ = ["Check", "Checks", "Verification", "shape_of"]


class Check(NamedTuple):
    """A pattern with numbers instead of names of variables; equal names have equal numbers within it."""

    s: str
    p: str
    o: str
    condition: Condition | None


class Checks:
    """The checks of all queries, each held once, with reference counts."""

    def __init__(self) -> None:
        self._held: dict[Check, Check] = {}
        self._more: dict[Check, int] = {}
        """The number of further uses of each check; absent for most, which are used once."""

    def use(self, pattern: TextPattern) -> Check:
        """Return the shared check of a pattern and count one more use."""
        names: dict[str, str] = {}
        s, p, o = (names.setdefault(part, f"?{len(names)}") if is_variable(part) else part for part in pattern.parts)
        made = Check(s, p, o, pattern.condition)
        held = self._held.setdefault(made, made)
        if held is not made:
            self._more[held] = self._more.get(held, 0) + 1
        return held

    def release(self, check: Check) -> None:
        """Remove one use."""
        more = self._more.get(check, 0)
        if not more:
            del self._held[check]
        elif more == 1:
            del self._more[check]
        else:
            self._more[check] = more - 1


def shape_of(patterns: Sequence[TextPattern]) -> tuple[int, ...]:
    """Return the variables of patterns as numbers by first occurrence, by position; -1 for others."""
    names: dict[str, int] = {}
    return tuple(
        names.setdefault(part, len(names)) if is_variable(part) else -1 for each in patterns for part in each.parts
    )


class Verification:
    """The results of checks on one publication."""

    __slots__ = ("_by_predicate", "_found", "_publication", "evaluated")

    def __init__(self, publication: Publication):
        self._publication = publication
        self._by_predicate: dict[str, list[int]] = {}
        for number, (_, p, _) in enumerate(publication.triples):
            self._by_predicate.setdefault(p, []).append(number)
        self._found: dict[int, list[Triple]] = {}
        """Matching triples by the identity of the check; equal checks are one object."""
        self.evaluated = 0

    def holds(self, checks: Sequence[Check], shape: tuple[int, ...] | None) -> bool:
        """Tell whether a triple passes each check and, given the shape of a query, whether these triples join."""
        found = []
        for check in checks:
            triples = self._found.get(id(check))
            if triples is None:
                triples = self._found[id(check)] = self._passing(check)
            if not triples:
                return False
            found.append(triples)
        return shape is None or joinable(_named(checks, shape), found)

    def _passing(self, check: Check) -> list[Triple]:
        self.evaluated += 1
        s, p, o, condition = check
        publication = self._publication
        numbers = self._by_predicate.get(p, ()) if is_constant(p) else range(len(publication.triples))
        pattern = TextPattern(s, p, o) if len({s, p, o}) < 3 else None
        found = []
        for number in numbers:
            triple = publication.triples[number]
            if (
                (not is_constant(s) or triple[0] == s)
                and (not is_constant(o) or triple[2] == o)
                and (pattern is None or agrees(pattern, triple))
                and (condition is None or condition_holds(condition, publication.text(number)))
            ):
                found.append(triple)
        return found


def _named(checks: Sequence[Check], shape: tuple[int, ...]) -> list[TextPattern]:
    """Return patterns with the variables of a query's shape."""
    named = []
    for at, check in enumerate(checks):
        s, p, o = (
            f"?{number}" if number >= 0 else part
            for number, part in zip(shape[3 * at : 3 * at + 3], (check.s, check.p, check.o), strict=True)
        )
        named.append(TextPattern(s, p, o))
    return named
