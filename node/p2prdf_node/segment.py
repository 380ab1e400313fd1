"""One file of a node's state: a header, then records, each with its own checksums.

::

    header   magic, format, kind, node, number, end of the previous segment, checksum
    record   mark, length, checksum of the content, checksum of these and of the position; then the content
    ...
    end      a record without content: only in snapshots, which are complete or worthless

A crash may leave half a write, and a disk may return wrong bytes.  The two must be told apart:

* *Torn*: the file ends inside its last record, or goes on with zeros only, where a file system reserves room before a
  write.  The record was never acknowledged and is dropped.
* *Damaged*: every other mismatch of a checksum.  The record was stored once, and other replicas must supply it again.
  The reader reports the position and continues behind it.

A readable but wrong tail of the last segment counts as damaged even after a crash: the opposite mistake would lose
data silently.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = [
    "FORMAT", "HEADER_BYTES", "HEAD_BYTES", "LOG", "SNAPSHOT", "Damage", "Files", "SegmentReader", "SegmentWriter",
]  # fmt: skip

FORMAT: Final = 1
LOG: Final = 1
SNAPSHOT: Final = 2
"""Kinds of segments: a log continues the segment before it, a snapshot replaces all before it."""

_MAGIC: Final = b"p2prdf\r\n"
_MARK: Final = b"\xf5rec"
_END: Final = b"\xf5end"
_HEADER: Final = struct.Struct(">8sHH20sQQ")
_HEAD: Final = struct.Struct(">4sI16s")
_CHECK_BYTES: Final = 16
_HEAD_CHECK_BYTES: Final = 8
HEADER_BYTES: Final = _HEADER.size + _CHECK_BYTES
HEAD_BYTES: Final = _HEAD.size + _HEAD_CHECK_BYTES
_PARTS_AT_ONCE: Final = 512
"""Parts of one gathering write: POSIX systems take 1,024."""
_CHUNK_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 4096
"""Unit in which unreadable parts are skipped."""

_sync_data = getattr(os, "fdatasync", os.fsync)  # some systems lack the cheaper call


class Files:
    """The system calls of the storage, in one class so that tests can make them fail."""

    def create(self, path: Path) -> int:
        """Open a fresh file for writing."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)

    def close(self, descriptor: int) -> None:
        """Close a written file."""
        os.close(descriptor)

    def write(self, descriptor: int, parts: Sequence[bytes]) -> None:
        """Write all of the parts, in order."""
        left: deque[bytes | memoryview] = deque(part for part in parts if part)
        while left:
            written = os.writev(descriptor, list(itertools.islice(left, _PARTS_AT_ONCE)))
            while left and written >= len(left[0]):
                written -= len(left.popleft())
            if written:
                left[0] = memoryview(left[0])[written:]

    def sync(self, descriptor: int) -> None:
        """Return when the written data and the file's length are on the disk."""
        _sync_data(descriptor)

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, path: Path, to: Path) -> None:
        """Rename a file, replacing the file of that name."""
        path.replace(to)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """Read at a position; returns fewer than ``size`` bytes only at the end of the file."""
        parts = []
        while size > 0 and (part := os.pread(descriptor, size, position)):
            parts.append(part)
            size -= len(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes ``start`` to ``end`` of a file that differ from the bytes written there."""

    path: Path
    start: int
    end: int
    reason: str


def _key(identity: bytes, kind: int, number: int) -> bytes:
    return hashlib.blake2b(struct.pack(">20sHQ", identity, kind, number), digest_size=32).digest()


def _check(key: bytes, data: bytes, size: int = _CHECK_BYTES) -> bytes:
    return hashlib.blake2b(data, digest_size=size, key=key).digest()


class SegmentWriter:
    """A segment being written; nothing is durable before :meth:`sync` has returned."""

    def __init__(self, files: Files, path: Path, identity: bytes, kind: int, number: int, before: int):
        """Create the file; ``before`` is the end of the segment with the previous number."""
        self.path = path
        self._files = files
        self._key = _key(identity, kind, number)
        header = _HEADER.pack(_MAGIC, FORMAT, kind, identity, number, before)
        self._descriptor = files.create(path)
        try:
            files.write(self._descriptor, [header, _check(b"", header)])
        except OSError:
            self.close()
            raise
        self.end = HEADER_BYTES
        """Position of the next record."""

    def write(self, records: Sequence[bytes]) -> None:
        """Append records.  After an OSError the end of the file is unknown."""
        self._write(records, _MARK)

    def finish(self) -> None:
        """Write the end record."""
        self._write([b""], _END)

    def _write(self, records: Sequence[bytes], mark: bytes) -> None:
        parts: list[bytes] = []
        at = self.end
        for record in records:
            head = _HEAD.pack(mark, len(record), _check(self._key, record))
            parts += [head, _head_check(self._key, head, at), record]
            at += HEAD_BYTES + len(record)
        self._files.write(self._descriptor, parts)
        self.end = at

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        self._files.sync(self._descriptor)

    def cut(self, end: int) -> None:
        """Truncate the file at ``end``, if possible."""
        os.ftruncate(self._descriptor, end)

    def close(self) -> None:
        """Close the file.  A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._files.close(descriptor)


def _head_check(key: bytes, head: bytes, position: int) -> bytes:
    return _check(key, head + position.to_bytes(8, "big"), _HEAD_CHECK_BYTES)


class SegmentReader:
    """A segment being read.  Raises LocalProtocolError for an intact segment of another node, name or format.

    The head of a record has a checksum of its own; otherwise a flipped bit in a length would look like a torn end.
    That checksum covers the record's position, and the key of all checksums names node, kind and number of the file:
    after damage the reader searches for the next head byte by byte, and neither a misplaced old block nor content
    that looks like a record passes for one.  The header holds the end of the previous segment, so only the last
    segment can be torn.
    """

    def __init__(self, files: Files, path: Path, identity: bytes, kind: int, number: int):
        self.path = path
        self.number = number
        self._files = files
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._key = _key(identity, kind, number)
        self.size = os.fstat(self._descriptor).st_size
        self.end = self.size
        """End of the valid records; known after :meth:`scan`."""
        self.before: int | None = None
        """End of the previous segment; None if the header is unreadable."""
        try:
            self._read_header(identity, kind, number)
        except BaseException:
            self.close()
            raise

    def _read_header(self, identity: bytes, kind: int, number: int) -> None:
        header = self._read(0, HEADER_BYTES)
        if header is None or len(header) < HEADER_BYTES:
            return
        fields, check = header[: _HEADER.size], header[_HEADER.size :]
        magic, version, found_kind, found_identity, found_number, before = _HEADER.unpack(fields)
        if magic != _MAGIC or check != _check(b"", fields):
            return
        if version != FORMAT:
            raise LocalProtocolError(f"{self.path}: state of format {version}; this version reads {FORMAT}")
        if found_identity != identity:
            raise LocalProtocolError(
                f"{self.path}: state of the node {found_identity.hex()}, but this one is {identity.hex()}"
            )
        if (found_kind, found_number) != (kind, number):
            raise LocalProtocolError(f"{self.path}: it was written under another name (number {found_number})")
        self.before = before

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def scan(self, *, end: int | None = None, finished: bool = False) -> Iterator[bytes | Damage]:
        """Return the records in order, and each damage at its place.

        ``end``: end of the segment by its successor's header; None: a crash may have torn it.  ``finished``: the
        segment must have an end record.
        """
        tail_may_be_torn = end is None and not finished
        limit = self.size if end is None else min(end, self.size)
        if end == 0 or (tail_may_be_torn and self._was_never_begun(limit)):
            self.end = 0
            return
        if self.before is None:
            yield Damage(self.path, 0, min(HEADER_BYTES, limit), "header")
        at = min(HEADER_BYTES, limit)
        complete = False
        while at < limit:
            found = self._head(at)
            if found is None:
                if tail_may_be_torn and self._is_torn(at, limit):
                    break
                start, at = at, self._next_head(at + 1, limit)
                yield Damage(self.path, start, at, "head of a record")
                continue
            mark, length, check = found
            stop = at + HEAD_BYTES + length
            if stop > limit:
                if tail_may_be_torn:
                    break
                yield Damage(self.path, at, limit, "a record that is cut off")
                at = limit
                break
            content = self._read(at + HEAD_BYTES, length)
            if content is None or _check(self._key, content) != check:
                yield Damage(self.path, at, stop, "content of a record")
            elif mark == _END:
                complete = True
            else:
                yield content
            at = stop
        self.end = at
        if end is not None and self.size < end:
            yield Damage(self.path, self.size, end, "missing")
        if finished and not complete:
            yield Damage(self.path, limit, limit, "its end")

    def _head(self, at: int) -> tuple[bytes, int, bytes] | None:
        """Return mark, length and checksum of the content of the record at a position, or None."""
        head = self._read(at, HEAD_BYTES)
        return None if head is None else self._parsed(head, at)

    def _parsed(self, head: bytes, at: int) -> tuple[bytes, int, bytes] | None:
        if len(head) < HEAD_BYTES:
            return None
        fields = head[: _HEAD.size]
        if head[_HEAD.size :] != _head_check(self._key, fields, at):
            return None
        mark, length, check = _HEAD.unpack(fields)
        return mark, length, check

    def _was_never_begun(self, limit: int) -> bool:
        return self.before is None and (limit < HEADER_BYTES or self._is_torn(0, limit))

    def _is_torn(self, at: int, limit: int) -> bool:
        if limit - at < HEAD_BYTES:
            return True
        for start in range(at, limit, _CHUNK_BYTES):
            part = self._read(start, min(_CHUNK_BYTES, limit - start))
            if part is None or part.count(0) != len(part):
                return False
        return True

    def _next_head(self, at: int, limit: int) -> int:
        """Return the position of the next record, or ``limit``."""
        while at < limit:
            part = self._read(at, min(_CHUNK_BYTES, limit - at))
            if part is None:
                part = self._read(at, min(_BLOCK_BYTES - at % _BLOCK_BYTES, limit - at))
            if part is None:
                at += _BLOCK_BYTES - at % _BLOCK_BYTES
                continue
            found = part.find(_MARK[:1])
            while found >= 0:
                may_be_one = found + 4 > len(part) or part[found : found + 4] in (_MARK, _END)
                if may_be_one and self._head(at + found) is not None:
                    return at + found
                found = part.find(_MARK[:1], found + 1)
            at += len(part)
        return limit

    def _read(self, position: int, size: int) -> bytes | None:
        """Read; return None if the disk reports an error."""
        try:
            return self._files.read(self._descriptor, size, position)
        except OSError:
            return None

    def copy(self, damage: Damage, target: Path, bytes_max: int) -> None:
        """Copy a damaged part, as far as it is readable, at most ``bytes_max`` bytes."""
        end = min(damage.end, damage.start + bytes_max)
        with target.open("wb") as out:
            for start in range(damage.start, end, _BLOCK_BYTES):
                out.write(self._read(start, min(_BLOCK_BYTES, end - start)) or b"")
