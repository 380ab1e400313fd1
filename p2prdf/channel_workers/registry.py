"""The registry as a channel worker has read it: channels, workers and requests.

The registry does no I/O: it takes added and removed triples, and computes a worker's share.  Reading a channel parses
SPARQL, so each text is parsed once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from p2prdf.channels.registration import (
    ASKS,
    CHANNEL,
    CHANNEL_WORKERS,
    CHANNELS_GRAPH,
    REQUESTS_GRAPH,
    ChannelRegistration,
    name_of,
    read_channel,
)
from p2prdf.errors import P2PRDFError
from p2prdf.workers.group import ranked
from p2prdf.workers.membership import CurrentTriples, Membership, Triple
from p2prdf.workers.union import union_text

__all__ = ["REGISTRY", "ChannelRegistry", "Share"]

REGISTRY: Final = union_text([
    (CHANNELS_GRAPH, (None, CHANNEL, None)), (CHANNEL_WORKERS.graph, (None, CHANNEL_WORKERS.predicate, None)),
    (REQUESTS_GRAPH, (None, ASKS, None)),
])  # fmt: skip
"""The standing query for all triples of the registry."""


class Share(NamedTuple):
    """The work of one channel worker: channels by knowledge base, and refused channels with the reason."""

    own: dict[str, dict[str, ChannelRegistration]]
    refused: dict[str, str]


class ChannelRegistry:
    """The current triples of the registry."""

    def __init__(self) -> None:
        self._triples = CurrentTriples((CHANNEL, CHANNEL_WORKERS.predicate, ASKS))
        self.membership = Membership(CHANNEL_WORKERS, self._triples)
        self._read: dict[Triple, ChannelRegistration | str] = {}

    def take(self, triple: Triple, *, removed: bool) -> None:
        """Count an addition or a removal of a triple; a removal may come first."""
        if not self._triples.take(triple, removed=removed):
            self._read.pop(triple, None)

    def bases(self) -> frozenset[str]:
        """Return the knowledge bases that have channels."""
        return frozenset(each.base for each in self._read.values() if isinstance(each, ChannelRegistration))

    def share(self, worker: str) -> Share:
        """Return a worker's share among the live workers; the worker itself counts as live."""
        workers = {*self.membership.workers(), worker}
        found: dict[str, ChannelRegistration] = {}
        wrong: dict[str, str] = {}
        for triple in self._triples.of(CHANNEL):
            name = name_of(triple[0])
            if name is None:
                continue  # no client can name the channel
            known = self._read.get(triple)
            if known is None:
                known = self._read[triple] = _registration(triple)
            if name in found or name in wrong:
                wrong[name] = "it is registered twice: drop it, and create it again"
                found.pop(name, None)
            elif isinstance(known, str):
                wrong[name] = known
            else:
                found[name] = known
        own: dict[str, dict[str, ChannelRegistration]] = {}
        for name, each in found.items():
            if ranked(each.base, workers)[0] == worker:
                own.setdefault(each.base, {})[name] = each
        return Share(own, {name: reason for name, reason in wrong.items() if ranked(name, workers)[0] == worker})


def _registration(triple: Triple) -> ChannelRegistration | str:
    """Return the registered channel, or the reason why its triple is malformed."""
    try:
        return read_channel(triple[0], triple[2])
    except P2PRDFError as error:
        return str(error)
