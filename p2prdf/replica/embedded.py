"""A pyoxigraph store in this process as a target, in memory or in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pyoxigraph as ox

from p2prdf.errors import LocalProtocolError, TargetMoved, TargetRefused
from p2prdf.interest import Triple
from p2prdf.replica.target import UPDATE_TRIPLES_MAX
from p2prdf.replica.update_text import cursor_name, cursor_text, update_text

__all__ = ["EmbeddedStore"]


class EmbeddedStore:
    """One graph of a store.  Each update is a transaction of the store."""

    respells = True

    def __init__(
        self, folder: Path | None, *, dataset: str, graph: str | None = None, triples_max: int = UPDATE_TRIPLES_MAX
    ):
        """``folder`` None: in memory.  Raises LocalProtocolError if another process has the folder open."""
        try:
            self.store = ox.Store() if folder is None else ox.Store(str(folder))
        except OSError as error:
            raise LocalProtocolError(f"{folder}: the store cannot be opened: {error}") from None
        self.triples_max = triples_max
        self._graph = graph
        self._name = cursor_name(dataset, graph)

    async def cursor(self) -> str | None:
        """Return the cursor, None if there is none."""
        return await asyncio.to_thread(self._cursor)

    async def update(
        self, removed: Iterable[Triple], added: Iterable[Triple], *, before: str | None, after: str
    ) -> None:
        """Change triples and cursor in one transaction."""
        text = update_text(removed, added, graph=self._graph, name=self._name, before=before, after=after)
        await asyncio.to_thread(self._update, text, before, after)

    async def triples(self) -> AsyncIterator[Triple]:
        """Yield the graph's triples."""
        graph = ox.DefaultGraph() if self._graph is None else ox.NamedNode(self._graph[1:-1])
        for quad in self.store.quads_for_pattern(None, None, None, graph):
            yield str(quad.subject), str(quad.predicate), str(quad.object)

    async def close(self) -> None:
        """Flush all writes."""
        await asyncio.to_thread(self.store.flush)

    def _cursor(self) -> str | None:
        found = self.store.query(cursor_text(self._name))
        assert isinstance(found, ox.QuerySolutions), "it is a SELECT"
        values = [row["at"] for row in found]
        if len(values) > 1:
            raise TargetRefused(f"the store has {len(values)} cursors for one replica")
        return str(values[0].value) if values else None

    def _update(self, text: str, before: str | None, after: str) -> None:
        try:
            self.store.update(text)
        except (OSError, SyntaxError) as error:
            raise TargetRefused(f"the store refuses the update: {error}") from None
        found = self._cursor()
        if found != after:
            raise TargetMoved(f"the store's cursor is {found!r} instead of {before!r}")
