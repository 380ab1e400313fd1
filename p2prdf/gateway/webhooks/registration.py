"""Registrations of webhooks in an overlay, and the gateways that deliver them: names and formats.

Everything is stored as triples of known graphs, replicated like all data, so any gateway may fail:

- ``<urn:p2prdf:webhooks>``: one triple per webhook, with its identity and a literal that holds the rest and the seal
  of a gateway (:mod:`p2prdf.gateway.webhooks.keys`).  Further triples may state that it was stopped, that its
  receiver fails, and that its receiver must be told of a gap.
- ``<urn:p2prdf:webhook-gateways>``: one triple per gateway (:mod:`p2prdf.workers.group`), with the hosts that its
  operator allows.

The registration opens the subscription as the webhook's client and stores its number; the delivering gateway attaches
it.  A subscription that was detached for longer than its lease is gone, and is opened again: the next *generation* of
the registration.
"""

from __future__ import annotations

import hmac
import json
import re
from dataclasses import dataclass, fields
from typing import Any, Final

from p2prdf.errors import DataRefused, LocalProtocolError, P2PRDFError
from p2prdf.gateway.webhooks.keys import SigningKeys
from p2prdf.interest.registration import checked_url
from p2prdf.rdf import terms
from p2prdf.workers.group import WorkerGroup
from p2prdf.workers.membership import Triple

__all__ = [
    "BATCH_MAX", "FAILING", "GAP", "GATEWAYS", "STOPPED", "WEBHOOK", "WEBHOOKS_GRAPH", "Stop", "WebhookRegistration",
    "check_name", "failing_triple", "gap_triple", "identity_of", "read_failing", "read_stop", "read_webhook",
]  # fmt: skip

WEBHOOKS_GRAPH: Final = "<urn:p2prdf:webhooks>"
WEBHOOK: Final = "<urn:p2prdf:webhook>"
STOPPED: Final = "<urn:p2prdf:webhook-stopped>"
FAILING: Final = "<urn:p2prdf:webhook-failing>"
GAP: Final = "<urn:p2prdf:webhook-gap>"
GATEWAYS: Final = WorkerGroup(
    "<urn:p2prdf:webhook-gateways>", "<urn:p2prdf:delivers>", "<urn:p2prdf:webhook-gateway:", "<urn:p2prdf:asks>"
)
"""The group of gateways that deliver webhooks."""

BATCH_MAX: Final = 1000
"""Most solutions in one request."""
_URL_MAX: Final = 2_000
_REASON_MAX: Final = 500
_PREFIX: Final = "<urn:p2prdf:webhook:"
_SUBJECT: Final = re.compile(rf"{_PREFIX}([0-9a-f]{{32}})>")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(name: object) -> str:
    """Return a valid name.  Raises LocalProtocolError for an invalid one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LocalProtocolError(f"name: {str(name)[:120]!r} is no name: up to 100 of letters, digits, '.', '_', '-'")
    return name


@dataclass(frozen=True, slots=True)
class WebhookRegistration:
    """A webhook as registered.

    ``identity``: 32 random hexadecimal digits.  ``client``: its owner ("": the gateway itself), ``name``: unique for
    that client.  ``query``: opened as ``subscription`` (16 hexadecimal digits), for the ``generation``-th time.
    ``batch``: most solutions of a request.  ``created``: milliseconds since 1970.  ``key``: name of the key from
    which its secret is derived.  ``settled``: whether requests tell states of the graph.
    """

    identity: str
    client: str
    name: str
    url: str
    query: str
    subscription: str
    generation: int
    batch: int
    created: int
    key: str
    settled: bool = False

    def check(self) -> None:
        """Raise LocalProtocolError, or a more specific kind, for an invalid webhook."""
        check_name(self.name)
        if len(self.url) > _URL_MAX:
            raise LocalProtocolError(f"url: {len(self.url)} characters, more than {_URL_MAX}: {self.url[:60]}...")
        checked_url(self.url)
        if not 1 <= self.batch <= BATCH_MAX:
            raise LocalProtocolError(f"batch: {self.batch} is not a number of solutions from 1 to {BATCH_MAX:,}")

    @property
    def subject(self) -> str:
        """IRI of the webhook."""
        return f"{_PREFIX}{self.identity}>"

    @property
    def number(self) -> int:
        """Number of the subscription."""
        return int(self.subscription, 16)

    def triple(self, keys: SigningKeys) -> Triple:
        """Return the sealed triple of the registration."""
        told = self._as_dict()
        sealed = {**told, "seal": keys.seal(self.key, _canonical(self.identity, told))}
        return self.subject, WEBHOOK, terms.literal(json.dumps(sealed, sort_keys=True))

    def _as_dict(self) -> dict[str, Any]:
        told = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "identity"}
        if not self.settled:  # as gateways write and read it that do not know the member
            del told["settled"]
        return told


_FIELDS: Final = {each.name: each.type for each in fields(WebhookRegistration) if each.name != "identity"}


def identity_of(subject: str) -> str | None:
    """Return the identity in the IRI of a webhook; None for other terms."""
    found = _SUBJECT.fullmatch(subject)
    return None if found is None else found[1]


def read_webhook(subject: str, text: str, keys: SigningKeys) -> WebhookRegistration:
    """Parse a triple of the graph of webhooks.  Raises DataRefused if it is malformed or not validly sealed."""
    identity = identity_of(subject)
    if identity is None:
        raise DataRefused("not the identity of a webhook", source=subject[:120])
    told = _object(text)
    seal = told.pop("seal", None)
    members = {"settled": False, **told}
    if {name: type(value).__name__ for name, value in members.items()} != _FIELDS or not isinstance(seal, str):
        raise DataRefused("not a webhook as this version writes it", source=identity)
    if told["key"] not in keys:
        raise DataRefused(f"its key {told['key'][:40]!r} is not among this gateway's", source=identity)
    if not hmac.compare_digest(keys.seal(told["key"], _canonical(identity, told)).encode(), seal.encode()):
        raise DataRefused("no gateway has sealed it: another client wrote it", source=identity)
    found = WebhookRegistration(identity, **told)
    try:
        found.check()
    except P2PRDFError as error:
        raise DataRefused(str(error), source=identity) from None
    return found


def _canonical(identity: str, told: dict[str, Any]) -> str:
    return json.dumps([identity, told], sort_keys=True)


# --- further statements ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stop:
    """A stopped delivery: ``ended`` forever, else paused; ``at``: seconds since 1970."""

    ended: bool
    reason: str
    at: float

    def triple(self, subject: str) -> Triple:
        """Return the triple that states the stop of a webhook."""
        told = {"ended": self.ended, "reason": self.reason[:_REASON_MAX], "at": self.at}
        return subject, STOPPED, terms.literal(json.dumps(told, sort_keys=True))


def read_stop(text: str) -> Stop:
    """Parse the stop of a webhook; an unreadable one counts as a pause without a reason."""
    told = _object(text)
    ended, reason, at = told.get("ended"), told.get("reason"), told.get("at")
    return Stop(ended is True, str(reason)[:_REASON_MAX], _seconds(at))


def failing_triple(subject: str, since: float, error: str) -> Triple:
    """Return the triple that states that a receiver fails, since when, and the first error."""
    told = {"since": round(since, 3), "error": error[:_REASON_MAX]}
    return subject, FAILING, terms.literal(json.dumps(told, sort_keys=True))


def read_failing(text: str) -> tuple[float, str]:
    """Return the time since which a receiver fails, and the first error."""
    told = _object(text)
    return _seconds(told.get("since")), str(told.get("error"))[:_REASON_MAX]


def gap_triple(registration: WebhookRegistration) -> Triple:
    """Return the triple that states a gap before a generation, of which the receiver must be told."""
    return registration.subject, GAP, terms.literal(str(registration.generation))


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object in a literal; empty if there is none."""
    try:
        told = json.loads(terms.lexical(text))
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
