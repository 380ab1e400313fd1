"""The change set of a SPARQL update or of a written graph: the place where publications and deletions are collected.

Operations add to the set in their order, and the last change of a statement counts. So the set holds each statement
once, inserted or deleted, and has the same effect as the operations in any order of publication. It is
published as one transaction (:mod:`p2prdf.client.transaction`). A larger set is published in parts, deletions first,
since a replaced value then never stands beside its successor; insertions follow when the deletions are acknowledged.
Until the set is published, an operation that reads whole graphs sees it by :meth:`ChangeSet.applied`. An operation
with WHERE reads through nodes, so the set is published before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf.client.pieces import TermColumns
from p2prdf.errors import QueryRefused, TransactionTooLarge
from p2prdf.rdf.quads import DEFAULT

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.rdf.update_operations import Statement

__all__ = ["ChangeSet"]

_COLUMN_ROWS: Final = 10_000


class ChangeSet:
    """Statements to insert and to delete, at most ``statements_max``."""

    def __init__(self, statements_max: int):
        self._statements_max = statements_max
        self._inserted: dict[Statement, bool] = {}
        """Each changed statement, with whether it is inserted."""

    def __bool__(self) -> bool:
        return bool(self._inserted)

    def delete(self, statements: Iterable[Statement]) -> None:
        """Add deletions.  Raises QueryRefused if the set becomes too large."""
        self._add(statements, inserted=False)

    def insert(self, statements: Iterable[Statement]) -> None:
        """Add insertions.  Raises QueryRefused if the set becomes too large."""
        self._add(statements, inserted=True)

    def _add(self, statements: Iterable[Statement], *, inserted: bool) -> None:
        for statement in statements:
            self._inserted[statement] = inserted
        self.check_size(len(self._inserted))

    def check_size(self, statements: int) -> None:
        """Raise QueryRefused for more statements than a set may have."""
        if statements > self._statements_max:
            reason = (
                f"it changes more than {self._statements_max:,} statements; change them in parts, "
                "for example with a sub-SELECT with LIMIT in WHERE"
            )
            raise QueryRefused(reason, construct="size of the update")

    def touches(self, graph: str) -> bool:
        """Return whether the set changes a graph, an IRI or ``DEFAULT``."""
        return any(_graph_of(statement) == graph for statement in self._inserted)

    def applied(self, statements: Iterable[Statement], graphs: Iterable[str] | None) -> Iterator[Statement]:
        """Yield the statements of graphs after the changes; ``statements``: before them; None: all named graphs."""
        chosen = None if graphs is None else set(graphs)
        yield from (each for each in statements if each not in self._inserted)
        for statement, inserted in self._inserted.items():
            graph = _graph_of(statement)
            if inserted and (graph != DEFAULT if chosen is None else graph in chosen):
                yield statement

    async def publish(self, client: Client, *, if_unchanged: int | None = None) -> tuple[int, int]:
        """Publish the changes and empty the set; return the numbers of deletions and of insertions, acknowledged.

        ``if_unchanged`` as in :meth:`p2prdf.client.Client.transaction`: raises ChangedMeanwhile, TransactionTooLarge.
        """
        inserted = sum(self._inserted.values())
        deleted = len(self._inserted) - inserted
        if self._inserted:
            transaction = client.transaction(if_unchanged=if_unchanged)
            try:
                transaction.retract(self._chosen(inserted=False))
                transaction.publish(self._chosen(inserted=True))
            except TransactionTooLarge:
                if if_unchanged is not None:
                    raise
                await client.publish(self._columns())
            else:
                await transaction.commit()
        self._inserted = {}
        return deleted, inserted

    def _chosen(self, *, inserted: bool) -> list[Statement]:
        return [statement for statement, value in self._inserted.items() if value is inserted]

    def _columns(self) -> Iterator[TermColumns]:
        for inserted in (False, True):
            chosen = self._chosen(inserted=inserted)
            for start in range(0, len(chosen), _COLUMN_ROWS):
                yield _columns_of(chosen[start : start + _COLUMN_ROWS], removed=not inserted)


def _graph_of(statement: Statement) -> str:
    return statement[3] if len(statement) == 4 else DEFAULT


def _columns_of(statements: list[Statement], *, removed: bool) -> TermColumns:
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(term, len(numbers)) for term in (*statement[:3], _graph_of(statement))]
        for statement in statements
    ]
    s, p, o, g = np.array(rows, np.uint32).T
    return TermColumns(list(numbers), s, p, o, g, removed)
