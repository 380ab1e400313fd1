"""Facts with labels: a triple of numbers each, and how long it holds.

A label is a whole number, larger is better: an expiration time (:mod:`p2prdf.reasoning.materialiser`), or just that the
fact is there.  Facts are kept in nested dictionaries, once for each order of their parts that rules look them up in,
with the label at the end, for a join needs it as soon as it has found the fact.  There always is the order predicate,
subject, object; the dictionaries of a predicate stay the same objects, so that compiled rules can hold on to them.

Putting and dropping are written out for the orders that are kept, for they are what a step spends most time in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

__all__ = ["ABSENT", "ORDERS", "Fact", "Facts", "Nested"]

Fact: TypeAlias = tuple[int, int, int]
Row: TypeAlias = dict[int, int]
Nested: TypeAlias = dict[int, dict[int, Row]]

ABSENT: Final = -1
"""Less than any label."""

ORDERS: Final = ("pso", "pos", "spo", "ops", "sop")
"""The orders that facts can be kept in."""


class Facts:
    """Facts by their parts."""

    def __init__(self, orders: Iterable[str] = ()):
        """``orders``: those to keep beside ``pso``, of :data:`ORDERS`."""
        self.orders: dict[str, Nested] = {order: {} for order in ("pso", *sorted(set(orders) - {"pso"}))}
        self.pso = self.orders["pso"]
        space: dict[str, Any] = {"ABSENT": ABSENT, **self.orders}
        exec(_put_source(self.orders), space)  # noqa: S102 - made of the texts in this module
        exec(_drop_source(self.orders), space)  # noqa: S102 - made of the texts in this module
        self.put: Callable[[Fact, int], int] = space["put"]
        """Give a fact a label; return the one it had."""
        self.drop: Callable[[Fact], None] = space["drop"]
        """Forget a fact that is there."""

    def __len__(self) -> int:
        return sum(len(row) for subjects in self.pso.values() for row in subjects.values())

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        """Yield facts and their labels."""
        for p, subjects in self.pso.items():
            for s, row in subjects.items():
                for o, label in row.items():
                    yield (s, p, o), label

    def label(self, fact: Fact) -> int:
        """Return the label of a fact, ABSENT if there is none."""
        s, p, o = fact
        subjects = self.pso.get(p)
        row = subjects.get(s) if subjects else None
        return ABSENT if row is None else row.get(o, ABSENT)

    def renew(self) -> Nested:
        """Begin anew, without facts; return those there were, by predicate and subject."""
        before = {p: subjects.copy() for p, subjects in self.pso.items()}
        for order, nested in self.orders.items():
            if order[0] == "p":
                for rows in nested.values():
                    rows.clear()
            else:
                nested.clear()
        return before


def _put_source(orders: Iterable[str]) -> str:
    lines = []
    for order in orders:
        first, second, third = tuple(order)
        lines += [
            f"rows = {order}.get({first})",
            f"if rows is None: rows = {order}[{first}] = {{}}",
            f"row = rows.get({second})",
            f"if row is None: row = rows[{second}] = {{}}",
        ]
        if order == "pso":
            lines.append("was = row.get(o, ABSENT)")
        lines.append(f"row[{third}] = label")
    return "\n    ".join(["def put(fact, label):", "s, p, o = fact", *lines, "return was"])


def _drop_source(orders: Iterable[str]) -> str:
    lines = []
    for order in orders:
        first, second, third = tuple(order)
        lines += [
            f"rows = {order}[{first}]",
            f"row = rows[{second}]",
            f"del row[{third}]",
            f"if not row: del rows[{second}]",
        ]
    return "\n    ".join(["def drop(fact):", "s, p, o = fact", *lines])
