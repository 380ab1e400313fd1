"""Conversion of a message's columns to the representation that its receiver uses.

Simulated peers pass messages by reference, without the frame codec, which converts columns on a real wire.  Peers with
different representations (lists, arrays) therefore need this conversion.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, Final

from p2prdf.wire.messages import Envelope, Groups, Rows

__all__ = ["handed_over"]

_DTYPES: Final = {"terms": "uint32", "u32": "uint32", "u64": "uint64"}


@cache
def _column_fields(kind: type) -> tuple[tuple[str, str], ...]:
    """Return the fields of a message class that hold columns, each with the kind that its metadata names."""
    return tuple(
        (field.name, field.metadata.get("kind", ""))
        for field in dataclasses.fields(kind)
        if field.metadata.get("kind", "object") != "object" or field.name in ("groups", "rows")
    )


def handed_over(envelope: Envelope, columns: Any) -> Envelope:
    """Return an envelope with all columns in the representation ``columns``."""
    return Envelope(envelope.transfer, envelope.clock, _converted(envelope.message, columns))


def _converted(value: Any, columns: Any) -> Any:
    changes: dict[str, Any] = {}
    message_type: type = type(value)
    for name, kind in _column_fields(message_type):
        part = getattr(value, name)
        if isinstance(part, Groups | Rows):
            changes[name] = _converted(part, columns)
        elif kind == "term_columns":
            changes[name] = tuple(columns.adopt(column, "uint32") for column in part)
        elif kind == "u64_columns":
            changes[name] = tuple(columns.adopt(column, "uint64") for column in part)
        else:
            changes[name] = columns.adopt(part, _DTYPES[kind])
    return dataclasses.replace(value, **changes) if changes else value
