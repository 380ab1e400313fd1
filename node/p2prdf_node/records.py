"""Messages to the records of a node's storage, and back.

A record is a frame as it goes between peers, digests of terms included: it explains all its terms
itself, so records can be read one by one and in any process, and nobody has to compute the digest of each
term of a large state at start (that would make decoding take three times as long, for a third less on
the disk).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from p2prdf.errors import LocalProtocolError, P2PRDFError
from p2prdf.wire import shapes
from p2prdf.wire.messages import Groups, IndexTriples, Parcel, Rows

if TYPE_CHECKING:
    from p2prdf.wire.codec import FrameCodec
    from p2prdf.wire.messages import Message

__all__ = ["Records", "joined"]

_LENGTH_BYTES = 4
"""A frame's length, which stands before its body."""
_ROWS_JOINED: Final = 8192
_TRIPLES: Final = shapes.SHAPES[IndexTriples]
_COLUMNS: Final = [_TRIPLES.names[at] for at in _TRIPLES.columns]
_SAME: Final = [name for name in _TRIPLES.names if name not in _COLUMNS and name != "complete"]
"""What must be the same of triples that are put together."""


class Records:
    """Encodes and decodes records with a node's dictionary."""

    def __init__(self, codec: FrameCodec):
        self._codec = codec

    def encode(self, messages: Sequence[Message]) -> list[bytes]:
        """Return the records of some messages: one, or more if they do not fit a frame.

        Raises LocalProtocolError for a single row that does not fit one.
        """
        try:
            return [self._codec.encode([Parcel(0, 0, message) for message in messages])]
        except LocalProtocolError:
            parts = _halves(messages)
            if len(parts) < 2:
                raise
            return [record for part in parts for record in self.encode(part)]

    def decode(self, record: bytes) -> Iterator[Message]:
        """Return the messages of a record.  Raises LocalProtocolError saying what is wrong with it."""
        try:
            parcels = self._codec.decode(memoryview(record)[_LENGTH_BYTES:], trusted=True)
        except P2PRDFError as error:
            raise LocalProtocolError(f"a record that is whole cannot be taken in: {error}") from error
        for parcel in parcels:
            yield parcel.message


def _halves(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Cut messages in two: by the message, and a single one by its rows; nothing if it has but one."""
    if len(messages) > 1:
        half = len(messages) // 2
        return [messages[:half], messages[half:]]
    message: Any = messages[0]
    for name, shape in (("rows", shapes.ROWS), ("groups", shapes.GROUPS)):
        part = getattr(message, name, None)
        if isinstance(part, Rows | Groups):
            return [[dataclasses.replace(message, **{name: half})] for half in _cut(part, shape)]
    return [[half] for half in _cut(message, shapes.SHAPES[type(message)])]


def _cut(value: Any, shape: shapes.Shape) -> list[Any]:
    """Cut parallel columns in the middle."""
    names = [shape.names[at] for at in shape.columns]
    tables = [shape.names[at] for at in shape.tables]
    half = len(getattr(value, names[0])) // 2 if names else 0
    if half == 0:
        return []
    parts = []
    for cut in (slice(half), slice(half, None)):
        fields: dict[str, Any] = {name: getattr(value, name)[cut] for name in names}
        fields |= {name: tuple(column[cut] for column in getattr(value, name)) for name in tables}
        parts.append(dataclasses.replace(value, **fields))
    return parts


def joined(kept: Iterable[Message]) -> Iterator[Message]:
    """Return messages with neighbours put together that say the same of different triples.

    Taking a message into the tables costs as much as a thousand rows do, and a publisher of single triples leaves
    a message for each.  ``complete`` only grows, so the last one's holds for all; nothing changes its place.
    """
    gathered: list[IndexTriples] = []
    rows = 0
    for message in kept:
        if isinstance(message, IndexTriples):
            if gathered and (rows + len(message) > _ROWS_JOINED or not _alike(gathered[-1], message)):
                yield _together(gathered)
                gathered, rows = [], 0
            gathered.append(message)
            rows += len(message)
            continue
        if gathered:
            yield _together(gathered)
            gathered, rows = [], 0
        yield message
    if gathered:
        yield _together(gathered)


def _alike(one: IndexTriples, other: IndexTriples) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _SAME)


def _together(gathered: list[IndexTriples]) -> IndexTriples:
    if len(gathered) == 1:
        return gathered[0]
    columns: dict[str, Any] = {
        name: np.concatenate([np.asarray(getattr(message, name)) for message in gathered]) for name in _COLUMNS
    }
    return dataclasses.replace(gathered[-1], complete=max(message.complete for message in gathered), **columns)
