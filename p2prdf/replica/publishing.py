"""Changesets of a dataset, published into an overlay: its graph follows them.

A changeset is a removal and a publication, in this order, each acknowledged before what follows; then the dataset's
*position* is noted, in a graph of its own.  Whoever publishes after a crash reads it and begins behind it.  The
changeset that may have been published in part is published once more: until the next one nothing in it is another's, so
that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from p2prdf.interest import Changeset, Triple
from p2prdf.rdf import terms
from p2prdf.replica.changeset_files import position_order
from p2prdf.replica.replica import START

__all__ = ["AT", "DATASETS", "DatasetPublisher"]

DATASETS: Final = "<urn:p2prdf:datasets>"
"""The graph that says how far each dataset is."""
AT: Final = "<urn:p2prdf:at>"


class Overlay(Protocol):
    """What is asked of a client (:class:`p2prdf.client.Client`)."""

    async def publish(self, triples: Any, *, graph: str | None = None) -> int:
        """Publish triples into a graph; return when all is acknowledged."""
        ...

    async def retract(self, triples: Any, *, graph: str | None = None) -> int:
        """Remove triples from a graph; return when all is acknowledged."""
        ...

    async def query(self, query: str) -> Any:
        """Answer a query once."""
        ...


class DatasetPublisher:
    """Publishes one dataset; nobody else does at the same time."""

    def __init__(self, overlay: Overlay, dataset: str):
        """``dataset``: the canonical IRI of its graph."""
        self._overlay = overlay
        self.dataset = dataset
        self.position: str | None = None
        """Of the last changeset that is published as a whole."""

    async def begin(self) -> None:
        """Read how far the dataset is.  Raises QueryRefused where nodes keep no history (``indexes = on-demand``)."""
        found = await self._overlay.query(f"SELECT ?at {{ GRAPH {DATASETS} {{ {self.dataset} {AT} ?at }} }}")
        # two if whoever published was stopped between noting one and removing the one before
        positions = [terms.lexical(str(at)) for (at,) in found.rows]
        self.position = max(positions, key=lambda each: (each != START, position_order(each)), default=None)

    async def start(self, triples: Iterable[Triple], position: str = START) -> int:
        """Publish what the dataset holds to begin with, and note its position; return how many triples that were.

        ``position``: of the last changeset in it, or a day or an hour that all in it lies before.
        """
        count = await self._overlay.publish(triples, graph=self.dataset)
        await self._note(position)
        return count

    async def publish(self, position: str, changeset: Changeset) -> None:
        """Publish one changeset."""
        added = frozenset(changeset.added)
        removed = [triple for triple in changeset.removed if triple not in added]
        if removed:
            await self._overlay.retract(removed, graph=self.dataset)
        if changeset.added:
            await self._overlay.publish(list(changeset.added), graph=self.dataset)
        await self._note(position)

    async def _note(self, position: str) -> None:
        before, self.position = self.position, position
        if before == position:
            return
        await self._overlay.publish([(self.dataset, AT, terms.literal(position))], graph=DATASETS)
        if before is not None:
            await self._overlay.retract([(self.dataset, AT, terms.literal(before))], graph=DATASETS)

