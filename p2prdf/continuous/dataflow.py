"""A standing query as a dataflow: signed solutions of its leaves in, signed solutions out.

Each operator of the query (:mod:`p2prdf.rdf.algebra`) becomes an operator with state
(:mod:`p2prdf.continuous.operators`).  A change of a leaf passes once through each operator that depends on it, in the
order of the query; two readers of an operator get the same change.

At any time the output is exact for the leaf solutions given so far, whatever their order.  Between related changes of
several leaves the output reflects only a part of them; :meth:`Dataflow.apply_all` applies such changes together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from p2prdf.continuous.operators import linear
from p2prdf.continuous.operators.aggregates import accumulator
from p2prdf.continuous.operators.closure import Closure
from p2prdf.continuous.operators.construct import Construct
from p2prdf.continuous.operators.distinct import Distinct
from p2prdf.continuous.operators.existence import Existence
from p2prdf.continuous.operators.group import Group
from p2prdf.continuous.operators.join import Join
from p2prdf.continuous.operators.left_join import LeftJoin
from p2prdf.continuous.operators.matching import Sides
from p2prdf.continuous.operators.slice import Slice
from p2prdf.continuous.operators.table import Table
from p2prdf.continuous.operators.terms import Dictionary, Terms
from p2prdf.continuous.operators.zset import Delta, Operator, Row, add, consolidated
from p2prdf.rdf import algebra, terms
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.compiled import compile_expression, compile_filter
from p2prdf.rdf.layouts import inputs_of, layouts
from p2prdf.rdf.ordering import OrderKey, order_key
from p2prdf.rdf.standing.form import canonical_bytes
from p2prdf.rdf.values import FALSE, TRUE, encode

__all__ = ["Dataflow"]


class Dataflow:
    """The operators of one standing query with their state."""

    def __init__(self, query: StandingQuery, dictionary: Dictionary):
        """Make the operators.  ``dictionary`` numbers the terms of all rows; computed terms are added to it."""
        self._query = query
        maker = _Maker(query, Terms(dictionary))
        self._operators = [maker.make(number) for number in range(len(query.operators))]
        self._inputs = [inputs_of(operator) for operator in query.operators]
        places = [number for number, operator in enumerate(query.operators) if isinstance(operator, algebra.Leaf)]
        self._leaves = places
        self._after = [self._reached(place) for place in places]
        self._output: Delta = {}
        self.initial: Delta = self._run({}, range(len(self._operators)))
        """The output before any solution of a leaf: the rows of VALUES, or an aggregate of the empty group."""

    def _reached(self, place: int) -> list[int]:
        """Return the operators that depend on one, itself included, in order."""
        reached = {place}
        for number in range(place + 1, len(self._inputs)):
            if reached.intersection(self._inputs[number]):
                reached.add(number)
        return sorted(reached)

    def apply(self, leaf: int, rows: Iterable[tuple[Row, int]]) -> Delta:
        """Take signed solutions of a leaf, laid out as its ``answer``; return the change of the output.

        Rows may repeat, and their order does not matter.
        """
        return self.apply_all({leaf: rows})

    def apply_all(self, changes: Mapping[int, Iterable[tuple[Row, int]]]) -> Delta:
        """Take signed solutions of several leaves at once; return the change of the output."""
        given: dict[int, Delta] = {}
        for leaf, rows in changes.items():
            change = consolidated(rows)
            width = len(self._query.leaves[leaf].answer)
            assert all(len(row) == width for row in change), f"rows of leaf {leaf} have {width} columns"
            if change:
                given[self._leaves[leaf]] = change
        reached = sorted(set[int]().union(*(self._after[leaf] for leaf in changes)))
        return self._run(given, reached) if given else {}

    def _run(self, given: dict[int, Delta], reached: Iterable[int]) -> Delta:
        found = given
        first = not given
        for number in reached:
            operator = self._operators[number]
            changes = [found.get(other, _NOTHING) for other in self._inputs[number]]
            if operator is not None and (first or any(changes)):
                found[number] = operator.apply(*changes)
        out = found.get(len(self._operators) - 1, {})
        for row, weight in out.items():
            add(self._output, row, weight)
        return dict(out)

    def output(self) -> Delta:
        """Return all rows of the output with their multiplicities."""
        return dict(self._output)

    @property
    def empty(self) -> bool:
        """Whether the output has no row."""
        return not self._output

    def count(self, row: Row) -> int:
        """Return the multiplicity of a row of the output."""
        return self._output.get(row, 0)

    @property
    def rows_held(self) -> int:
        """Number of rows in the states of all operators, and in the output."""
        return len(self._output) + sum(rows for _, rows in self.sizes())

    def rows_by_operator(self) -> dict[int, int]:
        """Return the rows held in the state of each operator that holds any, by its number in the query."""
        return {at: each.rows_held for at, each in enumerate(self._operators) if each is not None and each.rows_held}

    def sizes(self) -> list[tuple[str, int]]:
        """Return for each operator that holds rows its kind and their number, in order."""
        named = zip(self._query.operators, self._operators, strict=True)
        return [(type(kind).__name__, each.rows_held) for kind, each in named if each is not None and each.rows_held]


_NOTHING: Final[Delta] = {}


class _Maker:
    """Makes the operators of a query."""

    def __init__(self, query: StandingQuery, known: Terms):
        self._query = query
        self._layouts = layouts(query.operators)
        self._terms = known

    def make(self, number: int) -> Operator | None:
        """Return the operator with its empty state; None for a leaf."""
        node = self._query.operators[number]
        match node:
            case algebra.Leaf():
                return None
            case algebra.Table(_, rows):
                return Table(consolidated((tuple(map(self._terms.cell, row)), 1) for row in rows))
            case algebra.Project(_, columns):
                return linear.Project(columns)
            case algebra.Filter(_, condition):
                return linear.Filter(self._condition(condition))
            case algebra.Extend(_, expression):
                return linear.Extend(self._expression(expression))
            case algebra.Fix(_, columns):
                return linear.Fix(columns)
            case algebra.Union():
                return linear.Union()
            case algebra.Distinct():
                return Distinct()
            case algebra.Report(input) | algebra.Settled(input):  # the evaluation decides when rows are delivered
                return linear.Project(tuple(range(len(self._layouts[input]))))
        return self._stateful(node)

    def _stateful(
        self, node: algebra.Join | algebra.LeftJoin | algebra.Minus | algebra.Exists | algebra.Group | algebra.Slice
        | algebra.Slices | algebra.Closure | algebra.Construct | algebra.Inferred,
    ) -> Operator:  # fmt: skip
        match node:
            case algebra.Group(_, keys, aggregates):
                makers = [accumulator(each, self._terms) for each in aggregates]
                return Group(keys, [each.columns for each in aggregates], makers)
            case algebra.Slice(_, order, offset, limit):
                return Slice(self._key(order), offset, limit)
            case algebra.Slices(_, partition, order, offset, limit):
                return Slice(self._key(order), offset, limit, partition)
            case algebra.Closure(edges, seeds, backward, reflexive):
                keyed = len(self._layouts[edges]) == 3
                return Closure(seeded=seeds is not None, backward=backward, reflexive=reflexive, keyed=keyed)
            case algebra.Construct(input, template, constants):
                numbers = [self._terms.intern(constant) for constant in constants]
                return Construct(template, numbers, len(self._layouts[input]), self._blank(), self._is_triple)
            case algebra.Inferred(_, rules):
                from p2prdf.continuous.operators.inferred import Inferred  # few queries have rules

                return Inferred(rules, self._terms.intern, self._is_literal)
        return self._of_two(node)

    def _of_two(self, node: algebra.Join | algebra.LeftJoin | algebra.Minus | algebra.Exists) -> Operator:
        left, right = self._layouts[node.left], self._layouts[node.right]
        if isinstance(node, algebra.Minus):
            counted = range(len(node.keys), len(node.keys) + len(node.shared))
            return Existence(Sides.of(node.keys + node.shared, left, right, counted), None, ())
        sides = Sides.of(node.shared, left, right)
        match node:
            case algebra.Join():
                return Join(sides, len(right))
            case algebra.LeftJoin(conditions=conditions):
                return LeftJoin(sides, len(right), self._all(conditions))
            case algebra.Exists(existence=algebra.Existence.SOME):
                return Existence(sides, (), None)
            case algebra.Exists(existence=algebra.Existence.NONE):
                return Existence(sides, None, ())
        true, false = (self._terms.intern(encode(value)) for value in (TRUE, FALSE))
        return Existence(sides, (true,), (false,))

    # --- readers of terms --------------------------------------------------------------------

    def _condition(self, condition: algebra.Expression) -> Callable[[Row], bool]:
        holds, columns, known = compile_filter(condition), condition.variables, self._terms.known
        return lambda row: holds([known(row[at]) for at in columns])

    def _all(self, conditions: tuple[algebra.Expression, ...]) -> Callable[[Row], bool] | None:
        tests = [self._condition(condition) for condition in conditions]
        if not tests:
            return None
        return tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests)

    def _expression(self, expression: algebra.Expression) -> Callable[[Row], int]:
        compute, columns, known = compile_expression(expression), expression.variables, self._terms.known
        return lambda row: self._terms.cell(compute([known(row[at]) for at in columns]))

    def _key(self, order: tuple[tuple[int, bool], ...]) -> Callable[[Row], OrderKey]:
        """Return the sort key of rows: by columns as ORDER BY says, then by all their terms."""
        place, known = self._terms.place, self._terms.known

        def key(row: Row) -> OrderKey:
            keys = [(order_key(known(row[at])), down) for at, down in order]
            return (*(_Descending(found) if down else found for found, down in keys), *map(place, row))

        return key

    def _is_literal(self, term: int) -> bool:
        return terms.kind(self._terms.text(term)) is terms.Kind.LITERAL

    def _is_triple(self, s: int, p: int, _o: int) -> bool:
        """Tell whether terms make a triple: an IRI or a blank node, an IRI and any term."""
        return not terms.is_object_only(self._terms.text(s)) and terms.kind(self._terms.text(p)) is terms.Kind.IRI

    def _blank(self) -> Callable[[Row, int, int], int]:
        """Return the factory of a template's blank nodes: equal for equal query and solution, at any peer."""
        scope = hashlib.blake2b(canonical_bytes(self._query), digest_size=16).digest()

        def blank(row: Row, number: int, copy: int) -> int:
            texts = [self._terms.known(cell) or "" for cell in row]
            named = hashlib.blake2b(repr((texts, number, copy)).encode(), digest_size=16, key=scope).hexdigest()
            return self._terms.intern(terms.skolem("construct", named))

        return blank


class _Descending:
    """A place in the opposite order."""

    __slots__ = ("_place",)

    def __init__(self, place: OrderKey):
        self._place = place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other._place < self._place)
