"""The evaluation of the iRap paper (definitions 8 to 18), for comparison: as printed, or with its slips corrected.

A changeset's triples are sorted into *candidates*: sets of triples that match some of an interest's required patterns
together, the fullest first.  The missing parts of a candidate are looked up in the target (*assertion*).  Candidates
that then lack nothing are interesting, the others potentially interesting.  Triples of the target that completed a
removed candidate lose their partner and become potentially interesting.

Read to the letter this gives wrong targets; :class:`Fix` lists the reasons.  With the first three corrected it is the
*sequential* reading, which is still wrong if candidates share triples, or if the connection of two new triples is not
new.  With all corrected it was right in all histories tried.  Either way each changeset is joined anew, over all
subsets of the patterns; the bounds reflect that.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from p2prdf.errors import InterestOverflow, LocalProtocolError
from p2prdf.interest.changeset import Changeset, Triple
from p2prdf.interest.expression import Interest, Pattern, PatternGroup, connected
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.standing.syntax import is_variable

__all__ = ["CANDIDATES_MAX", "PAPER_PATTERNS_MAX", "SEQUENTIAL", "Fix", "PaperReplica"]

PAPER_PATTERNS_MAX: Final = 8
"""Bound on required patterns: there is a candidate set for each connected choice of them."""
CANDIDATES_MAX: Final = 1_000_000
"""Bound on the candidates and partial matches looked at for one changeset."""

Values: TypeAlias = dict[str, str]


class Fix(enum.Enum):
    """The corrections of the printed definitions."""

    DELETIONS_FIRST = "definition 14 asserts additions in the target before the deletions, and brings back what left"
    PROMOTED_LEAVE = "definition 18 leaves in the potentially interesting triples what became interesting"
    DELETED_LEAVE = "definition 18 keeps a deleted triple that is potentially interesting and part of a match that goes"
    SHARED_CANDIDATES = "definition 11 puts a triple into one candidate, and other matches that it is in are not seen"
    APART_CANDIDATES = "definition 11 wants candidates connected: two new triples with an old one between are not seen"


SEQUENTIAL: Final = frozenset((Fix.DELETIONS_FIRST, Fix.PROMOTED_LEAVE, Fix.DELETED_LEAVE))


class _Graph:
    """Triples by their parts."""

    def __init__(self, triples: Iterable[Triple]):
        self._by: dict[tuple[str | None, str | None, str | None], list[Triple]] = {}
        self.triples = dict.fromkeys(triples)
        for s, p, o in self.triples:
            for parts in ((None, p, None), (s, p, None), (None, p, o), (s, None, None), (None, None, o)):
                self._by.setdefault(parts, []).append((s, p, o))

    def matching(self, pattern: Pattern, values: Mapping[str, str]) -> Iterator[tuple[Triple, Values]]:
        """Yield triples that match, given values of some variables, with the values of the others."""
        parts = [values.get(part) if is_variable(part) else part for part in pattern]
        s, p, o = parts
        where = (s, p, None) if s and p else (None, p, o) if p and o else (s, None, None) if s else (None, p, o)
        found = self._by.get(where, ()) if any(where) else self.triples
        for triple in found:
            new: Values = {}
            for part, value, term in zip(pattern, parts, triple, strict=True):
                if value is None:
                    value = new.setdefault(part, term)
                if value != term:
                    break
            else:
                yield triple, new


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Triples that match some patterns together; ``values``: of the patterns' variables."""

    values: Values
    triples: tuple[Triple, ...]
    missing: tuple[Pattern, ...]


class PaperReplica:
    """One interest by the paper's definitions.  ``target`` and ``potential`` may be set initially."""

    def __init__(self, interest: Interest, fixes: frozenset[Fix] = SEQUENTIAL):
        if len(interest.required.patterns) > PAPER_PATTERNS_MAX:
            count = len(interest.required.patterns)
            raise LocalProtocolError(f"{count} required patterns; to compare with the paper there are at most"
                                     f" {PAPER_PATTERNS_MAX}")  # fmt: skip
        self.interest = interest
        self.fixes = fixes
        self.target: set[Triple] = set()
        self.potential: set[Triple] = set()
        names = interest.variables
        self._conditions = [
            [(compile_filter(each), [names[number] for number in each.variables]) for each in group.conditions]
            for group in interest.groups
        ]
        required = interest.required.patterns
        self._choices = [
            [
                choice
                for choice in itertools.combinations(required, size)
                if connected(choice) or Fix.APART_CANDIDATES in fixes
            ]
            for size in range(len(required), 0, -1)
        ]
        self._steps = 0

    def apply(self, changeset: Changeset) -> None:
        """Apply a changeset.  Raises InterestOverflow for more than CANDIDATES_MAX partial matches."""
        self._steps = 0
        fixes, removed = self.fixes, frozenset(changeset.removed)
        target, potential = self.target, self.potential
        if Fix.DELETED_LEAVE in fixes:
            target, potential = target - removed, potential - removed
        before, before_potential = target, potential
        interesting, near, widowed = self._sorted(changeset.removed, _Graph(target))
        target = target - interesting - widowed
        potential = (potential - near) | widowed
        if Fix.DELETIONS_FIRST in fixes:
            before, before_potential = target, potential
        gained, also, partners = self._sorted([*changeset.added, *sorted(before_potential)], _Graph(before))
        gained |= partners
        self.target = target | gained
        self.potential = potential | also
        if Fix.PROMOTED_LEAVE in fixes:
            self.potential -= gained

    # --- definitions 11 to 14 ------------------------------------------------------------------------

    def _sorted(self, triples: Iterable[Triple], target: _Graph) -> tuple[set[Triple], set[Triple], set[Triple]]:
        """Return interesting triples, potentially interesting ones, and the partners of interesting ones in the
        target.
        """
        interesting: set[Triple] = set()
        near: set[Triple] = set()
        partners: set[Triple] = set()
        for candidate in self._candidates(triples):
            found = list(self._solutions(candidate.missing, target, candidate.values, 0))
            if not found:
                near.update(candidate.triples)
                continue
            interesting.update(candidate.triples)
            both = _Graph((*target.triples, *candidate.triples))
            for values, used in found:
                partners.update(used)
                for number, group in enumerate(self.interest.optionals, 1):
                    for _, own in self._solutions(group.patterns, both, values, number):
                        partners.update(own)
        return interesting, near - interesting, partners - interesting

    def _candidates(self, triples: Iterable[Triple]) -> Iterator[_Candidate]:
        """Yield candidates, the most complete first; matches of optional patterns alone come last."""
        required = self.interest.required.patterns
        left = _Graph(triples)
        whole = left
        for choices in self._choices:
            taken: set[Triple] = set()
            for choice in choices:
                missing = tuple(pattern for pattern in required if pattern not in choice)
                for values, used in self._solutions(choice, left, {}, 0):
                    also = self._optional(whole, values)
                    taken.update(used, also)
                    yield _Candidate(values, (*used, *also), missing)
            if taken and Fix.SHARED_CANDIDATES not in self.fixes:
                left = _Graph(triple for triple in left.triples if triple not in taken)
        for group in self.interest.optionals:
            for pattern in group.patterns:
                others = tuple(each for each in group.patterns if each != pattern)
                for values, used in self._solutions((pattern,), left, {}, -1):
                    yield _Candidate(values, used, (*required, *others))

    def _optional(self, graph: _Graph, values: Values) -> tuple[Triple, ...]:
        """Return the triples of optional groups that go with values of required variables."""
        found: dict[Triple, None] = {}
        for number, group in enumerate(self.interest.optionals, 1):
            if self._shares(group, values):
                for _, used in self._solutions(group.patterns, graph, values, number):
                    found.update(dict.fromkeys(used))
        return tuple(found)

    @staticmethod
    def _shares(group: PatternGroup, values: Values) -> bool:
        return any(part in values for pattern in group.patterns for part in pattern)

    def _solutions(
        self, patterns: tuple[Pattern, ...], graph: _Graph, values: Values, number: int
    ) -> Iterator[tuple[Values, tuple[Triple, ...]]]:
        """Yield values and triples by which patterns match.

        ``number``: the group with the conditions to test, -1: none.
        """
        self._steps += 1
        if self._steps > CANDIDATES_MAX:
            raise InterestOverflow(f"the paper's evaluation looks at more than {CANDIDATES_MAX:,} partial matches")
        if not patterns:
            if number < 0 or self._hold(values, number):
                yield values, ()
            return
        # the pattern with the most known parts comes next
        pattern = max(patterns, key=lambda each: sum(not is_variable(part) or part in values for part in each))
        rest = tuple(each for each in patterns if each != pattern)
        for triple, new in graph.matching(pattern, values):
            for found, used in self._solutions(rest, graph, {**values, **new}, number):
                yield found, (triple, *used)

    def _hold(self, values: Values, number: int) -> bool:
        """Return whether all conditions hold that have values for all their variables."""
        return all(
            test([values[name] for name in names])
            for at in {0, number}
            for test, names in self._conditions[at]
            if all(name in values for name in names)
        )
