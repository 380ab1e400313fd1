"""Messages to bytes and back: length-prefixed msgpack frames with a term dictionary each.

A frame is four bytes of length (big-endian) and a body, the msgpack array ::

    [version, terms, messages]      terms: the frame's dictionary, canonical N-Triples strings;
                                    between peers a fourth part: the terms' digests
                                    message: [number of its type, field, field, ...]

**Columns.**  Inside a process a term is an integer of that process's dictionary, which means
nothing elsewhere.  A frame carries each distinct term once, all its messages together, and its
term columns hold indices into that list.  A column is packed little-endian in the narrowest of
1, 2, 4 or 8 bytes a value, the width in a byte behind the values; one of equal values is the pair
``[count, value]``.  So a batch of 1,000 triples is some 1,800 strings and six byte strings, and
neither side makes an object per row.

**Plans** travel in the same few spellings over and over; a plan is a byte string of its own, and a
known one costs a dictionary look-up on either side.

**Trust.**  Whatever comes in is checked before a peer sees it: types, ranges, equal lengths of
the columns of one message, indices within what they index.  Anything wrong is a
RemoteProtocolError, and no frame makes the decoder take more than some 20 times its own size
(and a fixed few MiB): columns of equal values, the one way to say much with few bytes, are paid
for out of an allowance of one cell for each byte of the frame, and containers are counted while
msgpack builds them.  Terms are looked at only when they are new to the dictionary, and then for
their outer shape; a peer that wants more parses them.

The work is done in :mod:`~p2prdf.wire.encoding` and :mod:`~p2prdf.wire.decoding`, with the checks in
:mod:`~p2prdf.wire.validation`; msgpack itself is called from here only.

Which field is what is told by the message classes (:mod:`p2prdf.wire.messages`): metadata for
columns, the annotation for the rest.  Numbers of message types (:mod:`~p2prdf.wire.shapes`) never change
their meaning; a change of fields is a new ``VERSION``, but for fields added at the end, which are left out where they
have their defaults: what was written without them is read as ever.
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
from p2prdf.wire.shapes import (
    FRAME_BYTES_MAX,
    MESSAGES_MAX,
    NUMBERS,
    ROWS_MAX,
    TERM_BYTES_MAX,
    TERMS_MAX,
    VERSION,
)

__all__ = [
    "FRAME_BYTES_MAX", "MESSAGES_MAX", "NUMBERS", "ROWS_MAX", "TERMS_MAX", "TERM_BYTES_MAX", "VERSION",
    "FrameCodec", "FrameReader",
]  # fmt: skip

_LENGTH: Final = struct.Struct(">I")


class FrameCodec:
    """Encodes and decodes frames for one dictionary.

    Decoded columns are of the material ``columns``; either material is encoded.
    """

    def __init__(self, dictionary: TermDictionary | TermNames, columns: Columns = ARRAYS):
        """Translate terms from and to ``dictionary``."""
        self._encoder = Encoder(dictionary, msgpack.Packer(default=_plain).pack)
        self._decoder = Decoder(dictionary, _unpack, lists=columns is LISTS)

    def encode(self, messages: Sequence[Any]) -> bytes:
        """Return the frame of some messages, length prefix included.

        Raises LocalProtocolError when they do not fit one frame: send fewer at once.
        """
        body = self._encoder.frame(messages)
        return _LENGTH.pack(len(body)) + body

    def decode(
        self, body: bytes | memoryview, *, trusted: bool = False, named: bool = True, unchecked: bool = False,
        verified: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return the messages of a frame's body (without the length prefix).

        New terms are taken into the dictionary.  Frames of a ``trusted`` peer of the overlay give the digests of
        their terms; the dictionary recognises known terms by them and verifies those of new terms, unless this
        node has ``verified`` them before.  A connection that is not ``named`` yet has no
        business with terms, which stay for good.  ``unchecked``: the receiver of the messages checks the terms, so that
        a bad one costs a publication and not the connection.  Raises RemoteProtocolError for whatever the protocol
        forbids (FalseDigest for a term with the digest of another one), and Busy when the dictionary is full.
        """
        return self._decoder.messages(
            body, trusted=trusted, named=named, unchecked=unchecked, verified=verified
        )


class FrameReader:
    """Cuts a stream of bytes into frame bodies.  Holds at most one incomplete frame."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX):
        """Refuse bodies of more than ``bytes_max`` bytes before they are buffered."""
        self.bytes_max = bytes_max
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of the frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Take in bytes; return the bodies that are complete now.

        Raises RemoteProtocolError when a frame says that it is empty or too long; the stream has lost its
        rhythm then, and the connection ends.
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
"""The longest column, or the digests of as many terms as a frame may have; whoever reads one knows which it is."""


def _plain(value: Any) -> Any:
    """Turn what a column gave out into what msgpack knows."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a message")


def _unpack(
    data: bytes | memoryview, count: Callable[[tuple[Any, ...]], Any], *, arrays_max: int, strings_max: int
) -> Any:
    """Build what msgpack spells, within bounds; ``count`` sees each array."""
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
