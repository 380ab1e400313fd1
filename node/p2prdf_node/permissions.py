"""Permissions of clients and their quotas, by the names in their certificates.

A client may do everything that one of its *grants* allows.  Statements to publish or remove are checked by graph and,
if a grant is narrower, by predicate and subject: each distinct term once, and all rows together.  Queries are checked
pattern by pattern (:mod:`p2prdf.rdf.reach`).  A refusal names the refused statement or pattern.

:mod:`p2prdf_node.permissions_file` reads permissions from a file.  This module does not know connections;
:mod:`p2prdf_node.accounts` identifies clients.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from p2prdf.errors import NotAllowed
from p2prdf.rdf import quads
from p2prdf.rdf.reach import ANY, Access, Reach, accesses

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.wire.messages import Query

__all__ = [
    "ALL", "ANYTHING", "NOTHING", "STATED", "Action", "Grant", "Permissions", "PermissionsTable", "Prefixes", "Quotas",
]  # fmt: skip

_SHOWN_MAX: Final = 120


class Action(enum.StrEnum):
    """Actions that need a permission."""

    PUBLISH = "publish"
    REMOVE = "remove"
    SUBSCRIBE = "subscribe"
    QUERY = "query"
    OBSERVE = "observe"
    """See a node's state, and explanations of queries and of the client's own subscriptions."""
    ADMINISTER = "administer"
    """End and explain subscriptions of other clients, and expel members."""


STATED: Final = (Action.SUBSCRIBE, Action.QUERY, Action.OBSERVE, Action.ADMINISTER)
"""Actions listed under ``may``; lists of graphs permit publish and remove."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """A set of IRIs, optionally with the default graph.

    ``beginnings``: prefixes of canonical IRIs, with the opening bracket; an entry with the closing bracket is one IRI.
    """

    beginnings: tuple[str, ...] = ()
    default: bool = False
    everything: bool = False

    def allows(self, place: str) -> bool:
        """Tell whether the set has a canonical IRI, ``quads.DEFAULT`` or ``ANY``."""
        if self.everything:
            return True
        if place == quads.DEFAULT:
            return self.default
        return place != ANY and place.startswith(self.beginnings)

    def __or__(self, other: Prefixes) -> Prefixes:
        return Prefixes(
            tuple(dict.fromkeys((*self.beginnings, *other.beginnings))), self.default or other.default,
            self.everything or other.everything,
        )  # fmt: skip

    def __str__(self) -> str:
        if self.everything:
            return "all graphs"
        named = ["the default graph"] if self.default else []
        named += [each if each.endswith(">") else each + "...>" for each in self.beginnings]
        return _cut(", ".join(named) or "nothing")


ANYTHING: Final = Prefixes(everything=True)


@dataclass(frozen=True, slots=True)
class Grant:
    """Statements that may be published, or removed, by graph, predicate and subject."""

    graphs: Prefixes
    predicates: Prefixes = ANYTHING
    subjects: Prefixes = ANYTHING

    def allows_graph(self, place: str) -> bool:
        """Tell whether all statements of a graph or stream are allowed."""
        return self.graphs.allows(place) and self.predicates.everything and self.subjects.everything


@dataclass(frozen=True, slots=True)
class Quotas:
    """Bounds of a client over all of its connections; ``math.inf``: no bound."""

    triples_per_second: float = math.inf
    open_bytes_max: float = math.inf
    """Bytes of unacknowledged publications."""
    subscriptions_max: float = math.inf
    queries_max: float = math.inf
    """One-time queries in progress."""


@dataclass(frozen=True)
class Permissions:
    """Permissions of one client.  ``who``: the client's name in refusals."""

    who: str
    actions: frozenset[Action] = frozenset()
    publish: tuple[Grant, ...] = ()
    remove: tuple[Grant, ...] = ()
    read: Prefixes = Prefixes()
    speaks_for: frozenset[str] = frozenset()
    """Clients that it may act as; ``ANY``: all."""
    quotas: Quotas = field(default_factory=Quotas)
    unbounded: bool = False
    """Whether everything is permitted, without any check."""

    def check(self, actions: Iterable[Action]) -> None:
        """Raise NotAllowed unless one of the actions is permitted, or none is needed."""
        needed = tuple(actions)
        if needed and not self.unbounded and self.actions.isdisjoint(needed):
            raise NotAllowed(f"{self.who} may not {' or '.join(needed)}")

    def check_query(self, query: Query) -> None:
        """Raise NotAllowed, naming the pattern, if a query reads, or its rules write, a graph without permission."""
        if self.unbounded:
            return
        for access in accesses(query):
            if not self._allows(access.place, writes=access.writes):
                raise NotAllowed(self._refused(access))

    def check_reach(self, reach: Reach) -> None:
        """Raise NotAllowed if a query's data scope is not permitted."""
        if self.unbounded:
            return
        for writes, places in ((False, reach.reads), (True, reach.writes)):
            for place in places:
                if not self._allows(place, writes=writes):
                    raise NotAllowed(self._refused(Access(place, "", writes=writes)))

    def check_stream(self, stream: str) -> None:
        """Raise NotAllowed unless the client may publish to a stream, given by its canonical IRI."""
        if not self.unbounded and not any(grant.graphs.allows(stream) for grant in self.publish):
            raise NotAllowed(f"{self.who} may not publish into the stream {_cut(stream)}")

    def check_rows(self, dictionary: TermDictionary, s: Any, p: Any, o: Any, graph: Any, *, removed: bool) -> None:
        """Raise NotAllowed, naming the first statement that may not be published, or removed.

        The columns hold term identifiers; ``graph`` None: all rows are in the default graph.  Each distinct term is
        checked once, and only where a grant narrows its position.
        """
        if self.unbounded:
            return
        grants = self.remove if removed else self.publish
        columns = {"graphs": graph, "predicates": p, "subjects": s}
        distinct: dict[str, tuple[list[str], Any]] = {}
        allowed = np.zeros(len(s), bool)
        for grant in grants:
            found: Any = None
            for place, column in columns.items():
                prefixes: Prefixes = getattr(grant, place)
                if prefixes.everything:
                    continue
                if column is None:
                    part: Any = np.full(len(s), prefixes.default)
                else:
                    if place not in distinct:
                        distinct[place] = _distinct(dictionary, column)
                    texts, places = distinct[place]
                    part = np.fromiter(map(prefixes.allows, texts), bool, len(texts))[places]
                found = part if found is None else found & part
            if found is None:
                return
            allowed |= found
            if allowed.all():
                return
        at = int(allowed.argmin())
        texts = dictionary.texts([int(s[at]), int(p[at]), int(o[at])])
        where = quads.DEFAULT if graph is None else dictionary.text(int(graph[at]))
        raise NotAllowed(
            f"{self.who} may not {Action.REMOVE if removed else Action.PUBLISH} {' '.join(map(_cut, texts))} in"
            f" {_place(where)}: it may in {_cut('; '.join(map(_spelled, grants)) or 'no graph')}"
        )

    def may_speak_for(self, name: str) -> bool:
        """Tell whether the client may act as another client."""
        return ANY in self.speaks_for or name in self.speaks_for

    def _allows(self, place: str, *, writes: bool) -> bool:
        if not writes:
            return self.read.allows(place)
        return all(any(grant.allows_graph(place) for grant in grants) for grants in (self.publish, self.remove))

    def _refused(self, access: Access) -> str:
        action = "publish into and remove from" if access.writes else "read"
        pattern = f"the pattern {access.pattern}: " if access.pattern else ""
        reason = f"{pattern}{self.who} may not {action} {_place(access.place)}"
        return reason if access.writes else f"{reason}; it may read {self.read}"


ALL: Final = Permissions("", unbounded=True)
"""Permissions of nodes, and of all clients without TLS."""
NOTHING: Final = Permissions("this client")


class PermissionsTable:
    """Permissions of all clients, by name."""

    def __init__(self, clients: dict[str, Permissions], default: Permissions = NOTHING):
        self.clients = clients
        self._default = default

    def of(self, name: str) -> Permissions:
        """Return the permissions of a client."""
        return self.clients.get(name) or replace(self._default, who=f"client {name}")


def _distinct(dictionary: TermDictionary, column: Any) -> tuple[list[str], Any]:
    """Return the texts of a column's distinct terms, and for each row the index of its text."""
    terms = np.asarray(column)
    if (terms == terms[0]).all():
        return [dictionary.text(int(terms[0]))], np.zeros(len(terms), np.intp)
    ids, places = np.unique(terms, return_inverse=True)
    return dictionary.texts(ids.tolist()), places


def _place(place: str) -> str:
    if place == ANY:
        return "all graphs (name one by its IRI)"
    return "the default graph" if place == quads.DEFAULT else _cut(place)


def _spelled(grant: Grant) -> str:
    narrowed = [
        f" with {what} {prefixes}"
        for what, prefixes in (("predicates", grant.predicates), ("subjects", grant.subjects))
        if not prefixes.everything
    ]
    return f"{grant.graphs}{' and'.join(narrowed)}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
