"""Unfolding: removal of rules that only serve other rules.

A pattern that only one rule concludes can be replaced by that rule's body, and the rule is no longer needed; a list,
which rules walk cell by cell, becomes one body.  If several rules conclude the pattern, or it leads to itself (a list
without an end), or the body would be too long, the pattern stays, with its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count

from p2prdf.reasoning.rule import BODY_ATOMS_MAX, Atom, Rule

__all__ = ["matched", "substituted", "unfolded"]


def substituted(atom: Atom, values: Mapping[str, str]) -> Atom:
    """Return a pattern with values in place of some of its variables."""
    return Atom(*(values.get(part, part) for part in atom))


def matched(pattern: Atom, atom: Atom) -> dict[str, str] | None:
    """Return the values of a pattern's variables with which it equals another pattern; None if it does not match."""
    values: dict[str, str] = {}
    for part, value in zip(pattern, atom, strict=True):
        if (values.setdefault(part, value) if part.startswith("?") else part) != value:
            return None
    return values


def unfolded(rules: Iterable[Rule], hidden: Callable[[Atom], bool]) -> list[Rule]:
    """Return rules with the hidden heads unfolded, without rules that can never conclude anything.

    ``hidden``: recognises patterns that only these rules conclude, and no fact from elsewhere.
    """
    return list(_Unfolding(rules, hidden).rules())


class _Unfolding:
    def __init__(self, rules: Iterable[Rule], hidden: Callable[[Atom], bool]):
        self._rules = list(rules)
        self._hidden = hidden
        self._leading_to: dict[str, dict[str, list[Rule]]] = {}
        """Rules with hidden heads, by predicate and object of the head."""
        for rule in self._rules:
            if hidden(rule.head):
                self._leading_to.setdefault(rule.head.p, {}).setdefault(_object(rule.head), []).append(rule)
        self._done: dict[Rule, Rule | None] = {}
        self._open: set[Rule] = set()

    def rules(self) -> Iterator[Rule]:
        """Yield the remaining rules; those that hidden patterns still need come last."""
        queue = dict.fromkeys(rule for rule in self._rules if not self._hidden(rule.head))
        yielded = set[Rule]()
        while queue:
            rule = next(iter(queue))
            del queue[rule]
            found = self._unfolded(rule)
            if found is None or found in yielded:
                continue
            yielded.add(found)
            yield found
            queue |= dict.fromkeys(source for atom in found.body for source in self._sources(atom))

    def _sources(self, atom: Atom) -> list[Rule]:
        """Return the rules that conclude a hidden pattern."""
        if not self._hidden(atom):
            return []
        by_object = self._leading_to.get(atom.p, {})
        if not _object(atom):
            return [rule for rules in by_object.values() for rule in rules]
        return [*by_object.get(_object(atom), ()), *by_object.get("", ())]

    def _unfolded(self, rule: Rule) -> Rule | None:
        """Return a rule with its hidden patterns unfolded; None if no rule concludes one of them."""
        stack = [rule]  # no recursion, because a list may be long
        while stack:
            top = stack[-1]
            sources = () if top in self._open else [each for atom in top.body for each in self._sources(atom)]
            waiting = [each for each in sources if each not in self._done]
            self._open.add(top)
            stack += waiting
            if not waiting:
                stack.pop()
                self._done.setdefault(top, self._worked_out(top))
        return self._done[rule]

    def _worked_out(self, rule: Rule) -> Rule | None:
        taken = rule.head.variables.union(*(atom.variables for atom in rule.body))
        fresh = (name for number in count(1) if (name := f"?v{number}") not in taken)
        body: dict[Atom, None] = {}
        for place, atom in enumerate(rule.body):
            sources = [each for each in self._sources(atom) if self._done.get(each, each) is not None]
            if self._hidden(atom) and not sources:
                return None
            inner = self._body_of(atom, sources, fresh)
            room = BODY_ATOMS_MAX - (len(rule.body) - place - 1)
            body |= dict.fromkeys(inner if len({*body, *inner}) <= room else [atom])
        return Rule(rule.head, tuple(body), rule.name)

    def _body_of(self, atom: Atom, sources: list[Rule], fresh: Iterator[str]) -> list[Atom]:
        """Return the replacement of a pattern: itself, or the body of the only rule that concludes it."""
        source = self._done.get(sources[0]) if len(sources) == 1 else None
        values = None if source is None else matched(source.head, atom)
        if source is None or values is None:
            return [atom]
        inside = frozenset[str]().union(*(each.variables for each in source.body))
        for name in sorted(inside - source.head.variables):
            values[name] = next(fresh)
        return [substituted(each, values) for each in source.body]


def _object(atom: Atom) -> str:
    """Return the object that a pattern is filed under, "" for a variable."""
    return "" if atom.o.startswith("?") else atom.o
