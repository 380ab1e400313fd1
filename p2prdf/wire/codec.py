"""Messages to bytes and back: length-prefixed msgpack frames with a term dictionary each.

A frame is four bytes of length (big-endian) and a body, the msgpack array ::

    [version, terms, messages]      terms: the frame's dictionary, canonical N-Triples strings;
                                    between peers a fourth part: the terms' digests
                                    message: [number of its type, field, field, ...]

**Columns.**  A frame contains each distinct term once; term columns are indices into that list.  A column is packed
little-endian in the narrowest of 1, 2, 4 or 8 bytes per value, followed by a byte with that width; a column of equal
values is the pair ``[count, value]``.  **Plans** are byte strings of their own; known ones take one dictionary look-up.

**Trust.**  Types, ranges, lengths of columns and indices are checked before a peer sees a message; any violation is a
RemoteProtocolError.  No frame makes the decoder allocate more than some 20 times its size (and a few MiB): columns of
equal values take from an allowance of one cell per byte of the frame, and containers are counted while msgpack builds
them.  New terms are checked for their outer shape only.

Message classes (:mod:`p2prdf.wire.messages`) declare their fields and numbers.  A number never changes its meaning.  A
change of fields is a new ``VERSION``, except for fields added at the end, which are left out if they have their
defaults.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]  # it ships no types
import numpy as np

from p2prdf.columns import ARRAYS, LISTS, Columns
from p2prdf.errors import RemoteProtocolError
from p2prdf.rdf.dictionary import DIGEST_BYTES, TermDictionary, TermNames
from p2prdf.wire.decoding import Decoder
from p2prdf.wire.encoding import Encoder
from p2prdf.wire.limits import (
    FRAME_BYTES_MAX,
    MESSAGES_MAX,
    ROWS_MAX,
    TERM_BYTES_MAX,
    TERMS_MAX,
    VERSION,
)

__all__ = [
    "FRAME_BYTES_MAX", "MESSAGES_MAX", "ROWS_MAX", "TERMS_MAX", "TERM_BYTES_MAX", "VERSION",
    "FrameCodec", "FrameReader",
]  # fmt: skip

_LENGTH: Final = struct.Struct(">I")


class FrameCodec:
    """Encodes and decodes frames for one dictionary.

    Decoded columns have the type ``columns`` (lists or arrays); both types can be encoded.
    """

    def __init__(self, dictionary: TermDictionary | TermNames, columns: Columns = ARRAYS):
        """Translate terms from and to ``dictionary``."""
        self._encoder = Encoder(dictionary, msgpack.Packer(default=_plain).pack)
        self._decoder = Decoder(dictionary, _unpack, lists=columns is LISTS)

    def encode(self, messages: Sequence[Any]) -> bytes:
        """Return the frame of some messages, length prefix included.

        Raises LocalProtocolError if they do not fit one frame: send fewer at once.
        """
        body = self._encoder.frame(messages)
        return _LENGTH.pack(len(body)) + body

    def decode(
        self, body: bytes | memoryview, *, trusted: bool = False, named: bool = True, unchecked: bool = False,
        verified: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return the messages of a frame's body (without the length prefix).

        New terms are added to the dictionary.  Frames of a ``trusted`` peer contain the digests of their terms; the
        dictionary recognises known terms by them and verifies those of new terms, unless this node has ``verified``
        them before.  A connection that is not ``named`` yet may not send terms, because they stay for good.
        ``unchecked``: the receiver of the messages checks the terms, so that a bad one fails a publication instead of
        the connection.

        Raises RemoteProtocolError for protocol violations (FalseDigest for a term with the digest of another one), and
        Busy if the dictionary is full.
        """
        return self._decoder.messages(
            body, trusted=trusted, named=named, unchecked=unchecked, verified=verified
        )


class FrameReader:
    """Splits a stream of bytes into frame bodies.  Holds at most one incomplete frame."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX):
        """Refuse bodies of more than ``bytes_max`` bytes before they are buffered."""
        self.bytes_max = bytes_max
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Number of buffered bytes of the incomplete frame."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Add bytes; return the bodies that are complete now.

        Raises RemoteProtocolError for a frame of no bytes or too many.  The position of the next frame is then unknown,
        so the connection ends.
        """
        if self._buffer:
            self._buffer += data
            data = self._buffer
        view = memoryview(data)
        bodies = []
        at = 0
        while len(view) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(view, at)
            if not 0 < length <= self.bytes_max:
                self._buffer = bytearray()
                raise RemoteProtocolError(f"a frame of {length} bytes; 1 to {self.bytes_max} are allowed")
            end = at + _LENGTH.size + length
            if end > len(view):
                break
            bodies.append(bytes(view[at + _LENGTH.size : end]))
            at = end
        if data is self._buffer:
            view.release()
            del self._buffer[:at]
        else:
            self._buffer += view[at:]
        return bodies


_BIN_BYTES_MAX: Final = max(8 * ROWS_MAX + 1, DIGEST_BYTES * TERMS_MAX)
"""The longest column, or the digests of all terms of a frame; their readers check the exact bound."""


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to a type that msgpack knows."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a message")


def _unpack(
    data: bytes | memoryview, count: Callable[[tuple[Any, ...]], Any], *, arrays_max: int, strings_max: int
) -> Any:
    """Build a msgpack value within bounds; ``count`` is called with each array."""
    try:
        return msgpack.unpackb(
            data, use_list=False, raw=False, strict_map_key=True, list_hook=count, ext_hook=_no_extension,
            max_array_len=arrays_max, max_str_len=strings_max, max_bin_len=_BIN_BYTES_MAX,
            max_map_len=0, max_ext_len=0,
        )  # fmt: skip
    except (ValueError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise RemoteProtocolError(f"not a frame: {reason[:200]}") from None


def _no_extension(code: int, data: bytes) -> Any:  # noqa: ARG001
    raise RemoteProtocolError(f"msgpack extension type {code}")
