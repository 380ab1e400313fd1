"""SPARQL 1.1's arithmetic operators and casts, as functions from values to a value.

Operands are promoted to the higher of their numeric ranks.  Decimals are computed to 60 digits and divided to 18
places.  Beyond the SPARQL recommendation, durations can be added and can move dates and times, as in XPath.  A cast
from a string ignores outer white space; a cast of a term without a value is an error.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from p2prdf.rdf import moments
from p2prdf.rdf.moments import CONTEXT, Duration, ExpressionError, Moment
from p2prdf.rdf.terms import XSD
from p2prdf.rdf.values import (
    Family,
    Number,
    Value,
    boolean,
    double_text,
    duration_value,
    ebv,
    moment_value,
    number,
    number_parts,
    parse_literal,
    promote,
    string,
)

__all__ = ["CASTS", "Function", "add", "divide", "itself", "moment_of", "multiply", "negate", "subtract"]

Function = Callable[..., Value]


def moment_of(value: Value, *families: Family) -> Moment:
    """Return a date or time.  Raises ExpressionError if the value belongs to none of the families."""
    if value.family not in families or not isinstance(value.value, Moment):
        raise ExpressionError("not a date or time")
    return value.value


def _two(a: Value, b: Value) -> tuple[Number, Number, int]:
    x, rank_x = number_parts(a)
    y, rank_y = number_parts(b)
    rank = max(rank_x, rank_y)
    return promote(x, rank), promote(y, rank), rank


def _arithmetic(of_decimals: Callable[[Decimal, Decimal], Decimal], of_others: Function) -> Function:
    def operate(a: Value, b: Value) -> Value:
        x, y, rank = _two(a, b)
        if isinstance(x, Decimal) and isinstance(y, Decimal):
            try:
                return number(of_decimals(x, y), rank)
            except decimal.DecimalException:
                raise ExpressionError("a decimal out of range") from None
        return number(of_others(x, y), rank)  # type: ignore[arg-type]

    return operate


_add_numbers: Final = _arithmetic(CONTEXT.add, lambda x, y: x + y)
_subtract_numbers: Final = _arithmetic(CONTEXT.subtract, lambda x, y: x - y)
multiply: Final = _arithmetic(CONTEXT.multiply, lambda x, y: x * y)
"""SPARQL's ``*``."""


def add(a: Value, b: Value) -> Value:
    """SPARQL's ``+``: numbers, durations, and a duration to a date or time."""
    if isinstance(b.value, Duration):
        if isinstance(a.value, Duration):
            name = a.datatype if a.datatype == b.datatype else XSD + "duration"
            return duration_value(moments.plus_durations(a.value, b.value), name.removeprefix(XSD))
        return _shift(a, b.value)
    if isinstance(a.value, Duration):
        return _shift(b, a.value)
    return _add_numbers(a, b)


def subtract(a: Value, b: Value) -> Value:
    """SPARQL's ``-``: numbers, durations, a duration from a date or time, and two dates or times."""
    if isinstance(b.value, Duration):
        return add(a, negate(b))
    if isinstance(a.value, Moment) and isinstance(b.value, Moment) and a.family is b.family in _SHIFTED:
        return duration_value(moments.minus(a.value, b.value), "dayTimeDuration")
    return _subtract_numbers(a, b)


_SHIFTED: Final = (Family.DATE_TIME, Family.DATE, Family.TIME)


def _shift(value: Value, duration: Duration) -> Value:
    moment = moment_of(value, *_SHIFTED)
    if value.family is Family.TIME and duration.months:
        raise ExpressionError("a time has no months")
    moved = moments.plus(moment, duration)
    if value.family is Family.DATE:
        moved = moved._replace(hour=0, minute=0, second=Decimal(0))
    if value.family is Family.TIME:
        moved = moved._replace(year=moment.year, month=moment.month, day=moment.day)
    return moment_value(moved, value.family.value)


def divide(a: Value, b: Value) -> Value:
    """SPARQL's ``/``: integers divide to a decimal of at most 18 places."""
    x, y, rank = _two(a, b)
    if rank >= 2:
        return number(_divide_floats(float(x), float(y)), rank)
    if y == 0:
        raise ExpressionError("division by zero")
    try:
        quotient = CONTEXT.divide(Decimal(x), Decimal(y))
        places = Decimal("1E-18")
        return number(quotient.quantize(places, decimal.ROUND_DOWN, CONTEXT), 1)
    except decimal.DecimalException:
        raise ExpressionError("a decimal out of range") from None


def _divide_floats(x: float, y: float) -> float:
    if y != 0:
        return x / y
    if x == 0 or x != x:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1, y)


def negate(value: Value) -> Value:
    """SPARQL's unary ``-``."""
    if isinstance(value.value, Duration):
        opposite = Duration(-value.value.months, value.value.seconds.copy_negate())
        return duration_value(opposite, value.datatype.removeprefix(XSD))
    found, rank = number_parts(value)
    return number(found.copy_negate() if isinstance(found, Decimal) else -found, rank)


def itself(value: Value) -> Value:
    """SPARQL's unary ``+``."""
    if not isinstance(value.value, Duration):
        number_parts(value)
    return value


# --- casts ---------------------------------------------------------------------------------------

_DAYS: Final = (Family.DATE_TIME, Family.DATE)
_CLOCKS: Final = (Family.DATE_TIME, Family.TIME)


def _castable(value: Value) -> str | None:
    """Return the text to be parsed when a string is cast, None for other literals."""
    if not value.is_literal or value.family in (Family.LANGUAGE, Family.OPAQUE):
        raise ExpressionError("a term that cannot be cast")
    return value.lexical.strip(" \t\n\r") if value.family is Family.STRING else None


def _parsed(text: str, name: str) -> Value:
    found = parse_literal(text, XSD + name)
    if found.family is Family.OPAQUE:
        raise ExpressionError(f"not an xsd:{name}")
    return found


def _to_boolean(value: Value) -> Value:
    text = _castable(value)
    if text is not None:
        return boolean(ebv(_parsed(text, "boolean")))
    if value.family in (Family.BOOLEAN, Family.NUMBER):
        return boolean(ebv(value))
    raise ExpressionError("not a boolean or number")


def _to_number(name: str, rank: int) -> Function:
    def cast(value: Value) -> Value:
        text = _castable(value)
        if text is not None:
            return _parsed(text, name)
        if value.family is Family.BOOLEAN:
            return number(promote(int(value.value is True), rank), rank)
        found, have = number_parts(value)
        if have >= 2 and rank < 2:
            if not math.isfinite(float(found)):
                raise ExpressionError("not a finite number")
            found = Decimal(double_text(float(found), single=have == 2))
        return number(int(found) if rank == 0 else promote(found, rank), rank)

    return cast


def _to_string(value: Value) -> Value:
    if value.family in (Family.BLANK, Family.TRIPLE):
        raise ExpressionError(f"a {value.family.value} has no string")
    if value.family is Family.NUMBER:
        return string(number(*number_parts(value)).lexical)
    if value.family is Family.BOOLEAN:
        return string("true" if value.value is True else "false")
    return string(value.lexical)


def _to_moment(name: str, *families: Family) -> Function:
    """Return a cast from a string, or from a date or time that has the required fields."""

    def cast(value: Value) -> Value:
        text = _castable(value)
        if text is not None:
            return _parsed(text, name)
        moment = moment_of(value, *families)
        if name == "date" or value.family is Family.DATE:
            moment = moment._replace(hour=0, minute=0, second=Decimal(0))
        if name == "time":
            moment = moment._replace(year=1972, month=12, day=1)
        return moment_value(moment, name)

    return cast


def _to_duration(name: str) -> Function:
    def cast(value: Value) -> Value:
        text = _castable(value)
        if text is not None:
            return _parsed(text, name)
        if not isinstance(value.value, Duration):
            raise ExpressionError("not a duration")
        months = 0 if name == "dayTimeDuration" else value.value.months
        seconds = Decimal(0) if name == "yearMonthDuration" else value.value.seconds
        return duration_value(Duration(months, seconds), name)

    return cast


CASTS: Final[dict[str, Function]] = {
    XSD + name: cast
    for name, cast in (
        ("boolean", _to_boolean),
        ("integer", _to_number("integer", 0)),
        ("decimal", _to_number("decimal", 1)),
        ("float", _to_number("float", 2)),
        ("double", _to_number("double", 3)),
        ("string", _to_string),
        ("dateTime", _to_moment("dateTime", *_DAYS)),
        ("date", _to_moment("date", *_DAYS)),
        ("time", _to_moment("time", *_CLOCKS)),
        ("duration", _to_duration("duration")),
        ("dayTimeDuration", _to_duration("dayTimeDuration")),
        ("yearMonthDuration", _to_duration("yearMonthDuration")),
    )
}
"""Casts by the IRI of their datatype; each takes one argument."""
