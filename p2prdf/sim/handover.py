"""Conversion of a message's columns to the representation that its receiver uses.

Simulated peers pass messages by reference, without the frame codec, which converts columns on a real wire.  Peers with
different representations (lists, arrays) therefore need this conversion.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, Final

from p2prdf.wire.fields import DECLARED, Kind
from p2prdf.wire.messages import Envelope

__all__ = ["handed_over"]

_DTYPES: Final = {
    "terms": "uint32", "term_columns": "uint32", "u32": "uint32", "u64": "uint64", "u64_columns": "uint64",
}  # fmt: skip


@cache
def _column_fields(declared: type) -> list[tuple[str, Kind]]:
    """Return the fields of a message class that hold columns, with their kinds."""
    return [(name, kind) for name, kind in DECLARED[declared].items() if kind.form in (*_DTYPES, "Groups", "Rows")]


def handed_over(envelope: Envelope, columns: Any) -> Envelope:
    """Return an envelope with all columns in the representation ``columns``."""
    return Envelope(envelope.transfer, envelope.clock, _converted(envelope.message, columns))


def _converted(value: Any, columns: Any) -> Any:
    changes: dict[str, Any] = {}
    message_type: type = type(value)
    for name, kind in _column_fields(message_type):
        part = getattr(value, name)
        if kind.is_column:
            changes[name] = columns.adopt(part, _DTYPES[kind.form])
        elif kind.is_table:
            changes[name] = tuple(columns.adopt(column, _DTYPES[kind.form]) for column in part)
        else:
            changes[name] = _converted(part, columns)
    return dataclasses.replace(value, **changes) if changes else value
