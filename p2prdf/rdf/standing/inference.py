"""Queries over rules: patterns that derived triples can match, and the base triples that rules need.

A pattern with a predicate that some rule concludes can match triples that were never published.  The coordinator
evaluates it over the closure (:class:`p2prdf.rdf.algebra.Inferred`) of the triples that the rules may need; these
arrive as leaves with one pattern each.  All other patterns are ordinary leaves, joined in the network.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import InferenceRule
from p2prdf.rdf.query import RULE_PATTERNS_MAX
from p2prdf.rdf.standing import syntax
from p2prdf.rdf.standing.relations import Basic, PathPattern, Pattern
from p2prdf.rdf.standing.syntax import StreamWindow, WindowMerge, is_variable

__all__ = [
    "OBJECTS_MAX", "RULES_MAX", "Inference", "canonical_rules", "check_rules", "inferred_patterns", "is_inferred",
    "plain_pattern",
]  # fmt: skip

RULES_MAX: Final = 2048
"""Most rules in one query."""
OBJECTS_MAX: Final = 4
"""Most objects of one predicate that are requested individually; beyond it, all triples are."""


def check_rules(rules: Iterable[InferenceRule]) -> None:
    """Raise QueryRefused for invalid rules, or too many."""
    count = 0
    for head, body in rules:
        count += 1
        spelled = f"{' '.join(head)} :- {', '.join(map(' '.join, body))}"
        if not 0 < len(body) <= RULE_PATTERNS_MAX:
            raise QueryRefused(f"{spelled}: a body has 1 to {RULE_PATTERNS_MAX} patterns", construct="rule")
        if any(is_variable(p) for _, p, _ in (head, *body)):
            raise QueryRefused(f"{spelled}: a predicate is a variable, which would match any triple", construct="rule")
        free = set(filter(is_variable, head)).difference(*body)
        if free:
            raise QueryRefused(f"{spelled}: the body does not bind {', '.join(sorted(free))}", construct="rule")
    if count > RULES_MAX:
        raise QueryRefused(f"{count} rules, and a query has at most {RULES_MAX}", construct="rules")


def canonical_rules(rules: Iterable[InferenceRule]) -> tuple[InferenceRule, ...]:
    """Return rules with variables numbered by first occurrence, without duplicates, in order."""
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
        """Raise QueryRefused for an invalid rule."""
        check_rules(rules)
        self._by_predicate: dict[str, list[InferenceRule]] = {}
        for rule in canonical_rules(rules):
            self._by_predicate.setdefault(rule[0][1], []).append(rule)

    def concerns(self, pattern: Pattern) -> bool:
        """Tell whether derived triples may match a pattern of the default graph.

        Raises QueryRefused if its predicate is a variable: the pattern would match every triple.
        """
        if is_variable(pattern[1]) and self._by_predicate:
            reason = f"{pattern[1]} may be any predicate; with rules, name the predicates in the default graph"
            raise QueryRefused(reason, construct="variable predicate with rules")
        return pattern[1] in self._by_predicate

    def rules_for(self, predicates: Iterable[str]) -> tuple[InferenceRule, ...]:
        """Return the rules that can derive triples of some predicates, directly or indirectly, in order."""
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
        """Return patterns of all base triples needed by some patterns and the rules that derive their matches.

        Variables are ``?s`` and ``?o``.  Subjects are always variables; objects are if there are more than
        OBJECTS_MAX.
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
    """Return a pattern as written: in a window, without the stream in its predicate."""
    s, p, o = pattern
    parts = quads.stream_parts_of(p) if window is not None else None
    return (s, p, o) if parts is None else (s, parts[0], o)


def is_inferred(pattern: Pattern, basic: Basic, inference: Inference) -> bool:
    """Tell whether derived triples can match a pattern of a basic graph pattern outside named graphs."""
    plain = plain_pattern(pattern, basic.window)
    if is_variable(plain[1]) and any(s == plain[1] and quads.is_directory(p) for s, p, _ in basic.patterns):
        return False  # the variable stands for predicates in named graphs
    return inference.concerns(plain)


def inferred_patterns(part: Any, inference: Inference) -> Iterator[tuple[StreamWindow | None, Pattern]]:
    """Yield the patterns of a relation that derived triples can match, as written, with their windows."""
    match part:
        case Basic():
            for pattern in part.patterns:
                if is_inferred(pattern, part, inference):
                    yield part.window, plain_pattern(pattern, part.window)
        case PathPattern():
            windows: tuple[StreamWindow | None, ...] = ()
            if isinstance(part.window, WindowMerge):
                windows = part.window.windows
            elif part.graph == quads.DEFAULT:
                windows = (part.window,)
            for window, predicate in itertools.product(windows, _predicates(part.path)):
                if inference.concerns(("?s", predicate, "?o")):
                    yield window, ("?s", predicate, "?o")
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
