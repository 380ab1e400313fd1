"""A gateway as a member of the group that delivers webhooks (:mod:`p2prdf.workers.worker`).

The live gateways and the hosts that they allow determine the gateway of each webhook.  Two gateways may deliver the
same webhook for a while, which is harmless: a subscription is attached at one place at a time, and solutions
delivered twice have the same identities.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from p2prdf.client import Client
from p2prdf.errors import P2PRDFError, Unavailable
from p2prdf.gateway.webhooks.delivery import Delivery, DeliveryConfig
from p2prdf.gateway.webhooks.keys import SigningKeys
from p2prdf.gateway.webhooks.registration import (
    GATEWAYS,
    WEBHOOKS_GRAPH,
    Stop,
    WebhookRegistration,
    failing_triple,
    gap_triple,
)
from p2prdf.gateway.webhooks.registry import REGISTRY, Webhook, WebhookRegistry
from p2prdf.gateway.webhooks.sender import Sender
from p2prdf.workers.membership import Triple
from p2prdf.workers.overlay import Connect, Writing
from p2prdf.workers.worker import Worker, check_times

__all__ = ["WebhookConfig", "WebhookHost"]

_PAUSE_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 3.0
"""Time for the request in flight when this gateway stops delivering a webhook."""
_LOOK_SECONDS: Final = 0.05
_SEEN_SECONDS: Final = 10.0
"""Longest wait until this gateway reads its own write."""
_ORPHAN_SECONDS: Final = 60.0
"""Age at which statements about an unregistered webhook are removed: triples arrive in any order."""
_FORGOTTEN_MAX: Final = 4096
"""Most webhooks removed here that are remembered, latest first."""


@dataclass(frozen=True, slots=True)
class WebhookConfig:
    """Bounds and times of webhooks.

    ``subscription_lease_seconds``: lease of a webhook's subscription without a gateway, at most ``lease_seconds_max``
    of the nodes.  ``lease_seconds``, ``check_seconds``: as in :class:`p2prdf.replica.worker.InterestWorkerConfig`.
    """

    webhooks_max: int = 1024
    """Webhooks of all clients; further ones are refused as busy."""
    client_webhooks_max: int = 64
    """Webhooks of one client; further ones are refused as busy."""
    subscription_lease_seconds: float = 86_400.0
    lease_seconds: float = 8.0
    check_seconds: float = 2.0
    delivery: DeliveryConfig = field(default_factory=DeliveryConfig)

    def validate(self) -> None:
        """Raise LocalProtocolError for invalid times."""
        check_times(self.lease_seconds, self.check_seconds)


class WebhookHost(Worker):
    """Delivers this gateway's share of the webhooks until cancelled."""

    def __init__(
        self, connect: Connect, speak: Callable[[str], Awaitable[Client]], sender: Sender, keys: SigningKeys,
        config: WebhookConfig | None = None, *,
        tell: Callable[[str, Mapping[str, object]], None] | None = None,
    ):  # fmt: skip
        """``speak`` connects as the client of a name.  ``tell`` receives events, in addition to the log."""
        config = config or WebhookConfig()
        config.validate()
        self._logger = logging.getLogger("p2prdf.gateway")
        self._report = tell
        self.sender = sender
        self.keys = keys
        self.config = config
        self.failure = ""
        """Reason why this gateway does not know the webhooks at present; "" if it does."""
        self.deliveries: dict[str, Delivery] = {}
        """Running deliveries, by webhook identity."""
        self.registering = asyncio.Lock()
        """Held during a registration."""
        self._speak = speak
        self._running: dict[str, asyncio.Task[None]] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._tidying: set[str] = set()
        self._renewals: dict[WebhookRegistration, asyncio.Task[None]] = {}
        """Renewals of gone subscriptions, by registration, until the registration is replaced."""
        self._forgotten: dict[str, None] = {}
        """Subjects of webhooks removed here.  No other webhook ever has the same subject."""
        self._overlay: Writing | None = None
        super().__init__(
            connect, GATEWAYS, REGISTRY, lease_seconds=config.lease_seconds, check_seconds=config.check_seconds,
            tell=self._event,
        )  # fmt: skip

    async def run_on(self) -> None:
        """Run, and restart after errors: the gateway serves other requests as well."""
        while True:
            try:
                await self.run()
            except P2PRDFError as error:
                self.failure = str(error)
                self._event("failed", {"error": str(error)})
            await asyncio.sleep(_PAUSE_SECONDS)

    async def close(self) -> None:
        """Close the HTTP sender; called after the host has stopped."""
        await self.sender.close()

    def _event(self, event: str, what: Mapping[str, object]) -> None:
        if event == "ready":
            self.failure = ""
        self._logger.info("webhooks: %s %s", event, dict(what))
        if self._report is not None:
            self._report(event, what)

    # --- member of the group -----------------------------------------------------------------------------------

    def _new_registry(self) -> WebhookRegistry:
        self.registry = WebhookRegistry(self.keys)
        self._tidying.clear()
        self._renewals.clear()
        return self.registry

    def _properties(self) -> Mapping[str, object]:
        return {"hosts": self.sender.hosts.entries}

    async def _answer(self, overlay: Writing, request: Triple) -> None:
        """Do nothing: there are no requests; the registry and the coordinators hold all state of webhooks."""

    async def _lease_expired(self) -> None:
        await self._stop_work()

    async def _stop_work(self) -> None:
        for identity in list(self.deliveries):
            self._drop(identity)
        await asyncio.gather(*self._closing.values())

    async def _share(self, overlay: Writing) -> None:
        self._overlay = overlay
        # In a thread, because the first reading of very many webhooks takes longer than a lease.
        own = await asyncio.to_thread(self.registry.share, self.name, self.sender.hosts.entries)
        own = {identity: each for identity, each in own.items() if each.registration.subject not in self._forgotten}
        stand = {each.registration for each in own.values()}
        self._renewals = {made: task for made, task in self._renewals.items() if made in stand or not task.done()}
        late = self.registry.said_of(self._forgotten) if self._forgotten else []
        if late:
            left = [each for each in self.registry.webhooks().values() if each.registration.subject in self._forgotten]
            self._begin_to_tidy("", late, [made for each in left for made in (each.registration, *each.superseded)])
        if self.registry.orphans and "orphans" not in self._tidying:
            self._tidying.add("orphans")
            self._spawn(self._tidy_orphans(self.registry.orphans))
        for identity, delivery in list(self.deliveries.items()):
            if identity not in own or _is_changed(delivery.webhook, own[identity]):
                self._drop(identity)
        for identity, webhook in own.items():
            if webhook.superseded:
                gone = [each.triple(self.keys) for each in webhook.superseded]
                self._begin_to_tidy(identity, gone, webhook.superseded)
            if identity not in self.deliveries:
                delivery = self.deliveries[identity] = Delivery(
                    webhook, self._speak, self.sender, self.keys, self, self.config.delivery,
                    holds_lease=self.holds_lease,
                )  # fmt: skip
                former = self._closing.get(identity)
                self._running[identity] = asyncio.create_task(_after(former, delivery))

    def _drop(self, identity: str) -> None:
        """Stop a delivery, without waiting for its end."""
        delivery, task = self.deliveries.pop(identity), self._running.pop(identity)
        closing = asyncio.create_task(delivery.close(task, seconds=_CLOSE_SECONDS))
        self._closing[identity] = closing
        closing.add_done_callback(
            lambda _: self._closing.pop(identity, None) if self._closing.get(identity) is closing else None
        )

    # --- state of webhooks -------------------------------------------------------------------------------------

    async def failing(self, webhook: Webhook, since: float, error: str) -> None:
        """Record that a receiver fails, so that a successor knows since when."""
        made = webhook.registration
        self._event("failing", {"webhook": made.name, "client": made.client, "error": error})
        said = failing_triple(made.subject, since, error)
        await self._publish([said])
        if not self._is_registered(webhook):  # removed meanwhile
            await self.writing.retract([said], graph=WEBHOOKS_GRAPH)

    async def recovered(self, webhook: Webhook) -> None:
        """Record that a receiver no longer fails."""
        found = self.registry.failing(webhook.registration.subject)
        if found:
            await self.writing.retract(found, graph=WEBHOOKS_GRAPH)

    async def stopped(self, webhook: Webhook, stop: Stop) -> None:
        """Record that delivery has stopped."""
        made = webhook.registration
        self._event("stopped", {"webhook": made.name, "client": made.client, "reason": stop.reason})
        await self._publish([stop.triple(made.subject)])

    async def resubscribe(self, webhook: Webhook) -> None:
        """Subscribe again after a subscription has gone: from now on, with a gap before.

        Runs once and to its end: the delivery may be cancelled meanwhile, for example because the webhook is paused,
        and its successor also finds the subscription gone while the later generation is not read yet.
        """
        made = webhook.registration
        renewal = self._renewals.get(made)
        if renewal is None or _has_failed(renewal):
            renewal = self._renewals[made] = self._spawn(self._resubscribe(webhook))
            renewal.add_done_callback(_has_failed)  # retrieves the exception, even if no delivery waits for it
        await asyncio.wait((renewal,))
        if renewal.cancelled():
            raise Unavailable("this gateway no longer delivers webhooks")
        renewal.result()

    async def _resubscribe(self, webhook: Webhook) -> None:
        made = webhook.registration
        if not self._stands(webhook):
            return
        async with await self._speak(made.client) as client:
            left = await client.subscribe(
                made.query, lease_seconds=self.config.subscription_lease_seconds, auto_acknowledge=False,
                settled=made.settled,
            )  # fmt: skip
            if not self._stands(webhook):
                await client.unsubscribe(left.id)
                return
        again = dataclasses.replace(made, subscription=f"{left.id:016x}", generation=made.generation + 1)
        self._event("subscribed again", {"webhook": made.name, "client": made.client})
        await self._publish([again.triple(self.keys), gap_triple(again)])
        await self.writing.retract([made.triple(self.keys)], graph=WEBHOOKS_GRAPH)

    async def gap_sent(self, webhook: Webhook) -> None:
        """Record that a receiver knows of the gap before a generation."""
        await self.writing.retract([gap_triple(webhook.registration)], graph=WEBHOOKS_GRAPH)

    async def unsubscribe(self, webhook: Webhook) -> None:
        """End the subscriptions of a webhook, as far as possible; others end with their leases."""
        await self._unsubscribe((webhook.registration, *webhook.superseded))

    async def _unsubscribe(self, ended: Iterable[WebhookRegistration]) -> None:
        for each in ended:
            with contextlib.suppress(P2PRDFError):
                async with await self._speak(each.client) as client:
                    await client.unsubscribe(each.number)

    def _is_registered(self, webhook: Webhook) -> bool:
        made = webhook.registration
        return made.subject not in self._forgotten and made.identity in self.registry.webhooks()

    def _stands(self, webhook: Webhook) -> bool:
        """Tell whether a webhook is registered in this generation."""
        made = webhook.registration
        return self._is_registered(webhook) and self.registry.webhooks()[made.identity].registration == made

    def _begin_to_tidy(self, what: str, gone: list[Triple], ended: Collection[WebhookRegistration]) -> None:
        """Remove registrations that a later generation replaced, or statements about removed webhooks.

        They remain if their author was killed or did not know of the removal, or if two gateways wrote a generation.
        ``what``: key of the work, which runs once at a time.
        """
        if what not in self._tidying:
            self._tidying.add(what)
            self._spawn(self._tidy(what, gone, ended))

    async def _tidy(self, what: str, gone: list[Triple], ended: Collection[WebhookRegistration]) -> None:
        try:
            if gone:
                await self.writing.retract(gone, graph=WEBHOOKS_GRAPH)
            await self._unsubscribe(ended)
        except P2PRDFError:
            await asyncio.sleep(_PAUSE_SECONDS)
            self._changed.set()  # start again, if the work is still needed
        finally:
            self._tidying.discard(what)

    async def _publish(self, triples: list[Triple]) -> None:
        await self.writing.publish(triples, graph=WEBHOOKS_GRAPH)

    async def _tidy_orphans(self, found: list[Triple]) -> None:
        """Remove statements about webhooks that stay unregistered; their authors ended before they knew of the
        removal."""
        await asyncio.sleep(_ORPHAN_SECONDS)
        self.registry.webhooks()
        still = [each for each in found if each in self.registry.orphans]
        await self._tidy("orphans", still, ())
        self._changed.set()  # others may have come meanwhile

    # --- for handlers ------------------------------------------------------------------------------------------

    async def forget(self, found: list[Webhook]) -> None:
        """Remove all statements about webhooks, then end their subscriptions; the reverse order would renew them.

        A delivery that does not know of the removal yet may find its subscription gone and renew it all the same:
        this gateway also removes later statements about these webhooks, for as long as it lives.
        """
        await self.writing.retract([triple for each in found for triple in each.triples], graph=WEBHOOKS_GRAPH)
        self._forgotten |= dict.fromkeys(each.registration.subject for each in found)
        for subject in list(self._forgotten)[:-_FORGOTTEN_MAX]:
            del self._forgotten[subject]
        self._changed.set()
        for each in found:
            await self.unsubscribe(each)

    @property
    def writing(self) -> Writing:
        """Connection that writes to the overlay.  Raises Unavailable while the registry is unknown."""
        self.check_known()
        assert self._overlay is not None, "it is known from there"
        return self._overlay

    def check_known(self) -> None:
        """Raise Unavailable while the registry is unknown."""
        if self._overlay is None or not self._ready.is_set():
            reason = self.failure or "it has not been read yet"
            raise Unavailable(f"this gateway does not know the webhooks: {reason}")

    def states(self) -> dict[str, int]:
        """Return the number of this gateway's webhooks by state."""
        return {"active": 0, "failing": 0, "paused": 0, "ended": 0} | Counter(
            each.state for each in self.deliveries.values()
        )

    async def seen(self, holds: Callable[[WebhookRegistry], bool]) -> bool:
        """Wait up to _SEEN_SECONDS until a condition on the registry holds; return whether it does."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_SECONDS):
                while not holds(self.registry):
                    await asyncio.sleep(_LOOK_SECONDS)
        return holds(self.registry)


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _after(former: asyncio.Task[None] | None, delivery: Delivery) -> None:
    """Deliver a webhook after its former delivery has ended."""
    if former is not None:
        await asyncio.wait((former,))
    await delivery.run()


def _is_changed(known: Webhook, now: Webhook) -> bool:
    """Tell whether a webhook has changed so that its delivery must be restarted.

    The gap statement and its generation are written together, but read one by one, in any order.
    """
    was_told_of_gap = known.has_gap or not now.has_gap
    return (known.registration, known.stop) != (now.registration, now.stop) or not was_told_of_gap
