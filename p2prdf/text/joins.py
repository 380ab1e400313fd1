"""Decide whether triples that match the patterns of a query join: equal variables have equal terms.

Patterns are joined one after the other, starting with the fewest triples and continuing with patterns that share
variables with the joined ones.  Of each partial solution, only values of variables that are compared later are kept,
and duplicates are removed.  Joins in the shape of stars and paths thus never hold more rows than a pattern has
triples.  Cyclic queries may hold more, up to a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.text.publication import Triple
from p2prdf.text.query import TextPattern, is_variable

__all__ = ["ROWS_MAX", "agrees", "is_joined", "joinable"]

ROWS_MAX: Final = 1_000_000
"""Most rows that a join may examine for one query and publication."""


def is_joined(patterns: Sequence[TextPattern]) -> bool:
    """Tell whether a variable occurs in more than one pattern."""
    found = [name for pattern in patterns for name in set(pattern.variables)]
    return len(set(found)) < len(found)


def agrees(pattern: TextPattern, triple: Triple) -> bool:
    """Tell whether a triple has equal terms at the positions of equal variables in a pattern."""
    s, p, o = pattern.parts
    return not (
        (s == p and is_variable(s) and triple[0] != triple[1])
        or (s == o and is_variable(s) and triple[0] != triple[2])
        or (p == o and is_variable(p) and triple[1] != triple[2])
    )


def joinable(patterns: Sequence[TextPattern], found: Sequence[Sequence[Triple]]) -> bool:
    """Tell whether one triple for each pattern can be chosen so that all agree.

    ``found[i]``: the triples that match pattern i by itself, repeated variables included.  Raises DataRefused if a
    join examines more than ROWS_MAX rows.
    """
    if not all(found):
        return False
    waiting = _connected(
        [(sorted(set(each.variables)), each, rows) for each, rows in zip(patterns, found, strict=True)]
    )
    known: tuple[str, ...] = ()
    rows: set[tuple[str, ...]] = {()}
    looked_at = 0
    for at, (variables, pattern, triples) in enumerate(waiting):
        later = {name for names, _, _ in waiting[at + 1 :] for name in names}
        place = {name: pattern.parts.index(name) for name in variables}
        shared = tuple(name for name in known if name in place)
        kept = tuple(sorted({*known, *variables} & later))
        old = {name: number for number, name in enumerate(known)}
        by_shared: dict[tuple[str, ...], list[Triple]] = {}
        for triple in triples:
            by_shared.setdefault(tuple(triple[place[name]] for name in shared), []).append(triple)
        joined: set[tuple[str, ...]] = set()
        for row in rows:
            partners = by_shared.get(tuple(row[old[name]] for name in shared), ())
            looked_at += len(partners)
            if looked_at > ROWS_MAX:
                raise DataRefused(f"joining a publication for a full-text query takes more than {ROWS_MAX} rows")
            joined.update(
                tuple(row[old[name]] if name in old else triple[place[name]] for name in kept) for triple in partners
            )
        if not joined:
            return False
        known, rows = kept, joined
    return True


_Part = tuple[list[str], TextPattern, Sequence[Triple]]


def _connected(parts: list[_Part]) -> list[_Part]:
    """Return the patterns with shared variables, each sharing one with earlier patterns if possible."""
    often: dict[str, int] = {}
    for names, _, _ in parts:
        for name in names:
            often[name] = often.get(name, 0) + 1
    waiting = [
        ([name for name in names if often[name] > 1], pattern, rows)
        for names, pattern, rows in parts
        if any(often[name] > 1 for name in names)
    ]
    ordered: list[_Part] = []
    bound: set[str] = set()
    while waiting:
        best = min(range(len(waiting)), key=lambda at: (bound.isdisjoint(waiting[at][0]), len(waiting[at][2])))
        part = waiting.pop(best)
        bound.update(part[0])
        ordered.append(part)
    return ordered
