"""Registrations of interests in an overlay, interest workers, and the assignment of interests to workers.

All this is stored as triples of known graphs, with replicas like any other, so the registering client may go away:

- ``<urn:p2prdf:interests>``: one triple per interest, with its name and a literal for the rest.  A publication of
  several triples is not atomic, and half an interest means nothing.  A second triple marks it as paused.
- ``<urn:p2prdf:keepers>``: one triple per worker, with its number and the hosts that its operator allows.  The number
  is that of a subscription that the worker renews: its lease shows whether the worker is alive.
- ``<urn:p2prdf:interest-requests>``: requests to workers, and their responses; the requester deletes them.

Any client may publish into these graphs, so their content is checked, and refused by name.

All interests of a dataset belong to one worker, which reads the dataset once: workers are ranked per dataset
(:mod:`p2prdf.workers.group`), and an interest belongs to the first one that allows the target's host.  Two workers
that temporarily see different sets of workers may serve the same interest; targets tolerate that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from p2prdf.errors import DataRefused, P2PRDFError, TargetRefused
from p2prdf.interest.changeset import Triple
from p2prdf.interest.expression import parse_interest
from p2prdf.rdf import terms
from p2prdf.workers.group import Names, WorkerGroup, ranked

__all__ = [
    "ANSWERS", "ASKS", "INTEREST", "INTERESTS_GRAPH", "INTEREST_WORKERS", "MAINTAINS", "PAUSED", "REQUESTS_GRAPH",
    "WORKERS_GRAPH", "Registration", "checked_url", "default_name", "host_entry", "is_host_listed", "is_listed",
    "name_of", "read_hosts", "read_registration", "subject_of", "worker_of",
]  # fmt: skip

INTERESTS_GRAPH: Final = "<urn:p2prdf:interests>"
WORKERS_GRAPH: Final = "<urn:p2prdf:keepers>"
REQUESTS_GRAPH: Final = "<urn:p2prdf:interest-requests>"
INTEREST: Final = "<urn:p2prdf:interest>"
PAUSED: Final = "<urn:p2prdf:paused>"
MAINTAINS: Final = "<urn:p2prdf:keeps>"
ASKS: Final = "<urn:p2prdf:asks>"
ANSWERS: Final = "<urn:p2prdf:answers>"
INTEREST_WORKERS: Final = WorkerGroup(WORKERS_GRAPH, MAINTAINS, "<urn:p2prdf:keeper:", ASKS)
"""The workers that maintain targets."""

_NAMES: Final = Names("<urn:p2prdf:interest:")
subject_of: Final = _NAMES.subject
"""Returns the IRI of a name; raises LocalProtocolError if the name is invalid."""
name_of: Final = _NAMES.name
"""Returns the name in an IRI, None for other terms."""
_URL_MAX: Final = 2_000
_FIELDS: Final = frozenset({"dataset", "graph", "query", "query_url", "target"})
_PORTS: Final = {"http": 80, "https": 443}


def checked_url(url: str) -> tuple[str, int]:
    """Return host and port of an endpoint.

    Raises TargetRefused for a URL that is not HTTP, has no host, or contains credentials, which logs would show.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TargetRefused(f"not the URL of an endpoint: {url[:200]!r}: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise TargetRefused(f"not the URL of an endpoint (http:// or https:// and a host): {url[:200]!r}")
    if parts.username is not None or parts.password is not None:
        raise TargetRefused(f"credentials do not belong into a URL: give a file with them ({parts.hostname})")
    return parts.hostname, port or _PORTS[parts.scheme]


@dataclass(frozen=True, slots=True)
class Registration:
    """An interest as it is registered.

    ``dataset``: the canonical IRI of its graph; ``target``, ``query_url``: the endpoints that write and query the
    target; ``graph``: the canonical IRI of the target graph, None for the default graph; ``query``: the interest as
    text.
    """

    name: str
    dataset: str
    target: str
    query_url: str
    graph: str | None
    query: str

    def check(self) -> None:
        """Raise LocalProtocolError (a subclass that names the fault) for an invalid interest."""
        subject_of(self.name)
        for iri in (self.dataset, self.graph):
            if iri is not None and terms.kind(terms.parse_term(iri)) is not terms.Kind.IRI:
                raise DataRefused(f"{iri[:120]} is no IRI, so no name of a graph")
        for url in (self.target, self.query_url):
            if len(url) > _URL_MAX:
                raise TargetRefused(f"a URL of {len(url)} characters, more than {_URL_MAX}: {url[:60]}...")
            checked_url(url)
        parse_interest(self.query)

    @property
    def triple(self) -> Triple:
        """The triple that represents it."""
        told = {
            "dataset": self.dataset, "target": self.target, "query_url": self.query_url, "graph": self.graph,
            "query": self.query,
        }  # fmt: skip
        return subject_of(self.name), INTEREST, terms.literal(json.dumps(told, sort_keys=True))

    @property
    def place(self) -> tuple[str, str | None]:
        """The location of its triples: no other interest may have the same."""
        return self.target, self.graph


def default_name(dataset: str, target: str, graph: str | None) -> str:
    """Return the name of an interest without a given name: the same for the same place."""
    return hashlib.sha256(f"{dataset}\n{target}\n{graph or ''}".encode()).hexdigest()[:12]


def read_registration(subject: str, text: str) -> Registration:
    """Return the registration in a triple of the graph of interests.  Raises DataRefused for an invalid one."""
    name = name_of(subject)
    if name is None:
        raise DataRefused("not the name of an interest", source=subject[:120])
    try:
        told = json.loads(terms.lexical(text))
    except ValueError:
        told = None
    if not isinstance(told, dict) or set(told) != _FIELDS:
        raise DataRefused("not an interest in the format of this version", source=name)
    if not all(isinstance(value, str) or (key == "graph" and value is None) for key, value in told.items()):
        raise DataRefused("the fields of an interest must be strings", source=name)
    found = Registration(name, **told)
    try:
        found.check()
    except P2PRDFError as error:
        raise DataRefused(str(error), source=name) from None
    return found


# --- workers -----------------------------------------------------------------------------------------------


def read_hosts(text: str) -> frozenset[str]:
    """Return the hosts that a worker's triple allows; none if the triple is invalid."""
    try:
        told: Any = json.loads(terms.lexical(text))
    except ValueError:
        return frozenset()
    hosts = told.get("hosts") if isinstance(told, dict) else None
    return frozenset(each for each in hosts if isinstance(each, str)) if isinstance(hosts, list) else frozenset()


def host_entry(host: str, port: int | None) -> str:
    """Return a host in the form of the lists of hosts."""
    spelled = f"[{host}]" if ":" in host else host
    return spelled if port is None else f"{spelled}:{port}"


def is_listed(registration: Registration, hosts: Collection[str]) -> bool:
    """Return whether a list contains the hosts of a target."""
    return all(is_host_listed(url, hosts) for url in (registration.target, registration.query_url))


def is_host_listed(url: str, hosts: Collection[str]) -> bool:
    """Return whether a list contains the host of a URL, with its port or without one."""
    host, port = checked_url(url)
    return host_entry(host, None) in hosts or host_entry(host, port) in hosts


def worker_of(registration: Registration, workers: Mapping[str, Collection[str]]) -> str | None:
    """Return the worker of an interest: the first in the ranking for its dataset that allows its hosts.

    ``workers``: the live workers, with the hosts that they allow.  If none allows the hosts it is the first, which
    reports that; None without workers.
    """
    order = ranked(registration.dataset, workers)
    return next((each for each in order if is_listed(registration, workers[each])), order[0] if order else None)
