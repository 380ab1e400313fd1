"""Dates, times and durations of XML Schema 1.1, without the limits of Python's datetime.

A moment is a point on one time line, in seconds.  Fields that its datatype omits (a time has no date, a ``gYear`` no
month) have fixed values, so moments of one datatype are comparable.  A moment with a time zone and one without are
comparable if they are more than 14 hours apart (XML Schema 1.1, 3.3.7).
"""

from __future__ import annotations

import decimal
import functools
import re
from decimal import Decimal
from typing import Final, NamedTuple

__all__ = [
    "CONTEXT", "DURATIONS", "MOMENTS", "Duration", "ExpressionError", "Moment", "duration_text", "minus",
    "moment_text", "order_durations", "order_moments", "parse_duration", "parse_moment", "plus",
    "plus_durations", "seconds_text", "zone_text",
]  # fmt: skip

CONTEXT: Final = decimal.Context(prec=60, Emax=3000, Emin=-3000, traps=[
    decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow,
])  # fmt: skip
"""The context for arithmetic on decimals and seconds; the interpreter's own one is the caller's."""


class ExpressionError(Exception):
    """An expression has no value (SPARQL's type error)."""


class Moment(NamedTuple):
    """A date or time; ``zone`` in minutes, None without a time zone."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: Decimal
    zone: int | None

    @property
    def seconds(self) -> Decimal:
        """Seconds since 1970, as if in UTC when there is no time zone."""
        minutes = (days_from_civil(self.year, self.month, self.day) * 24 + self.hour) * 60 + self.minute
        return CONTEXT.add(Decimal((minutes - (self.zone or 0)) * 60), self.second)


class Duration(NamedTuple):
    """A duration: its months and its seconds."""

    months: int
    seconds: Decimal


# --- lexical forms -------------------------------------------------------------------------------

_YEAR: Final = r"(?P<year>-?(?:[1-9][0-9]{3,8}|0[0-9]{3}))"
_MONTH: Final = r"(?P<month>0[1-9]|1[0-2])"
_DAY: Final = r"(?P<day>0[1-9]|[12][0-9]|3[01])"
_CLOCK: Final = (
    r"(?:(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9](?:\.[0-9]{1,30})?)"
    r"|(?P<midnight>24:00:00(?:\.0{1,30})?))"
)
_ZONE: Final = r"(?P<zone>Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))?"
MOMENTS: Final = {
    name: pattern + _ZONE
    for name, pattern in (
        ("dateTime", f"{_YEAR}-{_MONTH}-{_DAY}T{_CLOCK}"),
        ("date", f"{_YEAR}-{_MONTH}-{_DAY}"),
        ("time", _CLOCK),
        ("gYear", _YEAR),
        ("gYearMonth", f"{_YEAR}-{_MONTH}"),
        ("gMonth", f"--{_MONTH}"),
        ("gMonthDay", f"--{_MONTH}-{_DAY}"),
        ("gDay", f"---{_DAY}"),
    )
}
"""Regular expressions of moments, by datatype."""

_CLOCK_DURATION: Final = (
    r"(?:(?P<days>[0-9]{1,12})D)?(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,12})H)?(?:(?P<minutes>[0-9]{1,12})M)?"
    r"(?:(?P<seconds>[0-9]{1,15}(?:\.[0-9]{1,30})?)S)?)?"
)
_CALENDAR_DURATION: Final = r"(?:(?P<years>[0-9]{1,9})Y)?(?:(?P<months>[0-9]{1,9})M)?"
DURATIONS: Final = {
    name: r"(?P<minus>-)?P(?=[0-9T])" + pattern
    for name, pattern in (
        ("duration", _CALENDAR_DURATION + _CLOCK_DURATION),
        ("dayTimeDuration", _CLOCK_DURATION),
        ("yearMonthDuration", _CALENDAR_DURATION),
    )
}
"""Regular expressions of durations, by datatype."""

_DEFAULTS: Final = {"year": "1972", "month": "12", "day": "1", "hour": "0", "minute": "0", "second": "0"}
"""A leap year and a month of 31 days, so that every gMonthDay and gDay exists."""


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at its first use: all of them take longer than the import of most modules."""
    return re.compile(pattern)


def parse_moment(lexical: str, name: str) -> Moment | None:
    """Return the value of a literal of one of MOMENTS; None if the lexical form is invalid."""
    match = _compiled(MOMENTS[name]).fullmatch(lexical)
    if match is None:
        return None
    part = _DEFAULTS | {key: text for key, text in match.groupdict().items() if text is not None}
    year, month, day = int(part["year"]), int(part["month"]), int(part["day"])
    if day > days_in_month(year, month):
        return None
    zone = _zone_minutes(part["zone"]) if "zone" in part else None
    second = Decimal(part["second"])
    moment = Moment(year, month, day, int(part["hour"]), int(part["minute"]), second, zone)
    if "midnight" in part and name == "dateTime":
        return plus(moment, Duration(0, Decimal(86400)))
    return moment


def _zone_minutes(zone: str) -> int:
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:])
    return -minutes if zone[0] == "-" else minutes


def parse_duration(lexical: str, name: str) -> Duration | None:
    """Return the value of a literal of one of DURATIONS; None if the lexical form is invalid."""
    match = _compiled(DURATIONS[name]).fullmatch(lexical)
    if match is None:
        return None
    part = {key: text or "0" for key, text in match.groupdict(default="").items() if key != "minus"}
    months = int(part.get("years", 0)) * 12 + int(part.get("months", 0))
    minutes = (int(part.get("days", 0)) * 24 + int(part.get("hours", 0))) * 60 + int(part.get("minutes", 0))
    seconds = CONTEXT.add(Decimal(minutes * 60), Decimal(part.get("seconds", 0)))
    return Duration(-months, seconds.copy_negate()) if match["minus"] else Duration(months, seconds)


def moment_text(moment: Moment, name: str) -> str:
    """Return the lexical form of a dateTime, date or time."""
    year = f"{'-' if moment.year < 0 else ''}{abs(moment.year):04d}"
    date = f"{year}-{moment.month:02d}-{moment.day:02d}"
    second = ("0" if moment.second < 10 else "") + seconds_text(moment.second)
    clock = f"{moment.hour:02d}:{moment.minute:02d}:{second}"
    body = {"dateTime": f"{date}T{clock}", "date": date, "time": clock}[name]
    return body + zone_text(moment.zone)


def zone_text(zone: int | None) -> str:
    """Return a time zone as a dateTime spells it."""
    if not zone:
        return "" if zone is None else "Z"
    return f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02d}:{abs(zone) % 60:02d}"


def seconds_text(seconds: Decimal) -> str:
    """Return a number of seconds without needless zeros."""
    text = format(seconds, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration_text(duration: Duration) -> str:
    """Return the canonical lexical form of a duration."""
    years, months = divmod(abs(duration.months), 12)
    seconds = duration.seconds.copy_abs()
    hours, minutes = divmod(int(seconds) // 60, 60)
    days, hours = divmod(hours, 24)
    rest = CONTEXT.remainder(seconds, Decimal(60))
    date = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n)
    clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M")) if n)
    clock += f"{seconds_text(rest)}S" if rest else ""
    if not date and not clock:
        return "PT0S"
    sign = "-" if duration.months < 0 or duration.seconds < 0 else ""
    return f"{sign}P{date}{'T' + clock if clock else ''}"


# --- the calendar --------------------------------------------------------------------------------

_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_YEAR_MAX: Final = 999_999_999


def days_in_month(year: int, month: int) -> int:
    """Return the number of days of a month of the Gregorian calendar."""
    leap = month == 2 and (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
    return _MONTH_DAYS[month - 1] + leap


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 (Howard Hinnant's algorithm)."""
    era, of_era = divmod(year - (month <= 2), 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01."""
    era, of_era = divmod(days + 719468, 146097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def plus(moment: Moment, duration: Duration) -> Moment:
    """Return a moment moved by a duration: months first, the day cut to the month's length."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + duration.months, 12)
    day = min(moment.day, days_in_month(year, month + 1))
    local = moment._replace(year=year, month=month + 1, day=day, zone=None)
    seconds = CONTEXT.add(local.seconds, duration.seconds)
    whole = int(seconds.to_integral_value(decimal.ROUND_FLOOR))
    days, clock = divmod(whole, 86400)
    year, month, day = civil_from_days(days)
    if abs(year) > _YEAR_MAX:
        raise ExpressionError("a year of too many digits")
    second = CONTEXT.add(CONTEXT.subtract(seconds, Decimal(whole)), Decimal(clock % 60))
    return Moment(year, month, day, clock // 3600, clock // 60 % 60, second, moment.zone)


def minus(a: Moment, b: Moment) -> Duration:
    """Return the time from ``b`` to ``a``.  Raises ExpressionError if only one has a time zone."""
    if (a.zone is None) != (b.zone is None):
        raise ExpressionError("only one of the two has a time zone")
    return Duration(0, CONTEXT.subtract(a.seconds, b.seconds))


def plus_durations(a: Duration, b: Duration) -> Duration:
    """Return the sum.  Raises ExpressionError when its months and seconds differ in sign."""
    months, seconds = a.months + b.months, CONTEXT.add(a.seconds, b.seconds)
    if months * seconds < 0:
        raise ExpressionError("a duration cannot be both positive and negative")
    return Duration(months, seconds)


# --- order ---------------------------------------------------------------------------------------

_ZONES_APART: Final = Decimal(14 * 3600)
_STARTS: Final = tuple(
    Moment(year, month, 1, 0, 0, Decimal(0), 0)
    for year, month in ((1696, 9), (1697, 2), (1903, 3), (1903, 7))
)
"""The four moments by which XML Schema 1.1, 3.3.6 orders durations."""


def order_moments(a: Moment, b: Moment) -> int:
    """Return the sign of a - b.  Raises ExpressionError if a missing time zone leaves the order open."""
    difference = CONTEXT.subtract(a.seconds, b.seconds)
    if (a.zone is None) != (b.zone is None) and difference.copy_abs() <= _ZONES_APART:
        raise ExpressionError("a time without zone is too close to one with")
    return int(difference > 0) - int(difference < 0)


def order_durations(a: Duration, b: Duration) -> int:
    """Return the sign of a - b.  Raises ExpressionError if the order depends on their start."""
    orders = {order_moments(plus(start, a), plus(start, b)) for start in _STARTS}
    if len(orders) != 1:
        raise ExpressionError("which duration is longer depends on when it begins")
    return orders.pop()
