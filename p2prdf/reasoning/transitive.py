"""Transitive relations, closed edge by edge.

The rule ``?x p ?z :- ?x p ?y, ?y p ?z`` finds a path of n edges by each of its n - 1 splits, mostly from both sides.
If a relation is closed and gains an edge, all conclusions lead from the predecessors of its start to the successors of
its end: one product of two rows, each pair once (T. Ibaraki and N. Katoh, On-line computation of transitive closures of
graphs, Inf. Process. Lett. 16, 1983).  Special code for some rules inside a materialisation is an idea of P. Hu, B.
Motik and I. Horrocks, Modular Materialisation of Datalog Programs, AAAI 2019; labels, expiry and retraction are added
here.

- A product skips an x if E(x, c) is at least min(E(x, b), L) already, for an edge (b, c) with label L.
- Expiry keeps the relation closed, so conclusions of edges are not filed under their labels.
- A retraction does not: before any new edge, the rule itself restores the pairs that other paths support.

Only relations that no other rule concludes are kept this way, so that every addition is an edge.  The proofs are in
docs/explanation/rules.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from p2prdf.reasoning.facts import ABSENT, Fact, Facts
from p2prdf.reasoning.rule import Rule, is_transitivity

__all__ = ["Transitive", "set_apart"]

_Side: TypeAlias = tuple[int, int, dict[int, int]]
"""A node, its label on the way to or from an edge, and its row or column."""
_NOTHING: Final[Mapping[int, int]] = {}


def set_apart(rules: Iterable[Rule]) -> dict[str, bool]:
    """Return the predicates that only their transitivity concludes, and whether another rule has them in its body."""
    rules = list(rules)
    others = [rule for rule in rules if not is_transitivity(rule)]
    concluded = {rule.head.p for rule in others}
    if any(p.startswith("?") for p in concluded):
        return {}
    asked = {atom.p for rule in others for atom in rule.body}
    of_any = any(p.startswith("?") for p in asked)
    transitive = dict.fromkeys(rule.head.p for rule in rules if is_transitivity(rule))
    return {p: of_any or p in asked for p in transitive if p not in concluded}


class Transitive:
    """The facts of one transitive predicate."""

    def __init__(self, facts: Facts, predicate: int, *, consumed: bool):
        """``consumed``: whether another rule has such facts in its body."""
        self.consumed = consumed
        self._predicate = predicate
        self._rows = facts.orders["pso"].setdefault(predicate, {})
        self._columns = facts.orders["pos"].setdefault(predicate, {})
        self._put_besides: Callable[[Iterable[Fact], int], None] | None = facts.put_besides
        self._drop_besides: Callable[[Iterable[Fact]], None] | None = facts.drop_besides

    def enter(
        self, edges: Iterable[tuple[Fact, int]], added: dict[Fact, int], raised: dict[Fact, int],
        levels: Mapping[int, list[Fact]],
    ) -> None:  # fmt: skip
        """Put edges and their conclusions if their labels improve; the relation is closed before and after.

        Records the new labels of new facts and of known ones, and if the relation is consumed all of them by label,
        as compiled rules do.
        """
        rows, columns = self._rows, self._columns
        for (b, _, c), label in edges:
            row = rows.get(b)
            if row is None:
                row = rows[b] = {}
            elif row.get(c, ABSENT) >= label:
                continue
            column = columns.get(c)
            if column is None:
                column = columns[c] = {}
            starts, ends = [(b, label, row)], [(c, label, column)]
            if b in columns:
                starts += [(x, to_b, rows[x]) for x, to_b in columns[b].items()]
            if c in rows:
                ends += [(z, from_c, columns[z]) for z, from_c in rows[c].items()]
            self._put(starts, ends, label, added, raised, levels)

    def _put(
        self, starts: list[_Side], ends: list[_Side], label: int, added: dict[Fact, int], raised: dict[Fact, int],
        levels: Mapping[int, list[Fact]],
    ) -> None:  # fmt: skip
        """Put the paths from any start to any end over an edge of this label, if they improve a label."""
        p, noted, absent = self._predicate, self.consumed or self._put_besides is not None, ABSENT
        c = ends[0][0]
        for x, to_b, row in starts:
            narrowest = min(to_b, label)
            if row.get(c, absent) >= narrowest:
                continue
            for z, found, column in ends:
                if found > narrowest:
                    found = narrowest
                was = row.get(z, absent)
                if was < found:
                    row[z] = column[x] = found
                    fact = (x, p, z)
                    if was == absent:
                        added[fact] = found
                    else:
                        raised[fact] = found
                    if noted:
                        self._note(fact, found, levels)

    def _note(self, fact: Fact, label: int, levels: Mapping[int, list[Fact]]) -> None:
        if self.consumed:
            levels[label].append(fact)
        if self._put_besides is not None:
            self._put_besides((fact,), label)

    def expire(self, edges: Iterable[Fact], now: int) -> list[Fact]:
        """Drop facts with labels below now, and return them; ``edges``: all given facts that had such labels.

        All rows are read before any fact is dropped: a path may have lost several edges.
        """
        p, rows, columns = self._predicate, self._rows, self._columns
        products = [
            (c, [b, *columns.get(b, _NOTHING)], [c, *rows.get(c, _NOTHING)])
            for b, _, c in edges
            if rows[b][c] < now
        ]  # fmt: skip
        gone: list[Fact] = []
        for c, starts, ends in products:
            for x in starts:
                row = rows.get(x)
                if row is None or row.get(c, now) >= now:
                    continue
                for z in ends:
                    if row.get(z, now) < now:
                        gone.append((x, p, z))
                        column = columns[z]
                        del row[z], column[x]
                        if not column:
                            del columns[z]
                if not row:
                    del rows[x]
        if self._drop_besides is not None:
            self._drop_besides(gone)
        return gone

    def note_dropped(self, edge: Fact, label: int, given: Mapping[Fact, int], dropped: dict[Fact, int]) -> None:
        """Record, with its label, each fact that may owe its label to an edge with that label; nothing is changed.

        Facts that are given with the same label themselves are not recorded.
        """
        p, rows = self._predicate, self._rows
        b, _, c = edge
        ends = [(c, label), *rows.get(c, _NOTHING).items()]
        for x, to_b in [(b, label), *self._columns.get(b, _NOTHING).items()]:
            row, narrowest = rows[x], min(to_b, label)
            if row[c] != narrowest or (x, p, c) in dropped:
                continue  # a better path leads to c and on from there; or this was recorded, with everything behind it
            for z, from_c in ends:
                found = min(from_c, narrowest)
                if row[z] == found:
                    fact = (x, p, z)
                    if given.get(fact) != found:
                        dropped[fact] = found

    def best(self, facts: Collection[Fact]) -> list[int]:
        """Return the best label of each fact by two others, ABSENT without a derivation."""
        rows, columns, found = self._rows, self._columns, []
        for s, _, o in facts:
            best, row, column = ABSENT, rows.get(s, _NOTHING), columns.get(o, _NOTHING)
            if len(column) < len(row):
                row, column = column, row
            for y, label in row.items():
                if label > best:
                    other = column.get(y, ABSENT)
                    if other > best:
                        best = min(other, label)
            found.append(best)
        return found
