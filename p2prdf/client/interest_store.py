"""Interests that are registered in the overlay, for whichever keepers there are to keep their targets.

They are triples of a graph of their own (:mod:`p2prdf.interest.registration`), so whoever registers an interest can go
away.  How targets are doing is asked of the keepers, by a triple, and they answer by triples; both are removed when
the answer is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from p2prdf.client.asking import ANSWER_SECONDS, Asking
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
    """An interest as it is registered: ``error`` says what is wrong with it, if it is none."""

    name: str
    registration: Registration | None
    paused: bool
    error: str | None = None


class InterestStore:
    """``client.interests``: what is registered in the overlay of a client."""

    def __init__(self, client: Client):
        self._client = client

    @property
    def _asking(self) -> Asking:
        from p2prdf.interest.registration import ANSWERS, KEEPERS, REQUESTS_GRAPH

        return Asking(self._client, KEEPERS, REQUESTS_GRAPH, ANSWERS)

    async def add(
        self, dataset: str, target: str, query: str, *, name: str | None = None, graph: str | None = None,
        query_url: str | None = None, timeout_seconds: float = 60.0,
    ) -> str:  # fmt: skip
        """Register an interest; return its name when enough nodes have it.  To register it again changes nothing.

        ``dataset``: the canonical IRI of its graph; ``target``: the update URL of a SPARQL endpoint, ``graph`` the
        canonical IRI of the graph there that is the interest's alone (None: the default graph), ``query_url`` where it
        answers queries (None: ``.../query`` for ``.../update``).  ``name``: None for one that follows from these.
        No credentials: keepers have them from their operators.

        Raises QueryRefused for a query that is no interest, TargetRefused, DataRefused and LocalProtocolError for what
        else is none, for a name that stands for something else and for a target graph that another interest has; Busy,
        Unavailable.
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
        """Return what is registered, by name.  Raises what :meth:`p2prdf.client.Client.query` raises."""
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
        """Let its target be as it is for now.  Raises LocalProtocolError if there is no such interest."""
        from p2prdf.interest.registration import INTERESTS_GRAPH, PAUSED

        subject = await self._subject(name, timeout_seconds)
        await self._client.publish([(subject, PAUSED, _TRUE)], graph=INTERESTS_GRAPH)

    async def resume(self, name: str, *, timeout_seconds: float = 60.0) -> None:
        """Let its target catch up, and go on.  Raises LocalProtocolError if there is no such interest."""
        from p2prdf.interest.registration import INTERESTS_GRAPH, PAUSED

        subject = await self._subject(name, timeout_seconds)
        await self._client.retract([(subject, PAUSED, _TRUE)], graph=INTERESTS_GRAPH)

    async def remove(self, name: str, *, timeout_seconds: float = 60.0) -> int:
        """Forget an interest; return 1 if there was one, else 0.  Its target stays as it is."""
        from p2prdf.interest.registration import INTEREST, INTERESTS_GRAPH, subject_of

        subject = subject_of(name)
        found = [triple for triple in await self._triples(timeout_seconds) if triple[0] == subject]
        if found:
            await self._client.retract(found, graph=INTERESTS_GRAPH)
        return int(any(p == INTEREST for _, p, _ in found))

    async def status(self, name: str | None = None, *, timeout_seconds: float = 60.0) -> list[dict[str, Any]]:
        """Return how interests are, by name, as their keepers say (docs/reference/interest-replicas.md lists the keys).

        One that no keeper answers for, within five seconds, has the state ``unkept``.  Raises LocalProtocolError if
        there is none of the name, and what :meth:`p2prdf.client.Client.query` raises.
        """
        registered = await self.registered(timeout_seconds=timeout_seconds)
        if name is not None:
            registered = [each for each in registered if each.name == name]
            if not registered:
                raise LocalProtocolError(f"there is no interest {name}")
        told = await self._asking.ask("status", name, ANSWER_SECONDS, timeout_seconds=timeout_seconds)
        known = {str(each.get("name")): each for each in told}
        return [known.get(each.name) or _unkept(each) for each in registered]

    async def verify(self, name: str, *, timeout_seconds: float = 60.0) -> dict[str, Any]:
        """Compare the target of an interest with what it should hold; its keeper does, and writes nothing meanwhile.

        Raises LocalProtocolError if there is no such interest, Unavailable if no keeper answers for it.  ``error``: why
        it could not be compared.
        """
        return await self._of_one("verify", name, timeout_seconds)

    async def repair(self, name: str, *, timeout_seconds: float = 60.0) -> dict[str, Any]:
        """Make the target of an interest what it should be; what does not belong there is deleted.  As :meth:`verify`.

        Returns how it was.
        """
        return await self._of_one("repair", name, timeout_seconds)

    # --- asking ------------------------------------------------------------------------------------------------

    async def _of_one(self, what: str, name: str, timeout_seconds: float) -> dict[str, Any]:
        await self._subject(name, timeout_seconds)
        told = await self._asking.ask(what, name, timeout_seconds, timeout_seconds=timeout_seconds)
        found = next((each for each in told if each.get("name") == name), None)
        if found is None:
            raise Unavailable(f"no keeper answers for the interest {name} within {timeout_seconds:g} s")
        return found

    async def _triples(self, timeout_seconds: float) -> list[Triple]:
        """Return what is said of interests."""
        from p2prdf.interest.registration import INTEREST, INTERESTS_GRAPH, PAUSED

        parts = (f"{{ GRAPH {INTERESTS_GRAPH} {{ ?s {p} ?o }} BIND({p} AS ?p) }}" for p in (INTEREST, PAUSED))
        query = f"SELECT ?s ?p ?o {{ {' UNION '.join(parts)} }}"
        result = await self._client.query(query, timeout_seconds=timeout_seconds)
        return [(str(s), str(p), str(o)) for s, p, o in result.rows]

    async def _subject(self, name: str, timeout_seconds: float) -> str:
        """Return the IRI of an interest that is registered."""
        from p2prdf.interest.registration import INTEREST, subject_of

        subject = subject_of(name)
        if not any(s == subject and p == INTEREST for s, p, _ in await self._triples(timeout_seconds)):
            raise LocalProtocolError(f"there is no interest {name}")
        return subject


def _unkept(each: Registered) -> dict[str, Any]:
    told: dict[str, Any] = {"name": each.name, "state": "refused" if each.error else "unkept"}
    if each.registration is not None:
        graph = each.registration.graph
        told |= {"dataset": each.registration.dataset[1:-1], "target": each.registration.target,
                 "graph": None if graph is None else graph[1:-1]}  # fmt: skip
    told["error"] = each.error or "no keeper answers for it"
    return told
