"""Specialisation of a rule set to a known schema: rules over data alone.

A rule over any schema, such as ``?x ?q ?y :- ?p rdfs:subPropertyOf ?q , ?x ?p ?y``, has a pattern of three variables.
As a standing query it would match every triple, and nodes refuse it; in one process it is tried for each fact.  But
schemas are small, known and rarely change.

First the closure of the schema alone is computed.  Then the schema patterns of each rule are matched with it in all
ways, which leaves rules over data with constant predicates::

    :headOf rdfs:subPropertyOf :worksFor            ?x :worksFor ?y :- ?x :headOf ?y
    :Chair owl:intersectionOf (:Person _:r)         ?x a :Chair :- ?x a :Person , ?x a _:r

Auxiliary facts for lists are unfolded (:mod:`p2prdf.reasoning.unfolding`), so a list of n classes becomes one rule of
n patterns.  Redundant rules are removed (:mod:`p2prdf.reasoning.reduction`): of a closed class tree the edges remain.

This assumes that the data contains no schema triples (:func:`p2prdf.reasoning.vocabulary.is_schema`) and implies
none, as ``owl:sameAs`` between two classes would.  Then both forms derive the same from data: the closure of the data
and of the schema's statements about individuals (``facts``) under the instances equals the general closure, except
for schema triples.

Patterns that no schema restricts (equality: equal individuals have equal properties) keep their three variables; if
the predicates of the data are known, there is a rule for each instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from p2prdf.rdf.terms import is_object_only
from p2prdf.reasoning.materialiser import FOREVER, Materialiser
from p2prdf.reasoning.reduction import reduced
from p2prdf.reasoning.rule import Atom, Rule
from p2prdf.reasoning.rulesets import RuleSet, without_auxiliary
from p2prdf.reasoning.unfolding import substituted, unfolded
from p2prdf.reasoning.vocabulary import AUXILIARY, CHAIN, TYPE, Triple, is_auxiliary, is_schema

__all__ = ["Instances", "closure", "instantiate"]

Binding = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Instances:
    """The specialisation of a rule set to one schema."""

    rules: tuple[Rule, ...]
    """Rules over data alone, with the names of the general ones."""
    facts: tuple[Triple, ...]
    """Statements of schema and rules about individuals, to be given along with the data."""
    schema: frozenset[Triple]
    """The closure of the schema."""


def instantiate(rule_set: RuleSet, schema: Iterable[Triple], predicates: Iterable[str] | None = None) -> Instances:
    """Return the specialisation of a rule set to a schema.

    ``schema``: canonical terms, with IRIs in place of blank nodes.  ``predicates``: all predicates of the data,
    besides those that the rules name; then no body has a variable as predicate.  None: unknown.
    """
    given = tuple(dict.fromkeys((*rule_set.axioms, *schema)))
    closed = closure(rule_set.rules, given)
    match = _Schema(closed)
    cells = {s for s, p, o in closed if p == TYPE and o == CHAIN}
    made = [each for rule in rule_set.rules for each in _instances(rule, match)]
    made = unfolded(made, lambda atom: atom.p in cells or is_auxiliary((atom.s, atom.p, atom.o)))
    rules = [_with_predicates(rule, lambda p: f"<{AUXILIARY}chain:{p[1:-1]}>" if p in cells else p) for rule in made]
    if predicates is not None:
        rules = _of_predicates(rules, predicates)
    seen = without_auxiliary(closed)
    return Instances(
        rules=tuple(reduced((rule for rule in rules if rule.head not in rule.body), _said(rule_set.rules, given))),
        facts=tuple(sorted(each for each in seen if not is_schema(each))),
        schema=frozenset(each for each in seen if is_schema(each)),
    )


def closure(rules: Iterable[Rule], triples: Iterable[Triple]) -> frozenset[Triple]:
    """Return the closure of triples under rules, computed once."""
    numbers: dict[str, int] = {}
    terms: list[str] = []

    def intern(term: str) -> int:
        if term not in numbers:
            numbers[term] = len(terms)
            terms.append(term)
        return numbers[term]

    both = Materialiser(rules, intern, is_literal=lambda number: is_object_only(terms[number]))
    both.step(0, {(intern(s), intern(p), intern(o)): FOREVER for s, p, o in triples})
    return frozenset((terms[s], terms[p], terms[o]) for (s, p, o), _ in both)


class _Schema:
    """Schema triples by their parts."""

    def __init__(self, triples: Iterable[Triple]):
        self._by: dict[tuple[str, str | None, str | None], list[Triple]] = {}
        for s, p, o in sorted(triples):
            for key in ((p, None, None), (p, s, None), (p, None, o)):
                self._by.setdefault(key, []).append((s, p, o))

    def solutions(self, atoms: Sequence[Atom], known: Binding) -> Iterator[Binding]:
        """Yield the bindings with which all of some patterns match; their predicates are constants."""
        if not atoms:
            yield known
            return
        s, p, o = (known.get(part, part) for part in atoms[0])
        key = (p, None, o) if s[0] == "?" and o[0] != "?" else (p, None if s[0] == "?" else s, None)
        for triple in self._by.get(key, ()):
            bound = dict(known)
            for part, value in zip((s, p, o), triple, strict=True):
                if (bound.setdefault(part, value) if part[0] == "?" else part) != value:
                    break
            else:
                yield from self.solutions(atoms[1:], bound)


def _instances(rule: Rule, schema: _Schema) -> Iterator[Rule]:
    """Yield a rule over data for each match of the schema patterns."""
    of_schema = [atom for atom in rule.body if is_schema((atom.s, atom.p, atom.o))]
    of_data = [atom for atom in rule.body if atom not in of_schema]
    for binding in schema.solutions(of_schema, {}) if of_data else ():
        found = Rule(substituted(rule.head, binding), tuple(substituted(atom, binding) for atom in of_data), rule.name)
        if not any(part.startswith('"') for atom in (found.head, *found.body) for part in (atom.s, atom.p)):
            yield found


def _said(rules: Iterable[Rule], given: Iterable[Triple]) -> frozenset[Rule]:
    """Return the instances by the given triples without their closure; they are preferred to others."""
    schema = _Schema(given)
    return frozenset(each for rule in rules for each in _instances(rule, schema))


def _with_predicates(rule: Rule, predicate: Callable[[str], str]) -> Rule:
    """Return a rule with other predicates."""

    def renamed(atom: Atom) -> Atom:
        return Atom(atom.s, predicate(atom.p), atom.o)

    return Rule(renamed(rule.head), tuple(map(renamed, rule.body)), rule.name)


def _of_predicates(rules: Sequence[Rule], predicates: Iterable[str]) -> list[Rule]:
    """Return rules without variables as predicates: one for each predicate of the data or of other rules."""
    named = {atom.p for rule in rules for atom in (rule.head, *rule.body) if not atom.p.startswith("?")}
    known = sorted(named | {*predicates})
    found = []
    for rule in rules:
        instances = [rule]
        while free := next((atom.p for atom in instances[0].body if atom.p.startswith("?")), None):
            instances = [
                replace(
                    each,
                    head=substituted(each.head, {free: p}),
                    body=tuple(substituted(atom, {free: p}) for atom in each.body),
                )
                for each in instances
                for p in known
            ]
        found += instances
    return found
