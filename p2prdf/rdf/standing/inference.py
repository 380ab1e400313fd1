"""Queries over what follows by rules: which patterns are about that, and which triples it follows from.

A pattern whose predicate some rule concludes is about triples that need not have been published.  It is evaluated where
the query is, over all that follows (:class:`p2prdf.rdf.algebra.Inferred`) from the triples that the rules may need,
and these come as leaves of one pattern each.  All other patterns are leaves as ever, joined in the network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import InferenceRule
from p2prdf.rdf.outline import PATTERNS_MAX
from p2prdf.rdf.standing import syntax
from p2prdf.rdf.standing.relations import Basic, PathPattern, Pattern
from p2prdf.rdf.standing.syntax import StreamWindow, is_variable

__all__ = [
    "OBJECTS_MAX", "RULES_MAX", "Inference", "canonical_rules", "check_rules", "inferred_patterns", "is_inferred",
    "plain_pattern",
]  # fmt: skip

RULES_MAX: Final = 2048
"""Rules of one query."""
OBJECTS_MAX: Final = 4
"""Of one predicate triples are looked for by their objects, if rules name so few of these; else all are."""


def check_rules(rules: Iterable[InferenceRule]) -> None:
    """Raise QueryRefused for what is no rule of a query."""
    count = 0
    for head, body in rules:
        count += 1
        spelled = f"{' '.join(head)} :- {', '.join(map(' '.join, body))}"
        if not 0 < len(body) <= PATTERNS_MAX:
            raise QueryRefused(f"{spelled}: a body has 1 to {PATTERNS_MAX} patterns", construct="rule")
        if any(is_variable(p) for _, p, _ in (head, *body)):
            raise QueryRefused(f"{spelled}: a predicate is a variable, so it may be about any triple", construct="rule")
        free = set(filter(is_variable, head)).difference(*body)
        if free:
            raise QueryRefused(f"{spelled}: the body does not bind {', '.join(sorted(free))}", construct="rule")
    if count > RULES_MAX:
        raise QueryRefused(f"{count} rules, and a query has at most {RULES_MAX}", construct="rules")


def canonical_rules(rules: Iterable[InferenceRule]) -> tuple[InferenceRule, ...]:
    """Return rules with their variables numbered as they come, each once, in order."""
    return tuple(sorted(set(map(_canonical, rules))))


def _canonical(rule: InferenceRule) -> InferenceRule:
    head, body = rule
    names: dict[str, str] = {}

    def named(atom: tuple[str, str, str]) -> tuple[str, str, str]:
        s, p, o = (names.setdefault(part, f"?v{len(names)}") if is_variable(part) else part for part in atom)
        return s, p, o

    return named(head), tuple(map(named, body))


class Inference:
    """The rules of a query."""

    def __init__(self, rules: Sequence[InferenceRule]):
        """Raises QueryRefused for what is no rule of a query."""
        check_rules(rules)
        self._by_predicate: dict[str, list[InferenceRule]] = {}
        for rule in canonical_rules(rules):
            self._by_predicate.setdefault(rule[0][1], []).append(rule)

    def concerns(self, pattern: Pattern) -> bool:
        """Tell whether a pattern of the default graph may be matched by what follows.

        Raises QueryRefused if its predicate is a variable: it would be about all triples that there are.
        """
        if is_variable(pattern[1]) and self._by_predicate:
            reason = f"{pattern[1]} may be any predicate, and with rules predicates of the default graph are named"
            raise QueryRefused(reason, construct="variable predicate with rules")
        return pattern[1] in self._by_predicate

    def rules_for(self, predicates: Iterable[str]) -> tuple[InferenceRule, ...]:
        """Return the rules that triples of some predicates may follow by, in order."""
        found: dict[InferenceRule, None] = {}
        open_ = list(predicates)
        seen = set(open_)
        while open_:
            for rule in self._by_predicate.get(open_.pop(), ()):
                found[rule] = None
                fresh = [p for _, p, _ in rule[1] if p not in seen]
                seen.update(fresh)
                open_ += fresh
        return tuple(sorted(found))

    def needed(self, patterns: Iterable[Pattern]) -> list[Pattern]:
        """Return patterns of all triples that some patterns, or the rules behind them, may be matched by.

        Variables are ``?s`` and ``?o``; subjects are left open, and objects where there are many.
        """
        patterns = list(patterns)
        rules = self.rules_for(p for _, p, _ in patterns)
        objects: dict[str, dict[str, None]] = {}
        for _, p, o in (*patterns, *(atom for _, body in rules for atom in body)):
            objects.setdefault(p, {})["" if is_variable(o) else o] = None
        return [
            ("?s", p, o or "?o")
            for p, found in sorted(objects.items())
            for o in (found if len(found) <= OBJECTS_MAX and "" not in found else ("",))
        ]


def plain_pattern(pattern: Pattern, window: StreamWindow | None) -> Pattern:
    """Return a pattern as it is written: in a window predicates are qualified by the stream."""
    s, p, o = pattern
    parts = quads.stream_parts_of(p) if window is not None else None
    return (s, p, o) if parts is None else (s, parts[0], o)


def is_inferred(pattern: Pattern, basic: Basic, inference: Inference) -> bool:
    """Tell whether a pattern of a basic graph pattern is about what follows by rules, and in no named graph."""
    plain = plain_pattern(pattern, basic.window)
    if is_variable(plain[1]) and any(s == plain[1] and quads.is_directory(p) for s, p, _ in basic.patterns):
        return False  # it stands for predicates of named graphs
    return inference.concerns(plain)


def inferred_patterns(part: Any, inference: Inference) -> Iterator[tuple[StreamWindow | None, Pattern]]:
    """Yield the patterns of a relation that are about what follows by rules, as written, with their windows."""
    match part:
        case Basic():
            for pattern in part.patterns:
                if is_inferred(pattern, part, inference):
                    yield part.window, plain_pattern(pattern, part.window)
        case PathPattern():
            if part.graph == quads.DEFAULT:
                for predicate in _predicates(part.path):
                    if inference.concerns(("?s", predicate, "?o")):
                        yield part.window, ("?s", predicate, "?o")
        case tuple():
            for each in part:
                yield from inferred_patterns(each, inference)
        case _ if dataclasses.is_dataclass(part):
            for field in dataclasses.fields(part):
                yield from inferred_patterns(getattr(part, field.name), inference)


def _predicates(path: syntax.Path) -> Iterator[str]:
    match path:
        case syntax.Link(predicate):
            yield predicate
        case syntax.Negated():
            yield "?p"
        case syntax.Inverse(inner) | syntax.Repeat(inner):
            yield from _predicates(inner)
        case syntax.Sequence(paths) | syntax.Alternative(paths):
            for each in paths:
                yield from _predicates(each)
