"""A channel worker's answers to requests for the state of channels (:mod:`p2prdf.workers.answering`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from p2prdf.channels.registration import ANSWERS, REQUESTS_GRAPH
from p2prdf.workers.answering import publish_answer, read_request
from p2prdf.workers.membership import Triple
from p2prdf.workers.overlay import Writing

if TYPE_CHECKING:
    from p2prdf.channel_workers.worker import ChannelWorker

__all__ = ["answer"]


async def answer(worker: ChannelWorker, overlay: Writing, request: Triple) -> None:
    """Answer a request; ignore a triple that is not a request."""
    asked = read_request(request)
    if asked is None:
        return
    what, name = asked
    states: list[dict[str, Any]] = []
    if what == "stats" and (name is None or isinstance(name, str)):
        for base, each in sorted(worker.passes.items()):
            found = await each.statistics()
            states += [{"name": one, "base": base[1:-1], **state} for one, state in sorted(found.items())]
        states += [{"name": one, "state": "refused", "error": why} for one, why in sorted(worker.refused.items())]
    await publish_answer(
        overlay, request, [each for each in states if name in (None, each["name"])], member=worker.name,
        graph=REQUESTS_GRAPH, predicate=ANSWERS,
    )  # fmt: skip
