"""What clients may do, and how much: rights by the names in their certificates.

A client may do what any of its *grants* allows.  A statement that is published or removed is looked at by its graph
and, if a grant is narrower, by its predicate and subject: distinct terms once, and all rows together.  A query is
looked at pattern by pattern (:mod:`p2prdf.rdf.reach`).  What is refused is named.

They come from a file (:mod:`p2prdf_node.rights_text`).  Nothing here knows connections: who asks is told apart in
:mod:`p2prdf_node.accounts`.
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

__all__ = ["ALL", "ANYTHING", "NOTHING", "STATED", "Grant", "Prefixes", "Quotas", "Rights", "RightsTable", "Verb"]

_SHOWN_MAX: Final = 120


class Verb(enum.StrEnum):
    """What a client does to a node, as people speak of it."""

    PUBLISH = "publish"
    REMOVE = "remove"
    SUBSCRIBE = "subscribe"
    QUERY = "query"
    OBSERVE = "observe"
    """See a node's state, and explanations of queries and of one's own subscriptions."""
    ADMINISTER = "administer"
    """End subscriptions of others, have them explained, and expel members."""


STATED: Final = (Verb.SUBSCRIBE, Verb.QUERY, Verb.OBSERVE, Verb.ADMINISTER)
"""Those that a section lists; publish and remove are allowed by naming graphs."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """A set of IRIs, and perhaps the default graph.

    ``beginnings``: of canonical IRIs, with their opening bracket; one with the closing bracket is that IRI alone.
    """

    beginnings: tuple[str, ...] = ()
    default: bool = False
    everything: bool = False

    def allows(self, place: str) -> bool:
        """Tell whether a canonical IRI, ``quads.DEFAULT`` or ``ANY`` is in it."""
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
    """Statements that may be published, or removed: by the graph they are in, and by their predicates and subjects."""

    graphs: Prefixes
    predicates: Prefixes = ANYTHING
    subjects: Prefixes = ANYTHING

    def allows_graph(self, place: str) -> bool:
        """Tell whether all statements of a graph or stream are allowed."""
        return self.graphs.allows(place) and self.predicates.everything and self.subjects.everything


@dataclass(frozen=True, slots=True)
class Quotas:
    """How much a client may have of a node, over all of its connections; ``math.inf``: there is no such bound."""

    triples_per_second: float = math.inf
    open_bytes_max: float = math.inf
    """Bytes of publications that are not acknowledged yet."""
    subscriptions_max: float = math.inf
    queries_max: float = math.inf
    """One-time queries under way."""


@dataclass(frozen=True)
class Rights:
    """What one client may do.  ``who``: how it is called where it is refused."""

    who: str
    verbs: frozenset[Verb] = frozenset()
    publish: tuple[Grant, ...] = ()
    remove: tuple[Grant, ...] = ()
    read: Prefixes = Prefixes()
    speaks_for: frozenset[str] = frozenset()
    """Clients in whose place it may speak; ``ANY``: all."""
    quotas: Quotas = field(default_factory=Quotas)
    unbounded: bool = False
    """There is nothing to be looked at."""

    def check(self, verbs: Iterable[Verb]) -> None:
        """Raise NotAllowed unless one of the verbs is allowed, or none is needed."""
        needed = tuple(verbs)
        if needed and not self.unbounded and self.verbs.isdisjoint(needed):
            raise NotAllowed(f"{self.who} may not {' or '.join(needed)}")

    def check_query(self, query: Query) -> None:
        """Raise NotAllowed, naming the pattern, if a query is about a graph that may not be read (a rule: written)."""
        if self.unbounded:
            return
        for access in accesses(query):
            if not self._allows(access.place, writes=access.writes):
                raise NotAllowed(self._refused(access))

    def check_reach(self, reach: Reach) -> None:
        """Raise NotAllowed if what a query is about is not allowed, whatever its patterns."""
        if self.unbounded:
            return
        for writes, places in ((False, reach.reads), (True, reach.writes)):
            for place in places:
                if not self._allows(place, writes=writes):
                    raise NotAllowed(self._refused(Access(place, "", writes=writes)))

    def check_stream(self, stream: str) -> None:
        """Raise NotAllowed unless something may be published into a stream, a canonical IRI."""
        if not self.unbounded and not any(grant.graphs.allows(stream) for grant in self.publish):
            raise NotAllowed(f"{self.who} may not publish into the stream {_cut(stream)}")

    def check_rows(self, dictionary: TermDictionary, s: Any, p: Any, o: Any, graph: Any, *, removed: bool) -> None:
        """Raise NotAllowed, naming the first statement that may not be published, or removed.

        Columns of term identifiers; ``graph`` None: all are in the default graph.  Each distinct term is looked at
        once, and only where a section narrows its place.
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
            f"{self.who} may not {Verb.REMOVE if removed else Verb.PUBLISH} {' '.join(map(_cut, texts))} in"
            f" {_place(where)}: it may in {_cut('; '.join(map(_spelled, grants)) or 'no graph')}"
        )

    def may_speak_for(self, name: str) -> bool:
        """Tell whether it may speak in the place of a client."""
        return ANY in self.speaks_for or name in self.speaks_for

    def _allows(self, place: str, *, writes: bool) -> bool:
        if not writes:
            return self.read.allows(place)
        return all(any(grant.allows_graph(place) for grant in grants) for grants in (self.publish, self.remove))

    def _refused(self, access: Access) -> str:
        verb = "publish into and remove from" if access.writes else "read"
        pattern = f"the pattern {access.pattern}: " if access.pattern else ""
        reason = f"{pattern}{self.who} may not {verb} {_place(access.place)}"
        return reason if access.writes else f"{reason}; it may read {self.read}"


ALL: Final = Rights("", unbounded=True)
"""Where nobody is asked who it is, and of nodes."""
NOTHING: Final = Rights("this client")


class RightsTable:
    """The rights of all clients, by name."""

    def __init__(self, clients: dict[str, Rights], default: Rights = NOTHING):
        self.clients = clients
        self._default = default

    def of(self, name: str) -> Rights:
        """Return the rights of a client."""
        return self.clients.get(name) or replace(self._default, who=f"client {name}")


def _distinct(dictionary: TermDictionary, column: Any) -> tuple[list[str], Any]:
    """Return the texts of the distinct terms of a column, and for each row which it is."""
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
