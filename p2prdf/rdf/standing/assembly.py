"""Assemble operators: each occurs once, in an order that makes equal queries equal lists."""

from __future__ import annotations

from p2prdf.errors import QueryRefused
from p2prdf.rdf.algebra import LEAVES_MAX, OPERATORS_MAX, Leaf, Operator
from p2prdf.rdf.layouts import inputs_of, with_inputs

__all__ = ["Assembly", "canonical"]


class Assembly:
    """Operators by number; equal operators share one number."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self._numbers: dict[Operator, int] = {}
        self._leaves = 0

    def add(self, operator: Operator) -> int:
        """Return the number of an operator; add it unless an equal one exists.

        Raises QueryRefused if there are more than LEAVES_MAX leaves or OPERATORS_MAX operators.
        """
        number = self._numbers.get(operator)
        if number is not None:
            return number
        self._leaves += isinstance(operator, Leaf)
        if self._leaves > LEAVES_MAX:
            raise QueryRefused(f"more than {LEAVES_MAX} basic graph patterns", construct="query size")
        number = self._numbers[operator] = len(self.operators)
        if number >= OPERATORS_MAX:
            raise QueryRefused(f"more than {OPERATORS_MAX} operators", construct="query size")
        self.operators.append(operator)
        return number


def canonical(operators: tuple[Operator, ...] | list[Operator], root: int) -> tuple[Operator, ...]:
    """Return the operators that a root depends on, numbered in post-order from the root."""
    assembly = Assembly()
    numbers: dict[int, int] = {}
    stack = [root]
    while stack:
        number = stack[-1]
        missing = [other for other in inputs_of(operators[number]) if other not in numbers]
        if missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if number not in numbers:
            inputs = tuple(numbers[other] for other in inputs_of(operators[number]))
            numbers[number] = assembly.add(with_inputs(operators[number], inputs))
    return tuple(assembly.operators)
