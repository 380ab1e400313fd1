"""Requests to the members of a worker group, over the overlay: one triple asks, triples answer.

The requester deletes all of them when it has the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from p2prdf.client.query import end
from p2prdf.errors import P2PRDFError
from p2prdf.rdf import terms

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.pieces import Triple
    from p2prdf.workers.group import WorkerGroup

__all__ = ["ANSWER_SECONDS", "GroupRequests"]

ANSWER_SECONDS: Final = 5.0
"""Deadline of the answers; registered workers may be gone."""
_ENTRIES_MAX: Final = 100_000


class GroupRequests:
    """Sends requests to the members of one worker group."""

    def __init__(self, client: Client, group: WorkerGroup, graph: str, answers: str):
        """``graph``: holds requests and answers; ``answers``: the predicate of the answers."""
        self._client = client
        self._group = group
        self._graph = graph
        self._answers = answers

    async def members(self, timeout_seconds: float) -> list[str]:
        """Return the registered members, as IRIs without brackets."""
        query = f"SELECT ?s {{ GRAPH {self._group.graph} {{ ?s {self._group.predicate} ?o }} }}"
        result = await self._client.query(query, timeout_seconds=timeout_seconds)
        return sorted({str(s)[1:-1] for (s,) in result.rows if self._group.number(str(s)) is not None})

    async def ask(
        self, what: str, name: str | None, seconds: float, *, timeout_seconds: float
    ) -> list[dict[str, Any]]:
        """Send a request; return the entries of all answers.

        Returns when all members have answered or, with ``name``, at the first entry; at once if there are no
        members, and after ``seconds`` at the latest. ``timeout_seconds``: deadline of the query for the
        members. Each entry names its member under the key ``worker``.
        """
        members = await self.members(timeout_seconds)
        if not members:
            return []
        request = f"<urn:p2prdf:request:{secrets.token_hex(16)}>"
        asked = request, self._group.asks, terms.literal(json.dumps({"what": what, "name": name}))
        answers: list[Triple] = []
        gathered = _Answers(members, enough=(lambda entries: bool(entries)) if name is not None else lambda _: False)
        subscription = await self._client.subscribe(
            f"SELECT ?o {{ GRAPH {self._graph} {{ {request} {self._answers} ?o }} }}", lease_seconds=30.0
        )
        try:
            await self._client.publish([asked], graph=self._graph)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    async for solution in subscription:
                        answers.append((request, self._answers, solution["o"]))
                        if gathered.take(solution["o"]):
                            break
        finally:
            await end(self._client, subscription)
            with contextlib.suppress(P2PRDFError):
                await self._client.retract([asked, *answers], graph=self._graph)
        return gathered.entries


class _Answers:
    """The answers of the members so far."""

    def __init__(self, members: Collection[str], *, enough: Callable[[list[dict[str, Any]]], bool]):
        self.entries: list[dict[str, Any]] = []
        self._parts: dict[str, int] = {}
        self._waited_for = set(members)
        self._enough = enough

    def take(self, literal: str) -> bool:
        """Take in an answer, if the literal is one; return whether the request is complete."""
        try:
            said = json.loads(terms.lexical(literal))
            member, parts, entries = str(said["member"]), int(said["parts"]), list(said["told"])
        except (ValueError, KeyError, TypeError):
            return False
        for each in entries[: _ENTRIES_MAX - len(self.entries)]:
            if isinstance(each, dict):
                self.entries.append({**each, "worker": member})
        self._parts[member] = self._parts.get(member, 0) + 1
        if self._parts[member] >= parts:
            self._waited_for.discard(member)
        return not self._waited_for or self._enough(self.entries)
