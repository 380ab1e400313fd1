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

from typing import Final

from p2prdf.columns import ARRAYS, Columns
from p2prdf.errors import RemoteProtocolError
from p2prdf.rdf.dictionary import TermDictionary, TermNames
from p2prdf.wire.decoding import Decoder
from p2prdf.wire.encoding import Encoder
from p2prdf.wire.limits import FRAME_BYTES_MAX, LENGTH, MESSAGES_MAX, ROWS_MAX, TERM_BYTES_MAX, TERMS_MAX, VERSION

__all__ = [
    "FRAME_BYTES_MAX", "MESSAGES_MAX", "ROWS_MAX", "TERMS_MAX", "TERM_BYTES_MAX", "VERSION",
    "FrameCodec", "FrameReader",
]  # fmt: skip



class FrameCodec:
    """Encodes and decodes frames for one dictionary.

    Decoded columns have the type ``columns`` (lists or arrays); both types can be encoded.
    """

    def __init__(self, dictionary: TermDictionary | TermNames, columns: Columns = ARRAYS):
        """Translate terms from and to ``dictionary``."""
        self._encoder, self._decoder = Encoder(dictionary), Decoder(dictionary, columns)
        self.encode: Final = self._encoder.encode
        self.decode: Final = self._decoder.decode


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
        while len(view) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(view, at)
            if not 0 < length <= self.bytes_max:
                self._buffer = bytearray()
                raise RemoteProtocolError(f"a frame of {length} bytes; 1 to {self.bytes_max} are allowed")
            end = at + LENGTH.size + length
            if end > len(view):
                break
            bodies.append(bytes(view[at + LENGTH.size : end]))
            at = end
        if data is self._buffer:
            view.release()
            del self._buffer[:at]
        else:
            self._buffer += view[at:]
        return bodies
