"""Transitive relations, closed edge by edge.

``?x p ?z :- ?x p ?y, ?y p ?z`` tried like any other rule finds a path of n edges by each of its n - 1 ways in two, most
of these from both sides.  But if a relation is closed, and one edge comes to it, then all that follows goes from what
led to its beginning to what its end led to: one product of two rows, and each pair of it once (T. Ibaraki and N. Katoh,
On-line computation of transitive closures of graphs, Inf. Process. Lett. 16, 1983).  What came of the product need not
be looked at by this rule again.  Modules of this kind inside a materialisation by rules are those of P. Hu, J. Urbani,
B. Motik and I. Horrocks, Datalog Reasoning over Compressed RDF Knowledge Bases and Modular Materialisation of Datalog
Programs (AAAI 2019); labels and their withdrawal are added here.

*Labels.*  A path holds until the first of its edges expires, so E(x, z) is the width of the widest path, and a widest
path takes a new edge (b, c) at most once: E'(x, z) = max(E(x, z), min(E(x, b), L, E(c, z))).  Where E(x, c) was as
large as min(E(x, b), L) already, so was E(x, z): no z has to be looked at for such an x.

*Expiry* leaves the relation closed, for whatever two facts from now on lead to is from now on.

*Taking back* an edge (b, c) of label L drops just those (x, z) whose widest path may need it, E(x, z) = min(E(x, b), L,
E(c, z)).  What is left is not closed, but all that is missing is among the dropped: if two facts that are left lead to
one that is not there, or lower, then that one was dropped.  Each dropped fact gets the best label that two facts which
are left give it, and is then entered like an edge, *without* leaving out any x.  That closes the relation: take a path
of facts of some width that are left, two by two they are such edges, and one that is over stands at an end, where the
product has it in its row.

A relation is kept so if this is the only rule that concludes its facts, so that what comes to it comes as an edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from p2prdf.reasoning.facts import ABSENT, Fact, Facts

__all__ = ["Transitive"]

_NOTHING: Mapping[int, int] = {}


class Transitive:
    """The facts of one transitive predicate."""

    def __init__(self, facts: Facts, predicate: int, *, consumed: bool):
        """``consumed``: whether another rule has such facts in its body."""
        self.consumed = consumed
        self._predicate = predicate
        self._rows = facts.orders["pso"].setdefault(predicate, {})
        self._columns = facts.orders["pos"].setdefault(predicate, {})
        self._put_besides: Callable[[Iterable[Fact], int], None] | None = facts.put_besides

    def enter(
        self, edges: Iterable[tuple[Fact, int]], added: dict[Fact, int], raised: dict[Fact, int],
        levels: Mapping[int, list[Fact]], *, closed: bool,
    ) -> None:  # fmt: skip
        """Put edges with what follows, if their labels are better than what is there.

        Notes the new labels of what was not there, of what was, and all of it by label, as compiled rules do.
        ``closed``: whether the relation is, so that parts of the product may be left out.
        """
        p, rows, columns, besides = self._predicate, self._rows, self._columns, self._put_besides
        for (b, _, c), label in edges:
            row = rows.get(b)
            if row is not None and row.get(c, ABSENT) >= label:
                continue
            if row is None:
                row = rows[b] = {}
            column = columns.get(c)
            if column is None:
                column = columns[c] = {}
            ends = [(c, label, column)]
            ends += [(z, to_z, columns[z]) for z, to_z in rows.get(c, _NOTHING).items()]
            starts = [(b, label, row)]
            starts += [(x, to_b, rows[x]) for x, to_b in columns.get(b, _NOTHING).items()]
            for x, to_b, row in starts:
                if to_b > label:
                    to_b = label
                if closed and row.get(c, ABSENT) >= to_b:
                    continue
                for z, from_c, column in ends:
                    found = from_c
                    if found > to_b:
                        found = to_b
                    was = row.get(z, ABSENT)
                    if was < found:
                        row[z] = column[x] = found
                        fact = (x, p, z)
                        levels[found].append(fact)
                        if was == ABSENT:
                            added[fact] = found
                        else:
                            raised[fact] = found
                        if besides is not None:
                            besides((fact,), found)

    def add(self, edges: Iterable[Fact], label: int) -> list[Fact]:
        """Put edges with what follows, where these are not there, all with one label; return what was put.

        The relation is closed, and the label not larger than any that is there.
        """
        p, rows, columns = self._predicate, self._rows, self._columns
        found: list[Fact] = []
        for b, _, c in edges:
            row = rows.get(b)
            if row is None:
                rows[b] = {}
            elif c in row:
                continue
            ends = {c: label} | dict.fromkeys(rows.get(c, _NOTHING), label)
            starts = [b, *(x for x in columns.get(b, _NOTHING) if x != b)]
            all_new = []
            for x in starts:
                row = rows[x]
                if c in row:
                    continue
                if row.keys().isdisjoint(ends):
                    row |= ends
                    all_new.append(x)
                    continue
                for z in ends:
                    if z not in row:
                        row[z] = label
                        columns.setdefault(z, {})[x] = label
                        found.append((x, p, z))
            if all_new:
                column = dict.fromkeys(all_new, label)
                for z in ends:
                    if z in columns:
                        columns[z] |= column
                    else:
                        columns[z] = column.copy()
                found += [(x, p, z) for x in all_new for z in ends]
        if self._put_besides is not None:
            self._put_besides(found, label)
        return found

    def note_dropped(self, edge: Fact, label: int, given: Mapping[Fact, int], dropped: dict[Fact, int]) -> None:
        """Note, with its label, each fact that may have it through an edge which has this one; it is changed nowhere.

        Not noted is what is given with as large a label itself.
        """
        p, rows = self._predicate, self._rows
        b, _, c = edge
        ends = [(c, label), *rows.get(c, _NOTHING).items()]
        for x, to_b in [(b, label), *self._columns.get(b, _NOTHING).items()]:
            row, narrowest = rows[x], min(to_b, label)
            if row[c] != narrowest:
                continue  # a better path leads to c, and on from there
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
