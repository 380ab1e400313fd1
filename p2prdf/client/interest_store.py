"""Interests registered in the overlay; interest workers maintain their targets.

They are triples of a graph of their own (:mod:`p2prdf.interest.registration`), so the client that registers an
interest may leave. A triple asks the workers for the state of their targets, and triples answer; all are
deleted once the answer has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from p2prdf.client.group_requests import ANSWER_SECONDS, GroupRequests
from p2prdf.errors import LocalProtocolError, P2PRDFError, Unavailable
from p2prdf.rdf import terms

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.pieces import Triple
    from p2prdf.interest.registration import Registration

__all__ = ["InterestStore", "Registered"]

_TRUE: Final = terms.literal("true")


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered interest; ``error`` is the reason if its registration is not valid."""

    name: str
    registration: Registration | None
    paused: bool
    error: str | None = None


class InterestStore:
    """``client.interests``: the interests registered in the client's overlay."""

    def __init__(self, client: Client):
        self._client = client

    @property
    def _requests(self) -> GroupRequests:
        from p2prdf.interest.registration import ANSWERS, INTEREST_WORKERS, REQUESTS_GRAPH

        return GroupRequests(self._client, INTEREST_WORKERS, REQUESTS_GRAPH, ANSWERS)

    async def add(
        self, dataset: str, target: str, query: str, *, name: str | None = None, graph: str | None = None,
        query_url: str | None = None, timeout_seconds: float = 60.0,
    ) -> str:  # fmt: skip
        """Register an interest; return its name when the registration is acknowledged.

        Registering the same interest again changes nothing. ``dataset``: canonical IRI of its graph.
        ``target``: update URL of a SPARQL endpoint. ``graph``: canonical IRI of the target graph, for this
        interest only (None: the default graph). ``query_url``: the endpoint's query URL (None: ``.../query``
        for ``.../update``). ``name``: None: derived from dataset, target and graph. There is no argument for
        credentials: operators give them to the interest workers.

        Raises QueryRefused if the query is not an interest, TargetRefused, DataRefused or LocalProtocolError
        for other bad arguments, for a name of another interest and for a target graph of another interest;
        Busy, Unavailable.
        """
        from p2prdf.interest.registration import INTERESTS_GRAPH, Registration, default_name

        url = query_url or (target.removesuffix("update") + "query" if target.endswith("/update") else target)
        made = Registration(name or default_name(dataset, target, graph), dataset, target, url, graph, query)
        made.check()
        for each in await self.registered(timeout_seconds=timeout_seconds):
            if each.name == made.name:
                if each.registration == made:
                    return made.name
                raise LocalProtocolError(f"there is another interest {made.name}: remove it first")
            if each.registration is not None and each.registration.place == made.place:
                where = target if graph is None else f"{target}, graph {graph}"
                raise LocalProtocolError(f"{where}: this is the target of the interest {each.name}")
        await self._client.publish([made.triple], graph=INTERESTS_GRAPH)
        return made.name

    async def registered(self, *, timeout_seconds: float = 60.0) -> list[Registered]:
        """Return the registered interests, by name.  Raises the errors of :meth:`p2prdf.client.Client.query`."""
        from p2prdf.interest.registration import INTEREST, PAUSED, name_of, read_registration

        triples = await self._triples(timeout_seconds)
        paused = {s for s, p, _ in triples if p == PAUSED}
        found: dict[str, Registered] = {}
        for s, p, o in sorted(triples):
            name = name_of(s)
            if p != INTEREST or name is None:
                continue
            try:
                known = Registered(name, read_registration(s, o), s in paused)
            except P2PRDFError as error:
                known = Registered(name, None, s in paused, str(error))
            if name in found:
                known = Registered(name, None, s in paused, "it is registered twice: remove it, and add it again")
            found[name] = known
        return [found[name] for name in sorted(found)]

    async def pause(self, name: str, *, timeout_seconds: float = 60.0) -> None:
        """Pause the updates of an interest's target.

        Raises LocalProtocolError if there is no such interest.
        """
        from p2prdf.interest.registration import INTERESTS_GRAPH, PAUSED

        subject = await self._subject(name, timeout_seconds)
        await self._client.publish([(subject, PAUSED, _TRUE)], graph=INTERESTS_GRAPH)

    async def resume(self, name: str, *, timeout_seconds: float = 60.0) -> None:
        """Update a paused target again, beginning with the changes since the pause.

        Raises LocalProtocolError if there is no such interest.
        """
        from p2prdf.interest.registration import INTERESTS_GRAPH, PAUSED

        subject = await self._subject(name, timeout_seconds)
        await self._client.retract([(subject, PAUSED, _TRUE)], graph=INTERESTS_GRAPH)

    async def remove(self, name: str, *, timeout_seconds: float = 60.0) -> int:
        """Delete an interest; return 1 if it existed, else 0.  Its target keeps its content."""
        from p2prdf.interest.registration import INTEREST, INTERESTS_GRAPH, subject_of

        subject = subject_of(name)
        found = [triple for triple in await self._triples(timeout_seconds) if triple[0] == subject]
        if found:
            await self._client.retract(found, graph=INTERESTS_GRAPH)
        return int(any(p == INTEREST for _, p, _ in found))

    async def status(self, name: str | None = None, *, timeout_seconds: float = 60.0) -> list[dict[str, Any]]:
        """Return the state of interests, by name, as their workers report it.

        docs/reference/interest-replicas.md lists the keys. An interest without an answer of a worker within
        five seconds has the state ``unassigned``. Raises LocalProtocolError if there is no interest of that name,
        and the errors of :meth:`p2prdf.client.Client.query`.
        """
        registered = await self.registered(timeout_seconds=timeout_seconds)
        if name is not None:
            registered = [each for each in registered if each.name == name]
            if not registered:
                raise LocalProtocolError(f"there is no interest {name}")
        states = await self._requests.ask("status", name, ANSWER_SECONDS, timeout_seconds=timeout_seconds)
        known = {str(each.get("name")): each for each in states}
        return [known.get(each.name) or _unassigned(each) for each in registered]

    async def verify(self, name: str, *, timeout_seconds: float = 60.0) -> dict[str, Any]:
        """Compare an interest's target with its expected content; its worker pauses writing meanwhile.

        ``error`` in the result: the reason if the comparison failed. Raises LocalProtocolError if there is no
        such interest, Unavailable if no worker answers for it.
        """
        return await self._of_one("verify", name, timeout_seconds)

    async def repair(self, name: str, *, timeout_seconds: float = 60.0) -> dict[str, Any]:
        """Repair an interest's target: add missing triples, delete extra ones.  See :meth:`verify`.

        Returns the state before the repair.
        """
        return await self._of_one("repair", name, timeout_seconds)

    # --- requests ------------------------------------------------------------------------------------------------

    async def _of_one(self, what: str, name: str, timeout_seconds: float) -> dict[str, Any]:
        await self._subject(name, timeout_seconds)
        states = await self._requests.ask(what, name, timeout_seconds, timeout_seconds=timeout_seconds)
        found = next((each for each in states if each.get("name") == name), None)
        if found is None:
            raise Unavailable(
                f"no interest worker answers for {name} within {timeout_seconds:g} s; p2prdf serve interests starts one"
            )
        return found

    async def _triples(self, timeout_seconds: float) -> list[Triple]:
        """Return all triples about interests."""
        from p2prdf.interest.registration import INTEREST, INTERESTS_GRAPH, PAUSED

        parts = (f"{{ GRAPH {INTERESTS_GRAPH} {{ ?s {p} ?o }} BIND({p} AS ?p) }}" for p in (INTEREST, PAUSED))
        query = f"SELECT ?s ?p ?o {{ {' UNION '.join(parts)} }}"
        result = await self._client.query(query, timeout_seconds=timeout_seconds)
        return [(str(s), str(p), str(o)) for s, p, o in result.rows]

    async def _subject(self, name: str, timeout_seconds: float) -> str:
        """Return the subject of a registered interest."""
        from p2prdf.interest.registration import INTEREST, subject_of

        subject = subject_of(name)
        if not any(s == subject and p == INTEREST for s, p, _ in await self._triples(timeout_seconds)):
            raise LocalProtocolError(f"there is no interest {name}")
        return subject


def _unassigned(each: Registered) -> dict[str, Any]:
    state: dict[str, Any] = {"name": each.name, "state": "refused" if each.error else "unassigned"}
    if each.registration is not None:
        graph = each.registration.graph
        state |= {"dataset": each.registration.dataset[1:-1], "target": each.registration.target,
                 "graph": None if graph is None else graph[1:-1]}  # fmt: skip
    state["error"] = each.error or "no interest worker answers for it"
    return state
