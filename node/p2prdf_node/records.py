"""Codec between messages and the records of a node's storage.

A record is a frame in the format between peers, digests of terms included.  It is self-contained: records can be read
one by one and in any process, and a start need not compute the digest of every term, which would triple the time of
decoding.

A state that no current version has read is verified once.  Older versions trusted the digests of peers and may have
stored terms under digests of other terms.  Rows with such a term are left out when the state is read, because the
true term cannot be recovered locally; other replicas supply them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf.errors import FalseDigest, LocalProtocolError, P2PRDFError
from p2prdf.wire.fields import DECLARED, columns_of, with_columns
from p2prdf.wire.messages import Envelope, Groups, IndexTriples, Rows

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.wire.codec import FrameCodec
    from p2prdf.wire.messages import Message

__all__ = ["Records", "joined", "without_terms"]

_LENGTH_BYTES = 4
"""Bytes of the frame's length, which precedes its body."""
_ROWS_JOINED: Final = 8192
_COLUMNS: Final = columns_of(IndexTriples)
_SAME: Final = [name for name in DECLARED[IndexTriples] if name not in _COLUMNS and name != "complete"]
"""Fields that must be equal for messages of triples to be joined."""


class Records:
    """Encodes and decodes records with a node's dictionary."""

    def __init__(self, codec: FrameCodec, dictionary: TermDictionary | None = None):
        """``dictionary``: the codec's dictionary, needed to leave out terms with false digests."""
        self._codec = codec
        self._dictionary = dictionary
        self.verified = False
        """Whether the digests of all stored terms were verified before they were stored."""
        self.false_terms: set[str] = set()
        """Stored terms with the digest of another term."""
        self.rows_left_out = 0
        """Rows (or messages without rows) with such terms, which were left out."""

    def encode(self, messages: Sequence[Message]) -> list[bytes]:
        """Return the records of messages: one, or more if they exceed a frame.

        Raises LocalProtocolError for a single row that exceeds a frame.
        """
        try:
            return [self._codec.encode([Envelope(0, 0, message) for message in messages])]
        except LocalProtocolError:
            parts = _halves(messages)
            if len(parts) < 2:
                raise
            return [record for part in parts for record in self.encode(part)]

    def decode(self, record: bytes) -> Iterator[Message]:
        """Decode a record's messages.  Raises LocalProtocolError with the reason."""
        body = memoryview(record)[_LENGTH_BYTES:]
        false: tuple[str, ...] = ()
        try:
            try:
                envelopes = self._codec.decode(body, trusted=True, verified=self.verified)
            except FalseDigest as error:
                if self._dictionary is None:
                    raise
                false = error.texts
                envelopes = self._codec.decode(body)
        except P2PRDFError as error:
            raise LocalProtocolError(f"an undamaged record cannot be decoded: {error}") from error
        for envelope in envelopes:
            message = self._without(envelope.message, false) if false else envelope.message
            if message is not None:
                yield message

    def _without(self, message: Message, texts: Sequence[str]) -> Message | None:
        """Return a message without the rows that name any of the terms; None if nothing is left."""
        assert self._dictionary is not None
        self.false_terms.update(texts)
        false = np.array([self._dictionary.find(text) for text in texts], np.int64)
        kept: Message | None
        kept, left_out = without_terms(message, false)
        self.rows_left_out += left_out
        return kept


def without_terms(message: Any, terms: npt.NDArray[np.int64]) -> tuple[Any, int]:
    """Return a message without the rows that name any of the terms, and the number of these rows.

    The message is None if no row is left, or if its groups name one of the terms.
    """
    groups, rows = getattr(message, "groups", None), getattr(message, "rows", None)
    if isinstance(groups, Groups) and _naming(groups, terms).any():
        return None, len(rows) if isinstance(rows, Rows) else 1
    if isinstance(rows, Rows):
        kept, left_out = _rows_without(rows, terms)
        if kept is None:
            return None, left_out
        return (dataclasses.replace(message, rows=kept) if left_out else message), left_out
    return _rows_without(message, terms)


def _naming(value: Any, terms: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each row of parallel columns whether it names one of the terms."""
    found = np.zeros(0, np.bool_)
    for name, kind in DECLARED[type(value)].items():
        of_terms = {"terms": (getattr(value, name),), "term_columns": getattr(value, name)}
        for column in of_terms.get(kind.form, ()):
            named = np.isin(np.asarray(column, np.int64), terms)
            found = named if not len(found) else found | named
    return found


def _rows_without(value: Any, terms: npt.NDArray[np.int64]) -> tuple[Any, int]:
    naming = _naming(value, terms)
    left_out = int(naming.sum())
    if not left_out:
        return value, 0
    if left_out == len(naming):
        return None, left_out
    kept = np.flatnonzero(~naming)

    def take(column: Any) -> Any:
        return [column[at] for at in kept.tolist()] if isinstance(column, list) else column[kept]

    return with_columns(value, take), left_out


def _halves(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Split messages in two halves, a single message by its rows; empty if it has only one row."""
    if len(messages) > 1:
        half = len(messages) // 2
        return [messages[:half], messages[half:]]
    message: Any = messages[0]
    for name in ("rows", "groups"):
        part = getattr(message, name, None)
        if isinstance(part, Rows | Groups):
            return [[dataclasses.replace(message, **{name: half})] for half in _cut(part)]
    return [[half] for half in _cut(message)]


def _cut(value: Any) -> list[Any]:
    """Split parallel columns in the middle."""
    names = columns_of(type(value))
    half = len(getattr(value, names[0])) // 2 if names else 0
    return [with_columns(value, itemgetter(cut)) for cut in (slice(half), slice(half, None))] if half else []


def joined(kept: Iterable[Message]) -> Iterator[Message]:
    """Join neighbouring messages that differ only in their triples.

    Processing a message costs as much as a thousand rows, and a publisher of single triples leaves a message for
    each.  ``complete`` never decreases, so the last value holds for all; the order of messages stays.
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
