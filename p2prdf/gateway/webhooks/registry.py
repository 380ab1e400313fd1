"""What a gateway knows of webhooks and of the other gateways, from triples that come and go.

Pure: it is told of triples, and says what follows.  Each text is read once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import P2PRDFError
from p2prdf.gateway.webhooks.keys import SigningKeys
from p2prdf.gateway.webhooks.registration import (
    FAILING,
    GAP,
    GATEWAYS,
    STOPPED,
    WEBHOOK,
    WEBHOOKS_GRAPH,
    Stop,
    WebhookRegistration,
    gap_triple,
    read_failing,
    read_stop,
    read_webhook,
)
from p2prdf.interest.registration import is_host_listed, read_hosts
from p2prdf.presence.group import ranked
from p2prdf.presence.roll import CurrentTriples, Roll, Triple
from p2prdf.presence.union import union_text

__all__ = ["REGISTRY", "Webhook", "WebhookRegistry"]

_OF_WEBHOOKS: Final = (WEBHOOK, STOPPED, FAILING, GAP)
REGISTRY: Final = union_text([
    *((WEBHOOKS_GRAPH, (None, each, None)) for each in _OF_WEBHOOKS),
    (GATEWAYS.graph, (None, GATEWAYS.predicate, None)),
])  # fmt: skip
"""The standing query for all of it."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook as it is now.

    ``failing``: since when its receiver fails, and how it did at first.  ``has_gap``: it is to be told of one.
    ``triples``: all that is said of it, ``superseded`` what a later generation, or another at the same time, replaced.
    ``shadowed``: its client had another one of the name before.
    """

    registration: WebhookRegistration
    stop: Stop | None
    failing: tuple[float, str] | None
    has_gap: bool
    triples: tuple[Triple, ...]
    superseded: tuple[WebhookRegistration, ...]
    shadowed: bool = False


class WebhookRegistry:
    """The triples of the registry that are true now."""

    def __init__(self, keys: SigningKeys) -> None:
        self._keys = keys
        self._triples = CurrentTriples((*_OF_WEBHOOKS, GATEWAYS.predicate))
        self.roll = Roll(GATEWAYS, self._triples)
        self.refused: dict[str, str] = {}
        """What is written as webhooks and is none, by subject: why."""
        self.orphans: list[Triple] = []
        """What is said of webhooks of which no registration is there, when :meth:`webhooks` was asked last."""
        self._read: dict[Triple, WebhookRegistration | str] = {}
        self._version = 0
        self._webhooks: tuple[int, dict[str, Webhook]] = -1, {}
        """Of a version.  They may be worked out in a thread while more is told, and are of an old version then."""

    def take(self, triple: Triple, *, removed: bool) -> None:
        """Take account of a triple that came or went; a removal may come first."""
        if not self._triples.take(triple, removed=removed):
            self._read.pop(triple, None)
        if triple[1] != GATEWAYS.predicate:
            self._version += 1

    def webhooks(self) -> dict[str, Webhook]:
        """Return all webhooks by identity, those that were registered first before others."""
        version, found = self._webhooks
        if version != self._version:
            version = self._version
            found = self._found()
            self._webhooks = version, found
        return found

    def _found(self) -> dict[str, Webhook]:
        by_subject: dict[str, list[WebhookRegistration]] = {}
        said: dict[str, list[Triple]] = {}
        self.refused, self.orphans = {}, []
        for triple in self._triples.of(WEBHOOK):
            known = self._read.get(triple)
            if known is None:
                known = self._read[triple] = self._registration(triple)
            if isinstance(known, str):
                self.refused[triple[0]] = known
            else:
                by_subject.setdefault(triple[0], []).append(known)
                said.setdefault(triple[0], []).append(triple)
        for predicate in (STOPPED, FAILING, GAP):
            for triple in self._triples.of(predicate):
                if triple[0] in said:
                    said[triple[0]].append(triple)
                elif triple[0] not in self.refused:  # another gateway may have the key
                    self.orphans.append(triple)
        found = [self._webhook(each, said[subject]) for subject, each in by_subject.items()]
        found.sort(key=lambda each: (each.registration.created, each.registration.identity))
        first: dict[tuple[str, str], str] = {}
        webhooks: dict[str, Webhook] = {}
        for each in found:
            made = each.registration
            owner = first.setdefault((made.client, made.name), made.identity)
            if owner != made.identity:
                each = Webhook(made, each.stop, each.failing, each.has_gap, each.triples, each.superseded, True)
            webhooks[made.identity] = each
        return webhooks

    def _registration(self, triple: Triple) -> WebhookRegistration | str:
        """Return what is registered, or why that is nothing."""
        try:
            return read_webhook(triple[0], triple[2], self._keys)
        except P2PRDFError as error:
            return str(error)

    @staticmethod
    def _webhook(made: list[WebhookRegistration], said: list[Triple]) -> Webhook:
        """Return a webhook of which some registrations are there: the last generation counts."""
        made = sorted(made, key=lambda each: (each.generation, each.subscription))
        stops = [read_stop(o) for _, p, o in said if p == STOPPED]
        failing = [read_failing(o) for _, p, o in said if p == FAILING]
        return Webhook(
            made[-1], max(stops, key=lambda each: (each.ended, each.at), default=None), min(failing, default=None),
            gap_triple(made[-1]) in said, tuple(said), tuple(made[:-1]),
        )  # fmt: skip

    def of_name(self, client: str, name: str) -> list[Webhook]:
        """Return the webhooks of a client that have a name: one, or none, but for those that are shadowed."""
        return [
            each for each in self.webhooks().values()
            if each.registration.client == client and each.registration.name == name
        ]  # fmt: skip

    def said_of(self, subjects: Collection[str]) -> list[Triple]:
        """Return all that is said of webhooks, whether they are registered or not."""
        return [each for what in _OF_WEBHOOKS for each in self._triples.of(what) if each[0] in subjects]

    def failing(self, subject: str) -> list[Triple]:
        """Return the triples that say that a receiver fails."""
        return [triple for triple in self._triples.of(FAILING) if triple[0] == subject]

    # --- whose it is -------------------------------------------------------------------------------------------

    def gateways(self) -> dict[str, frozenset[str]]:
        """Return the gateways that are said to be there and were not found gone, with the hosts they allow."""
        return {s: read_hosts(o) for s, _, o in self.roll.said()}

    def deliverer(self, webhook: Webhook, gateways: dict[str, frozenset[str]]) -> str | None:
        """Return who delivers a webhook: the first gateway of its rank that allows its host; None if none does."""
        made = webhook.registration
        order = ranked(made.identity, gateways)
        return next((each for each in order if is_host_listed(made.url, gateways[each])), None)

    def share(self, gateway: str, hosts: Collection[str]) -> dict[str, Webhook]:
        """Return what a gateway has to deliver, among those that are there; ``hosts``: which it allows."""
        gateways = {**self.gateways(), gateway: frozenset(hosts)}
        return {
            identity: each for identity, each in self.webhooks().items()
            if not each.shadowed and self.deliverer(each, gateways) == gateway
        }  # fmt: skip
