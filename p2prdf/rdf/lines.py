"""Split byte streams at line ends in bounded memory, and report faults in them."""

from __future__ import annotations

import dataclasses
import gzip
import zlib
from codecs import BOM_UTF8
from typing import IO, TYPE_CHECKING, Final, cast

from p2prdf.errors import DataRefused
from p2prdf.rdf.terms import TERM_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CHUNK_BYTES", "LINE_BYTES_MAX", "BadLine", "Faults", "Overlong", "line_chunks", "opened"]

CHUNK_BYTES: Final = 1 << 17
LINE_BYTES_MAX: Final = 3 * TERM_BYTES_MAX
"""Longest line: three terms of the largest size; longer lines are dropped unread."""


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


def opened(stream: IO[bytes], *, compressed: bool = False) -> IO[bytes]:
    """Return the stream, decompressed if needed and without a UTF-8 byte order mark."""
    data = cast("IO[bytes]", gzip.GzipFile(fileobj=stream, mode="rb")) if compressed else stream
    return cast("IO[bytes]", _WithoutMark(data))


class _WithoutMark:
    """Reads a stream and drops a byte order mark at its beginning."""

    def __init__(self, data: IO[bytes]):
        self._data = data
        self._begun = b""
        self._looked = False

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        if not self._looked:
            while len(self._begun) < len(BOM_UTF8) and (part := self._data.read(len(BOM_UTF8) - len(self._begun))):
                self._begun += part
            self._looked = True
            self._begun = self._begun.removeprefix(BOM_UTF8)
        if not self._begun:
            return self._data.read(size)
        if size < 0:
            begun, self._begun = self._begun, b""
            return begun + self._data.read()
        begun, self._begun = self._begun[:size], self._begun[size:]
        return begun


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
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise faults.refuse(f"the compressed data is damaged: {error}") from None
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
