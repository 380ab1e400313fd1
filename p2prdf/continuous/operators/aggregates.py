"""Aggregates (SPARQL 1.1, 18.5.1), maintained as members of a group come and go.

Each aggregate keeps as little of its members as it needs.  A member without a value is an error, and makes the result
of all aggregates except COUNT and SAMPLE an error; errors are counted, so the result returns when the last error
goes.  If the recommendation leaves a choice, the result depends on the members alone, not on their order of arrival:
sums are exact and rounded once, SAMPLE takes the first member in the order of terms, GROUP_CONCAT joins in that
order.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final, Protocol

from p2prdf.continuous.operators.ranked import Ranked
from p2prdf.continuous.operators.terms import Terms
from p2prdf.continuous.operators.zset import UNBOUND, Row
from p2prdf.rdf import arithmetic, values
from p2prdf.rdf.algebra import Aggregate, Function
from p2prdf.rdf.functions import TEXT_MAX
from p2prdf.rdf.moments import ExpressionError
from p2prdf.rdf.values import Family, Value

__all__ = ["Accumulator", "accumulator"]


class Accumulator(Protocol):
    """The members of one group for one aggregate."""

    def add(self, cells: Row, times: int) -> None:
        """Add a member ``times`` times, or remove it if ``times`` is negative."""
        ...

    def result(self) -> int:
        """Return the number of the result's term, UNBOUND for an error."""
        ...


def accumulator(aggregate: Aggregate, terms: Terms) -> Callable[[], Accumulator]:
    """Return a factory of accumulators for an empty group."""

    def plain() -> Accumulator:
        match aggregate.function:
            case Function.COUNT:
                return _Count(terms, rows=len(aggregate.columns) != 1)
            case Function.SUM:
                return _Sum(terms)
            case Function.AVG:
                return _Average(terms)
            case Function.MIN | Function.MAX:
                return _Extreme(terms, last=aggregate.function is Function.MAX)
            case Function.SAMPLE:
                return _Sample(terms)
        return _Concatenation(terms, aggregate.separator)

    return (lambda: _Distinct(plain())) if aggregate.distinct else plain


class _Distinct:
    """Passes on only the first arrival and the last departure of a member.  One step per change."""

    def __init__(self, inner: Accumulator):
        self._inner = inner
        self._members: dict[Row, int] = {}

    def add(self, cells: Row, times: int) -> None:
        before = self._members.get(cells, 0)
        after = before + times
        if after:
            self._members[cells] = after
        else:
            del self._members[cells]
        if (before > 0) != (after > 0):
            self._inner.add(cells, 1 if after > 0 else -1)

    def result(self) -> int:
        return self._inner.result()


class _Count:
    """COUNT: all rows, or all members that are not errors.  One step per change."""

    def __init__(self, terms: Terms, *, rows: bool):
        self._terms = terms
        self._rows = rows
        self._count = 0

    def add(self, cells: Row, times: int) -> None:
        if self._rows or cells[0] != UNBOUND:
            self._count += times

    def result(self) -> int:
        return self._terms.intern(values.encode(values.number(self._count, 0)))


_EXACT: Final = decimal.Context(
    prec=5 * values.DIGITS_MAX, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.Inexact]
)
"""A decimal has at most DIGITS_MAX digits before and behind its point, so no sum of them loses one."""


class _Sum:
    """SUM, exact and rounded once; a running sum of doubles would depend on the order of arrival.

    One step per change.
    """

    def __init__(self, terms: Terms):
        self._terms = terms
        self._errors = 0
        self._members = [0, 0, 0, 0]
        """By rank: integers, decimals, floats, doubles."""
        self._integers = 0
        self._decimals = Decimal(0)
        self._floats = Fraction(0)
        self._special = {"INF": 0, "-INF": 0, "NaN": 0}

    def add(self, cells: Row, times: int) -> None:
        value = self._terms.value(cells[0]) if cells[0] != UNBOUND else None
        if value is None or value.family is not Family.NUMBER:
            self._errors += times
            return
        found, rank = values.number_parts(value)
        self._members[rank] += times
        if isinstance(found, int):
            self._integers += found * times
        elif isinstance(found, Decimal):
            self._decimals = _EXACT.add(self._decimals, _EXACT.multiply(found, Decimal(times)))
        elif math.isfinite(found):
            self._floats += Fraction(found) * times
        else:
            self._special[values.double_text(found)] += times

    def result(self) -> int:
        return _term_of(self._terms, self.total)

    def total(self) -> Value:
        """Return the sum.  Raises ExpressionError if a member is not a number."""
        if self._errors:
            raise ExpressionError("a member is not a number")
        rank = max((rank for rank, count in enumerate(self._members) if count), default=0)
        if rank == 0:
            return values.number(self._integers, 0)
        if rank == 1:
            return values.number(_EXACT.add(self._decimals, Decimal(self._integers)), 1)
        return values.number(self._rounded(), rank)

    def _rounded(self) -> float:
        special = self._special
        if special["NaN"] or (special["INF"] and special["-INF"]):
            return math.nan
        if special["INF"] or special["-INF"]:
            return math.inf if special["INF"] else -math.inf
        exact = self._floats + Fraction(self._decimals) + self._integers
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf

    @property
    def count(self) -> int:
        """Number of members."""
        return sum(self._members)


class _Average:
    """AVG: the sum divided by the number of members; 0 for an empty group.  One step per change."""

    def __init__(self, terms: Terms):
        self._terms = terms
        self._sum = _Sum(terms)

    def add(self, cells: Row, times: int) -> None:
        self._sum.add(cells, times)

    def result(self) -> int:
        return _term_of(self._terms, self._average)

    def _average(self) -> Value:
        total = self._sum.total()
        return arithmetic.divide(total, values.number(self._sum.count, 0)) if self._sum.count else total


class _Extreme:
    """MIN and MAX in the order of terms.  A change costs one insertion into that order, without a scan of the group."""

    def __init__(self, terms: Terms, *, last: bool):
        self._terms = terms
        self._last = last
        self._errors = 0
        self._members = Ranked[int]()

    def add(self, cells: Row, times: int) -> None:
        if cells[0] == UNBOUND:
            self._errors += times
        else:
            self._members.change(self._terms.place(cells[0]), cells[0], times)

    def result(self) -> int:
        if self._errors or not len(self._members):
            return UNBOUND
        return self._members.last if self._last else self._members.first


class _Sample:
    """SAMPLE: the first member in the order of terms that is not an error."""

    def __init__(self, terms: Terms):
        self._members = _Extreme(terms, last=False)

    def add(self, cells: Row, times: int) -> None:
        if cells[0] != UNBOUND:
            self._members.add(cells, times)

    def result(self) -> int:
        return self._members.result()


class _Concatenation:
    """GROUP_CONCAT of the members' strings (``STR``) in the order of terms; the empty string for an empty group.

    A change costs one insertion into the order; a result costs its length.
    """

    def __init__(self, terms: Terms, separator: str):
        self._terms = terms
        self._separator = separator
        self._errors = 0
        self._length = 0
        self._members = Ranked[str]()

    def add(self, cells: Row, times: int) -> None:
        value = self._terms.value(cells[0]) if cells[0] != UNBOUND else None
        if value is None or value.family is Family.BLANK:
            self._errors += times
            return
        self._length += (len(value.lexical) + len(self._separator)) * times
        self._members.change(self._terms.place(cells[0]), value.lexical, times)

    def result(self) -> int:
        if self._errors or self._length > TEXT_MAX:
            return UNBOUND
        texts = [text for text, times in self._members for _ in range(times)]
        return self._terms.intern(values.encode(values.string(self._separator.join(texts))))


def _term_of(terms: Terms, compute: Callable[[], Value]) -> int:
    try:
        return terms.intern(values.encode(compute()))
    except (ExpressionError, ArithmeticError):
        return UNBOUND
