"""Values of RDF terms in SPARQL 1.1 expressions.

A :class:`Value` is a term with its value and its *family*.  Values of one family are comparable; values of different
families differ.  A literal of an unknown datatype, or with a lexical form that its datatype does not allow (family
OPAQUE), equals itself, and comparing it with another typed literal is an error, since its value is unknown (SPARQL
1.1, 17.3 and 17.4.1.7).

Numeric promotion follows XPath: integer (int) - decimal (Decimal) - float - double (both float; a ``float`` is
rounded to 32 bits).
"""

from __future__ import annotations

import enum
import functools
import re
import struct
from decimal import Decimal
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.rdf import moments, terms
from p2prdf.rdf.moments import Duration, ExpressionError, Moment
from p2prdf.rdf.terms import DIRECTED_STRING, DIRECTION, LANG_STRING, XSD

__all__ = [
    "DIGITS_MAX", "FALSE", "TRUE", "Family", "Number", "Value", "boolean", "compare", "decode", "decode_constant",
    "double_text", "duration_value", "ebv", "encode", "equal", "moment_value", "number", "number_parts",
    "parse_literal", "promote", "string",
]  # fmt: skip

Number = int | Decimal | float

DIGITS_MAX: Final = 400
"""Longest number in characters; longer ones are not parsed, which bounds the time of conversions."""

class Family(enum.Enum):
    """A set of comparable values, named after its datatype if there is just one."""

    IRI = "IRI"
    BLANK = "blank node"
    TRIPLE = "triple term"
    STRING = "string"
    LANGUAGE = "langString"
    BOOLEAN = "boolean"
    NUMBER = "number"
    DATE_TIME = "dateTime"
    DATE = "date"
    TIME = "time"
    G_YEAR = "gYear"
    G_YEAR_MONTH = "gYearMonth"
    G_MONTH = "gMonth"
    G_MONTH_DAY = "gMonthDay"
    G_DAY = "gDay"
    DURATION = "any duration"
    OPAQUE = "unknown"


class Value:
    """A term and its value.

    ``lexical``: lexical form, the IRI, the blank node's label, or the canonical triple term.  ``language``: with a
    base direction, if there is one (``ar--rtl``).  ``rank`` of a number: 0
    integer, 1 decimal, 2 float, 3 double.
    """

    __slots__ = ("datatype", "family", "language", "lexical", "rank", "value")

    def __init__(
        self,
        family: Family,
        lexical: str,
        value: Number | Moment | Duration | str | bool = "",
        datatype: str = "",
        language: str = "",
        rank: int = -1,
    ):
        self.family = family
        self.lexical = lexical
        self.value = value
        self.datatype = datatype
        self.language = language
        self.rank = rank

    @property
    def is_literal(self) -> bool:
        """Whether the term is a literal."""
        return self.family not in (Family.IRI, Family.BLANK, Family.TRIPLE)

    def same_term(self, other: Value) -> bool:
        """Whether both are the same RDF term."""
        return (
            self.lexical == other.lexical
            and self.datatype == other.datatype
            and self.language == other.language
            and (self.family is other.family)
        )


def string(text: str, language: str = "") -> Value:
    """Return a simple literal, or one with a language tag."""
    if language:
        datatype = DIRECTED_STRING if DIRECTION in language else LANG_STRING
        return Value(Family.LANGUAGE, text, text, datatype, language)
    return Value(Family.STRING, text, text, XSD + "string")


TRUE: Final = Value(Family.BOOLEAN, "true", True, XSD + "boolean")
FALSE: Final = Value(Family.BOOLEAN, "false", False, XSD + "boolean")


def boolean(truth: bool) -> Value:
    """Return an xsd:boolean."""
    return TRUE if truth else FALSE


# --- from terms ----------------------------------------------------------------------------------

_CACHED_LENGTH_MAX: Final = 512


def decode(canonical: str) -> Value:
    """Return the value of a canonical term.  The last 8,192 short ones are remembered."""
    return _decode_short(canonical) if len(canonical) <= _CACHED_LENGTH_MAX else decode_constant(canonical)


def decode_constant(canonical: str) -> Value:
    """Return the value of a canonical term, which is not remembered: that of a constant in an expression."""
    if canonical.startswith('"'):
        lexical, datatype, language = terms.literal_parts(canonical)
        if language is not None:
            return string(lexical, language)
        return string(lexical) if datatype is None else parse_literal(lexical, datatype)
    if terms.is_skolem(canonical):
        return Value(Family.BLANK, canonical[1:-1])
    if terms.is_triple(canonical):
        return Value(Family.TRIPLE, canonical)
    return Value(Family.IRI, canonical[1:-1])


_decode_short = functools.lru_cache(maxsize=1 << 13)(decode_constant)


def parse_literal(lexical: str, datatype: str) -> Value:
    """Return the value of a typed literal; OPAQUE if the value is unknown."""
    name = datatype.removeprefix(XSD) if datatype.startswith(XSD) else ""
    if name == "string":
        return string(lexical)
    found: Value | None = None
    if name in _RANKS:
        found = _parse_number(lexical, name)
    elif name == "boolean":
        if lexical in ("true", "1", "false", "0"):
            found = Value(Family.BOOLEAN, lexical, lexical in ("true", "1"), datatype)
    elif name in moments.MOMENTS:
        moment = moments.parse_moment(lexical, name)
        found = None if moment is None else Value(Family(name), lexical, moment, datatype)
    elif name in moments.DURATIONS:
        duration = moments.parse_duration(lexical, name)
        found = None if duration is None else Value(Family.DURATION, lexical, duration, datatype)
    return found or Value(Family.OPAQUE, lexical, lexical, datatype)


def encode(value: Value) -> str:
    """Return the canonical term of a value.  Raises ExpressionError if no term can hold it."""
    try:
        if value.family is Family.TRIPLE:
            return value.lexical
        if not value.is_literal:
            return terms.iri(value.lexical)
        return terms.literal(value.lexical, *((None, value.language) if value.language else (value.datatype, None)))
    except DataRefused as error:
        raise ExpressionError(error.reason) from None


# --- numbers -------------------------------------------------------------------------------------

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE: Final = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|INF)|NaN")

_INTEGER_RANGES: Final[dict[str, tuple[int | None, int | None]]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
} | {
    name: (0, (1 << bits) - 1) if name.startswith("unsigned") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    for name, bits in (
        ("long", 64), ("int", 32), ("short", 16), ("byte", 8),
        ("unsignedLong", 64), ("unsignedInt", 32), ("unsignedShort", 16), ("unsignedByte", 8),
    )
}  # fmt: skip
_RANK_NAMES: Final = ("integer", "decimal", "float", "double")
_RANKS: Final = {**dict.fromkeys(_INTEGER_RANGES, 0), "decimal": 1, "float": 2, "double": 3}


def _parse_number(lexical: str, name: str) -> Value | None:
    if len(lexical) > DIGITS_MAX:
        return None
    rank = _RANKS[name]
    value: Number
    if rank == 0:
        if _INTEGER.fullmatch(lexical) is None:
            return None
        value = int(lexical)
        low, high = _INTEGER_RANGES[name]
        if (low is not None and value < low) or (high is not None and value > high):
            return None
    elif rank == 1:
        if _DECIMAL.fullmatch(lexical) is None:
            return None
        value = Decimal(lexical)
    else:
        if _DOUBLE.fullmatch(lexical) is None:
            return None
        value = float(lexical)
        if rank == 2:
            value = _single(value)
    return Value(Family.NUMBER, lexical, value, XSD + name, rank=rank)


def number(value: Number, rank: int) -> Value:
    """Return a computed number of a rank.  Raises ExpressionError if it has too many digits."""
    if rank == 0:
        assert isinstance(value, int)
        if value.bit_length() > DIGITS_MAX * 3:
            raise ExpressionError("an integer of too many digits")
        text = str(value)
    elif rank == 1:
        value = Decimal(value) if not isinstance(value, Decimal) else value
        text = format(value, "f")
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        text = "0" if text in ("-0", "") else text
    else:
        value = _single(float(value)) if rank == 2 else float(value)
        text = double_text(value, single=rank == 2)
    return Value(Family.NUMBER, text, value, XSD + _RANK_NAMES[rank], rank=rank)


def moment_value(moment: Moment, name: str) -> Value:
    """Return a computed dateTime, date or time."""
    return Value(Family(name), moments.moment_text(moment, name), moment, XSD + name)


def duration_value(duration: Duration, name: str) -> Value:
    """Return a computed duration of the datatype with this name."""
    text = moments.duration_text(duration)
    if name == "yearMonthDuration" and not duration.months:
        text = "P0M"
    return Value(Family.DURATION, text, duration, XSD + name)


def number_parts(value: Value) -> tuple[Number, int]:
    """Return a number and its rank.  Raises ExpressionError if the value is not a number."""
    if value.family is not Family.NUMBER:
        raise ExpressionError("not a number")
    return value.value, value.rank  # type: ignore[return-value]  # the family says so


def promote(value: Number, rank: int) -> Number:
    """Promote a number to a rank that is not below its own."""
    if rank == 0:
        return value
    if rank == 1:
        return value if isinstance(value, Decimal) else Decimal(int(value))
    if not isinstance(value, float):
        try:
            value = float(value)
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return _single(value) if rank == 2 else value


def _single(value: float) -> float:
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def double_text(value: float, *, single: bool = False) -> str:
    """Return a float as XPath casts it to a string."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "INF" if value > 0 else "-INF"
    digits = _shortest_single(value) if single else repr(value)
    size = abs(value)
    if value == 0 or 1e-6 <= size < 1e6:
        text = format(Decimal(digits), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = format(Decimal(digits).normalize(), "E").partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _shortest_single(value: float) -> str:
    return next(text for places in range(6, 18) if _single(float(text := f"{value:.{places}g}")) == value)


# --- equality, order, truth ----------------------------------------------------------------------

_NEVER_OPAQUE: Final = {Family.IRI, Family.BLANK, Family.LANGUAGE, Family.TRIPLE}
"""Families that never equal a typed literal, even one of unknown value."""


def equal(a: Value, b: Value) -> bool:
    """SPARQL's ``=``.  Raises ExpressionError if the result is undetermined."""
    if a.family is not b.family:
        families = {a.family, b.family}
        if Family.OPAQUE in families and not families & _NEVER_OPAQUE:
            raise ExpressionError("a literal of unknown value may be equal to any typed literal")
        return False
    match a.family:
        case Family.NUMBER:
            return _order_numbers(a, b) == 0
        case Family.STRING | Family.IRI | Family.BLANK:
            return a.lexical == b.lexical
        case Family.LANGUAGE:
            return a.lexical == b.lexical and a.language == b.language
        case Family.TRIPLE:
            return a.lexical == b.lexical or _equal_triples(a, b)
        case Family.OPAQUE:
            if a.lexical == b.lexical and a.datatype == b.datatype:
                return True
            raise ExpressionError("literals of unknown value may be equal")
    if isinstance(a.value, Moment) and isinstance(b.value, Moment):
        return moments.order_moments(a.value, b.value) == 0
    return a.value == b.value


def _equal_triples(a: Value, b: Value) -> bool:
    """Compare subjects, predicates and objects, the objects by value."""
    (s1, p1, o1), (s2, p2, o2) = (terms.triple_parts(each.lexical) for each in (a, b))
    return s1 == s2 and p1 == p2 and equal(decode(o1), decode(o2))


def compare(a: Value, b: Value) -> int | None:
    """Return a negative, zero or positive number for ``<``, ``=``, ``>``; None for NaN.

    Raises ExpressionError for values without an order.
    """
    if a.family is not b.family:
        raise ExpressionError("values of different kinds have no order")
    match a.family:
        case Family.NUMBER:
            return _order_numbers(a, b)
        case Family.STRING:
            return _sign(a.lexical, b.lexical)
        case Family.LANGUAGE if a.language == b.language:
            return _sign(a.lexical, b.lexical)
        case Family.BOOLEAN:
            return int(a.value is True) - int(b.value is True)
    if isinstance(a.value, Moment) and isinstance(b.value, Moment):
        return moments.order_moments(a.value, b.value)
    if isinstance(a.value, Duration) and isinstance(b.value, Duration):
        return moments.order_durations(a.value, b.value)
    raise ExpressionError("these values have no order")


def _sign(a: str, b: str) -> int:
    return (a > b) - (a < b)  # Python compares code points, as XPath's default collation does


def _order_numbers(a: Value, b: Value) -> int | None:
    x, y = a.value, b.value
    if a.rank != b.rank:
        rank = max(a.rank, b.rank)
        x, y = promote(x, rank), promote(y, rank)  # type: ignore[arg-type]  # both are numbers
    if x == y:
        return 0
    if x != x or y != y:
        return None
    return 1 if x > y else -1  # type: ignore[operator]


def ebv(value: Value) -> bool:
    """Return the effective boolean value (SPARQL 1.1, 17.2.2).

    For a plain literal, with or without a language tag, it is whether the text is non-empty.
    """
    match value.family:
        case Family.BOOLEAN:
            return value.value is True
        case Family.STRING | Family.LANGUAGE:
            return bool(value.lexical)
        case Family.NUMBER:
            return value.value == value.value and value.value != 0
        case Family.OPAQUE if value.datatype == XSD + "boolean" or (
            value.datatype.startswith(XSD) and value.datatype.removeprefix(XSD) in _RANKS
        ):
            return False  # ill-typed
    raise ExpressionError("no boolean value")
