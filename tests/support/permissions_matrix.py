"""Every request of a client, by role and certificate of the sender, with the expected answer.

The rows come from the table of requests of the nodes themselves: a request that stands there and not here is
reported by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermNames
from p2prdf.wire import messages as m
from p2prdf_node.permissions import Action
from p2prdf_node.session import HANDLERS

__all__ = ["CASES", "PERMISSIONS", "ROLES", "Case", "Place", "expected", "missing", "names_of"]

INSIDE, OUTSIDE = "<urn:m:g>", "<urn:other:g>"
LEASE = 60.0

_ALL = """
may = ["subscribe", "query", "observe", "administer"]
read = ["urn:m:"]
publish = ["urn:m:"]
remove = ["urn:m:"]
"""
PERMISSIONS: Final = f"""
[clients.publisher]
publish = ["urn:m:"]
[clients.remover]
remove = ["urn:m:"]
[clients.subscriber]
may = ["subscribe"]
read = ["urn:m:"]
[clients.asker]
may = ["query"]
read = ["urn:m:"]
[clients.observer]
may = ["observe"]
read = ["urn:m:"]
[clients.administrator]
may = ["administer"]
read = ["urn:m:"]
[clients.everything]
{_ALL}
[clients.owner]
{_ALL}
[clients.gate]
may = ["observe"]
speaks_for = ["everything", "subscriber"]
"""
ROLES: Final[dict[str, frozenset[Action]]] = {
    "publisher": frozenset({Action.PUBLISH}), "remover": frozenset({Action.REMOVE}),
    "subscriber": frozenset({Action.SUBSCRIBE}), "asker": frozenset({Action.QUERY}),
    "observer": frozenset({Action.OBSERVE}), "administrator": frozenset({Action.ADMINISTER}),
    "everything": frozenset(Action), "nobody": frozenset(), "node": frozenset(Action),
}  # fmt: skip
"""Actions by role; a role is the name of a client, except for the last one, which comes with a node's certificate."""


@dataclass(slots=True)
class Place:
    """The objects of cases: subscriptions of the asking client and of another client."""

    own: int
    others: int
    others_live: int
    """A subscription that is being delivered to its owner at this node."""


@dataclass(frozen=True, slots=True)
class Case:
    """One request.

    ``actions``: one of them is needed; none if empty.  ``within``: it is about data in the scope of such a
    client; if not, only a node may.  ``answered``: whether it is answered.  ``terms``: of its frame.
    """

    kind: type
    name: str
    actions: frozenset[Action]
    make: Callable[[int, Place], Any]
    within: bool = True
    answered: bool = True
    terms: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.__name__}: {self.name}"


def expected(case: Case, role: str) -> bool:
    """Return whether a role may."""
    if role == "node":
        return True
    return case.within and (not case.actions or not case.actions.isdisjoint(ROLES[role]))


def missing() -> set[str]:
    """Return the names of requests without a case."""
    return {kind.__name__ for kind in HANDLERS} - {case.kind.__name__ for case in CASES}


def _actions(*actions: Action) -> frozenset[Action]:
    return frozenset(actions)


_TERMS: Final = ("<urn:s>", "<urn:p>", "<urn:o>", INSIDE, OUTSIDE)


def _publication(graph: int | None, *, removed: bool) -> Callable[[int, Place], Any]:
    def make(request: int, _: Place) -> Any:
        columns = ([0], [1], [2])
        place = () if graph is None else ([graph],)
        return m.ClientPublish(request, 7, 1, *columns, removed=removed, graph=place)

    return make


def _publications() -> list[Case]:
    found = []
    for removed, action in ((False, Action.PUBLISH), (True, Action.REMOVE)):
        for name, graph in (("in its graph", 3), ("in another graph", 4), ("in the default graph", None)):
            make = _publication(graph, removed=removed)
            said = f"{action} {name}"
            found.append(Case(m.ClientPublish, said, _actions(action), make, within=graph == 3, terms=_TERMS))
    return found


def _asked(graph: str, *, once: bool) -> Callable[[int, Place], Any]:
    query = f"SELECT ?s {{ GRAPH {graph} {{ ?s <urn:p> ?o }} }}" if graph else "SELECT ?s { ?s <urn:p> ?o }"
    return lambda request, _: m.ClientSubscribe(request, query, "csbv", False, LEASE, once=once)


def _questions() -> list[Case]:
    graphs = (
        ("in its graph", INSIDE, True), ("in another graph", OUTSIDE, False), ("in any graph", "?g", False),
        ("in the default graph", "", False),
    )  # fmt: skip
    found = []
    for name, graph, within in graphs:
        for once, action in ((False, Action.SUBSCRIBE), (True, Action.QUERY)):
            make = _asked(graph, once=once)
            found.append(Case(m.ClientSubscribe, f"{action} {name}", _actions(action), make, within=within))
        query = f"SELECT ?s {{ GRAPH {graph} {{ ?s <urn:p> ?o }} }}" if graph else "SELECT ?s { ?s <urn:p> ?o }"
        found.append(Case(
            m.ClientExplain, f"a query {name}", _actions(Action.OBSERVE, Action.ADMINISTER),
            lambda request, _, query=query: m.ClientExplain(request, 0, query, "csbv", False), within=within,
        ))  # fmt: skip
    return found


_HOLD: Final = _actions(Action.SUBSCRIBE, Action.QUERY)
_NONE: Final = LISTS.column([])


def _about_subscriptions() -> list[Case]:
    kinds: list[tuple[type, frozenset[Action], frozenset[Action] | None, Callable[[int, int], Any]]] = [
        (m.ClientAttach, _HOLD, None, lambda request, number: m.ClientAttach(request, number, _NONE)),
        (m.ClientAcknowledge, _HOLD, None, lambda request, number: m.ClientAcknowledge(request, number, [5])),
        (m.ClientExplain, _actions(Action.OBSERVE, Action.ADMINISTER), _actions(Action.ADMINISTER),
         lambda request, number: m.ClientExplain(request, number, "", "csbv", False)),
        (m.ClientUnsubscribe, _actions(*_HOLD, Action.ADMINISTER), _actions(Action.ADMINISTER), m.ClientUnsubscribe),
    ]  # fmt: skip
    found = []
    for kind, own, others, make in kinds:
        # One's own first: a client refused by the coordinator for another's subscription attaches none for some
        # seconds.
        for name, actions, number in (
            ("one's own", own, "own"), ("another's that is delivered here", others, "others_live"),
            ("another's", others, "others"),
        ):  # fmt: skip
            found.append(Case(
                kind, name, own if actions is None else actions,
                lambda request, place, make=make, number=number: make(request, getattr(place, number)),
                within=actions is not None,
            ))  # fmt: skip
    return found


def _stream(kind: type, *, answered: bool) -> list[Case]:
    def make(stream: str) -> Callable[[int, Place], Any]:
        if answered:
            return lambda request, _: kind(request, stream, 7, 1, 2, 3)
        return lambda _, __: kind(stream, 7, 1, 2, 3)

    return [
        Case(kind, name, _actions(Action.PUBLISH), make(stream), within=within, answered=answered)
        for name, stream, within in (("its stream", INSIDE, True), ("another stream", OUTSIDE, False))
    ]


CASES: Final[list[Case]] = [
    Case(m.ClientPing, "at all", _actions(), lambda request, _: m.ClientPing(request)),
    Case(m.ClientStatus, "at all", _actions(Action.OBSERVE), lambda request, _: m.ClientStatus(request)),
    Case(
        m.ClientListSubscriptions, "at all", _actions(Action.OBSERVE),
        lambda request, _: m.ClientListSubscriptions(request),
    ),
    *(
        Case(kind, "of all graphs", _actions(Action.QUERY), make, within=False)
        for kind, make in (
            (m.ClientExport, lambda request, _: m.ClientExport(request, "")),
            (m.ClientReadExport, lambda request, _: m.ClientReadExport(request, 7, 0)),
            (m.ClientEndExport, lambda request, _: m.ClientEndExport(request, 7)),
        )
    ),
    Case(m.ClientExpel, "at all", _actions(Action.ADMINISTER), lambda request, _: m.ClientExpel(request, 0)),
    Case(
        m.ClientListIntroduced, "at all", _actions(Action.ADMINISTER),
        lambda request, _: m.ClientListIntroduced(request, 7, 0),
    ),
    *_publications(),
    Case(
        m.ClientTrace, "at all", _actions(),
        lambda request, _: m.ClientTrace(request, f"00-{7:032x}-{7:016x}-01"), answered=False,
    ),
    *_stream(m.ClientHeartbeat, answered=False),
    *_stream(m.ClientEndStream, answered=True),
    *_questions(),
    Case(
        m.ClientWantBookmarks, "of one's own", _HOLD, lambda _, place: m.ClientWantBookmarks(place.own), answered=False
    ),
    *_about_subscriptions(),
]


def names_of(case: Case) -> TermNames:
    """Return the terms of the frame that a case travels in."""
    return TermNames(case.terms)
