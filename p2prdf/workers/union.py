"""Standing queries for all triples of several patterns: each solution that comes or goes is one such triple."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Branch", "union_text"]

Branch: TypeAlias = tuple[str | None, str | None, str | None]
"""The constants of a triple pattern; None stands for a variable.  All variables are different."""


def union_text(branches: Iterable[tuple[str, Branch]], *more: tuple[str, str]) -> str:
    """Return a CONSTRUCT query for all triples that match one of the branches.

    Each branch is a graph and a pattern.  Branches have disjoint variables, so a solution of one branch leaves the
    template triples of all others unbound.  ``more``: further triples of the template, each with its group graph
    pattern.
    """
    parts = list(more)
    for number, (graph, branch) in enumerate(branches):
        names = (f"?s{number}", f"?p{number}", f"?o{number}")
        body = " ".join(name if part is None else part for name, part in zip(names, branch, strict=True))
        parts.append((body, f"{{ GRAPH {graph} {{ {body} }} }}"))
    template, groups = " . ".join(each for each, _ in parts), " UNION ".join(each for _, each in parts)
    return f"CONSTRUCT {{ {template} }} WHERE {{ {groups} }}"
