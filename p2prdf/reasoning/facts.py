"""Facts with labels: triples of numbers, and how long each holds.

A label is an integer, larger is better: an expiration time (:mod:`p2prdf.reasoning.materialiser`), or a constant.
Facts are kept in nested dictionaries, once for each order of their parts in which rules look them up.  The label is
the innermost value, because a join needs it as soon as it has found the fact.  The order predicate, subject, object
always exists; a predicate's dictionaries stay the same objects, so compiled rules can refer to them.

The functions that put and drop facts are generated for the orders that are kept, because a step spends much of its
time in them.
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
        """``orders``: orders to keep besides ``pso``, from :data:`ORDERS`."""
        self.orders: dict[str, Nested] = {order: {} for order in ("pso", *sorted(set(orders) - {"pso"}))}
        self.pso = self.orders["pso"]
        space: dict[str, Any] = {"ABSENT": ABSENT, **self.orders}
        for source in _SOURCES:
            exec(source(self.orders), space)  # noqa: S102 - made of the texts in this module
        self.put: Callable[[Fact, int], int] = space["put"]
        """Give a fact a label; return its former label."""
        self.put_missing: Callable[[Iterable[Fact], int], list[Fact]] = space["put_missing"]
        """Give a label to the missing ones of some facts; return these."""
        self.drop: Callable[[Iterable[Fact]], None] = space["drop"]
        """Drop present facts."""
        self.drop_labelled: Callable[[Iterable[Fact], int], list[Fact]] = space["drop_labelled"]
        """Drop the facts that have exactly this label; return these."""
        self.having: Callable[[Iterable[Fact], int], list[Fact]] = space["having"]
        """Return the facts, among some present ones, that have exactly this label."""
        self.put_besides: Callable[[Iterable[Fact], int], None] | None = None
        """Give facts a label in all orders but ``pso`` and ``pos``; None if there are no others."""
        self.drop_besides: Callable[[Iterable[Fact]], None] | None = None
        """Drop present facts in all orders but ``pso`` and ``pos``; None if there are no others."""
        others = [order for order in self.orders if order[0] != "p"]
        if others:
            for source in (_put_besides_source, _drop_besides_source):
                exec(source(others), space)  # noqa: S102 - as above
            self.put_besides, self.drop_besides = space["put_besides"], space["drop_besides"]

    def __len__(self) -> int:
        return sum(len(row) for subjects in self.pso.values() for row in subjects.values())

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        """Yield facts and their labels."""
        for p, subjects in self.pso.items():
            for s, row in subjects.items():
                for o, label in row.items():
                    yield (s, p, o), label

    def label(self, fact: Fact) -> int:
        """Return the label of a fact, ABSENT if it is missing."""
        s, p, o = fact
        subjects = self.pso.get(p)
        row = subjects.get(s) if subjects else None
        return ABSENT if row is None else row.get(o, ABSENT)

    def renew(self) -> Nested:
        """Remove all facts; return the former ones, by predicate and subject."""
        before = {p: subjects.copy() for p, subjects in self.pso.items()}
        for order, nested in self.orders.items():
            if order[0] == "p":
                for rows in nested.values():
                    rows.clear()
            else:
                nested.clear()
        return before


def _put_source(orders: Iterable[str]) -> str:
    return _function("put(fact, label)", "", ["s, p, o = fact", *_put_lines(orders, "was = row.get(o, ABSENT)")], "was")


def _put_missing_source(orders: Iterable[str]) -> str:
    lines = ["s, p, o = fact", *_put_lines(orders, "if o in row: continue"), "out(fact)"]
    return _function("put_missing(facts, label)", "for fact in facts:", lines)


def _put_besides_source(orders: Iterable[str]) -> str:
    return _function("put_besides(facts, label)", "for s, p, o in facts:", _put_lines(orders, ""), "None")


def _drop_besides_source(orders: Iterable[str]) -> str:
    return _function("drop_besides(facts)", "for s, p, o in facts:", _drop_lines(orders), "None")


def _drop_source(orders: Iterable[str]) -> str:
    return _function("drop(facts)", "for s, p, o in facts:", _drop_lines(orders))


def _drop_labelled_source(orders: Iterable[str]) -> str:
    test = ["s, p, o = fact", "row = pso[p].get(s)", "if row is None or row.get(o) != label: continue"]
    return _function("drop_labelled(facts, label)", "for fact in facts:", [*test, *_drop_lines(orders), "out(fact)"])


def _having_source(orders: Iterable[str]) -> str:
    del orders
    lines = ["s, p, o = fact", "if pso[p][s][o] == label: out(fact)"]
    return _function("having(facts, label)", "for fact in facts:", lines)


_SOURCES: Final = (_put_source, _put_missing_source, _drop_source, _drop_labelled_source, _having_source)


def _put_lines(orders: Iterable[str], found: str) -> list[str]:
    """Return the lines that put a fact; ``found`` goes to the place where its row in the first order is known."""
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
            lines.append(found)
        lines.append(f"row[{third}] = label")
    return lines


def _drop_lines(orders: Iterable[str]) -> list[str]:
    lines = []
    for order in orders:
        first, second, third = tuple(order)
        lines += [
            f"rows = {order}[{first}]",
            f"row = rows[{second}]",
            f"del row[{third}]",
            f"if not row: del rows[{second}]",
        ]
        if order[0] != "p":  # predicates keep their dictionaries; there is no bound on subjects and objects
            lines.append(f"if not rows: del {order}[{first}]")
    return lines


def _function(signature: str, loop: str, lines: Iterable[str], result: str = "found") -> str:
    top = ["found = []", "out = found.append", loop] if loop else []
    inner = [f"    {line}" for line in lines] if loop else list(lines)
    return "\n    ".join([f"def {signature}:", *top, *inner, f"return {result}"])
