"""Compiled expressions, which run once per solution, with a bounded memory of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from p2prdf.rdf import expressions, values
from p2prdf.rdf.moments import ExpressionError

__all__ = ["RESULTS_MAX", "CompiledExpression", "CompiledFilter"]

RESULTS_MAX: Final = 256
"""Most results that a filter remembers, by its arguments; a full memory is cleared."""
_REMEMBERED_LENGTH_MAX: Final = 512


class CompiledFilter:
    """Decides whether a filter holds for canonical terms of its variables, in order; None is unbound.

    An error of the expression counts as false (SPARQL 1.1, section 17).
    """

    __slots__ = ("_results", "_test")

    def __init__(self, test: Callable[[expressions.Row], bool]):
        self._test = test
        self._results: dict[tuple[str | None, ...], bool] = {}

    def __call__(self, row: expressions.Row) -> bool:
        """Return the effective boolean value; an error is false."""
        key = tuple(row)
        known = self._results.get(key)
        if known is None:
            known = self._decide(key)
            if sum(len(term) for term in key if term is not None) <= _REMEMBERED_LENGTH_MAX:
                if len(self._results) >= RESULTS_MAX:
                    self._results.clear()
                self._results[key] = known
        return known

    def _decide(self, row: expressions.Row) -> bool:
        try:
            return self._test(row)
        except (ExpressionError, ArithmeticError, ValueError):
            return False  # an expression that cannot be computed has no value


class CompiledExpression:
    """Computes the term of an expression from canonical terms of its variables, in order; None is unbound."""

    __slots__ = ("_evaluate",)

    def __init__(self, evaluate: Callable[[expressions.Row], values.Value]):
        self._evaluate = evaluate

    def __call__(self, row: expressions.Row) -> str | None:
        """Return the canonical term; None for an error, which leaves a variable unbound (SPARQL 1.1, 18.5)."""
        try:
            return values.encode(self._evaluate(row))
        except (ExpressionError, ArithmeticError, ValueError):
            return None
