"""Requests to the workers of a group, and their answers: triples of a known graph.

A request is one triple, an answer one or more; the requesting client removes all of them.  Each worker reports the work
that it does itself.  A worker without such work answers with an empty list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from p2prdf.errors import P2PRDFError
from p2prdf.rdf import terms
from p2prdf.workers.membership import Triple
from p2prdf.workers.overlay import Writing

__all__ = ["publish_answer", "read_request"]

_ITEMS_MAX: Final = 200
"""Maximum number of items in one triple of an answer."""


def read_request(request: Triple) -> tuple[object, object] | None:
    """Return the kind and the name of the requested item; None for a triple that is not a request."""
    try:
        asked = json.loads(terms.lexical(request[2]))
    except (ValueError, RecursionError):
        return None
    return (asked.get("what"), asked.get("name")) if isinstance(asked, dict) else None


async def publish_answer(
    overlay: Writing, request: Triple, items: Sequence[Mapping[str, Any]], *, member: str, graph: str, predicate: str
) -> None:
    """Publish the answer to a request.

    ``items``: the items of the answer; ``member``: the IRI of this worker; ``graph``, ``predicate``: of the answer's
    triples.  An answer that cannot be published is dropped.
    """
    parts = [items[at : at + _ITEMS_MAX] for at in range(0, len(items), _ITEMS_MAX)] or [[]]
    answers = [
        {"member": member[1:-1], "part": number, "parts": len(parts), "told": list(part)}
        for number, part in enumerate(parts)
    ]
    try:
        await overlay.publish(
            [(request[0], predicate, terms.literal(json.dumps(each))) for each in answers], graph=graph
        )
    except P2PRDFError:
        return  # the requesting client gets no answer, and reports that
