"""One step of a plan, compiled to column positions; both kinds of tables execute it.

A *source* says where a value comes from when a waiting row meets a triple: ``(ROW, i)`` is the row's i-th binding,
``(TRIPLE, 0|1|2)`` the triple's subject, predicate or object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from p2prdf import keys
from p2prdf.rdf import quads
from p2prdf.rdf.query import Plan, Step

__all__ = ["GROUP", "ROW", "TRIPLE", "CompiledStep", "Source", "compile_step"]

GROUP, ROW, TRIPLE = 0, 1, 2

Source = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """How to find, check and extend a row that waits at this step.

    ``key``: per position of the mask (s, p, o order) where the waiting row's part comes from: ``(GROUP, c)``, its
    group's constant c, or ``(ROW, i)``.  ``equal``: pairs of triple positions that must hold the same term (a
    repeated free variable).  ``never_literal``: positions of variables bound here where a literal can never lead to a
    solution (see below).  ``output``: sources of the next step's bindings, or of the solution.  ``filters``: filter
    number and the sources of its variables.  ``span_ms``: as in Plan; 0 also at the first step, where a row has no
    element yet.
    """

    step: Step
    key: tuple[Source, ...]
    route: tuple[Source | None, ...]
    equal: tuple[tuple[int, int], ...]
    never_literal: tuple[int, ...]
    output: tuple[Source, ...]
    filters: tuple[tuple[int, tuple[Source, ...]], ...]
    last: bool
    span_ms: int


_P, _O = 1, 2


def _never_literal(plan: Plan, at: int, variable: int) -> bool:
    """Return whether a literal in the place of a variable can never lead to a solution.

    An object that also stands as a subject or predicate must not be a literal.  Nor may a predicate, unless it also
    stands as a subject: literals are the predicates of named graphs and of their directory (:mod:`p2prdf.rdf.quads`).
    A pattern with a variable as predicate reads the default graph, except the patterns made for ``GRAPH``, which have
    the variable as their subject as well.

    A query that itself has a variable as both predicate and subject gains no solution by that.  If the variable were
    such a literal, its triples as a subject would be the directory's, with a literal as predicate again: a constant,
    which no query can spell, or a variable to which the same applies.  The directory is two levels deep, so after two
    steps no literal is left that could be a subject.

    A plan with the condition that the predicate is one in a stream reads all elements of that stream, and likewise for
    a named graph and the directory: one pattern of several made for ``GRAPH``.  No query can spell these conditions.
    """
    if at == _P and any(quads.reads_beyond_default(each.text, variable) for each in plan.filters):
        return False
    if at == _O:
        return any(variable in pattern[:2] for pattern in plan.patterns)
    return all(variable != pattern[0] for pattern in plan.patterns)


_compiled: WeakKeyDictionary[Plan, dict[int, CompiledStep]] = WeakKeyDictionary()
"""The compiled steps of plans, as long as the plans are held."""


def compile_step(plan: Plan, number: int) -> CompiledStep:
    """Return the compiled step ``number`` of a plan."""
    steps = _compiled.setdefault(plan, {})
    if number not in steps:
        steps[number] = _compile(plan, number)
    return steps[number]


def _compile(plan: Plan, number: int) -> CompiledStep:
    step = plan.steps[number]
    last = number + 1 == len(plan.steps)
    bits = (keys.S, keys.P, keys.O)

    def waiting(slot: int) -> Source:
        return (GROUP, ~slot) if slot < 0 else (ROW, step.bound.index(slot))

    def joined(variable: int) -> Source:
        if variable in step.pattern:
            return TRIPLE, step.pattern.index(variable)
        return ROW, step.bound.index(variable)

    def sources(variables: Iterable[int]) -> tuple[Source, ...]:
        return tuple(joined(variable) for variable in variables)

    free = [(at, slot) for at, slot in enumerate(step.pattern) if not step.mask & bits[at]]
    equal = tuple(
        (first, second)
        for n, (first, slot) in enumerate(free)
        for second, other in free[n + 1 :]
        if slot == other
    )
    never_literal = tuple(at for at, slot in free if at in (_P, _O) and _never_literal(plan, at, slot))
    return CompiledStep(
        step=step,
        key=tuple(waiting(slot) for bit, slot in zip(bits, step.pattern, strict=True) if step.mask & bit),
        route=tuple(waiting(slot) if step.role & bit else None for bit, slot in zip(bits, step.pattern, strict=True)),
        equal=equal,
        never_literal=never_literal,
        output=sources(plan.answer if last else plan.steps[number + 1].bound),
        filters=tuple((each, sources(plan.filters[each].variables)) for each in step.filters),
        last=last,
        span_ms=plan.span_ms if number else 0,
    )
