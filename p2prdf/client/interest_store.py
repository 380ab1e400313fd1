"""Interests that are registered in the overlay, for whichever keepers there are to keep their targets.

They are triples of a graph of their own (:mod:`p2prdf.interest.registration`), so whoever registers an interest can go
away.  How targets are doing is asked of the keepers, by a triple, and they answer by triples; both are removed when
the answer is here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from p2prdf.client.query import end
from p2prdf.errors import LocalProtocolError, P2PRDFError, Unavailable
from p2prdf.rdf import terms

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.pieces import Triple
    from p2prdf.interest.registration import Registration

__all__ = ["InterestStore", "Registered"]

_ANSWER_SECONDS: Final = 5.0
"""How long keepers are waited for that may be gone."""
_TOLD_MAX: Final = 100_000
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
        """Return how interests are, by name, as their keepers say (docs/interest-replicas.md lists the keys).

        One that no keeper answers for, within five seconds, has the state ``unkept``.  Raises LocalProtocolError if
        there is none of the name, and what :meth:`p2prdf.client.Client.query` raises.
        """
        registered = await self.registered(timeout_seconds=timeout_seconds)
        if name is not None:
            registered = [each for each in registered if each.name == name]
            if not registered:
                raise LocalProtocolError(f"there is no interest {name}")
        keepers = await self._keepers(timeout_seconds)
        told = await self._ask("status", name, _ANSWER_SECONDS, keepers) if keepers else []
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
        keepers = await self._keepers(timeout_seconds)
        told = await self._ask(what, name, timeout_seconds, keepers) if keepers else []
        found = next((each for each in told if each.get("name") == name), None)
        if found is None:
            raise Unavailable(f"no keeper answers for the interest {name} within {timeout_seconds:g} s")
        return found

    async def _ask(self, what: str, name: str | None, seconds: float, keepers: Collection[str]) -> list[dict[str, Any]]:
        """Ask keepers; return what they say of interests, when all have answered, or the one there is to answer."""
        from p2prdf.interest.registration import ANSWERS, ASKS, REQUESTS_GRAPH

        request = f"<urn:p2prdf:request:{secrets.token_hex(16)}>"
        asked = request, ASKS, terms.literal(json.dumps({"what": what, "name": name}))
        answers: list[Triple] = []
        gathered = _Answers(keepers, enough=(lambda told: bool(told)) if name is not None else lambda _: False)
        subscription = await self._client.subscribe(
            f"SELECT ?o {{ GRAPH {REQUESTS_GRAPH} {{ {request} {ANSWERS} ?o }} }}", lease_seconds=30.0
        )
        try:
            await self._client.publish([asked], graph=REQUESTS_GRAPH)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    async for solution in subscription:
                        answers.append((request, ANSWERS, solution["o"]))
                        if gathered.take(solution["o"]):
                            break
        finally:
            await end(self._client, subscription)
            with contextlib.suppress(P2PRDFError):
                await self._client.retract([asked, *answers], graph=REQUESTS_GRAPH)
        return gathered.told

    async def _keepers(self, timeout_seconds: float) -> list[str]:
        from p2prdf.interest.registration import KEEPERS, KEEPERS_GRAPH, KEEPS

        query = f"SELECT ?s {{ GRAPH {KEEPERS_GRAPH} {{ ?s {KEEPS} ?o }} }}"
        result = await self._client.query(query, timeout_seconds=timeout_seconds)
        return sorted({str(s)[1:-1] for (s,) in result.rows if KEEPERS.number(str(s)) is not None})

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


class _Answers:
    """What keepers said so far."""

    def __init__(self, keepers: Collection[str], *, enough: Callable[[list[dict[str, Any]]], bool]):
        self.told: list[dict[str, Any]] = []
        self._parts: dict[str, int] = {}
        self._waited_for = set(keepers)
        self._enough = enough

    def take(self, literal: str) -> bool:
        """Take in an answer, if it is one; return whether nothing more is waited for."""
        try:
            said = json.loads(terms.lexical(literal))
            keeper, parts, interests = str(said["keeper"]), int(said["parts"]), list(said["interests"])
        except (ValueError, KeyError, TypeError):
            return False
        for each in interests[: _TOLD_MAX - len(self.told)]:
            if isinstance(each, dict):
                self.told.append({**each, "keeper": keeper})
        self._parts[keeper] = self._parts.get(keeper, 0) + 1
        if self._parts[keeper] >= parts:
            self._waited_for.discard(keeper)
        return not self._waited_for or self._enough(self.told)


def _unkept(each: Registered) -> dict[str, Any]:
    told: dict[str, Any] = {"name": each.name, "state": "refused" if each.error else "unkept"}
    if each.registration is not None:
        graph = each.registration.graph
        told |= {"dataset": each.registration.dataset[1:-1], "target": each.registration.target,
                 "graph": None if graph is None else graph[1:-1]}  # fmt: skip
    told["error"] = each.error or "no keeper answers for it"
    return told
