"""The serialised form of a standing query: compact, canonical, and validated on decoding.

The form is JSON without spaces: version, form, names, operators; an operator is its kind and its fields in order.
Equal queries have equal forms except for the projected names, which :func:`canonical_bytes` omits.  Decoding accepts
only canonical encodings; any other input is a protocol error.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from p2prdf.errors import DataRefused, QueryRefused, RemoteProtocolError
from p2prdf.rdf import algebra
from p2prdf.rdf.algebra import (
    NUMBER_NAME,
    REPORT_NAME,
    TRIPLE_NAMES,
    Aggregate,
    CountWindow,
    Existence,
    Expression,
    Form,
    Function,
    InferenceRule,
    Operator,
    Reported,
    StandingQuery,
    Window,
)
from p2prdf.rdf.layouts import layouts
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.standing.assembly import canonical
from p2prdf.rdf.standing.checks import check_operator, check_windows

__all__ = ["FORM_BYTES_MAX", "canonical_bytes", "decode", "encode"]

FORM_BYTES_MAX: Final = 1 << 18
"""Longest form of a query, in bytes."""

_VERSION: Final = 1
_KINDS: Final[dict[str, type[Operator]]] = {
    "leaf": algebra.Leaf, "window": algebra.Windowed, "counted": algebra.Counted, "table": algebra.Table,
    "project": algebra.Project, "filter": algebra.Filter, "extend": algebra.Extend, "fix": algebra.Fix,
    "union": algebra.Union, "join": algebra.Join, "leftjoin": algebra.LeftJoin, "minus": algebra.Minus,
    "exists": algebra.Exists, "distinct": algebra.Distinct, "group": algebra.Group, "slice": algebra.Slice,
    "closure": algebra.Closure, "construct": algebra.Construct, "inferred": algebra.Inferred, "report": algebra.Report,
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
    if isinstance(value, (Expression, Aggregate, Window, CountWindow)):
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
    query = StandingQuery(Form(form), tuple(map(_text, names)), operators)
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
    made = _KINDS[_text(kind)]
    fields = dataclasses.fields(made)
    if len(parts) != len(fields):
        raise ValueError(f"{kind} has {len(fields)} fields, not {len(parts)}")
    return made(*(_FIELDS[str(field.type)](part) for field, part in zip(fields, parts, strict=True)))


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"{value!r:.40} is no list")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no integer")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{value!r:.40} is no truth value")
    return value


_Part = TypeVar("_Part")


def _tuple(of: Callable[[Any], _Part]) -> Callable[[Any], tuple[_Part, ...]]:
    return lambda value: tuple(map(of, _list(value)))


def _maybe(of: Callable[[Any], _Part]) -> Callable[[Any], _Part | None]:
    return lambda value: None if value is None else of(value)


def _exactly(count: int) -> Callable[[Any], tuple[int, ...]]:
    def integers(value: Any) -> tuple[int, ...]:
        if len(_list(value)) != count:
            raise ValueError(f"{value!r:.40} has not {count} parts")
        return tuple(map(_integer, value))

    return integers


def _expression(value: Any) -> Expression:
    text, variables = _list(value)
    return Expression(_text(text), _integers(variables))


def _query(value: Any) -> ConjunctiveQuery:
    patterns, constants, answer, filters = _list(value)
    names = tuple(map(str, range(len(_list(answer)))))
    return ConjunctiveQuery(
        _triples(patterns), _tuple(_text)(constants), _integers(answer), names, False, _tuple(_expression)(filters)
    )


def _aggregate(value: Any) -> Aggregate:
    function, columns, distinct, separator = _list(value)
    return Aggregate(Function(function), _integers(columns), _flag(distinct), _text(separator))


def _window(value: Any) -> Window:
    length, step, start = _list(value)
    return Window(_maybe(_integer)(length), _integer(step), _integer(start))


def _count_window(value: Any) -> CountWindow:
    elements, step, stream = _list(value)
    return CountWindow(_integer(elements), _integer(step), _text(stream))


def _ordered(value: Any) -> tuple[int, bool]:
    column, descending = _list(value)
    return _integer(column), _flag(descending)


def _rule(value: Any) -> InferenceRule:
    head, body = _list(value)
    return _atom(head), tuple(map(_atom, _list(body)))


def _atom(value: Any) -> tuple[str, str, str]:
    s, p, o = map(_text, _list(value))
    return s, p, o


_integers: Final = _tuple(_integer)
_triples: Final[Callable[[Any], Any]] = _tuple(_exactly(3))
_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "ConjunctiveQuery": _query,
    "int": _integer,
    "bool": _flag,
    "int | None": _maybe(_integer),
    "Expression": _expression,
    "Existence": Existence,
    "Reported": Reported,
    "Window": _window,
    "CountWindow": _count_window,
    "Shared": _tuple(_exactly(2)),
    "tuple[int, ...]": _integers,
    "tuple[str, ...]": _tuple(_text),
    "tuple[tuple[str | None, ...], ...]": _tuple(_tuple(_maybe(_text))),
    "tuple[tuple[int, int, int], ...]": _triples,
    "tuple[tuple[int, bool], ...]": _tuple(_ordered),
    "tuple[Expression, ...]": _tuple(_expression),
    "tuple[Aggregate, ...]": _tuple(_aggregate),
    "tuple[InferenceRule, ...]": _tuple(_rule),
}
"""The decoder of each field, by its type in :mod:`p2prdf.rdf.algebra`."""
