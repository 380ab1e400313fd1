"""The serialised form of a standing query: compact, canonical, and validated on decoding.

The form is JSON without spaces: version, form, names, operators; an operator is its kind and its fields in order.
Equal queries have equal forms except for the projected names, which :func:`canonical_bytes` omits.  Decoding accepts
only canonical encodings; any other input is a protocol error.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import typing
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from p2prdf.errors import DataRefused, QueryRefused, RemoteProtocolError
from p2prdf.rdf import algebra
from p2prdf.rdf.algebra import NUMBER_NAME, REPORT_NAME, TRIPLE_NAMES, Form, Operator, Reported, StandingQuery
from p2prdf.rdf.layouts import FIXED_ROWS_MAX, fixed_rows, layouts
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.standing.assembly import canonical
from p2prdf.rdf.standing.checks import check_operator, check_settled, check_windows

__all__ = ["FORM_BYTES_MAX", "canonical_bytes", "decode", "encode"]

FORM_BYTES_MAX: Final = 1 << 20
"""Longest form of a query, in bytes."""

_VERSION: Final = 1
_KINDS: Final[dict[str, Any]] = {
    "leaf": algebra.Leaf, "window": algebra.Windowed, "counted": algebra.Counted, "table": algebra.Table,
    "project": algebra.Project, "filter": algebra.Filter, "extend": algebra.Extend, "fix": algebra.Fix,
    "union": algebra.Union, "join": algebra.Join, "leftjoin": algebra.LeftJoin, "minus": algebra.Minus,
    "exists": algebra.Exists, "distinct": algebra.Distinct, "group": algebra.Group, "slice": algebra.Slice,
    "slices": algebra.Slices, "closure": algebra.Closure, "construct": algebra.Construct,
    "inferred": algebra.Inferred, "report": algebra.Report, "settled": algebra.Settled,
}  # fmt: skip
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def encode(query: StandingQuery) -> bytes:
    """Return a query as bytes."""
    return _dump([_VERSION, query.form.value, query.names, *map(_plain_operator, query.operators)])


def canonical_bytes(query: StandingQuery) -> bytes:
    """Return a query as bytes without its names: queries that differ in names of variables only are equal."""
    return _dump([_VERSION, query.form.value, len(query.names), *map(_plain_operator, query.operators)])


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _plain_operator(operator: Operator) -> list[Any]:
    return [_NAMES[type(operator)], *map(_plain, _fields(operator))]


def _fields(value: Any) -> list[Any]:
    return [getattr(value, field.name) for field in dataclasses.fields(value)]


def _plain(value: Any) -> Any:
    """Convert a field to a JSON value."""
    if isinstance(value, ConjunctiveQuery):
        return [*map(_plain, (value.patterns, value.constants, value.answer, value.filters))]
    if dataclasses.is_dataclass(value):
        return [*map(_plain, _fields(value))]
    if isinstance(value, enum.Enum):
        return value.value
    return [*map(_plain, value)] if isinstance(value, tuple) else value


# --- from bytes ----------------------------------------------------------------------------------


def decode(data: bytes) -> StandingQuery:
    """Return the query that received bytes encode.

    Raises RemoteProtocolError unless they are a canonical form.
    """
    if len(data) > FORM_BYTES_MAX:
        raise RemoteProtocolError(f"a standing query of {len(data)} bytes; {FORM_BYTES_MAX} are allowed")
    try:
        return _decoded(data)
    except (ValueError, TypeError, IndexError, KeyError, RecursionError) as error:
        raise RemoteProtocolError(f"not a standing query: {error}") from None
    except (QueryRefused, DataRefused) as error:
        raise RemoteProtocolError(f"not a standing query: {error}") from None


def _decoded(data: bytes) -> StandingQuery:
    version, form, names, *plain = json.loads(data.decode())
    if version != _VERSION:
        raise ValueError(f"version {version!r}")
    if not 0 < len(plain) <= algebra.OPERATORS_MAX:
        raise ValueError(f"{len(plain)} operators")
    operators = tuple(map(_operator, plain))
    rows = layouts(operators)
    for operator in operators:
        check_operator(operator, rows)
    check_windows(operators)
    check_settled(operators)
    if fixed_rows(operators) > FIXED_ROWS_MAX:
        raise ValueError("too many rows of VALUES are combined")
    query = StandingQuery(Form(form), tuple(_exactly(str, name) for name in names), operators)
    fixed = {Form.ASK: (), Form.CONSTRUCT: TRIPLE_NAMES}.get(query.form, query.names)
    if query.names != fixed or len(rows[-1]) != len(fixed) or len(set(fixed)) != len(fixed):
        raise ValueError("the names do not match the columns")
    report = query.report
    if report is not None and report.reported is not Reported.CHANGES:
        behind = (REPORT_NAME,) if report.every else (REPORT_NAME, NUMBER_NAME)
        if query.names[-len(behind) :] != behind:
            raise ValueError("the columns for the time and number of a report have other names")
    if canonical(operators, len(operators) - 1) != operators or encode(query) != data:
        raise ValueError("the form is not canonical")
    return query


def _operator(value: Any) -> Operator:
    kind, *parts = _list(value)
    if type(kind) is not str:
        raise TypeError(f"{kind!r:.40} is no text")
    found: Operator = _dataclass(_KINDS[kind])(parts)
    return found


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"{value!r:.40} is no list")
    return value


_Reader: TypeAlias = Callable[[Any], Any]


@functools.cache
def _reader(kind: Any) -> _Reader:
    """Return the function that makes a value of an annotated type from a JSON value, or raises an error."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        each = [_reader(argument) for argument in arguments if argument is not Ellipsis]
        repeated = Ellipsis in arguments
        return lambda value: tuple(map(each[0], _list(value))) if repeated else _together(each, _list(value))
    if type(None) in arguments:
        inner = _reader(arguments[0])
        return lambda value: None if value is None else inner(value)
    if kind is ConjunctiveQuery:
        return _query
    found: Any = kind
    if dataclasses.is_dataclass(kind):
        return _dataclass(found)
    return found if issubclass(found, enum.Enum) else functools.partial(_exactly, found)


def _together(readers: Sequence[_Reader], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(read(value) for read, value in zip(readers, values, strict=True))


@functools.cache
def _dataclass(kind: Any) -> _Reader:
    hints = typing.get_type_hints(kind)
    readers = [_reader(hints[field.name]) for field in dataclasses.fields(kind)]
    return lambda value: kind(*_together(readers, _list(value)))


def _query(value: Any) -> ConjunctiveQuery:
    hints = typing.get_type_hints(ConjunctiveQuery)
    readers = [_reader(hints[name]) for name in ("patterns", "constants", "answer", "filters")]
    patterns, constants, answer, filters = _together(readers, _list(value))
    return ConjunctiveQuery(patterns, constants, answer, tuple(map(str, range(len(answer)))), False, filters)


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} is no {kind.__name__}")
    return value
