"""Requests of a webhook: JSON in the shape that WebSockets are told (:mod:`p2prdf.gateway.notification`), and names.

::

    {"notification": {"spuid": ..., "alias": "orders", "session": "9f0c...", "sequence": 7,
                      "addedResults": {...}, "addedIds": [...], "removedResults": {...}, "removedIds": [...]}}
    {"gap": {"spuid": ..., "alias": "orders", "session": "9f0c...", "sequence": 8, "lost": 12}}

Each answer has an identity, which its withdrawal has as well: that of the overlay, the same whoever delivers.  A
request is named by the answers in it (``webhook-id``), so the same request has the same name whenever and by whomever
it is sent, and requests of the same name hold the same answers.  What is delivered twice after a gateway was killed may
be cut into other requests than before; answers have their identities then as ever.
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

__all__ = ["BODY_CHARACTERS_MAX", "Request", "cut", "gap_request", "request_of"]

BODY_CHARACTERS_MAX: Final = 1 << 20
"""Of the terms in one request; an answer that has more is sent alone."""


class Request(NamedTuple):
    """What is posted: ``name`` is its ``webhook-id``, ``answers`` how many it has, ``upto`` the last one's number."""

    name: str
    body: bytes
    answers: int
    upto: int


def cut(rows: deque[Solution | int], most: int) -> list[Solution]:
    """Take the answers of the next request off ``rows``, at most so many and up to a gap: a number stands for one."""
    found: list[Solution] = []
    characters = 0
    while rows and len(found) < most:
        each = rows[0]
        if isinstance(each, int):
            break
        characters += sum(len(term or "") for term in each.terms)
        if found and characters > BODY_CHARACTERS_MAX:
            break
        found.append(each)
        rows.popleft()
    return found


def request_of(
    registration: WebhookRegistration, names: Sequence[str], rows: Sequence[Solution], *, session: str, sequence: int
) -> Request:
    """Return the request for some answers."""
    added = [each for each in rows if not each.removed]
    removed = [each for each in rows if each.removed]
    told = {
        "addedResults": results(names, [each.terms for each in added]),
        "addedIds": [_identity(registration, each) for each in added],
        "removedResults": results(names, [each.terms for each in removed]),
        "removedIds": [_identity(registration, each) for each in removed],
    }
    said = "\n".join(f"{'-' if each.removed else '+'}{_identity(registration, each)}" for each in rows)
    body = _body("notification", registration, session, sequence, told)
    return Request(_name(registration, said), body, len(rows), rows[-1].sequence)


def gap_request(registration: WebhookRegistration, lost: int | None, *, session: str, sequence: int) -> Request:
    """Return the request that tells of answers that were dropped; None: nobody knows how many, if any."""
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
