"""HTTP paths under ``/webhooks``: register, list, pause, resume and remove webhooks.

A webhook belongs to a client: the client that the token acts as, or the gateway itself.  Clients with the permission
to observe see all webhooks.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web

from p2prdf.errors import Busy, NotAllowed, P2PRDFError, Unavailable
from p2prdf.gateway.access import Permission
from p2prdf.gateway.bodies import text_of
from p2prdf.gateway.overview import check_observes
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.state import GATEWAY, Gateway, check_query, check_settled, check_since
from p2prdf.gateway.webhooks.host import WebhookHost
from p2prdf.gateway.webhooks.registration import (
    BATCH_MAX,
    STOPPED,
    WEBHOOKS_GRAPH,
    Stop,
    WebhookRegistration,
    check_name,
)
from p2prdf.gateway.webhooks.registry import Webhook

__all__ = ["routes"]

_FIELDS: Final = frozenset({"name", "url", "query", "since", "batch", "settled"})
_BATCH: Final = 100
_NO_STORE: Final = {"Cache-Control": "no-store"}


def routes() -> list[web.RouteDef]:
    """Return the routes."""
    return [
        web.post("/webhooks", _register), web.get("/webhooks", _list),
        web.get("/webhooks/{name}", _show), web.delete("/webhooks/{name}", _remove),
        web.post("/webhooks/{name}/pause", _pause), web.post("/webhooks/{name}/resume", _resume),
    ]  # fmt: skip


def _host(gateway: Gateway) -> WebhookHost:
    if gateway.webhooks is None:
        raise Refused(HTTPStatus.NOT_FOUND, "this gateway has no webhooks: p2prdf serve gateway --webhooks FILE")
    return gateway.webhooks


# --- register and remove -----------------------------------------------------------------------------------------


async def _register(request: web.Request) -> web.StreamResponse:
    """Register a webhook; only this response contains its secret."""
    gateway = request.app[GATEWAY]
    client = gateway.access.check(request, Permission.READ)
    host = _host(gateway)
    asked = await _asked(request)
    name, url, query = asked.name, asked.url, asked.query
    check_query(query, gateway.config)
    host.sender.check(url)
    host.check_known()
    async with host.registering:
        made = await _written(gateway, host, client, asked)
    found = host.registry.webhooks().get(made.identity)
    if found is None:
        raise Unavailable("the webhook is registered, but this gateway has not read it yet: see GET /webhooks")
    if found.shadowed:  # another gateway registered the same name concurrently
        await host.forget([found])
        raise _name_in_use(name)
    told = _description(gateway, found) | {"secret": host.keys.secret(made.key, made.identity)}
    location = {"Location": f"/webhooks/{name}", **_NO_STORE}
    return web.json_response(told, status=HTTPStatus.CREATED, headers=location)


async def _written(
    gateway: Gateway, host: WebhookHost, client: str, asked: _Asked
) -> WebhookRegistration:
    """Subscribe as the client and write the registration; return when this gateway has read it, or after a while.

    Registrations run one at a time, so that the second of two with the same name is refused.
    """
    name, query = asked.name, asked.query
    _check_room(host, client, name)
    async with await gateway.connections.own(client) as speaker:
        left = await speaker.subscribe(
            query, since=asked.since, lease_seconds=host.config.subscription_lease_seconds, auto_acknowledge=False,
            settled=asked.settled,
        )  # fmt: skip
        made = WebhookRegistration(
            secrets.token_hex(16), client, name, asked.url, query, f"{left.id:016x}", 0, asked.batch,
            int(time.time() * 1000), host.keys.newest, left.settled,
        )  # fmt: skip
        try:
            made.check()
            await host.writing.publish([made.triple(host.keys)], graph=WEBHOOKS_GRAPH)
        except BaseException:
            await asyncio.shield(speaker.unsubscribe(left.id))
            raise
    await host.seen(lambda registry: made.identity in registry.webhooks())
    return made


class _Asked(NamedTuple):
    """A request for a webhook, with the fields of :class:`WebhookRegistration`."""

    name: str
    url: str
    query: str
    since: str | None
    batch: int
    settled: bool | None


async def _asked(request: web.Request) -> _Asked:
    """Return the webhook that the request asks for.  Raises Refused, LocalProtocolError."""
    if request.content_type != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: {request.content_type}: not application/json")
    text = await text_of(request, request.app[GATEWAY].config)
    try:
        body = json.loads(text)
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # "\ud800" is valid JSON, but no text
        raise Refused(HTTPStatus.BAD_REQUEST, "half a surrogate pair is not a character") from None
    except (ValueError, RecursionError):
        raise Refused(HTTPStatus.BAD_REQUEST, f"not JSON: {text[:80]!r}") from None
    if not isinstance(body, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, "a webhook is a JSON object with name, url and query")
    unknown = sorted(set(body) - _FIELDS)
    if unknown:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{unknown[0][:80]!r} is not known; a webhook has {sorted(_FIELDS)}")
    for member in ("url", "query"):
        if not isinstance(body.get(member), str) or not body[member]:
            raise Refused(HTTPStatus.BAD_REQUEST, f"{member}: missing")
    batch = body.get("batch", _BATCH)
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= BATCH_MAX:
        reason = f"batch: {str(batch)[:80]!r} is not a number of solutions from 1 to {BATCH_MAX:,}"
        raise Refused(HTTPStatus.BAD_REQUEST, reason)
    settled, since = check_settled(body.get("settled")), check_since(body.get("since"))
    return _Asked(check_name(body.get("name")), body["url"], body["query"], since, batch, settled)


def _check_room(host: WebhookHost, client: str, name: str) -> None:
    """Raise Refused for a name that the client already uses, Busy at the bound of webhooks."""
    webhooks = host.registry.webhooks().values()
    if host.registry.of_name(client, name):
        raise _name_in_use(name)
    own = sum(each.registration.client == client for each in webhooks)
    if own >= host.config.client_webhooks_max:
        raise Busy(f"this client has {own} webhooks, the maximum", retry_after=60.0)
    if len(webhooks) >= host.config.webhooks_max:
        raise Busy(f"{len(webhooks):,} webhooks are registered, the maximum", retry_after=60.0)


def _name_in_use(name: str) -> Refused:
    return Refused(HTTPStatus.CONFLICT, f"name: there is a webhook {name!r}: DELETE /webhooks/{name} first")


async def _remove(request: web.Request) -> web.StreamResponse:
    """Remove a webhook; its receiver gets no further requests."""
    host, found = _own(request)
    await host.forget(found)
    gone = {each.registration.identity for each in found}
    await host.seen(lambda registry: not gone & registry.webhooks().keys())
    return web.Response(status=HTTPStatus.NO_CONTENT)


# --- pause and resume --------------------------------------------------------------------------------------------


async def _pause(request: web.Request) -> web.StreamResponse:
    """Stop the delivery until the webhook is resumed; solutions wait."""
    host, found = _own(request)
    for each in found:
        if each.stop is None:
            stop = Stop(False, "it was asked for", time.time())
            await host.writing.publish([stop.triple(each.registration.subject)], graph=WEBHOOKS_GRAPH)
    await host.seen(lambda registry: all(
        (now := registry.webhooks().get(each.registration.identity)) is None or now.stop is not None for each in found
    ))  # fmt: skip
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def _resume(request: web.Request) -> web.StreamResponse:
    """Deliver waiting and new solutions."""
    host, found = _own(request)
    for each in found:
        if each.stop is not None and each.stop.ended:
            reason = f"it has ended: {each.stop.reason}; remove it and register it again"
            raise Refused(HTTPStatus.CONFLICT, reason)
        said = [triple for triple in each.triples if triple[1] == STOPPED]
        said += host.registry.failing(each.registration.subject)
        if said:
            await host.writing.retract(said, graph=WEBHOOKS_GRAPH)
    await host.seen(lambda registry: all(
        (now := registry.webhooks().get(each.registration.identity)) is None or now.stop is None for each in found
    ))  # fmt: skip
    return web.Response(status=HTTPStatus.NO_CONTENT)


def _own(request: web.Request) -> tuple[WebhookHost, list[Webhook]]:
    """Return the client's webhook of the name in the path; several only if one is shadowed."""
    gateway = request.app[GATEWAY]
    client = gateway.access.check(request, Permission.READ)
    host = _host(gateway)
    host.check_known()
    return host, _named(host, client, request.match_info["name"])


def _named(host: WebhookHost, client: str, name: str) -> list[Webhook]:
    found = host.registry.of_name(client, name)
    if not found:
        raise Refused(HTTPStatus.NOT_FOUND, f"there is no webhook {name[:120]!r}")
    return found


# --- reports -----------------------------------------------------------------------------------------------------


async def _list(request: web.Request) -> web.StreamResponse:
    """List the client's webhooks, or all webhooks for a client that may observe."""
    gateway = request.app[GATEWAY]
    client = gateway.access.check(request, Permission.READ)
    host = _host(gateway)
    host.check_known()
    sees_all = await _sees_all(gateway, client)
    told = [
        _description(gateway, each) for each in host.registry.webhooks().values()
        if sees_all or each.registration.client == client
    ]  # fmt: skip
    said: dict[str, Any] = {"webhooks": sorted(told, key=lambda each: (each["client"], each["name"]))}
    if sees_all:
        said["refused"] = dict(sorted(host.registry.refused.items()))
    return web.json_response(said, headers=_NO_STORE)


async def _show(request: web.Request) -> web.StreamResponse:
    """Return the state of a webhook; of other clients' webhooks for a client that may observe."""
    gateway = request.app[GATEWAY]
    client = gateway.access.check(request, Permission.READ)
    host = _host(gateway)
    host.check_known()
    whose = request.query.get("client", client)
    if whose != client and not await _sees_all(gateway, client):
        raise NotAllowed(f"client: {whose[:80]!r} is another client, and {client} may not observe")
    webhook = _named(host, whose, request.match_info["name"])[0]
    return web.json_response(_description(gateway, webhook) | await _counts(gateway, webhook), headers=_NO_STORE)


async def _sees_all(gateway: Gateway, client: str) -> bool:
    if not client:
        return True
    try:
        await check_observes(await gateway.connections.client(client))
    except NotAllowed:
        return False
    return True


def _description(gateway: Gateway, webhook: Webhook) -> dict[str, Any]:
    """Return this gateway's knowledge of a webhook."""
    host = _host(gateway)
    made, delivery = webhook.registration, host.deliveries.get(webhook.registration.identity)
    deliverer = host.registry.deliverer(webhook, host.registry.gateways())
    since, error = webhook.failing or (0.0, "")
    if delivery is not None:
        since, error = delivery.failing_since or since, delivery.error or error
    if webhook.stop is not None:
        state, error = ("ended" if webhook.stop.ended else "paused"), webhook.stop.reason
    elif webhook.shadowed:
        state, error = "refused", f"there was another webhook {made.name!r} before it"
    elif deliverer is None:
        state, error = "refused", f"{made.url}: its host is on no gateway's list of hosts that may be asked"
    else:
        state = "failing" if since else "active"
    return {
        "name": made.name, "client": made.client, "url": made.url, "query": made.query, "batch": made.batch,
        "settled": made.settled,
        "created": made.created / 1000, "state": state, "error": error or None, "failing_since": since or None,
        "subscription": made.subscription, "gateway": None if deliverer is None else deliverer[1:-1],
    }  # fmt: skip


async def _counts(gateway: Gateway, webhook: Webhook) -> dict[str, int | None]:
    """Return the delivered, pending and dropped solutions by the subscription's coordinator; None: unknown."""
    number = webhook.registration.number
    for name in dict.fromkeys((webhook.registration.client, "")):
        try:
            told = (await (await gateway.connections.client(name)).explain(number))["subscription"]
        except NotAllowed:
            continue  # the owner may lack the permission to explain; a gateway that may administer has it
        except P2PRDFError:
            break
        pending, dropped = told["unacknowledged"], told["dropped"]
        return {"delivered": told["answers"] - pending - dropped, "pending": pending, "dropped": dropped}
    return {"delivered": None, "pending": None, "dropped": None}
