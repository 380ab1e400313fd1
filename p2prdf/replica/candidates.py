"""The standing query for the candidates of all interests in a dataset.

An interest worker registers one such query for each dataset.

For each predicate of the interests' patterns it asks for all triples. If all patterns with the predicate have a
constant object (or all a constant subject), it asks for these constants only. No triple thus comes by two
branches, and a new or retracted solution is a new or deleted triple. If a query has too many branches, those of
the predicate with the most are merged. If there are too many predicates, or one is a variable, it asks for the
whole dataset.

A further branch reports the dataset's position (:mod:`p2prdf.replica.publishing`). It is written after a
changeset is published completely, so at a bookmark all of the changeset has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from p2prdf.interest import Pattern
from p2prdf.rdf.standing.syntax import is_variable
from p2prdf.replica.publishing import AT, DATASETS
from p2prdf.workers.union import Branch, union_text

__all__ = ["BRANCHES_MAX", "POSITION", "WHOLE", "branches_of", "candidates_text"]

BRANCHES_MAX: Final = 31
"""Bound on branches besides the position's; a standing query has at most 32 basic graph patterns."""
_TEXT_BYTES_MAX: Final = 14_000
"""Most bytes of the branches of a query, as text."""
POSITION: Final = "<urn:p2prdf:position-of>"
"""Stands for the predicate in solutions that give the dataset's position."""

WHOLE: Final[Branch] = (None, None, None)


def branches_of(patterns: Iterable[Pattern]) -> tuple[Branch, ...]:
    """Return branches that match every triple that a pattern matches, and no triple twice."""
    by_predicate: dict[str, list[Branch]] = {}
    for pattern in dict.fromkeys(patterns):
        if is_variable(pattern[1]):
            return (WHOLE,)
        s, p, o = (None if is_variable(part) else part for part in pattern)
        assert p is not None, "variable predicates returned above"
        by_predicate.setdefault(p, []).append((s, p, o))
    made = {p: _apart(p, found) for p, found in by_predicate.items()}
    while made and (sum(map(len, made.values())) > BRANCHES_MAX or _too_long(made)):
        widest = max(sorted(made), key=lambda p: len(made[p]))
        if made[widest] == [(None, widest, None)]:
            return (WHOLE,)
        made[widest] = [(None, widest, None)]
    return tuple(branch for p in sorted(made) for branch in made[p])


def _apart(predicate: str, found: Sequence[Branch]) -> list[Branch]:
    """Return branches for patterns of one predicate: by object, by subject, or a single one."""
    objects, subjects = {o for _, _, o in found}, {s for s, _, _ in found}
    if None not in objects:
        return [(None, predicate, o) for o in sorted(filter(None, objects))]
    if None not in subjects:
        return [(s, predicate, None) for s in sorted(filter(None, subjects))]
    return [(None, predicate, None)]


def _too_long(made: dict[str, list[Branch]]) -> bool:
    # Each constant appears in the template and in the pattern.
    size = sum(len(part.encode()) * 2 + 100 for found in made.values() for each in found for part in each if part)
    return size > _TEXT_BYTES_MAX


def candidates_text(dataset: str, branches: Sequence[Branch]) -> str:
    """Return the standing query for branches of a dataset (a canonical IRI), and for its position."""
    at = f"{dataset} {POSITION} ?at", f"{{ GRAPH {DATASETS} {{ {dataset} {AT} ?at }} }}"
    return union_text(((dataset, branch) for branch in branches), at)
