"""What subscribers are told over HTTP: answers that came and went, in the shape that SEPA has made known.

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

from p2prdf.client import Batch, Client, Subscription
from p2prdf.errors import TokenRefused
from p2prdf.rdf.terms import to_json
from p2prdf.reasoning.ruled_query import parse_ruled

__all__ = ["Row", "changes", "resumed", "results", "token_text"]

Row = Sequence[str | None]


def results(names: Sequence[str], rows: Iterable[Row]) -> dict[str, Any]:
    """Return solutions as SPARQL 1.1 Query Results JSON has them."""
    return {
        "head": {"vars": list(names)},
        "results": {
            "bindings": [
                {name: to_json(value) for name, value in zip(names, row, strict=True) if value is not None}
                for row in rows
            ]
        },
    }


def changes(names: Sequence[str], batch: Batch) -> dict[str, Any]:
    """Return what came and what went with a batch; what came and went again in it is in both."""
    added: list[Row] = []
    removed: list[Row] = []
    for solution in batch:
        (removed if solution.removed else added).append(solution.terms)
    return {"addedResults": results(names, added), "removedResults": results(names, removed)}


def token_text(subscription: Subscription) -> str:
    """Return the resume token, as it is written in addresses and headers."""
    return base64.urlsafe_b64encode(subscription.token()).decode().rstrip("=")


async def resumed(client: Client, token: str, query: str | None) -> Subscription:
    """Take up the subscription of a resume token, whose query must be ``query`` if the caller names one.

    Raises QueryRefused for a malformed query, TokenMismatch for a token of another query, TokenRefused,
    SubscriptionGone.
    """
    known = _read_token(token)
    if query is not None:  # nobody parses it further on: what the token names is evaluated already
        await asyncio.to_thread(parse_ruled, query)
    return await client.attach(known, query=query, auto_acknowledge=False)


def _read_token(text: str) -> bytes:
    """Return a resume token that :func:`token_text` has written.  Raises TokenRefused for what is none."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenRefused(f"a resume token of {len(text)} characters that are not base64url") from None
