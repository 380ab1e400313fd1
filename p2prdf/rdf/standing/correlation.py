"""Evaluate EXISTS for a pattern that uses variables from outside.

SPARQL 1.1 substitutes: the values of each outer solution replace the variables, and EXISTS tests whether the group
then has a solution (18.6).  This is undefined where the group projects, binds or subtracts, so this module follows
SPARQL 1.2: *the outer solution is joined with every basic graph pattern inside*.  Both give the same result where the
first is defined.

Most groups are *stable*: joining the outer solution with the result of the group gives the same solutions as joining
it at every leaf.  EXISTS is then a semi-join, and the group is evaluated once.  For other groups, the distinct outer
solutions (of the variables used inside) are *given* to the group as a relation, and joined where this makes a
difference.  An outer variable that may be unbound comes with a *fixed* copy, which distinguishes the outer solutions
and by which each outer solution is matched with its own result.

One difference from SPARQL 1.2 remains: inside MINUS, an outer variable counts as shared only if both sides mention
it.
"""

from __future__ import annotations

import dataclasses

from p2prdf.errors import QueryRefused
from p2prdf.rdf.standing import laws, relations
from p2prdf.rdf.standing.paths import may_be_empty
from p2prdf.rdf.standing.relations import (
    Basic,
    Condition,
    Names,
    Relation,
    certain,
    mentioned,
    mentioned_beside,
    variables,
)
from p2prdf.rdf.tokens import refusal

__all__ = ["Correlation", "is_stable"]


def is_stable(relation: Relation, outer: frozenset[str]) -> bool:
    """Tell whether joining outer solutions with the result equals joining them at every leaf."""
    match relation:
        case Basic(_, conditions):
            own = frozenset(variables(relation))
            return all(outer.intersection(each.names) <= each.scope & own for each in conditions)
        case relations.PathPattern(_, path):
            return not (may_be_empty(path) and outer.intersection(variables(relation)))
        case relations.Join(left, right):
            return is_stable(left, outer) and is_stable(right, outer)
        case relations.Union(branches):
            return all(is_stable(branch, outer) for branch in branches)
        case relations.LeftJoin(input, right):
            both = is_stable(input, outer) and is_stable(right, outer)
            return both and mentioned_beside(relation) & outer <= certain(input)
        case relations.Minus(input, right):
            both = is_stable(input, outer) and is_stable(right, outer)
            return both and mentioned(right) & outer <= certain(input) & certain(right)
        case relations.Exists(input, right):
            return is_stable(input, outer) and mentioned(right) & outer <= certain(input)
        case relations.Filter(input, condition) | relations.Extend(input, _, condition):
            known = certain(input) & condition.scope
            fresh = not isinstance(relation, relations.Extend) or relation.name not in outer
            return fresh and is_stable(input, outer) and outer.intersection(condition.names) <= known
        case relations.Group(input, keys):
            return is_stable(input, outer) and mentioned(input) & outer <= certain(input).intersection(keys)
        case relations.Slice(input):
            return not mentioned(input) & outer
        case relations.Project(input) | relations.Distinct(input):
            return is_stable(input, outer)
    return True


class Correlation:
    """The group of an EXISTS joined with the distinct outer solutions."""

    def __init__(self, text: str, outer: Relation, group: Relation, fixed: dict[str, str]):
        """Build the joined group; ``fixed``: the names for copies of variables that may be unbound."""
        self._text = text
        self._bound = certain(outer)
        self._outer = frozenset(variables(outer))
        used = mentioned(group)
        self.names: Names = tuple(name for name in variables(outer) if name in used)
        self.fixed = {name: fixed[name] for name in self.names if name not in self._bound}
        self.given = relations.Given(self.names, self._bound.intersection(self.names), tuple(self.fixed.values()))
        self.keys: Names = tuple(self.fixed.get(name, name) for name in self.names)
        """The columns that identify an outer solution."""
        self.group = self._joined(group)

    def _joined(self, relation: Relation) -> Relation:
        if is_stable(relation, self._outer):
            return relations.Join(relation, self.given)
        match relation:
            case Basic():
                return self._basic(relation)
            case relations.PathPattern():
                return relations.Join(relation, self.given)
            case relations.Join(left, right):
                parts = [
                    part if is_stable(part, self._outer) else self._joined(part) for part in (left, right)
                ]
                return relations.Join(*parts)
            case relations.Union(branches):
                return relations.Union(tuple(map(self._joined, branches)))
            case relations.LeftJoin(input, right, conditions, exists):
                wider = tuple(map(self._wider, conditions))
                return relations.LeftJoin(self._joined(input), self._joined(right), wider, exists)
            case relations.Minus(input, right, shared):
                return relations.Minus(self._joined(input), self._joined(right), shared)
            case relations.Filter(input, condition):
                return relations.Filter(self._joined(input), self._wider(condition))
            case relations.Extend(input, name, expression):
                if name in self._outer:
                    raise self._refusal(expression.at, "BIND in EXISTS", f"?{name} is bound outside of EXISTS, too")
                return relations.Extend(self._joined(input), name, self._wider(expression))
            case relations.Group() | relations.Slice():
                what = "GROUP BY" if isinstance(relation, relations.Group) else "LIMIT"
                raise self._refusal(
                    relation.at, f"{what} in EXISTS", "the sub-query depends on outer variables"
                )
            case relations.Project(input, names):
                return relations.Project(self._joined(input), tuple(dict.fromkeys(names + variables(self.given))))
            case relations.Exists(input) | relations.Distinct(input):
                return dataclasses.replace(relation, input=self._joined(input))
        raise AssertionError(f"{relation} is stable")

    def _basic(self, basic: Basic) -> Relation:
        """Move conditions that use outer values out of a basic graph pattern, and apply them after the join."""
        own = frozenset(variables(basic))
        kept, taken = [], []
        for condition in basic.conditions:
            wanted = self._outer.intersection(condition.names) - (condition.scope & own)
            if not wanted:
                kept.append(condition)
                continue
            taken.append(condition)
            for name in sorted(wanted & own):
                if name not in self._bound:
                    # The condition was merged into a group that binds the name itself, but is not in its scope.
                    reason = f"?{name} is out of scope in its group, and may be unbound outside of EXISTS"
                    raise self._refusal(condition.at, "FILTER in EXISTS", reason)
        relation: Relation = relations.Join(dataclasses.replace(basic, conditions=tuple(kept)), self.given)
        for condition in taken:
            relation = laws.restrict(relation, self._wider(condition))
        return relation

    def _wider(self, condition: Condition) -> Condition:
        return Condition(condition.symbols, condition.scope.union(self.names))

    def _refusal(self, at: int, construct: str, reason: str) -> QueryRefused:
        return refusal(self._text, at, construct, reason)
