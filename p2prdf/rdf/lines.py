"""Split byte streams at line ends in bounded memory, and report faults in them."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import io
import lzma
import zlib
from codecs import BOM_UTF8
from typing import IO, TYPE_CHECKING, Final, cast

from p2prdf.errors import DataRefused
from p2prdf.rdf import zstd
from p2prdf.rdf.terms import TERM_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "CHUNK_BYTES", "COMPRESSIONS", "DAMAGED", "LINE_BYTES_MAX", "BadLine", "Faults", "Overlong", "decompressed",
    "is_compressed", "line_chunks", "opened",
]  # fmt: skip

CHUNK_BYTES: Final = 1 << 17
LINE_BYTES_MAX: Final = 3 * TERM_BYTES_MAX
"""Longest line: three terms of the largest size; longer lines are dropped unread."""

COMPRESSIONS: Final = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes of compressed files."""
DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstd.Damaged)
"""Errors of damaged compressed data."""
_BZIP2: Final = b"BZh"
_XZ: Final = b"\xfd7zXZ\x00"
_WINDOW_BYTES_MAX: Final = 1 << 27
"""Most memory for a frame of Zstandard, that of ``zstd --long``, or a member of xz: twice that of ``xz -9``."""


@dataclasses.dataclass(frozen=True, slots=True)
class BadLine:
    """A line without a valid triple."""

    line: int
    reason: str


class Faults:
    """Reports faults in input: to a callback, or by raising an exception."""

    def __init__(self, source: str, strict: bool, on_bad_line: Callable[[BadLine], None] | None):
        self.source = source
        self._strict = strict
        self._on_bad_line = on_bad_line

    def bad_line(self, line: int, reason: str) -> None:
        """Report an invalid line.  Raises DataRefused in strict mode."""
        if self._strict:
            raise DataRefused(reason, source=self.source, line=line)
        if self._on_bad_line is not None:
            self._on_bad_line(BadLine(line, reason))

    def refuse(self, reason: str, line: int | None = None) -> DataRefused:
        """Return the error that ends reading."""
        return DataRefused(reason, source=self.source, line=line)


def is_compressed(name: str) -> bool:
    """Tell whether a file is compressed, by its name."""
    return name.lower().endswith(COMPRESSIONS)


def opened(stream: IO[bytes], *, compressed: bool = False, binary: bool = False) -> IO[bytes]:
    """Return the stream, decompressed if needed and, unless it is binary, without a UTF-8 byte order mark."""
    data = cast("IO[bytes]", decompressed(stream)) if compressed else stream
    return data if binary else cast("IO[bytes]", _WithoutMark(data))


def decompressed(stream: IO[bytes]) -> io.RawIOBase:
    """Return the content of a compressed stream; its first bytes show how: bzip2, xz, Zstandard, otherwise gzip.

    A stream may consist of several compressed members.  Reading raises one of DAMAGED for damaged data.
    """
    return _Decompressed(stream)


class _Begun:
    """Reads a stream of which the first bytes were looked at."""

    def __init__(self, data: IO[bytes]):
        self._data = data
        self._begun = b""

    def look(self, size: int) -> bytes:
        """Return the first bytes, fewer only at the end."""
        while len(self._begun) < size and (part := self._data.read(size - len(self._begun))):
            self._begun += part
        return self._begun

    def drop(self, prefix: bytes) -> None:
        """Drop the first bytes if they are these."""
        self._begun = self._begun.removeprefix(prefix)

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        if not self._begun:
            return self._data.read(size)
        if size < 0:
            begun, self._begun = self._begun, b""
            return begun + self._data.read()
        begun, self._begun = self._begun[:size], self._begun[size:]
        return begun


class _WithoutMark:
    """Reads a stream and drops a byte order mark at its beginning."""

    def __init__(self, data: IO[bytes]):
        self._data = _Begun(data)
        self._looked = False

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        if not self._looked:
            self._data.look(len(BOM_UTF8))
            self._data.drop(BOM_UTF8)
            self._looked = True
        return self._data.read(size)


class _Members:
    """Reads compressed members, one after the other; the library's files end silently at other bytes after a member.

    Zeros between and after members are padding.
    """

    def __init__(self, stream: IO[bytes], begin: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]):
        self._stream = stream
        self._begin = begin
        self._member = begin()
        self._packed = b""

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, none at the end.  Raises EOFError, OSError or LZMAError for damaged data."""
        while not self._member.eof or self._next():
            packed = b""
            if self._member.needs_input:
                packed, self._packed = self._packed or self._stream.read(CHUNK_BYTES), b""
                if not packed:
                    raise EOFError("it ends within a member")
            if found := self._member.decompress(packed, size):
                return found
        return b""

    def _next(self) -> bool:
        """Begin the next member, if there is one."""
        rest = self._member.unused_data.lstrip(b"\0")
        while not rest and (part := self._stream.read(CHUNK_BYTES)):
            rest = part.lstrip(b"\0")
        if rest:
            self._member, self._packed = self._begin(), rest
        return bool(rest)


def _xz_decompressor() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_WINDOW_BYTES_MAX)


class _Decompressed(io.RawIOBase):
    """Decompresses a stream, which is read at the first call."""

    def __init__(self, stream: IO[bytes]):
        super().__init__()
        self._stream = stream
        self._data: IO[bytes] | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as one read allows."""
        if self._data is None:
            begun = _Begun(self._stream)
            first, stream = begun.look(len(_XZ)), cast("IO[bytes]", begun)
            if first.startswith(_BZIP2):
                self._data = cast("IO[bytes]", _Members(stream, bz2.BZ2Decompressor))
            elif first == _XZ:
                self._data = cast("IO[bytes]", _Members(stream, _xz_decompressor))
            elif first.startswith(zstd.FRAME):
                self._data = cast("IO[bytes]", zstd.ExpandedFile(stream, _WINDOW_BYTES_MAX))
            else:
                self._data = cast("IO[bytes]", gzip.GzipFile(fileobj=stream, mode="rb"))
        try:
            found = self._data.read(len(buffer))
        except OSError as error:
            if error.errno is None and not isinstance(error, gzip.BadGzipFile):  # bz2 has no error of its own
                raise EOFError(str(error)) from None
            raise
        buffer[: len(found)] = found
        return len(found)


class Overlong:
    """Stands for a line that was dropped because of its length."""


def line_chunks(data: IO[bytes], faults: Faults, *, live: bool = False) -> Iterator[bytes | Overlong]:
    """Split a stream at line ends into pieces of about CHUNK_BYTES, each of at least one line.

    ``live``: the stream is raw (a pipe, a socket), and the bytes that one read returns make up a piece.
    """
    rest = b""
    while True:
        block = _block(data, faults, live=live)
        if not block:
            if rest:
                yield rest
            return
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
            continue
        rest += block
        if len(rest) > LINE_BYTES_MAX:
            rest = _drop_line(data, faults, live=live)
            yield Overlong()


def _drop_line(data: IO[bytes], faults: Faults, *, live: bool) -> bytes:
    """Skip the rest of the line; return the bytes that follow it in its last block."""
    while block := _block(data, faults, live=live):
        cut = block.find(b"\n") + 1
        if cut:
            return block[cut:]
    return b""


def _block(data: IO[bytes], faults: Faults, *, live: bool) -> bytes:
    return data.read(CHUNK_BYTES) if live else _fill(data, CHUNK_BYTES, faults)


def _fill(data: IO[bytes], size: int, faults: Faults) -> bytes:
    """Read exactly ``size`` bytes, fewer only at the end."""
    parts = []
    while size:
        try:
            part = data.read(size)
        except DAMAGED as error:
            raise faults.refuse(f"the compressed data is damaged: {error}") from None
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
