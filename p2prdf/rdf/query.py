"""Conjunctive queries and their plans, as pure data.

A query is split into a template and its data.  Patterns hold slots: a number ``v >= 0`` is a variable, ``~c < 0``
stands for constant number ``c``.  The constants are stored beside the patterns, so queries that differ only in
constants share one plan, and a batch of such queries is a few columns.

A plan orders the patterns into steps.  A row waiting at step j has bound the variables of steps 0..j-1, of which it
carries ``bound``: those that later patterns, filters or the projection need.

A *rule* is a query with a conclusion: its last pattern is the head of the rule, with variables that the other
patterns bind.  A row at that step, indexed under all three positions, is a *derivation* of the triple; no join
follows (:mod:`p2prdf.peer.joins.derived_facts`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from p2prdf import keys

__all__ = [
    "FILTERS_BYTES_MAX", "FILTERS_MAX", "PATTERNS_MAX", "RULE_PATTERNS_MAX", "Algorithm", "Concludes",
    "ConjunctiveQuery", "Filter", "Pattern", "Plan", "Step", "constant_mask", "filter_bytes", "make_plan",
    "single_role",
]  # fmt: skip

PATTERNS_MAX: Final = 64
"""Most triple patterns of a conjunctive query."""
RULE_PATTERNS_MAX: Final = 16
"""Most triple patterns in the body of a rule."""
FILTERS_MAX: Final = 64
"""Most filters of a query."""
FILTERS_BYTES_MAX: Final = 48 << 10
"""Most bytes of all filters of a conjunctive query, as :func:`filter_bytes` counts them: each message has them."""

Pattern = tuple[int, int, int]
"""Slots of subject, predicate and object: a variable's number, or ``~`` a constant's number."""

_BITS = (keys.S, keys.P, keys.O)


class Algorithm(enum.Enum):
    """The join algorithm: along a fixed chain of peers (CQC), or along a tree keyed by values (CSBV)."""

    CQC = "cqc"
    CSBV = "csbv"


class Concludes(enum.IntEnum):
    """Whether the last pattern of a query is its conclusion, and the triples it may rest on."""

    NOTHING = 0
    """The last pattern is an ordinary one: the query has solutions."""
    FROM_ANYTHING = 1
    """Conclusions of rules may match the other patterns, so a conclusion may rest on itself."""
    FROM_GIVEN = 2
    """Only base facts (EDB) match the other patterns: no rule concludes a triple that matches them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one solution: SPARQL expression text over the variables ``?v0``, ``?v1``, ...

    ``variables`` are the numbers of the variables that occur in it, ascending.
    """

    text: str
    variables: tuple[int, ...]


def filter_bytes(text: str, variables: Sequence[int]) -> int:
    """Return an upper bound of the bytes of a filter in a plan."""
    return len(text.encode()) + 8 * len(variables) + 16


@dataclasses.dataclass(frozen=True, slots=True)
class ConjunctiveQuery:
    """A SELECT query over one basic graph pattern, in canonical form.

    Variables are numbered by first occurrence in the patterns, and so are constants: queries that differ only in
    names of variables are equal except for ``names``, the projected names in the order of ``answer``.
    """

    patterns: tuple[Pattern, ...]
    constants: tuple[str, ...]
    answer: tuple[int, ...]
    names: tuple[str, ...]
    distinct: bool = False
    filters: tuple[Filter, ...] = ()
    concludes: Concludes = Concludes.NOTHING

    @property
    def variable_count(self) -> int:
        """Number of distinct variables in the patterns."""
        return 1 + max((slot for pattern in self.patterns for slot in pattern), default=-1)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One pattern at its place in the order of evaluation.

    ``position``: its index in the query as written (identities are indexed by it).

    ``role``: the index of this step, that is, the constant positions that are hashed to find its peers.

    ``mask``: the join index: constant and bound positions, by which rows and triples are joined inside a peer (equal
    to ``role`` in CSBV).

    ``bound``: the variables that a row waiting here carries, in column order.

    ``filters``: numbers of the filters that can be decided once this step is joined.
    """

    pattern: Pattern
    position: int
    role: int
    mask: int
    bound: tuple[int, ...]
    filters: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """An ordered template: all that a peer needs to continue with a partial result, except the constants.

    ``span_ms``: the range of the query's window, in milliseconds.  The difference between the earliest and the latest
    element of a valid row is less than this; 0: no bound.  Plans with different ranges are different plans.

    ``exact``: of one pattern; the owner of the pattern tells every publication and deletion, for settled delivery.
    """

    algorithm: Algorithm
    per_event: bool
    distinct: bool
    patterns: tuple[Pattern, ...]
    order: tuple[int, ...]
    answer: tuple[int, ...]
    filters: tuple[Filter, ...]
    constant_count: int
    concludes: Concludes = Concludes.NOTHING
    span_ms: int = 0
    exact: bool = False

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order of evaluation."""
        return _steps(self)

    @cached_property
    def text(self) -> str:
        """A unique spelling of the plan; plans with equal text are equal."""
        return repr((
            self.algorithm.value, self.per_event, self.distinct, self.patterns, self.order, self.answer,
            [(f.text, f.variables) for f in self.filters], self.constant_count,
            *([int(self.concludes)] if self.concludes else ()),
            *([("within", self.span_ms)] if self.span_ms else ()), *(["exact"] if self.exact else ()),
        ))  # fmt: skip

    @cached_property
    def identity(self) -> int:
        """A 64-bit name of the plan."""
        return keys.text_key(self.text)

    def __hash__(self) -> int:
        return self.identity

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Plan) and self.text == other.text)

    @cached_property
    def roles(self) -> int:
        """The set of indexes that triples must be published under for this plan to be complete."""
        bits = 0
        for step in self.steps:
            bits |= keys.role_bit(step.role, per_event=self.per_event)
        return bits


def make_plan(
    query: ConjunctiveQuery, order: Sequence[int], algorithm: Algorithm, *, per_event: bool = False, span_ms: int = 0,
    exact: bool = False,
) -> Plan:  # fmt: skip
    """Return the plan that evaluates the patterns of ``query`` in ``order``.

    ``span_ms`` and ``exact`` as in Plan.  A row of a single pattern has one element, so all ranges share its plan.
    """
    assert sorted(order) == list(range(len(query.patterns)))
    return Plan(
        algorithm, per_event, query.distinct, query.patterns, tuple(order), query.answer, query.filters,
        len(query.constants), query.concludes, span_ms if len(order) > 1 else 0, exact,
    )  # fmt: skip


def constant_mask(pattern: Pattern, bound: frozenset[int] | set[int] = frozenset()) -> int:
    """Return the positions of a pattern that hold constants or variables in ``bound``, as a bit mask."""
    return sum(bit for bit, slot in zip(_BITS, pattern, strict=True) if slot < 0 or slot in bound)


def single_role(pattern: Pattern) -> int:
    """Return the one constant position that keys a CQC pattern: subject, then object, then predicate."""
    mask = constant_mask(pattern)
    for bit in (keys.S, keys.O, keys.P):
        if mask & bit:
            return bit
    return keys.ANY


def _steps(plan: Plan) -> tuple[Step, ...]:
    steps = []
    bound: set[int] = set()
    left = set(range(len(plan.filters)))
    for place, position in enumerate(plan.order):
        pattern = plan.patterns[position]
        later = {slot for at in plan.order[place:] for slot in plan.patterns[at] if slot >= 0}
        needed = later | set(plan.answer) | {v for f in left for v in plan.filters[f].variables}
        mask = constant_mask(pattern, bound)
        conclusion = bool(plan.concludes) and place == len(plan.order) - 1
        role = mask if plan.algorithm is Algorithm.CSBV or conclusion else single_role(pattern)
        carried = tuple(sorted(bound & needed))
        bound |= {slot for slot in pattern if slot >= 0}
        decided = tuple(sorted(f for f in left if bound.issuperset(plan.filters[f].variables)))
        left.difference_update(decided)
        steps.append(Step(pattern, position, role, mask, carried, decided))
    assert not left, "a filter names a variable that no pattern binds"
    return tuple(steps)
