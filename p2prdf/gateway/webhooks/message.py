"""Requests of a webhook: JSON in the format of WebSocket notifications (:mod:`p2prdf.gateway.notification`).

::

    {"notification": {"spuid": ..., "alias": "orders", "session": "9f0c...", "sequence": 7,
                      "addedResults": {...}, "addedIds": [...], "removedResults": {...}, "removedIds": [...]}}
    {"gap": {"spuid": ..., "alias": "orders", "session": "9f0c...", "sequence": 8, "lost": 12}}

Each solution has an identity, that of the overlay, which its retraction repeats; it is the same from every gateway.
``webhook-id`` names a request by its solutions: equal requests have equal names at every time and gateway, and
requests of one name hold the same solutions.  A request of a settled webhook with a ``mark`` completes the state of the
graph as of that time.  After a gateway was killed, repeated solutions may be cut into other
requests, with the same identities.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from p2prdf.client.solutions import Solution
from p2prdf.gateway.notification import results
from p2prdf.gateway.webhooks.registration import WebhookRegistration

__all__ = ["BODY_CHARACTERS_MAX", "Mark", "Request", "cut", "gap_request", "request_of"]

BODY_CHARACTERS_MAX: Final = 1 << 20
"""Most characters of the terms in one request; a longer solution is sent alone."""


class Request(NamedTuple):
    """A request: ``name`` is its ``webhook-id``, ``answers`` its number of solutions, ``upto`` the last one's
    number."""

    name: str
    body: bytes
    answers: int
    upto: int


class Mark(NamedTuple):
    """The solutions before it are a state of the graph, as of a time in seconds since 1970."""

    time: float


def cut(rows: deque[Solution | int | Mark], most: int) -> list[Solution]:
    """Remove the next request's solutions from ``rows``: at most ``most``, and up to a gap (an integer) or a mark."""
    found: list[Solution] = []
    characters = 0
    while rows and len(found) < most:
        each = rows[0]
        if isinstance(each, int | Mark):
            break
        characters += sum(len(term or "") for term in each.terms)
        if found and characters > BODY_CHARACTERS_MAX:
            break
        found.append(each)
        rows.popleft()
    return found


def request_of(
    registration: WebhookRegistration, names: Sequence[str], rows: Sequence[Solution], *, session: str, sequence: int,
    mark: float | None = None,
) -> Request:  # fmt: skip
    """Return the request for some solutions, or for none and a ``mark``."""
    added = [each for each in rows if not each.removed]
    removed = [each for each in rows if each.removed]
    told: dict[str, Any] = {
        "addedResults": results(names, [each.terms for each in added]),
        "addedIds": [_identity(registration, each) for each in added],
        "removedResults": results(names, [each.terms for each in removed]),
        "removedIds": [_identity(registration, each) for each in removed],
    }
    said = "\n".join(f"{'-' if each.removed else '+'}{_identity(registration, each)}" for each in rows)
    if mark is not None:
        told["mark"] = mark
    body = _body("notification", registration, session, sequence, told)
    name = _name(registration, said or f"mark {registration.generation} {mark}")
    return Request(name, body, len(rows), rows[-1].sequence if rows else 0)


def gap_request(registration: WebhookRegistration, lost: int | None, *, session: str, sequence: int) -> Request:
    """Return the request that reports dropped solutions; ``lost`` None: an unknown number, possibly none."""
    name = _name(registration, f"gap {session} {sequence} {registration.generation} {lost}")
    return Request(name, _body("gap", registration, session, sequence, {"lost": lost}), 0, 0)


def _identity(registration: WebhookRegistration, answer: Solution) -> str:
    return f"{registration.generation:x}.{answer.identity:016x}"


def _name(registration: WebhookRegistration, said: str) -> str:
    return "msg_" + hashlib.sha256(f"{registration.identity}\n{said}".encode()).hexdigest()[:40]


def _body(kind: str, registration: WebhookRegistration, session: str, sequence: int, told: dict[str, Any]) -> bytes:
    about = {
        "spuid": f"p2prdf://subscription/{registration.subscription}", "alias": registration.name, "session": session,
        "sequence": sequence,
    }  # fmt: skip
    return json.dumps({kind: about | told}, ensure_ascii=False, separators=(",", ":")).encode()
