"""Laws of the algebra that merge triple patterns and push conditions down to them.

A join with a basic graph pattern moves below an OPTIONAL, and a condition below a join, if the variables that both
use are certain at the new place: their values are the same there.  Each law keeps the bag of solutions.
"""

from __future__ import annotations

import dataclasses

from p2prdf.rdf.query import PATTERNS_MAX
from p2prdf.rdf.standing import graphs
from p2prdf.rdf.standing.relations import (
    Basic,
    Condition,
    Exists,
    Extend,
    Filter,
    Join,
    LeftJoin,
    Minus,
    Relation,
    Union,
    certain,
    mentioned_beside,
    variables,
)

__all__ = ["decided_by", "join", "restrict"]


def join(left: Relation, right: Relation) -> Relation:
    """Return the join of two relations; basic graph patterns are merged where this keeps the bag."""
    if _is_unit(left):
        return right
    if _is_unit(right):
        return left
    if isinstance(right, Join):
        return join(join(left, right.left), right.right)
    merged: Relation | None = None
    if isinstance(right, Basic):
        merged = _absorb(left, right, before=False)
    elif isinstance(left, Basic):
        merged = _absorb(right, left, before=True)
    return Join(left, right) if merged is None else merged


def _is_unit(relation: Relation) -> bool:
    """Tell whether a relation is one empty solution."""
    return isinstance(relation, Basic) and not relation.patterns and not relation.conditions


def _absorb(relation: Relation, basic: Basic, *, before: bool) -> Relation | None:
    """Join a basic graph pattern with one that is part of a relation; None where that is impossible.

    ``before``: it is written before the relation.
    """
    match relation:
        case Basic():
            return _merged(basic, relation) if before else _merged(relation, basic)
        case Join(left, right):
            inner = _absorb(left, basic, before=before)
            if inner is not None:
                return Join(inner, right)
            inner = _absorb(right, basic, before=before)
            return None if inner is None else Join(left, inner)
        case LeftJoin(input) | Minus(input) | Exists(input) | Extend(input) | Filter(input):
            if mentioned_beside(relation).intersection(variables(basic)) <= certain(input):
                inner = _absorb(input, basic, before=before)
                return None if inner is None else _over(relation, inner)
    return None


def _over(relation: LeftJoin | Minus | Exists | Extend | Filter, inner: Relation) -> Relation:
    return dataclasses.replace(relation, input=inner)


def _merged(first: Basic, second: Basic) -> Basic | None:
    patterns = graphs.condensed(first.patterns + second.patterns)
    places = {basic.window for basic in (first, second) if basic.patterns}
    if len(patterns) > PATTERNS_MAX or len(places) > 1:
        return None
    conditions = sorted(first.conditions + second.conditions, key=lambda condition: condition.at)
    return Basic(patterns, tuple(conditions), min(first.at, second.at), *places)


def restrict(relation: Relation, condition: Condition) -> Relation:
    """Return the solutions for which a condition holds, pushed down as far as its variables are certain."""
    match relation:
        case Basic(patterns, conditions) if patterns or not condition.seen:
            found = tuple(sorted((*conditions, condition), key=lambda each: each.at))
            return dataclasses.replace(relation, conditions=found)
        case Join(left, right):
            if decided_by(condition, left, right):
                return Join(restrict(left, condition), right)
            if decided_by(condition, right, left):
                return Join(left, restrict(right, condition))
        case LeftJoin(input, right) if decided_by(condition, input, right):
            return _over(relation, restrict(input, condition))
        case Minus(input) | Filter(input):
            return _over(relation, restrict(input, condition))
        case Exists(input, name=name) | Extend(input, name) if name not in condition.seen:
            return _over(relation, restrict(input, condition))
        case Union(branches):
            return Union(tuple(restrict(branch, condition) for branch in branches))
    return Filter(relation, condition)


def decided_by(condition: Condition, side: Relation, other: Relation) -> bool:
    """Tell whether a condition on a join has the same value on one side as on the whole."""
    seen = condition.seen.intersection(variables(side) + variables(other))
    return seen <= certain(side).union(set(variables(side)).difference(variables(other)))
