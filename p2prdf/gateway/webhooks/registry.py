"""Webhooks and gateways as known to one gateway, derived from triples that are added and removed.

Pure: it receives triples and derives the state.  Each text is parsed once.
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
from p2prdf.workers.group import ranked
from p2prdf.workers.membership import CurrentTriples, Membership, Triple
from p2prdf.workers.union import union_text

__all__ = ["REGISTRY", "Webhook", "WebhookRegistry"]

_OF_WEBHOOKS: Final = (WEBHOOK, STOPPED, FAILING, GAP)
REGISTRY: Final = union_text([
    *((WEBHOOKS_GRAPH, (None, each, None)) for each in _OF_WEBHOOKS),
    (GATEWAYS.graph, (None, GATEWAYS.predicate, None)),
])  # fmt: skip
"""Standing query for the whole registry."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Current state of a webhook.

    ``failing``: start of its receiver's failures, and the first error.  ``has_gap``: the receiver must be told of a
    gap.  ``triples``: all statements about it.  ``superseded``: registrations replaced by a later or concurrent
    generation.  ``shadowed``: an earlier webhook of its client has the same name.
    """

    registration: WebhookRegistration
    stop: Stop | None
    failing: tuple[float, str] | None
    has_gap: bool
    triples: tuple[Triple, ...]
    superseded: tuple[WebhookRegistration, ...]
    shadowed: bool = False


class WebhookRegistry:
    """The current triples of the registry."""

    def __init__(self, keys: SigningKeys) -> None:
        self._keys = keys
        self._triples = CurrentTriples((*_OF_WEBHOOKS, GATEWAYS.predicate))
        self.membership = Membership(GATEWAYS, self._triples)
        self.refused: dict[str, str] = {}
        """Invalid registrations by subject, with the reasons."""
        self.orphans: list[Triple] = []
        """Statements about unregistered webhooks, as of the last call of :meth:`webhooks`."""
        self._read: dict[Triple, WebhookRegistration | str] = {}
        self._version = 0
        self._webhooks: tuple[int, dict[str, Webhook]] = -1, {}
        """Webhooks with the version they were computed for; a thread may compute them while triples arrive."""

    def take(self, triple: Triple, *, removed: bool) -> None:
        """Process an added or removed triple; a removal may come first."""
        if not self._triples.take(triple, removed=removed):
            self._read.pop(triple, None)
        if triple[1] != GATEWAYS.predicate:
            self._version += 1

    def webhooks(self) -> dict[str, Webhook]:
        """Return all webhooks by identity, in order of registration."""
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
                elif triple[0] not in self.refused:  # otherwise another gateway may have the key
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
        """Return the registration, or the reason why it is invalid."""
        try:
            return read_webhook(triple[0], triple[2], self._keys)
        except P2PRDFError as error:
            return str(error)

    @staticmethod
    def _webhook(made: list[WebhookRegistration], said: list[Triple]) -> Webhook:
        """Return the webhook of several registrations: the last generation counts."""
        made = sorted(made, key=lambda each: (each.generation, each.subscription))
        stops = [read_stop(o) for _, p, o in said if p == STOPPED]
        failing = [read_failing(o) for _, p, o in said if p == FAILING]
        return Webhook(
            made[-1], max(stops, key=lambda each: (each.ended, each.at), default=None), min(failing, default=None),
            gap_triple(made[-1]) in said, tuple(said), tuple(made[:-1]),
        )  # fmt: skip

    def of_name(self, client: str, name: str) -> list[Webhook]:
        """Return the webhooks of a client with a name: at most one, apart from shadowed ones."""
        return [
            each for each in self.webhooks().values()
            if each.registration.client == client and each.registration.name == name
        ]  # fmt: skip

    def said_of(self, subjects: Collection[str]) -> list[Triple]:
        """Return all statements about webhooks, registered or not."""
        return [each for what in _OF_WEBHOOKS for each in self._triples.of(what) if each[0] in subjects]

    def failing(self, subject: str) -> list[Triple]:
        """Return the triples that state that a receiver fails."""
        return [triple for triple in self._triples.of(FAILING) if triple[0] == subject]

    # --- assignment --------------------------------------------------------------------------------------------

    def gateways(self) -> dict[str, frozenset[str]]:
        """Return the live gateways, with the hosts that they allow."""
        return {s: read_hosts(o) for s, _, o in self.membership.announced()}

    def deliverer(self, webhook: Webhook, gateways: dict[str, frozenset[str]]) -> str | None:
        """Return the gateway of a webhook: the first in its ranking that allows its host; None if none does."""
        made = webhook.registration
        order = ranked(made.identity, gateways)
        return next((each for each in order if is_host_listed(made.url, gateways[each])), None)

    def share(self, gateway: str, hosts: Collection[str]) -> dict[str, Webhook]:
        """Return the webhooks that a gateway has to deliver; ``hosts``: the hosts that it allows."""
        gateways = {**self.gateways(), gateway: frozenset(hosts)}
        return {
            identity: each for identity, each in self.webhooks().items()
            if not each.shadowed and self.deliverer(each, gateways) == gateway
        }  # fmt: skip
