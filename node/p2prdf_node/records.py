"""Messages to the records of a node's storage, and back.

A record is a frame as it goes between peers, digests of terms included: it explains all its terms
itself, so records can be read one by one and in any process, and a node need not compute the digest of each
term of a large state at every start (that would make decoding take three times as long).

Digests of a state that no current version has read yet are verified once.  A version that believed peers may have
kept terms with digests of other terms: then what names such a term is left out of the record, as the true term cannot
be known from here, and the node gets the rest from other replicas.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf.errors import FalseDigest, LocalProtocolError, P2PRDFError
from p2prdf.wire import shapes
from p2prdf.wire.messages import Groups, IndexTriples, Parcel, Rows

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.wire.codec import FrameCodec
    from p2prdf.wire.messages import Message

__all__ = ["Records", "joined", "without_terms"]

_LENGTH_BYTES = 4
"""A frame's length, which stands before its body."""
_ROWS_JOINED: Final = 8192
_TRIPLES: Final = shapes.SHAPES[IndexTriples]
_COLUMNS: Final = [_TRIPLES.names[at] for at in _TRIPLES.columns]
_SAME: Final = [name for name in _TRIPLES.names if name not in _COLUMNS and name != "complete"]
"""What must be the same of triples that are put together."""


class Records:
    """Encodes and decodes records with a node's dictionary."""

    def __init__(self, codec: FrameCodec, dictionary: TermDictionary | None = None):
        """``dictionary``: that of the codec, to find terms with false digests in what was kept."""
        self._codec = codec
        self._dictionary = dictionary
        self.verified = False
        """Whether this node verified the digests of all that it keeps before it kept them."""
        self.false_terms: set[str] = set()
        """Terms that were kept with the digests of other terms,"""
        self.rows_left_out = 0
        """and how many rows, or messages without rows, named them and were left out."""

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
        body = memoryview(record)[_LENGTH_BYTES:]
        false: tuple[str, ...] = ()
        try:
            try:
                parcels = self._codec.decode(body, trusted=True, verified=self.verified)
            except FalseDigest as error:
                if self._dictionary is None:
                    raise
                false = error.texts
                parcels = self._codec.decode(body)
        except P2PRDFError as error:
            raise LocalProtocolError(f"a record that is whole cannot be taken in: {error}") from error
        for parcel in parcels:
            message = self._without(parcel.message, false) if false else parcel.message
            if message is not None:
                yield message

    def _without(self, message: Message, texts: Sequence[str]) -> Message | None:
        """Return a message without the rows that name some terms; None if nothing of it is left."""
        assert self._dictionary is not None
        self.false_terms.update(texts)
        false = np.array([self._dictionary.find(text) for text in texts], np.int64)
        kept: Message | None
        kept, left_out = without_terms(message, false)
        self.rows_left_out += left_out
        return kept


def without_terms(message: Any, terms: npt.NDArray[np.int64]) -> tuple[Any, int]:
    """Return a message without the rows that name any of some terms, and how many these are.

    None stands for a message of which nothing is left, and for one whose groups name one of the terms.
    """
    groups, rows = getattr(message, "groups", None), getattr(message, "rows", None)
    if isinstance(groups, Groups) and _naming(groups, shapes.GROUPS, terms).any():
        return None, len(rows) if isinstance(rows, Rows) else 1
    if isinstance(rows, Rows):
        kept, left_out = _rows_without(rows, shapes.ROWS, terms)
        if kept is None:
            return None, left_out
        return (dataclasses.replace(message, rows=kept) if left_out else message), left_out
    return _rows_without(message, shapes.SHAPES[type(message)], terms)


def _naming(value: Any, shape: shapes.Shape, terms: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each row of parallel columns whether it names one of some terms."""
    found = np.zeros(0, np.bool_)
    for name, kind in zip(shape.names, shape.kinds, strict=True):
        columns = getattr(value, name) if kind == "term_columns" else [getattr(value, name)] if kind == "terms" else []
        for column in columns:
            named = np.isin(np.asarray(column, np.int64), terms)
            found = named if not len(found) else found | named
    return found


def _rows_without(value: Any, shape: shapes.Shape, terms: npt.NDArray[np.int64]) -> tuple[Any, int]:
    naming = _naming(value, shape, terms)
    left_out = int(naming.sum())
    if not left_out:
        return value, 0
    if left_out == len(naming):
        return None, left_out
    kept = np.flatnonzero(~naming)

    def take(column: Any) -> Any:
        return [column[at] for at in kept.tolist()] if isinstance(column, list) else column[kept]

    fields: dict[str, Any] = {shape.names[at]: take(getattr(value, shape.names[at])) for at in shape.columns}
    for at in shape.tables:
        fields[shape.names[at]] = tuple(take(column) for column in getattr(value, shape.names[at]))
    return dataclasses.replace(value, **fields), left_out


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
