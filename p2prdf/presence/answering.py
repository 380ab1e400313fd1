"""What somebody asks of the members of a group, and what they answer: triples of a known graph.

A request is one triple, an answer one or several; who asked removes all of them.  A member answers for what it does
itself; of the rest it says nothing, which is an answer, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from p2prdf.errors import P2PRDFError
from p2prdf.presence.overlay import Writing
from p2prdf.presence.roll import Triple
from p2prdf.rdf import terms

__all__ = ["read_request", "say"]

_TOLD: Final = 200
"""Things told in one triple of an answer."""


def read_request(request: Triple) -> tuple[object, object] | None:
    """Return what is asked, and of what; None for what is no request."""
    try:
        asked = json.loads(terms.lexical(request[2]))
    except (ValueError, RecursionError):
        return None
    return (asked.get("what"), asked.get("name")) if isinstance(asked, dict) else None


async def say(
    overlay: Writing, request: Triple, told: Sequence[Mapping[str, Any]], *, member: str, graph: str, predicate: str
) -> None:
    """Answer a request.  ``member``: the IRI of who does; ``graph``, ``predicate``: of answers."""
    parts = [told[at : at + _TOLD] for at in range(0, len(told), _TOLD)] or [[]]
    said = [
        {"member": member[1:-1], "part": number, "parts": len(parts), "told": list(part)}
        for number, part in enumerate(parts)
    ]
    try:
        await overlay.publish(
            [(request[0], predicate, terms.literal(json.dumps(each))) for each in said], graph=graph
        )
    except P2PRDFError:
        return  # who asked is told by nobody, and says so
