"""A worker's view of the registry: interests, workers and requests, from triples that come and go.

Pure: the caller reports triples. Parsing an interest is slow, so each text is parsed once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from p2prdf.errors import P2PRDFError
from p2prdf.interest import Triple
from p2prdf.interest.registration import (
    ASKS,
    INTEREST,
    INTEREST_WORKERS,
    INTERESTS_GRAPH,
    MAINTAINS,
    PAUSED,
    REQUESTS_GRAPH,
    WORKERS_GRAPH,
    Registration,
    is_listed,
    name_of,
    read_hosts,
    read_registration,
    worker_of,
)
from p2prdf.workers.group import ranked
from p2prdf.workers.membership import CurrentTriples, Membership
from p2prdf.workers.union import union_text

__all__ = ["REGISTRY", "Refusal", "Registry", "Share"]

REGISTRY: Final = union_text([
    (INTERESTS_GRAPH, (None, INTEREST, None)), (INTERESTS_GRAPH, (None, PAUSED, None)),
    (WORKERS_GRAPH, (None, MAINTAINS, None)), (REQUESTS_GRAPH, (None, ASKS, None)),
])  # fmt: skip
"""The standing query for the whole registry."""


class Refusal(NamedTuple):
    """The reason why an interest is not maintained.

    ``registration``: None if the name has no valid registration, or several.
    """

    registration: Registration | None
    reason: str


class Share(NamedTuple):
    """The share of one worker: interests to maintain, and refused ones to report."""

    own: dict[str, Registration]
    refused: dict[str, Refusal]


class Registry:
    """The present triples of the registry."""

    def __init__(self) -> None:
        self._triples = CurrentTriples((INTEREST, PAUSED, MAINTAINS, ASKS))
        self.membership = Membership(INTEREST_WORKERS, self._triples)
        self._read: dict[Triple, Registration | str] = {}

    def take(self, triple: Triple, *, removed: bool) -> None:
        """Take in a triple that was published or deleted; its deletion may arrive first."""
        if not self._triples.take(triple, removed=removed):
            self._read.pop(triple, None)

    def workers(self) -> dict[str, frozenset[str]]:
        """Return the registered workers that are not considered gone, with their permitted hosts."""
        return {s: read_hosts(o) for s, _, o in self.membership.announced()}

    def paused(self) -> frozenset[str]:
        """Return the subjects of paused interests."""
        return frozenset(triple[0] for triple in self._triples.of(PAUSED))

    def registrations(self) -> Share:
        """Return all valid interests, and the invalid registrations."""
        found: dict[str, Registration] = {}
        wrong: dict[str, Refusal] = {}
        for triple in self._triples.of(INTEREST):
            name = name_of(triple[0])
            if name is None:
                continue  # no client could ask for it
            known = self._read.get(triple)
            if known is None:
                known = self._read[triple] = _registration(triple)
            if name in found or name in wrong:
                wrong[name] = Refusal(None, "it is registered twice: remove it, and add it again")
            elif isinstance(known, str):
                wrong[name] = Refusal(None, known)
            else:
                found[name] = known
        holders: dict[tuple[str, str | None], str] = {}
        for name, registration in found.items():
            if name not in wrong:
                holder = holders.setdefault(registration.place, name)
                if holder != name:
                    reason = f"its target graph belongs to the interest {holder}; a graph has one interest"
                    wrong[name] = Refusal(registration, reason)
        return Share({name: each for name, each in found.items() if name not in wrong}, wrong)

    def share(self, worker: str, hosts: Collection[str]) -> Share:
        """Return a worker's share among the live workers; ``hosts``: those that it permits."""
        workers = {**self.workers(), worker: frozenset(hosts)}
        registered, wrong = self.registrations()
        refused = {name: each for name, each in wrong.items() if ranked(name, workers)[0] == worker}
        own = {}
        for name, registration in registered.items():
            if worker_of(registration, workers) != worker:
                continue
            if is_listed(registration, hosts):
                own[name] = registration
            else:
                reason = f"{registration.target}: no interest worker permits this host"
                refused[name] = Refusal(registration, reason)
        return Share(own, refused)


def _registration(triple: Triple) -> Registration | str:
    """Return the registration, or the reason why it is not valid."""
    try:
        return read_registration(triple[0], triple[2])
    except P2PRDFError as error:
        return str(error)
