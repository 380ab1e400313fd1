"""The closure of facts under rules, computed rule by rule over all facts until a fixpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from p2prdf.rdf.algebra import InferenceRule

__all__ = ["closed"]

Fact = tuple[str, str, str]


def closed(rules: Iterable[InferenceRule], facts: Iterable[Fact]) -> set[Fact]:
    """Return the facts and all derived facts."""
    rules, held = list(rules), set(facts)
    while True:
        new = {head for rule in rules for head in _heads(rule, held)} - held
        if not new:
            return held
        held |= new


def _heads(rule: InferenceRule, held: set[Fact]) -> set[Fact]:
    head, body = rule
    found: list[dict[str, str]] = [{}]
    for atom in body:
        found = [bound for before in found for fact in held if (bound := _bound(before, atom, fact)) is not None]
    return {(bound.get(head[0], head[0]), head[1], bound.get(head[2], head[2])) for bound in found}


def _bound(before: dict[str, str], atom: Fact, fact: Fact) -> dict[str, str] | None:
    bound = dict(before)
    for part, term in zip(atom, fact, strict=True):
        if (bound.setdefault(part, term) if part.startswith("?") else part) != term:
            return None
    return bound
