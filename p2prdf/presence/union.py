"""Standing queries for all triples of several patterns: an answer that comes or goes is a triple that does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Branch", "union_text"]

Branch: TypeAlias = tuple[str | None, str | None, str | None]
"""The constants of a pattern whose variables differ from one another."""


def union_text(branches: Iterable[tuple[str, Branch]], *more: tuple[str, str]) -> str:
    """Return the CONSTRUCT of all triples that branches take, each with its graph.

    Each branch has variables of its own, so the template's triples of other branches are none.  ``more``: triples of
    the template with what they come from.
    """
    parts = list(more)
    for number, (graph, branch) in enumerate(branches):
        names = (f"?s{number}", f"?p{number}", f"?o{number}")
        body = " ".join(name if part is None else part for name, part in zip(names, branch, strict=True))
        parts.append((body, f"{{ GRAPH {graph} {{ {body} }} }}"))
    template, groups = " . ".join(each for each, _ in parts), " UNION ".join(each for _, each in parts)
    return f"CONSTRUCT {{ {template} }} WHERE {{ {groups} }}"
