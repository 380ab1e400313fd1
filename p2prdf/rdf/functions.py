"""SPARQL's built-in functions, those of SPARQL 1.2 for terms included, as Python functions from values to a value.

Only deterministic functions are included; the others are in :mod:`p2prdf.rdf.execution`.  Where SPARQL 1.1 leaves a
choice, values follow RDF 1.1 and XPath 3.1: a simple literal *is* an ``xsd:string``, and computed numbers
have XPath's lexical forms.  A function raises ExpressionError for arguments outside its domain.
"""

from __future__ import annotations

import decimal
import hashlib
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Final
from urllib.parse import quote

from p2prdf.errors import DataRefused
from p2prdf.rdf import moments, regex, terms, tokens
from p2prdf.rdf.arithmetic import Function, moment_of
from p2prdf.rdf.moments import CONTEXT, Duration, ExpressionError
from p2prdf.rdf.terms import DIRECTED_STRING, DIRECTION, LANG_STRING
from p2prdf.rdf.values import (
    Family,
    Value,
    boolean,
    decode,
    duration_value,
    encode,
    number,
    number_parts,
    parse_literal,
    string,
)

__all__ = ["FUNCTIONS", "TEXT_MAX"]

TEXT_MAX: Final = 4 << 20
"""Longest computed string in characters; it bounds nested CONCAT and REPLACE."""


# --- arguments -----------------------------------------------------------------------------------


def _text(value: Value) -> str:
    """Return the text of a string literal, with or without language."""
    if value.family is not Family.STRING and value.family is not Family.LANGUAGE:
        raise ExpressionError("not a string")
    return value.lexical


def _simple(value: Value) -> str:
    if value.family is not Family.STRING:
        raise ExpressionError("not a simple literal")
    return value.lexical


def _bounded(text: str, language: str = "") -> Value:
    if len(text) > TEXT_MAX:
        raise ExpressionError(f"a computed string of more than {TEXT_MAX} characters")
    return string(text, language)


def _compatible(a: Value, b: Value) -> tuple[str, str]:
    """Return two texts if the second has no language or that of the first."""
    first, second = _text(a), _text(b)
    if b.language and a.language != b.language:
        raise ExpressionError("strings of different languages")
    return first, second


def _integer(value: Value) -> int:
    found, rank = number_parts(value)
    if rank != 0:
        raise ExpressionError("not an integer")
    return int(found)


# --- terms ---------------------------------------------------------------------------------------


def _str(value: Value) -> Value:
    if value.family in (Family.BLANK, Family.TRIPLE):
        raise ExpressionError(f"a {value.family.value} has no string")
    return string(value.lexical)


def _lang(value: Value) -> Value:
    if not value.is_literal:
        raise ExpressionError("not a literal")
    return string(value.language.partition(DIRECTION)[0])


def _langdir(value: Value) -> Value:
    if not value.is_literal:
        raise ExpressionError("not a literal")
    return string(value.language.partition(DIRECTION)[2])


def _datatype(value: Value) -> Value:
    if not value.is_literal:
        raise ExpressionError("not a literal")
    return Value(Family.IRI, value.datatype)


def _iri(value: Value, base: Value | None = None) -> Value:
    if value.family is Family.IRI:
        return value
    reference = _simple(value)
    if base is not None:
        reference = tokens.resolve(base.lexical, reference)
    try:
        terms.iri(reference)
    except DataRefused as error:
        raise ExpressionError(error.reason) from None
    return Value(Family.IRI, reference)


def _strdt(value: Value, datatype: Value) -> Value:
    if datatype.family is not Family.IRI or datatype.lexical in (LANG_STRING, DIRECTED_STRING):
        raise ExpressionError("not a datatype")
    return parse_literal(_simple(value), datatype.lexical)


def _strlang(value: Value, language: Value) -> Value:
    if DIRECTION in _simple(language):
        raise ExpressionError("not a language tag")
    return _tagged(value, _simple(language))


def _strlangdir(value: Value, language: Value, direction: Value) -> Value:
    if DIRECTION in _simple(language) or not _simple(direction):
        raise ExpressionError("not a language tag and a base direction")
    return _tagged(value, f"{_simple(language)}{DIRECTION}{_simple(direction)}")


def _tagged(value: Value, tag: str) -> Value:
    try:
        terms.literal("", language=tag)
    except DataRefused as error:
        raise ExpressionError(error.reason) from None
    return string(_simple(value), tag.lower())


def _triple(s: Value, p: Value, o: Value) -> Value:
    try:
        return decode(terms.triple_term(encode(s), encode(p), encode(o)))
    except DataRefused as error:
        raise ExpressionError(error.reason) from None


def _part(at: int) -> Function:
    def part(value: Value) -> Value:
        if value.family is not Family.TRIPLE:
            raise ExpressionError("not a triple term")
        return decode(terms.triple_parts(value.lexical)[at])

    return part


def _langmatches(tag: Value, wanted: Value) -> Value:
    have, want = _simple(tag).lower(), _simple(wanted).lower()
    if want == "*":
        return boolean(bool(have))
    return boolean(have == want or have.startswith(want + "-"))


# --- strings -------------------------------------------------------------------------------------


def _substr(source: Value, start: Value, length: Value | None = None) -> Value:
    text, first = _text(source), _integer(start)
    last = len(text) if length is None else first + _integer(length) - 1
    return string(text[max(first, 1) - 1 : max(last, 0)], source.language)


def _strbefore(a: Value, b: Value) -> Value:
    text, mark = _compatible(a, b)
    head, found, _ = text.partition(mark) if mark else ("", "found", "")
    return string(head, a.language) if found else string("")


def _strafter(a: Value, b: Value) -> Value:
    text, mark = _compatible(a, b)
    _, found, tail = text.partition(mark) if mark else ("", "found", text)
    return string(tail, a.language) if found else string("")


def _concat(*parts: Value) -> Value:
    languages = {part.language for part in parts}
    texts = [_text(part) for part in parts]
    if sum(map(len, texts)) > TEXT_MAX:
        raise ExpressionError(f"a computed string of more than {TEXT_MAX} characters")
    return string("".join(texts), languages.pop() if len(languages) == 1 else "")


def _regex(text: Value, pattern: Value, flags: Value | None = None) -> Value:
    compiled = regex.compile_regex(_simple(pattern), "" if flags is None else _simple(flags))
    return boolean(compiled.search(_text(text)))


def _replace(text: Value, pattern: Value, replacement: Value, flags: Value | None = None) -> Value:
    compiled = regex.compile_regex(_simple(pattern), "" if flags is None else _simple(flags))
    return _bounded(compiled.replace(_text(text), _simple(replacement)), text.language)


def _hash(name: str) -> Function:
    def digest(value: Value) -> Value:
        data = _simple(value).encode()
        return string(hashlib.new(name, data, usedforsecurity=False).hexdigest())

    return digest


# --- numbers -------------------------------------------------------------------------------------


def _rounding(decimal_mode: str, of_float: Callable[[float], float]) -> Function:
    def rounded(value: Value) -> Value:
        found, rank = number_parts(value)
        if isinstance(found, Decimal):
            return number(found.to_integral_value(decimal_mode), rank)
        if isinstance(found, float):
            return number(of_float(found) if math.isfinite(found) else found, rank)
        return number(found, rank)

    return rounded


def _round(value: Value) -> Value:
    """Round to the nearest; halves go up (fn:round)."""
    found, rank = number_parts(value)
    if isinstance(found, Decimal):
        half = CONTEXT.add(found, Decimal("0.5"))
        return number(half.to_integral_value(decimal.ROUND_FLOOR), rank)
    if isinstance(found, float) and math.isfinite(found):
        floor = float(math.floor(found))
        return number(math.copysign(floor + (found - floor >= 0.5), found), rank)
    return number(found, rank)


def _abs(value: Value) -> Value:
    found, rank = number_parts(value)
    return number(found.copy_abs() if isinstance(found, Decimal) else abs(found), rank)


# --- dates and times -----------------------------------------------------------------------------

_DAYS: Final = (Family.DATE_TIME, Family.DATE)
_CLOCKS: Final = (Family.DATE_TIME, Family.TIME)
_ZONED: Final = (Family.DATE_TIME, Family.DATE, Family.TIME)


def _field(name: str, *families: Family) -> Function:
    return lambda value: number(getattr(moment_of(value, *families), name), 0)


def _seconds(value: Value) -> Value:
    return number(moment_of(value, *_CLOCKS).second, 1)


def _timezone(value: Value) -> Value:
    zone = moment_of(value, *_ZONED).zone
    if zone is None:
        raise ExpressionError("no time zone")
    return duration_value(Duration(0, Decimal(zone * 60)), "dayTimeDuration")


def _tz(value: Value) -> Value:
    return string(moments.zone_text(moment_of(value, *_ZONED).zone))


# --- the table ---------------------------------------------------------------------------------------

FUNCTIONS: Final[dict[str, Function]] = {
    "STR": _str,
    "LANG": _lang,
    "DATATYPE": _datatype,
    "IRI": _iri,
    "STRDT": _strdt,
    "STRLANG": _strlang,
    "LANGMATCHES": _langmatches,
    "SAMETERM": lambda a, b: boolean(a.same_term(b)),
    "ISIRI": lambda a: boolean(a.family is Family.IRI),
    "ISBLANK": lambda a: boolean(a.family is Family.BLANK),
    "ISLITERAL": lambda a: boolean(a.is_literal),
    "LANGDIR": _langdir,
    "STRLANGDIR": _strlangdir,
    "HASLANG": lambda a: boolean(a.is_literal and bool(a.language)),
    "HASLANGDIR": lambda a: boolean(a.is_literal and DIRECTION in a.language),
    "ISTRIPLE": lambda a: boolean(a.family is Family.TRIPLE),
    "TRIPLE": _triple,
    "SUBJECT": _part(0),
    "PREDICATE": _part(1),
    "OBJECT": _part(2),
    "ISNUMERIC": lambda a: boolean(a.family is Family.NUMBER),
    "STRLEN": lambda a: number(len(_text(a)), 0),
    "SUBSTR": _substr,
    "UCASE": lambda a: _bounded(_text(a).upper(), a.language),
    "LCASE": lambda a: _bounded(_text(a).lower(), a.language),
    "STRSTARTS": lambda a, b: boolean(str.startswith(*_compatible(a, b))),
    "STRENDS": lambda a, b: boolean(str.endswith(*_compatible(a, b))),
    "CONTAINS": lambda a, b: boolean(str.__contains__(*_compatible(a, b))),
    "STRBEFORE": _strbefore,
    "STRAFTER": _strafter,
    "ENCODE_FOR_URI": lambda a: _bounded(quote(_text(a), safe="")),
    "CONCAT": _concat,
    "REGEX": _regex,
    "REPLACE": _replace,
    "ABS": _abs,
    "ROUND": _round,
    "CEIL": _rounding(decimal.ROUND_CEILING, lambda x: math.copysign(math.ceil(x), x)),
    "FLOOR": _rounding(decimal.ROUND_FLOOR, lambda x: math.copysign(math.floor(x), x)),
    "YEAR": _field("year", *_DAYS, Family.G_YEAR, Family.G_YEAR_MONTH),
    "MONTH": _field("month", *_DAYS, Family.G_YEAR_MONTH, Family.G_MONTH, Family.G_MONTH_DAY),
    "DAY": _field("day", *_DAYS, Family.G_MONTH_DAY, Family.G_DAY),
    "HOURS": _field("hour", *_CLOCKS),
    "MINUTES": _field("minute", *_CLOCKS),
    "SECONDS": _seconds,
    "TIMEZONE": _timezone,
    "TZ": _tz,
    "MD5": _hash("md5"),
    "SHA1": _hash("sha1"),
    "SHA256": _hash("sha256"),
    "SHA384": _hash("sha384"),
    "SHA512": _hash("sha512"),
}
"""Functions by name in capitals; the parser has checked the number of arguments.

The parser spells URI and ISURI as IRI and ISIRI.  BOUND, IF, COALESCE and the operators, which do not evaluate all
their arguments, are implemented by the compiler (:mod:`p2prdf.rdf.expressions`).
"""
