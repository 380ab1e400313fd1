"""Transitive relations, closed edge by edge.

``?x p ?z :- ?x p ?y, ?y p ?z`` tried like any other rule finds a path of n edges by each of its n - 1 ways in two, most
of these from both sides.  But if a relation is closed, and one edge comes to it, then all that follows goes from what
led to its beginning to what its end led to: one product of two rows, and each pair of it once (T. Ibaraki and N. Katoh,
On-line computation of transitive closures of graphs, Inf. Process. Lett. 16, 1983).  What came of the product need not
be looked at by this rule again.  That some rules are better served by code of their own inside a materialisation is an
idea of P. Hu, B. Motik and I. Horrocks, Modular Materialisation of Datalog Programs, AAAI 2019; labels, and what they
make of expiry and of taking back, are added here.

*Labels.*  A path holds until the first of its edges expires, so E(x, z) is the width of the widest path, and a widest
path takes a new edge (b, c) at most once: E'(x, z) = max(E(x, z), min(E(x, b), L, E(c, z))).  Where E(x, c) was as
large as min(E(x, b), L) already, so was E(x, z): no z has to be looked at for such an x.

*Expiry* leaves the relation closed, for whatever two facts from now on lead to is from now on.  Let (x, z) be expired,
and on any path of it let n be the first node such that (x, n) is, too: then so is the edge to n, and (x, z) is in its
product.  So what follows from edges need not be filed under its label.

*Taking back* an edge (b, c) of label L drops just those (x, z) whose widest path may need it, E(x, z) = min(E(x, b), L,
E(c, z)).  What is left is not closed, and then the products are not all of it; so what others still lead to is put back
by the rule itself, before anything else is entered.

In a product an x is left out if (x, c) was dealt with before, by an edge (b', c') in the same step: what lies behind c
lies behind c', so (x, z) was in that product.  So no step does more than by the rule, in circles neither.

A relation is kept so if this is the only rule that concludes its facts, so that what comes to it comes as an edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from p2prdf.reasoning.facts import ABSENT, Fact, Facts
from p2prdf.reasoning.rule import Rule, is_transitivity

__all__ = ["Transitive", "set_apart"]

_Side: TypeAlias = tuple[int, int, dict[int, int]]
"""A node, the label with which it gets to an edge, or is got to from it, and the row or column that it has."""
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
        """Put edges with what follows, if their labels are better than what is there.

        The relation is closed, and will be.  Notes the new labels of what was not there and of what was; if it is
        consumed, all of it by label, too, as compiled rules do.
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
        """Put what goes from any start to any end over an edge of this label, if its label is better."""
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
        """Drop what has a label below now, and return it; ``edges``: all given facts that had such labels.

        All rows are read before anything is dropped: a path may have lost several edges.
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
        """Note, with its label, each fact that may have it through an edge which has this one; it is changed nowhere.

        Not noted is what is given with as large a label itself.
        """
        p, rows = self._predicate, self._rows
        b, _, c = edge
        ends = [(c, label), *rows.get(c, _NOTHING).items()]
        for x, to_b in [(b, label), *self._columns.get(b, _NOTHING).items()]:
            row, narrowest = rows[x], min(to_b, label)
            if row[c] != narrowest or (x, p, c) in dropped:
                continue  # a better path leads to c, and on from there; or it was noted, and what lies behind it
            for z, from_c in ends:
                found = min(from_c, narrowest)
                if row[z] == found:
                    fact = (x, p, z)
                    if given.get(fact) != found:
                        dropped[fact] = found

    def best(self, facts: Collection[Fact]) -> list[int]:
        """Return the best label that each fact has of two others, ABSENT if none."""
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
