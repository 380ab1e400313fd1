"""Split queries at disjunctions, for the paper's data structures, which hold conjunctions only.

"Disjunction is several queries": a query becomes one for each choice of alternatives of its conditions, all for the
same subscriber.  Their number is bounded.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final, NamedTuple

from p2prdf.errors import QueryRefused
from p2prdf.text.alternatives import Alternative, alternatives, count
from p2prdf.text.query import TextPattern, TextQuery

__all__ = ["SPLITS_MAX", "SplitPattern", "split"]

SPLITS_MAX: Final = 64
"""Most queries without disjunction for one query."""


class SplitPattern(NamedTuple):
    """A pattern and one alternative of its condition."""

    pattern: TextPattern
    needs: Alternative


def split(query: TextQuery) -> list[tuple[SplitPattern, ...]]:
    """Return the queries without disjunction.  Raises QueryRefused if there are more than SPLITS_MAX."""
    number = prod(count(each.condition) for each in query.patterns)
    if number > SPLITS_MAX:
        reason = f"without ftOR it is {number} queries, more than {SPLITS_MAX}"
        raise QueryRefused(reason, construct="ftOR")
    choices = product(*(alternatives(each.condition) for each in query.patterns))
    return [
        tuple(SplitPattern(pattern, needs) for pattern, needs in zip(query.patterns, choice, strict=True))
        for choice in choices
    ]
