"""A client that holds all statements itself and answers queries from them, to execute updates without nodes.

Queries are evaluated as nodes evaluate them: the leaves are joined by hand, the operators above by the dataflow of
a coordinator (:mod:`algebra.leaves`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
from algebra.leaves import Home

from p2prdf.client.pieces import Piece, TermColumns
from p2prdf.client.query import Result
from p2prdf.client.transaction import Transaction
from p2prdf.client.update import Updated, carry_out
from p2prdf.errors import DataRefused
from p2prdf.rdf import terms
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.update_operations import Statement
from p2prdf.reasoning.ruled_query import parse_ruled

__all__ = ["HeldGraphs"]


class HeldGraphs:
    """Statements, and a record of the publications that changed them."""

    def __init__(self, statements: Iterable[Statement] = ()):
        self.statements: set[Statement] = set(statements)
        self.publications: list[list[tuple[bool, Statement]]] = []
        """For each publication its statements in order, each with whether it was a deletion."""
        self.queries: list[str] = []

    async def publish(self, columns: Iterable[TermColumns]) -> int:
        """Change the statements, as :meth:`p2prdf.client.Client.publish` does."""
        said = []
        for each in columns:
            terms.check_all(each.texts)
            assert each.g is not None
            for s, p, o, g in zip(*(column.tolist() for column in (each.s, each.p, each.o, each.g)), strict=True):
                triple = each.texts[s], each.texts[p], each.texts[o]
                _check(*triple)
                statement = triple if each.texts[g] == DEFAULT else (*triple, each.texts[g])
                said.append((each.removed, statement))
                (self.statements.discard if each.removed else self.statements.add)(statement)
        self.publications.append(said)
        return len(said)

    def transaction(self, *, if_unchanged: int | None = None) -> Transaction:
        """Return a transaction of these statements, as :meth:`p2prdf.client.Client.transaction` does."""
        return Transaction(lambda: _Whole(self), None, if_unchanged)

    async def answer_once(self, client: HeldGraphs, query: str, *, rows_max: int | None = None, **_: object) -> Result:
        """Answer a query, in place of :func:`p2prdf.client.query.answer_once`."""
        assert client is self
        self.queries.append(query)
        standing = parse_ruled(query, ordered=True)
        home = Home(standing, random.Random(len(self.queries)))
        home.change(sorted(self.statements))
        rows = sorted(home.rows.elements(), key=repr)
        return Result(standing.names, rows[:rows_max], 0.0)

    async def update(self, text: str, **options: object) -> Updated:
        """Execute an update; ``answer_once`` of p2prdf.client.update must be replaced by this object's."""
        return await carry_out(self, text, **{"timeout_seconds": 60.0, **options})  # type: ignore[arg-type]


class _Whole:
    """Publishes a transaction, in place of :class:`p2prdf.client.publishing.Publisher`."""

    stamp = 1

    def __init__(self, held: HeldGraphs):
        self._held = held

    async def run_whole(self, piece: Piece) -> int:
        """Change the statements, deletions first."""
        rows = piece.rows
        assert isinstance(rows, TermColumns)
        assert piece.deletions is not None
        texts = rows.texts if DEFAULT in rows.texts else [*rows.texts, DEFAULT]
        g = np.full(len(rows), texts.index(DEFAULT)) if rows.g is None else rows.g
        parts = [(True, slice(piece.deletions)), (False, slice(piece.deletions, None))]
        return await self._held.publish(
            TermColumns(texts, rows.s[part], rows.p[part], rows.o[part], g[part], removed) for removed, part in parts
        )


def _check(s: str, p: str, o: str) -> None:
    """Raise DataRefused for terms that are no triple, as nodes do."""
    if not (s.startswith("<") and p.startswith("<") and o[0] in '<"'):
        raise DataRefused(f"not a triple: {s} {p} {o}")
