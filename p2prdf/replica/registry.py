"""What a keeper knows of the registry: interests, keepers and requests, from triples that come and go.

Pure: it is told of triples, and says what follows.  Reading an interest takes its grammar, so each text is read once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from p2prdf.errors import P2PRDFError
from p2prdf.interest import Triple
from p2prdf.interest.registration import (
    ASKS,
    INTEREST,
    INTERESTS_GRAPH,
    KEEPERS,
    KEEPERS_GRAPH,
    KEEPS,
    PAUSED,
    REQUESTS_GRAPH,
    Registration,
    is_listed,
    keeper_of,
    name_of,
    read_hosts,
    read_registration,
)
from p2prdf.presence.group import ranked
from p2prdf.presence.roll import CurrentTriples, Roll
from p2prdf.presence.union import union_text

__all__ = ["REGISTRY", "Refusal", "Registry", "Share"]

REGISTRY: Final = union_text([
    (INTERESTS_GRAPH, (None, INTEREST, None)), (INTERESTS_GRAPH, (None, PAUSED, None)),
    (KEEPERS_GRAPH, (None, KEEPS, None)), (REQUESTS_GRAPH, (None, ASKS, None)),
])  # fmt: skip
"""The standing query for all of it."""


class Refusal(NamedTuple):
    """Why an interest is not kept; ``registration``: None if there is none, or several, of its name."""

    registration: Registration | None
    reason: str


class Share(NamedTuple):
    """What one keeper has to do with: interests to keep, and those to say of why they are not kept."""

    own: dict[str, Registration]
    refused: dict[str, Refusal]


class Registry:
    """The triples of the registry that are true now."""

    def __init__(self) -> None:
        self._triples = CurrentTriples((INTEREST, PAUSED, KEEPS, ASKS))
        self.roll = Roll(KEEPERS, self._triples)
        self._read: dict[Triple, Registration | str] = {}

    def take(self, triple: Triple, *, removed: bool) -> None:
        """Take account of a triple that came or went; a removal may come first."""
        if not self._triples.take(triple, removed=removed):
            self._read.pop(triple, None)

    def keepers(self) -> dict[str, frozenset[str]]:
        """Return the keepers that are said to be there and were not found gone, with the hosts they allow."""
        return {s: read_hosts(o) for s, _, o in self.roll.said()}

    def paused(self) -> frozenset[str]:
        """Return the subjects of interests that are paused."""
        return frozenset(triple[0] for triple in self._triples.of(PAUSED))

    def registrations(self) -> Share:
        """Return all interests, and what is registered as one and is none."""
        found: dict[str, Registration] = {}
        wrong: dict[str, Refusal] = {}
        for triple in self._triples.of(INTEREST):
            name = name_of(triple[0])
            if name is None:
                continue  # nobody could ask for it
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
                    reason = f"its target graph is that of the interest {holder}, and a graph has one interest"
                    wrong[name] = Refusal(registration, reason)
        return Share({name: each for name, each in found.items() if name not in wrong}, wrong)

    def share(self, keeper: str, hosts: Collection[str]) -> Share:
        """Return what a keeper has to do with, among those that are there; ``hosts``: which it allows."""
        keepers = {**self.keepers(), keeper: frozenset(hosts)}
        registered, wrong = self.registrations()
        refused = {name: each for name, each in wrong.items() if ranked(name, keepers)[0] == keeper}
        own = {}
        for name, registration in registered.items():
            if keeper_of(registration, keepers) != keeper:
                continue
            if is_listed(registration, hosts):
                own[name] = registration
            else:
                reason = f"{registration.target}: its host is on no keeper's list of hosts that may be asked"
                refused[name] = Refusal(registration, reason)
        return Share(own, refused)


def _registration(triple: Triple) -> Registration | str:
    """Return what is registered, or why that is nothing."""
    try:
        return read_registration(triple[0], triple[2])
    except P2PRDFError as error:
        return str(error)
