"""Compiled expressions, which run once per solution, with a bounded memory of their results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from p2prdf.errors import QueryRefused
from p2prdf.rdf import expressions, values
from p2prdf.rdf.expression_parser import Node, check_size, parse_expression
from p2prdf.rdf.moments import ExpressionError
from p2prdf.rdf.query import Filter
from p2prdf.rdf.terms import XSD
from p2prdf.rdf.tokens import refusal

__all__ = [
    "ALWAYS", "FILTERS_MAX", "NEVER", "RESULTS_MAX", "CompiledExpression", "CompiledFilter", "ExpressionChecker",
    "compile_expression", "compile_filter",
]  # fmt: skip

ALWAYS: Final = Filter(f'"true"^^<{XSD}boolean>', ())
NEVER: Final = Filter(f'"false"^^<{XSD}boolean>', ())
"""The false condition; a condition without variables becomes this or ``ALWAYS``."""
FILTERS_MAX: Final = 256
"""Most compiled filters that are remembered although no query in use has them."""
RESULTS_MAX: Final = 256
"""Most results that a filter remembers, by its arguments; a full memory is cleared."""
_REMEMBERED_LENGTH_MAX: Final = 512


class CompiledFilter:
    """Decides whether a filter holds for canonical terms of its variables, in order; None is unbound.

    An error of the expression counts as false (SPARQL 1.1, section 17).
    """

    __slots__ = ("__weakref__", "_results", "_test")

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

    __slots__ = ("__weakref__", "_evaluate")

    def __init__(self, evaluate: Callable[[expressions.Row], values.Value]):
        self._evaluate = evaluate

    def __call__(self, row: expressions.Row) -> str | None:
        """Return the canonical term; None for an error, which leaves a variable unbound (SPARQL 1.1, 18.5)."""
        try:
            return values.encode(self._evaluate(row))
        except (ExpressionError, ArithmeticError, ValueError):
            return None


_filters: WeakValueDictionary[Filter, CompiledFilter] = WeakValueDictionary()
_expressions: WeakValueDictionary[Filter, CompiledExpression] = WeakValueDictionary()


@functools.lru_cache(maxsize=FILTERS_MAX)
def compile_filter(filter: Filter) -> CompiledFilter:  # noqa: A002 - SPARQL's word
    """Return a function that decides whether the filter holds for values of its variables.

    Raises QueryRefused for an invalid filter.  Filters in use are shared; the last ``FILTERS_MAX`` are remembered.
    """
    known = _filters.get(filter)
    if known is None:
        known = _filters[filter] = CompiledFilter(_compiled(filter, expressions.compile_condition))
    return known


@functools.lru_cache(maxsize=FILTERS_MAX)
def compile_expression(expression: Filter) -> CompiledExpression:
    """Return a function from values of an expression's variables to its term.

    Raises QueryRefused for an invalid expression.  Remembered and shared as filters are.
    """
    known = _expressions.get(expression)
    if known is None:
        known = _expressions[expression] = CompiledExpression(_compiled(expression, expressions.compile_value))
    return known


class ExpressionChecker:
    """Checks the expressions of one query, and bounds their size together."""

    def __init__(self, text: str):
        self._text = text
        self._size = 0

    def check(self, expression: Filter, at: int) -> None:
        """Raise QueryRefused, with the position ``at`` in the query, for an invalid or excessive expression."""
        try:
            self._size += parse_expression(expression.text, expression.variables)[1]
            check_size(self._size)
            compile_expression(expression)
        except QueryRefused as error:
            wrong = error.construct == "syntax error"
            reason = "no valid expression begins here" if wrong else error.reason
            raise refusal(self._text, at, error.construct, reason) from None


_Compiled = TypeVar("_Compiled")


def _compiled(expression: Filter, compiler: Callable[[Node], _Compiled]) -> _Compiled:
    try:
        return compiler(parse_expression(expression.text, expression.variables)[0])
    except RecursionError:  # the caller may have used most of the stack
        raise QueryRefused("the filter nests too deeply to be parsed", construct="nesting") from None
    except ExpressionError as error:
        raise QueryRefused(str(error), construct="REGEX") from None
