"""State of the whole overlay, and evaluation of queries: ``/ring``, ``/subscriptions``, ``/explain``.

All viewers share the rounds in which nodes are asked (:mod:`p2prdf.gateway.survey`).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from p2prdf.client import Client
from p2prdf.gateway.access import Permission
from p2prdf.gateway.bodies import text_of
from p2prdf.gateway.problems import Refused
from p2prdf.gateway.state import GATEWAY, Gateway, check_query
from p2prdf.gateway.survey import Survey, everyone_known
from p2prdf.reasoning.ruled_query import parse_ruled

__all__ = ["LISTED_MAX", "check_observes", "explain", "ring", "ring_of", "subscriptions", "subscriptions_of"]

LISTED_MAX: Final = 1000
"""Most subscriptions in one response."""
_NONE_AFTER: Final = (1 << 64) - 1
"""Largest subscription number: a list after it is empty."""
_MEANS: Final = ("storage_load", "processing_load", "triples")
_NO_STORE: Final = {"Cache-Control": "no-store"}


async def ring(request: web.Request) -> web.StreamResponse:
    """Return all members: ring positions, reachability and load."""
    gateway = request.app[GATEWAY]
    await _check_observes(request, gateway)
    await gateway.survey.refresh()
    return web.json_response(ring_of(gateway.survey), headers=_NO_STORE)


async def subscriptions(request: web.Request) -> web.StreamResponse:
    """Return the subscriptions of all clients, by the nodes that coordinate them."""
    gateway = request.app[GATEWAY]
    await _check_observes(request, gateway)
    await gateway.survey.refresh()
    return web.json_response(subscriptions_of(gateway.survey), headers=_NO_STORE)


async def explain(request: web.Request) -> web.StreamResponse:
    """Explain the evaluation of a query, or the state of a subscription."""
    gateway = request.app[GATEWAY]
    name = gateway.access.check(request, Permission.READ)
    text, number = request.query.get("query"), request.query.get("subscription")
    if request.method == "POST":
        if request.content_type != "application/sparql-query":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: a query is application/sparql-query")
        text = await text_of(request, gateway.config)
    if (text is None) == (number is None):
        raise Refused(HTTPStatus.BAD_REQUEST, "either a query or the number of a subscription is explained")
    algorithm = request.query.get("algorithm", "csbv")
    if algorithm not in ("csbv", "cqc"):
        raise Refused(HTTPStatus.BAD_REQUEST, f"algorithm: {algorithm[:80]!r} is neither csbv nor cqc")
    if number is not None and re.fullmatch("[0-9a-f]{16}", number) is None:
        raise Refused(HTTPStatus.BAD_REQUEST, f"subscription: {number[:80]!r} is not 16 hexadecimal digits")
    async with gateway.turn():
        if text is not None:
            check_query(text, gateway.config)
            await asyncio.to_thread(parse_ruled, text)  # refuses a malformed query here, with the position
            told = await (await gateway.connections.client(name)).explain(text, algorithm=algorithm)
        else:
            assert number is not None
            told = await (await gateway.connections.client(name)).explain(int(number, 16))
    return web.json_response(told, headers=_NO_STORE)


async def _check_observes(request: web.Request, gateway: Gateway) -> None:
    """Raise Refused, or NotAllowed, if the request's client may not observe the overlay."""
    name = gateway.access.check(request, Permission.READ)
    if name:
        await check_observes(await gateway.connections.client(name))


async def check_observes(client: Client) -> None:
    """Raise NotAllowed if a client may not observe; the test asks for an empty list, which costs a node little."""
    await client.subscriptions(after=_NONE_AFTER)


# --- responses ----------------------------------------------------------------------------------------------------


def ring_of(survey: Survey) -> dict[str, Any]:
    """Return the ring as JSON values; docs/reference/http.md lists the keys."""
    now, state = time.monotonic(), survey.state
    members: list[dict[str, Any]] = []
    for member in sorted(survey.members.values(), key=lambda each: each.key):
        kind, reason = member.state(survey.named_at)
        rate = member.per_second if kind == "here" else None
        load = None if member.load is None else {**member.load, "processing_load_per_second": rate}
        members.append({
            "key": member.key,
            "address": member.address,
            "state": kind,
            "reason": reason,
            "age_seconds": None if member.heard is None else round(now - member.heard, 1),
            "load": load,
        })  # fmt: skip
    here = [each["load"] for each in members if each["state"] == "here" and each["load"] is not None]
    rates = [each["processing_load_per_second"] for each in here]
    return {
        "node": state["address"],
        "overlay": state["peer"]["overlay"],
        "everyone_known": everyone_known(state),
        "counts": {"here": 0, "missing": 0, "left": 0, "unasked": 0} | Counter(each["state"] for each in members),
        "left_out": survey.left_out,
        "means": {
            **{name: _mean(each[name] for each in here) for name in _MEANS},
            "processing_load_per_second": _mean(rate for rate in rates if rate is not None),
        },
        "members": members,
    }


def subscriptions_of(survey: Survey) -> dict[str, Any]:
    """Return the subscriptions as JSON values; docs/reference/http.md lists the keys."""
    now = time.monotonic()
    found: dict[str, dict[str, Any]] = {}
    total = 0
    for member in survey.members.values():
        if member.heard is None or member.state(survey.named_at)[0] != "here":
            continue
        total += member.subscriptions_total
        for each in member.subscriptions:
            known = found.get(each["number"])
            age = round(now - member.heard, 1)
            if known is None or age < known["age_seconds"]:  # another node has just become its coordinator
                found[each["number"]] = {**each, "home": member.address, "age_seconds": age}
    told = [found[number] for number in sorted(found)[:LISTED_MAX]]
    return {"total": max(total, len(found)), "subscriptions": told}


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(sum(found) / len(found), 3) if found else None
