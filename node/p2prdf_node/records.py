"""Messages to the records of a node's storage, and back.

A record is a frame as it goes between peers, digests of terms included: it explains all its terms
itself, so records can be read one by one and in any process, and nobody has to compute the digest of each
term of a large state at start (that would be three quarters of the time it takes to decode it, for a third
less on the disk).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from p2prdf.errors import LocalProtocolError, P2PRDFError
from p2prdf.wire import shapes
from p2prdf.wire.messages import Groups, Parcel, Rows

if TYPE_CHECKING:
    from p2prdf.wire.codec import FrameCodec
    from p2prdf.wire.messages import Message

__all__ = ["Records"]

_LENGTH_BYTES = 4
"""A frame's length, which stands before its body."""


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
