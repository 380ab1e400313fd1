"""Notifications over HTTP: added and removed solutions, in the format of SEPA.

::

    {"notification": {"spuid": ..., "alias": ..., "sequence": 7,
                      "addedResults":   {"head": {"vars": ["x"]}, "results": {"bindings": [{"x": {...}}]}},
                      "removedResults": {"head": {"vars": ["x"]}, "results": {"bindings": []}}}}

After the *SPARQL 1.1 Subscribe Language* of the SPARQL Event Processing Architecture (Roffia et al., "Dynamic Linked
Data: A SPARQL Event Processing Architecture", Future Internet 10(4), 2018).  ``sequence`` counts notifications from 0.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any

from p2prdf.client import Client, Solution, Subscription
from p2prdf.client.token import Token
from p2prdf.errors import TokenMismatch, TokenRefused
from p2prdf.rdf.terms import to_json
from p2prdf.reasoning.ruled_query import parse_ruled

__all__ = ["Row", "changes", "results", "resumed", "token_text"]

Row = Sequence[str | None]


def results(names: Sequence[str], rows: Iterable[Row]) -> dict[str, Any]:
    """Return solutions in the format SPARQL 1.1 Query Results JSON."""
    return {
        "head": {"vars": list(names)},
        "results": {
            "bindings": [
                {name: to_json(value) for name, value in zip(names, row, strict=True) if value is not None}
                for row in rows
            ]
        },
    }


def changes(names: Sequence[str], solutions: Iterable[Solution]) -> dict[str, Any]:
    """Return the added and the removed solutions; a solution both added and removed is in both lists."""
    added: list[Row] = []
    removed: list[Row] = []
    for solution in solutions:
        (removed if solution.removed else added).append(solution.terms)
    return {"addedResults": results(names, added), "removedResults": results(names, removed)}


def token_text(subscription: Subscription) -> str:
    """Return the resume token as text for URLs and headers."""
    return base64.urlsafe_b64encode(subscription.token()).decode().rstrip("=")


async def resumed(client: Client, token: str, query: str | None, settled: bool | None) -> Subscription:
    """Resume the subscription of a token; if ``query`` or ``settled`` is given, the token must belong to it.

    Raises QueryRefused for a malformed query, TokenMismatch for a token of another query or the other delivery,
    TokenRefused, SubscriptionGone.
    """
    known = _read_token(token)
    if settled is not None and (is_settled := Token.decode(known).settled) is not settled:
        has, wanted = (("immediate", "settled"), ("settled", "immediate"))[is_settled]
        raise TokenMismatch(
            f"the resume token belongs to a subscription with {has} delivery: resume it without `settled`, or subscribe"
            f" without the token for {wanted} delivery"
        )
    if query is not None:  # only validated here: the subscription is evaluated already
        await asyncio.to_thread(parse_ruled, query)
    return await client.attach(known, query=query, auto_acknowledge=False)


def _read_token(text: str) -> bytes:
    """Decode a resume token written by :func:`token_text`.  Raises TokenRefused if it is malformed."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenRefused(f"a resume token of {len(text)} characters that are not base64url") from None
