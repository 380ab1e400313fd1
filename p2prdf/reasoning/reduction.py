"""Removal of redundant rules.

A closed schema has each class below all its superclasses; as rules most of this is redundant, because facts pass from
class to class along the short rules.  A rule of one pattern is removed if other rules of one pattern lead from its
body to its head (these are the edges that a transitive reduction removes).  Each rule is tested against the remaining
rules, so these derive the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from p2prdf.reasoning.rule import Atom, Rule
from p2prdf.reasoning.unfolding import matched, substituted

__all__ = ["reduced"]


def reduced(rules: Iterable[Rule], preferred: Collection[Rule] = ()) -> list[Rule]:
    """Return rules, in order, without the redundant ones.

    ``preferred``: rules that are kept where either of two could be removed.
    """
    rules = list(dict.fromkeys(rules))
    steps = _Steps(rule for rule in rules if len(rule.body) == 1)
    for rule in sorted(dict(steps.rules), key=lambda each: each in preferred):
        steps.leave_out(rule)
        if not steps.reach(rule.body[0], rule.head):
            steps.put_back(rule)
    return [rule for rule in rules if len(rule.body) > 1 or rule in steps.rules]


class _Steps:
    """Rules of one pattern, by the predicate and object that they take; a variable is filed as ""."""

    def __init__(self, rules: Iterable[Rule]):
        self.rules = dict.fromkeys(rules)
        self._by: dict[tuple[str, str], dict[Rule, None]] = {}
        for rule in self.rules:
            self._by.setdefault(_filed(rule.body[0]), {})[rule] = None

    def leave_out(self, rule: Rule) -> None:
        """Ignore a rule from now on."""
        del self.rules[rule]
        del self._by[_filed(rule.body[0])][rule]

    def put_back(self, rule: Rule) -> None:
        """Restore a rule."""
        self.rules[rule] = None
        self._by[_filed(rule.body[0])][rule] = None

    def reach(self, start: Atom, goal: Atom) -> bool:
        """Return whether the rules lead from one fact to another; variables in these stand for themselves."""
        found, queue = {start}, [start]
        for atom in queue:
            for head in self._heads(atom):
                if head not in found:
                    found.add(head)
                    queue.append(head)
            if goal in found:
                return True
        return False

    def _heads(self, atom: Atom) -> Iterator[Atom]:
        for key in ((atom.p, atom.o), (atom.p, ""), ("", atom.o), ("", "")):
            for rule in self._by.get(key, ()):
                values = matched(rule.body[0], atom)
                if values is not None:
                    yield substituted(rule.head, values)


def _filed(atom: Atom) -> tuple[str, str]:
    p, o = ("" if part.startswith("?") else part for part in (atom.p, atom.o))
    return p, o
