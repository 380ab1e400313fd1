"""What EXISTS means for a pattern that sees variables from outside.

SPARQL substitutes: for each solution of the outer pattern its values take the place of the variables, and
the group is asked whether it has a solution (SPARQL 1.1, 18.6).  Substituted text is no good where the group
projects, binds or subtracts, so this follows what SPARQL 1.2 makes of it: *the outer solution is joined
with every basic graph pattern inside*.  Both are the same where the first is clear.

Most groups are *stable*: joining the outer solution at their end gives the same solutions as joining it
at every leaf, since what they compare are certain variables.  Then EXISTS is a semi-join, and the group is
evaluated once for all.  For any other, the distinct outer solutions (of the variables concerned) are *given* to the
group as a relation, and joined where that makes a difference.  An outer variable that may be unbound
comes with a *fixed* copy, by which solutions of different outer ones are kept apart all the way up; there the
outer solution finds its own again.

One thing is less than 1.2 says: inside MINUS an outer variable counts as common to both sides only if it is written
in both.
"""

from __future__ import annotations

import dataclasses

from p2prdf.errors import QueryRefused
from p2prdf.rdf.standing import laws
from p2prdf.rdf.standing.paths import may_be_empty
from p2prdf.rdf.standing.relations import (
    Basic,
    Condition,
    Distinct,
    Exists,
    Extend,
    Filter,
    Given,
    Group,
    Join,
    LeftJoin,
    Minus,
    Names,
    PathPattern,
    Project,
    Relation,
    Slice,
    Union,
    certain,
    mentioned,
    mentioned_beside,
    variables,
)
from p2prdf.rdf.tokens import refusal

__all__ = ["Correlation", "is_stable"]


def is_stable(relation: Relation, outer: frozenset[str]) -> bool:
    """Tell whether outer solutions may as well be joined at the end of a relation."""
    match relation:
        case Basic(_, conditions):
            own = frozenset(variables(relation))
            return all(outer.intersection(each.names) <= each.scope & own for each in conditions)
        case PathPattern(_, path):
            return not (may_be_empty(path) and outer.intersection(variables(relation)))
        case Join(left, right):
            return is_stable(left, outer) and is_stable(right, outer)
        case Union(branches):
            return all(is_stable(branch, outer) for branch in branches)
        case LeftJoin(input, right):
            both = is_stable(input, outer) and is_stable(right, outer)
            return both and mentioned_beside(relation) & outer <= certain(input)
        case Minus(input, right):
            both = is_stable(input, outer) and is_stable(right, outer)
            return both and mentioned(right) & outer <= certain(input) & certain(right)
        case Exists(input, right):
            return is_stable(input, outer) and mentioned(right) & outer <= certain(input)
        case Filter(input, condition) | Extend(input, _, condition):
            known = certain(input) & condition.scope
            fresh = not isinstance(relation, Extend) or relation.name not in outer
            return fresh and is_stable(input, outer) and outer.intersection(condition.names) <= known
        case Group(input, keys):
            return is_stable(input, outer) and mentioned(input) & outer <= certain(input).intersection(keys)
        case Slice(input):
            return not mentioned(input) & outer
        case Project(input) | Distinct(input):
            return is_stable(input, outer)
    return True


class Correlation:
    """Gives outer solutions to the group of an EXISTS."""

    def __init__(self, text: str, outer: Relation, group: Relation, fixed: dict[str, str]):
        """``fixed``: what the copies of variables that may be unbound are called."""
        self._text = text
        self._bound = certain(outer)
        self._outer = frozenset(variables(outer))
        used = mentioned(group)
        self.names: Names = tuple(name for name in variables(outer) if name in used)
        self.fixed = {name: fixed[name] for name in self.names if name not in self._bound}
        self.given = Given(self.names, self._bound.intersection(self.names), tuple(self.fixed.values()))
        self.keys: Names = tuple(self.fixed.get(name, name) for name in self.names)
        """What tells outer solutions apart."""
        self.group = self._joined(group)

    def _joined(self, relation: Relation) -> Relation:
        if is_stable(relation, self._outer):
            return Join(relation, self.given)
        match relation:
            case Basic():
                return self._basic(relation)
            case PathPattern():
                return Join(relation, self.given)
            case Join(left, right):
                parts = [
                    part if is_stable(part, self._outer) else self._joined(part) for part in (left, right)
                ]
                return Join(*parts)
            case Union(branches):
                return Union(tuple(map(self._joined, branches)))
            case LeftJoin(input, right, conditions, exists):
                return LeftJoin(self._joined(input), self._joined(right), tuple(map(self._wider, conditions)), exists)
            case Minus(input, right, shared):
                return Minus(self._joined(input), self._joined(right), shared)
            case Filter(input, condition):
                return Filter(self._joined(input), self._wider(condition))
            case Extend(input, name, expression):
                if name in self._outer:
                    raise self._refusal(expression.at, "BIND in EXISTS", f"?{name} is bound outside, too")
                return Extend(self._joined(input), name, self._wider(expression))
            case Group() | Slice():
                what = "GROUP BY" if isinstance(relation, Group) else "LIMIT"
                raise self._refusal(
                    relation.at, f"{what} in EXISTS", "the sub-query depends on variables of the pattern outside"
                )
            case Project(input, names):
                return Project(self._joined(input), tuple(dict.fromkeys(names + variables(self.given))))
            case Exists(input) | Distinct(input):
                return dataclasses.replace(relation, input=self._joined(input))
        raise AssertionError(f"{relation} is stable")

    def _basic(self, basic: Basic) -> Relation:
        """Take conditions that want outer values out of a basic graph pattern, and decide them behind it."""
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
                    # It was merged with a group that binds the name itself, in whose scope it is not.
                    reason = f"?{name} is bound outside of the group it stands in, and perhaps not outside of EXISTS"
                    raise self._refusal(condition.at, "FILTER in EXISTS", reason)
        relation: Relation = Join(dataclasses.replace(basic, conditions=tuple(kept)), self.given)
        for condition in taken:
            relation = laws.restrict(relation, self._wider(condition))
        return relation

    def _wider(self, condition: Condition) -> Condition:
        return Condition(condition.symbols, condition.scope.union(self.names))

    def _refusal(self, at: int, construct: str, reason: str) -> QueryRefused:
        return refusal(self._text, at, construct, reason)
