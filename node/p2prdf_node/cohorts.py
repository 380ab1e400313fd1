"""The queries of a cohort: parsed one by one, and combined to the query of one settled subscription."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from p2prdf.errors import QueryRefused
from p2prdf.rdf.standing.settling import COHORT_MAX, cohort_query, settled_query

if TYPE_CHECKING:
    from p2prdf.wire.messages import Query
    from p2prdf_node.parsing import QueryParser

__all__ = ["parse_cohort"]


async def parse_cohort(parser: QueryParser, texts: Sequence[str]) -> Query:
    """Return the common query of a cohort.  One refused member refuses all: the error names it.

    Raises QueryRefused, Busy, Unavailable.
    """
    if len(texts) > COHORT_MAX:
        reason = f"a cohort of {len(texts)} queries: it has 1 to {COHORT_MAX}"
        raise QueryRefused(reason, construct="query size")
    members: list[Query] = []
    for number, text in enumerate(texts, 1):
        try:
            members.append(await parser.parse(text))
            settled_query(members[-1])
        except QueryRefused as error:
            reason = f"query {number} of the cohort: {error.reason}"
            raise QueryRefused(reason, construct=error.construct, line=error.line, column=error.column) from None
    return cohort_query(members)
