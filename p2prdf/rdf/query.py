"""Conjunctive queries and their plans, as pure data.

A query is split into what it *is like* and what it *is about*.  Patterns hold slots: a number
``v >= 0`` is a variable, ``~c < 0`` stands for constant number ``c``.  The constants lie beside
them as data, so queries that differ only in constants share one plan (a template), and a batch
of such queries is a few columns.

A plan orders the patterns into steps.  A row that waits at step j has bound the variables of
steps 0..j-1, of which it still carries ``bound``: those that later patterns, filters or the
answer need.

A *rule* is a query with a conclusion: its last pattern is no condition but what follows from the others, with the
variables they bind.  A row that waits there, under all three parts, is a *derivation* of that triple, and ends its way
(:mod:`p2prdf.peer.gates`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from functools import cached_property

from p2prdf import keys

__all__ = [
    "Algorithm",
    "Concludes",
    "ConjunctiveQuery",
    "Filter",
    "Pattern",
    "Plan",
    "Step",
    "constant_mask",
    "make_plan",
    "single_role",
]

Pattern = tuple[int, int, int]
"""Slots of subject, predicate and object: a variable's number, or ``~`` a constant's number."""

_BITS = (keys.S, keys.P, keys.O)


class Algorithm(enum.Enum):
    """How joins travel: along a fixed chain of peers, or along a tree keyed by values."""

    CQC = "cqc"
    CSBV = "csbv"


class Concludes(enum.IntEnum):
    """Whether the last pattern of a query is its conclusion, and what that may rest on."""

    NOTHING = 0
    """It is a pattern like the others: the query has answers."""
    FROM_ANYTHING = 1
    """The other patterns may be matched by what is concluded, so the conclusion may rest on itself."""
    FROM_GIVEN = 2
    """Nothing that the other patterns match is concluded by rules."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one solution: SPARQL expression text over the variables ``?v0``, ``?v1``, ...

    ``variables`` are the numbers of the variables that occur in it, ascending.
    """

    text: str
    variables: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ConjunctiveQuery:
    """A SELECT query over one basic graph pattern, canonical: equal meaning written alike is equal.

    Variables are numbered by first occurrence in the patterns, constants likewise, so names do
    not matter; ``names`` holds the projected names in the order of ``answer``.
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
    ``role``: constant parts whose hash routes to this step's peers.
    ``mask``: constant and bound parts, by which rows and triples are joined inside a peer
    (equal to ``role`` in CSBV).
    ``bound``: variables a row waiting here carries, in column order.
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
    """An ordered template.  Everything a peer needs to go on with a partial result, but constants.

    ``span_ms``: of elements of a stream, less than so long lies between the oldest and the youngest of a row that
    counts, the range of their window; 0: there is no such bound.  Then plans of other ranges are other plans.
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
            *([("within", self.span_ms)] if self.span_ms else ()),
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
        """The set of roles under which triples must be indexed for this plan to be complete."""
        bits = 0
        for step in self.steps:
            bits |= keys.role_bit(step.role, per_event=self.per_event)
        return bits


def make_plan(
    query: ConjunctiveQuery, order: Sequence[int], algorithm: Algorithm, *, per_event: bool = False, span_ms: int = 0
) -> Plan:
    """Return the plan that evaluates the patterns of ``query`` in ``order``.

    ``span_ms`` as in Plan; of one pattern each row has one element, so plans for it are shared by all ranges.
    """
    assert sorted(order) == list(range(len(query.patterns)))
    return Plan(
        algorithm, per_event, query.distinct, query.patterns, tuple(order), query.answer, query.filters,
        len(query.constants), query.concludes, span_ms if len(order) > 1 else 0,
    )  # fmt: skip


def constant_mask(pattern: Pattern, bound: frozenset[int] | set[int] = frozenset()) -> int:
    """Return which positions of a pattern are constants or variables in ``bound``."""
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
