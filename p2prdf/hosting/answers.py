"""A channel worker's answers to requests for the state of channels (:mod:`p2prdf.presence.answering`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p2prdf.channels.registration import ANSWERS, REQUESTS_GRAPH
from p2prdf.presence.answering import read_request, say
from p2prdf.presence.overlay import Writing
from p2prdf.presence.roll import Triple

if TYPE_CHECKING:
    from p2prdf.hosting.host import Host

__all__ = ["answer"]


async def answer(host: Host, overlay: Writing, request: Triple) -> None:
    """Answer a request; ignore a triple that is not a request."""
    asked = read_request(request)
    if asked is None:
        return
    what, name = asked
    told: list[dict[str, Any]] = []
    if what == "stats" and (name is None or isinstance(name, str)):
        for base, each in sorted(host.passes.items()):
            found = await each.statistics()
            told += [{"name": one, "base": base[1:-1], **state} for one, state in sorted(found.items())]
        told += [{"name": one, "state": "refused", "error": why} for one, why in sorted(host.refused.items())]
    await say(
        overlay, request, [each for each in told if name in (None, each["name"])], member=host.name,
        graph=REQUESTS_GRAPH, predicate=ANSWERS,
    )  # fmt: skip
