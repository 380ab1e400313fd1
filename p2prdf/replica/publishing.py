"""Publishes a dataset's changesets into its graph in an overlay.

A changeset is one transaction together with the dataset's *position*, which is stored in a graph of its own. A
changeset that is too large for a transaction is a deletion and a publication, in this order, each acknowledged
before the next step; then its position is stored. After a crash, a publisher reads the position and continues with
the next changeset, which may have been published in part. It is published once more: until then no later changeset
has changed its triples, so the repetition changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from p2prdf.errors import TransactionTooLarge
from p2prdf.interest import Changeset, Triple
from p2prdf.rdf import terms
from p2prdf.replica.changeset_files import position_order
from p2prdf.replica.replica import START

__all__ = ["AT", "DATASETS", "DatasetPublisher"]

DATASETS: Final = "<urn:p2prdf:datasets>"
"""The graph that stores the position of each dataset."""
AT: Final = "<urn:p2prdf:at>"


class Overlay(Protocol):
    """The methods of a client that are used here (:class:`p2prdf.client.Client`)."""

    async def publish(self, triples: Any, *, graph: str | None = None) -> int:
        """Publish triples into a graph; return when all is acknowledged."""
        ...

    async def retract(self, triples: Any, *, graph: str | None = None) -> int:
        """Delete triples from a graph; return when all is acknowledged."""
        ...

    def transaction(self, *, graph: str | None = None) -> Any:
        """Return a transaction (:class:`p2prdf.client.Transaction`)."""
        ...

    async def query(self, query: str) -> Any:
        """Answer a query once."""
        ...


class DatasetPublisher:
    """Publishes one dataset; it must be the only publisher at a time."""

    def __init__(self, overlay: Overlay, dataset: str):
        """``dataset``: the canonical IRI of its graph."""
        self._overlay = overlay
        self.dataset = dataset
        self.position: str | None = None
        """Position of the last completely published changeset."""

    async def begin(self) -> None:
        """Read the dataset's position.

        Raises QueryRefused where nodes keep no history (``indexes = on-demand``).
        """
        found = await self._overlay.query(f"SELECT ?at {{ GRAPH {DATASETS} {{ {self.dataset} {AT} ?at }} }}")
        # two, if a publisher stopped between writing one and removing its predecessor
        positions = [terms.lexical(str(at)) for (at,) in found.rows]
        self.position = max(positions, key=lambda each: (each != START, position_order(each)), default=None)

    async def start(self, triples: Iterable[Triple], position: str = START) -> int:
        """Publish the dataset's initial content, and store its position; return the number of triples.

        ``position``: that of the last changeset in it, or a day or an hour after all of its content.
        """
        count = await self._overlay.publish(triples, graph=self.dataset)
        await self._note(position)
        return count

    async def publish(self, position: str, changeset: Changeset) -> None:
        """Publish one changeset."""
        transaction = self._overlay.transaction(graph=self.dataset)
        try:
            transaction.retract(changeset.removed)
            transaction.publish(changeset.added)
            if self.position not in (None, position):
                transaction.retract([self._at(self.position)], graph=DATASETS)
            transaction.publish([self._at(position)], graph=DATASETS)
        except TransactionTooLarge:
            await self._publish_in_parts(position, changeset)
        else:
            await transaction.commit()
            self.position = position

    async def _publish_in_parts(self, position: str, changeset: Changeset) -> None:
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
        await self._overlay.publish([self._at(position)], graph=DATASETS)
        if before is not None:
            await self._overlay.retract([self._at(before)], graph=DATASETS)

    def _at(self, position: str) -> Triple:
        return self.dataset, AT, terms.literal(position)

