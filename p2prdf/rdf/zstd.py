"""Zstandard (RFC 8878) in pieces of bounded size (extra ``zstd``).

*Problem.*  Four bytes of a frame may stand for 128 KiB, and the library expands all input of a call at once.  Its
readers that bound their output treat the end of a truncated frame as the end of the data.

*Solution.*  :class:`Expander` finds the ends of blocks by their headers and passes one block to the library at a time.
A block expands to at most ``BLOCK_BYTES_MAX``, and the ends of frames are known.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from p2prdf.errors import DataRefused

if TYPE_CHECKING:
    import zstandard

__all__ = ["BLOCK_BYTES_MAX", "FRAME", "Damaged", "Expander", "ExpandedFile", "compressor", "is_installed"]

FRAME: Final = b"\x28\xb5\x2f\xfd"
"""First bytes of a frame."""
BLOCK_BYTES_MAX: Final = 1 << 17
"""Most bytes of a block, both compressed and expanded."""
_SKIPPABLE: Final = b"\x2a\x4d\x18"
_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_READ_BYTES: Final = 1 << 16
_RLE: Final = 1
_RESERVED: Final = 3


class Damaged(ValueError):
    """Data that is not Zstandard, or breaks off."""


def is_installed() -> bool:
    """Tell whether the library is there."""
    try:
        import zstandard  # noqa: F401
    except ImportError:
        return False
    return True


def compressor() -> zstandard.ZstdCompressionObj:
    """Return an object with the methods ``compress`` and ``flush``, for one frame with a checksum."""
    import zstandard

    return zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()


class Expander:
    """Expands frames, one after the other, in pieces of at most ``BLOCK_BYTES_MAX``."""

    def __init__(self, window_bytes_max: int):
        """``window_bytes_max``: most memory of a frame; a frame that needs more is damaged.

        Raises DataRefused without the library.
        """
        try:
            import zstandard
        except ImportError:
            raise DataRefused("Zstandard takes the extra zstd: pip install 'p2prdf[zstd]'") from None
        self._error = zstandard.ZstdError
        self._library = zstandard.ZstdDecompressor(max_window_size=window_bytes_max)
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._has_checksum = self._is_last = False
        self._skipped = 0
        """Bytes of a skippable frame that are still to come."""
        self._packed = bytearray()

    def feed(self, data: bytes) -> None:
        """Take compressed bytes."""
        self._packed += data

    def expand(self) -> bytes:
        """Return some expanded bytes; none if more compressed bytes are needed.  Raises Damaged."""
        while True:
            if self._skipped:
                gone = min(self._skipped, len(self._packed))
                del self._packed[:gone]
                self._skipped -= gone
            size = self._next_size()
            if not size or len(self._packed) < size:
                return b""
            piece = bytes(self._packed[:size])
            del self._packed[:size]
            if found := self._expanded(piece):
                return found

    def end(self) -> None:
        """Raise Damaged if the data ends within a frame."""
        if self._frame is not None or self._packed or self._skipped:
            raise Damaged("it breaks off")

    def _next_size(self) -> int:
        """Return the length of the next header, block or checksum; 0 if more bytes are needed to know it."""
        packed = self._packed
        if self._frame is None:
            if len(packed) < 5:
                return 0
            if packed[1:4] == _SKIPPABLE and packed[0] >> 4 == 5:
                return 8
            if packed[:4] != FRAME:
                raise Damaged("it is not Zstandard")
            flags = packed[4]
            single = flags >> 5 & 1
            content = (single, 2, 4, 8)[flags >> 6]
            return 5 + (1 - single) + _DICTIONARY_BYTES[flags & 3] + content
        if self._is_last:
            return 4
        if len(packed) < 3:
            return 0
        header = int.from_bytes(packed[:3], "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == _RESERVED or size > BLOCK_BYTES_MAX:
            raise Damaged("a block has an invalid header")
        return 3 + (1 if kind == _RLE else size)

    def _expanded(self, piece: bytes) -> bytes:
        """Pass a header, block or checksum to the library; return the expanded bytes."""
        if self._frame is None and piece[:4] != FRAME:
            self._skipped = int.from_bytes(piece[4:8], "little")
            return b""
        began = self._frame is None
        if self._frame is None:
            self._frame, self._has_checksum = self._library.decompressobj(), bool(piece[4] >> 2 & 1)
        try:
            found: bytes = self._frame.decompress(piece)
        except self._error as error:
            raise Damaged(str(error)) from None
        if self._is_last or (not began and piece[0] & 1 and not self._has_checksum):
            self._frame, self._is_last = None, False
        elif not began and piece[0] & 1:
            self._is_last = True
        return found


class ExpandedFile:
    """Reads the content of a compressed file."""

    def __init__(self, stream: IO[bytes], window_bytes_max: int):
        """Raises DataRefused without the library."""
        self._stream = stream
        self._expander = Expander(window_bytes_max)
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, none at the end.  Raises Damaged."""
        while not self._rest and not (piece := self._expander.expand()):
            data = self._stream.read(_READ_BYTES)
            if not data:
                self._expander.end()
                return b""
            self._expander.feed(data)
        self._rest = self._rest or piece
        found, self._rest = self._rest[:size], self._rest[size:]
        return found
