"""Conversion of terms to Python values, and of Python values and other libraries' terms to terms."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms
from p2prdf.rdf.moments import Duration, Moment, parse_moment
from p2prdf.rdf.terms import XSD
from p2prdf.rdf.values import Family, decode

if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = ["PythonValue", "as_term", "python_value"]

PythonValue = str | bool | int | float | Decimal | datetime | date | time | timedelta

_MICROSECONDS = 1_000_000


def python_value(term: str) -> PythonValue:
    """Return the Python value of a canonical term.

    An IRI becomes its text.  Integers and the types derived from them become ``int``, decimals ``Decimal``, floats
    and doubles ``float``, booleans ``bool``, dateTimes, dates and times the types of :mod:`datetime`, truncated to
    microseconds, durations without months ``timedelta``.  Any other literal becomes its lexical form, including
    ill-formed literals and values that Python cannot hold (the year -5).
    """
    value = decode(term)
    found: PythonValue | None = None
    if value.family in (Family.BOOLEAN, Family.NUMBER):
        assert isinstance(value.value, bool | int | float | Decimal)
        found = value.value
    elif isinstance(value.value, Moment):
        found = _moment(value.value, value.family)
    elif isinstance(value.value, Duration):
        found = _duration(value.value)
    elif value.datatype == XSD + "dateTimeStamp":
        moment = parse_moment(value.lexical, "dateTime")
        found = None if moment is None or moment.zone is None else _moment(moment, Family.DATE_TIME)
    return terms.lexical(term) if found is None else found


def _moment(moment: Moment, family: Family) -> PythonValue | None:
    second, fraction = divmod(moment.second, 1)
    micro = int(fraction * _MICROSECONDS)
    zone = _zone(moment.zone)
    try:
        if family is Family.DATE_TIME:
            return datetime(
                moment.year, moment.month, moment.day, moment.hour, moment.minute, int(second), micro, tzinfo=zone
            )
        if family is Family.DATE:
            return date(moment.year, moment.month, moment.day)
        if family is Family.TIME:
            return time(moment.hour, moment.minute, int(second), micro, tzinfo=zone)
    except ValueError:  # a year before 1 or after 9999
        return None
    return None


def _zone(minutes: int | None) -> tzinfo | None:
    if minutes is None:
        return None
    return UTC if minutes == 0 else timezone(timedelta(minutes=minutes))


def _duration(duration: Duration) -> timedelta | None:
    if duration.months:
        return None
    try:
        return timedelta(microseconds=int(duration.seconds * _MICROSECONDS))
    except OverflowError:
        return None


# --- Python values to terms ----------------------------------------------------------------------


def as_term(given: Any) -> str:
    """Return the canonical term of a value that an application publishes.

    A ``str`` must be a canonical term and is returned unchanged.  Terms of rdflib and pyoxigraph are recognised by
    their methods, so neither library is required.  Numbers, booleans, moments and durations become typed literals.
    Raises DataRefused for anything else, including blank nodes, which have no meaning outside their file.
    """
    if type(given) is str:
        return given
    if callable(spell := getattr(given, "n3", None)):  # rdflib
        try:
            text = str(spell())
        except Exception as error:  # noqa: BLE001 - rdflib raises no narrower type for an invalid IRI
            raise DataRefused(f"not a term: {given!r:.200}: {error}") from None
        if text.startswith(("<", "_:")):
            return terms.parse_term(text)
        if not hasattr(given, "datatype"):
            raise DataRefused(f"{given!r:.200} is neither an IRI nor a literal")
        datatype = given.datatype
        return terms.literal(str(given), None if datatype is None else str(datatype), given.language)
    if type(given).__module__.startswith("pyoxigraph"):
        return terms.parse_term(f"<<( {given} )>>" if type(given).__name__ == "Triple" else str(given))
    if isinstance(given, str):  # such as a member of a StrEnum
        return str(given)
    return terms.literal(*_typed(given))


def _typed(given: Any) -> tuple[str, str]:
    """Return the lexical form and the datatype of a Python value."""
    if callable(plain := getattr(given, "item", None)):  # a number of numpy
        given = plain()
    if isinstance(given, bool):
        return str(given).lower(), XSD + "boolean"
    if isinstance(given, int):
        return str(int(given)), XSD + "integer"
    if isinstance(given, float):
        return _double(float(given)), XSD + "double"
    if isinstance(given, Decimal):
        if not given.is_finite():
            raise DataRefused(f"{given!r} is no xsd:decimal: it has no infinities and no NaN")
        return f"{given:f}", XSD + "decimal"
    if isinstance(given, datetime):
        return given.isoformat(), XSD + "dateTime"
    if isinstance(given, date):
        return given.isoformat(), XSD + "date"
    if isinstance(given, time):
        return given.isoformat(), XSD + "time"
    if isinstance(given, timedelta):
        return _day_time(given), XSD + "dayTimeDuration"
    raise DataRefused(
        f"{given!r:.200} is no term: give canonical N-Triples text, a term of rdflib or pyoxigraph, or, for a literal,"
        " an int, float, Decimal, bool, datetime, date, time or timedelta"
    )


def _double(number: float) -> str:
    text = repr(number)
    return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(text) or text.upper().replace("E+", "E")


def _day_time(duration: timedelta) -> str:
    micro = duration // timedelta(microseconds=1)
    seconds, rest = divmod(abs(micro), _MICROSECONDS)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{'-' if micro < 0 else ''}PT{seconds}{fraction}S"
