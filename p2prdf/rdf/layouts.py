"""The inputs of operators and the layouts of their rows.

A layout states which columns are bound in every row.  A join looks rows up by the shared columns that are bound on
both sides; it compares the other shared columns (:mod:`p2prdf.continuous.operators.matching`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, TypeAlias

from p2prdf.rdf import algebra
from p2prdf.rdf.algebra import Operator

__all__ = ["FIXED_ROWS_MAX", "fixed_rows", "inputs_of", "layouts", "with_inputs"]

FIXED_ROWS_MAX: Final = 400_000
"""Most rows that all operators of a query have from VALUES alone: an evaluation begins with them in one step."""

_OfTwo: TypeAlias = algebra.Join | algebra.LeftJoin | algebra.Minus | algebra.Exists


def inputs_of(operator: Operator) -> tuple[int, ...]:
    """Return the numbers of an operator's inputs, in order."""
    match operator:
        case algebra.Leaf() | algebra.Table():
            return ()
        case algebra.Union(inputs):
            return inputs
        case algebra.Join() | algebra.LeftJoin() | algebra.Minus() | algebra.Exists():
            return operator.left, operator.right
        case algebra.Closure(edges, seeds):
            return (edges,) if seeds is None else (edges, seeds)
    return (operator.input,)


def with_inputs(operator: Operator, inputs: tuple[int, ...]) -> Operator:
    """Return a copy of an operator with other inputs."""
    match operator:
        case algebra.Leaf() | algebra.Table():
            return operator
        case algebra.Union():
            return algebra.Union(inputs)
        case algebra.Join() | algebra.LeftJoin() | algebra.Minus() | algebra.Exists():
            return dataclasses.replace(operator, left=inputs[0], right=inputs[1])
        case algebra.Closure():
            return dataclasses.replace(operator, edges=inputs[0], seeds=inputs[1] if len(inputs) > 1 else None)
    return dataclasses.replace(operator, input=inputs[0])


def fixed_rows(operators: Sequence[Operator]) -> int:
    """Return an upper bound of the rows that operators have before any solution of a leaf arrives."""
    rows: list[int] = []
    for operator in operators:
        below = [rows[number] for number in inputs_of(operator)]
        match operator:
            case algebra.Table(_, table):
                found = len(table)
            case algebra.Leaf():
                found = 0
            case algebra.Join():
                found = below[0] * below[1]
            case algebra.LeftJoin():
                found = below[0] * max(1, below[1])
            case algebra.Union():
                found = sum(below)
            case algebra.Construct(_, template):
                found = below[0] * len(template)
            case algebra.Group(_, keys):
                found = below[0] if keys else 1
            case _:
                found = max(below)
        rows.append(min(found, FIXED_ROWS_MAX + 1))
    return sum(rows)


def layouts(operators: tuple[Operator, ...]) -> list[tuple[bool, ...]]:
    """Return for each operator one flag per column of its rows: whether the column is bound in every row.

    Raises IndexError if an operator names a column or an input that does not exist.
    """
    found: list[tuple[bool, ...]] = []
    for operator in operators:
        found.append(_layout(operator, [found[_place(number, len(found))] for number in inputs_of(operator)]))
    return found


def _place(number: int, count: int) -> int:
    if not 0 <= number < count:
        raise IndexError(f"there is no column or operator {number} among {count}")
    return number


def _layout(operator: Operator, inputs: list[tuple[bool, ...]]) -> tuple[bool, ...]:
    match operator:
        case algebra.Leaf(query):
            return (True,) * len(query.answer)
        case algebra.Table(width, rows):
            return tuple(all(row[at] is not None for row in rows) for at in range(width))
        case algebra.Project(_, columns):
            return tuple(at >= 0 and inputs[0][_place(at, len(inputs[0]))] for at in columns)
        case algebra.Filter(_, condition):
            return _with_columns(condition.variables, inputs[0])
        case algebra.Extend(_, expression):
            return (*_with_columns(expression.variables, inputs[0]), False)
        case algebra.Fix(_, columns):
            return _with_columns(columns, inputs[0]) + (True,) * len(columns)
        case algebra.Distinct() | algebra.Settled():
            return inputs[0]
        case algebra.Report(_, reported, every):
            behind = () if reported is algebra.Reported.CHANGES else (True,) if every else (True, True)
            return inputs[0] + behind
        case algebra.Slice(_, order):
            return _with_columns([at for at, _ in order], inputs[0])
        case algebra.Slices(_, partition, order):
            return _with_columns([*partition, *(at for at, _ in order)], inputs[0])
    return _layout_of_new_rows(operator, inputs)


def _layout_of_new_rows(
    operator: algebra.Union | algebra.Group | algebra.Closure | algebra.Construct | algebra.Inferred | _OfTwo,
    inputs: list[tuple[bool, ...]],
) -> tuple[bool, ...]:
    match operator:
        case algebra.Union():
            if len(set(map(len, inputs))) != 1:
                raise IndexError("a union of rows of different width")
            return tuple(map(all, zip(*inputs, strict=True)))
        case algebra.Group(_, keys, aggregates):
            _with_columns([*keys, *(at for each in aggregates for at in each.columns)], inputs[0])
            counts = [each.function is algebra.Function.COUNT for each in aggregates]
            return (*(inputs[0][at] for at in keys), *counts)
        case algebra.Closure():
            if [len(each) for each in inputs] not in ([2], [2, 1], [3], [3, 2]):
                raise IndexError("a closure needs two columns of edges and one of seeds, and one for graphs or none")
            return (True,) * len(inputs[0])
        case algebra.Construct() | algebra.Inferred():
            if isinstance(operator, algebra.Inferred) and len(inputs[0]) != 3:
                raise IndexError("rules need rows of three terms")
            return (True, True, True)
    return _layout_of_two(operator, *inputs)


def _layout_of_two(operator: _OfTwo, left: tuple[bool, ...], right: tuple[bool, ...]) -> tuple[bool, ...]:
    pairs = (*operator.keys, *operator.shared) if isinstance(operator, algebra.Minus) else operator.shared
    _with_columns([at for at, _ in pairs], left)
    _with_columns([at for _, at in pairs], right)
    places = {at for _, at in pairs}
    others = [flag for at, flag in enumerate(right) if at not in places]
    match operator:
        case algebra.Join(shared=shared):
            both = {at: left[at] or right[other] for at, other in shared}
            return (*(both.get(at, flag) for at, flag in enumerate(left)), *others)
        case algebra.LeftJoin(conditions=conditions):
            read = [at for condition in conditions for at in condition.variables]
            return _with_columns(read, left + (False,) * len(others))
        case algebra.Exists(existence=algebra.Existence.MARK):
            return (*left, True)
    return left


def _with_columns(columns: Sequence[int], layout: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return the layout.  Raises IndexError unless it has all these columns."""
    for at in columns:
        _place(at, len(layout))
    return layout
