"""Laws of the algebra that merge triple patterns and push conditions down to them.

A join with a basic graph pattern moves below an OPTIONAL, and a condition below a join, if the variables that both
use are certain at the new place: their values are the same there.  Each law keeps the bag of solutions.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from p2prdf.rdf.query import PATTERNS_MAX
from p2prdf.rdf.standing import graphs, relations
from p2prdf.rdf.standing.relations import Basic, Condition, Relation, certain, mentioned_beside, variables

__all__ = ["decided_by", "join", "restrict"]


def join(left: Relation, right: Relation) -> Relation:
    """Return the join of two relations; basic graph patterns are merged where this keeps the bag."""
    if _is_unit(left):
        return right
    if _is_unit(right):
        return left
    if isinstance(right, relations.Join):
        return join(join(left, right.left), right.right)
    merged: Relation | None = None
    if isinstance(right, Basic):
        merged = _absorb(left, right, before=False)
    elif isinstance(left, Basic):
        merged = _absorb(right, left, before=True)
    return relations.Join(left, right) if merged is None else merged


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
        case relations.Join(left, right):
            inner = _absorb(left, basic, before=before)
            if inner is not None:
                return relations.Join(inner, right)
            inner = _absorb(right, basic, before=before)
            return None if inner is None else relations.Join(left, inner)
    if isinstance(relation, _Passing) and mentioned_beside(relation) & set(variables(basic)) <= certain(relation.input):
        inner = _absorb(relation.input, basic, before=before)
        return None if inner is None else dataclasses.replace(relation, input=inner)
    return None


_Passing: TypeAlias = relations.LeftJoin | relations.Minus | relations.Exists | relations.Extend | relations.Filter
"""Relations that keep the solutions of their first input, or some of them, and only add variables."""


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
        case relations.Join(left, right):
            if decided_by(condition, left, right):
                return relations.Join(restrict(left, condition), right)
            if decided_by(condition, right, left):
                return relations.Join(left, restrict(right, condition))
        case relations.LeftJoin(input, right) if decided_by(condition, input, right):
            return dataclasses.replace(relation, input=restrict(input, condition))
        case relations.Minus(input) | relations.Filter(input):
            return dataclasses.replace(relation, input=restrict(input, condition))
        case relations.Exists(input, name=name) | relations.Extend(input, name) if name not in condition.seen:
            return dataclasses.replace(relation, input=restrict(input, condition))
        case relations.Union(branches):
            return relations.Union(tuple(restrict(branch, condition) for branch in branches))
    return relations.Filter(relation, condition)


def decided_by(condition: Condition, side: Relation, other: Relation) -> bool:
    """Tell whether a condition on a join has the same value on one side as on the whole."""
    seen = condition.seen.intersection(variables(side) + variables(other))
    return seen <= certain(side).union(set(variables(side)).difference(variables(other)))
