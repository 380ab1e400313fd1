"""A node's state on its disk: an append-only log, read at the start, replaced by a snapshot from time to time.

::

    DATA/lock                       lock of the process that uses the directory; its mtime is the last sign of life
    DATA/node-id                    identifier of the node
    DATA/state/owner                format, node and cluster
    DATA/state/digests-verified     the digests of all terms in the state were compared with the terms
    DATA/state/00000007.snapshot    replaces all logs up to 7
    DATA/state/00000008.log         later records, in segments (:mod:`p2prdf_node.segment`)
    DATA/state/00000009.log
    DATA/state/quarantine/...       copies of damaged parts

docs/explanation/design/storage.md compares this log with SQLite, LMDB and RocksDB.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import structlog

from p2prdf.errors import LocalProtocolError, Unavailable
from p2prdf_node.segment import FORMAT, LOG, SNAPSHOT, Damage, Files, SegmentReader, SegmentWriter

__all__ = ["VERIFIED", "DirectoryLock", "DiskRefused", "Replacement", "Storage", "state_files", "write_durably"]

SEGMENT_BYTES: Final = 64 << 20
"""Length at which a log segment ends."""
SYNC_BYTES: Final = 8 << 20
"""Bytes of a snapshot between syncs, so that commits wait for at most one such part."""
QUARANTINE_BYTES_MAX: Final = 64 << 20
"""Total size of copies of damaged parts; further damage is only logged."""
CLOCK_SECONDS: Final = 1.0
"""Tolerated lead of a file's time over the clock, whose resolutions differ."""
DAMAGES_MAX: Final = 1000
"""Damages that are listed, logged and copied; further ones are only counted."""
VERIFIED: Final = "digests-verified"
_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_NAME: Final = re.compile(r"(\d{8,})\.(log|snapshot)")
_SUFFIXES: Final = {LOG: "log", SNAPSHOT: "snapshot"}

log = structlog.get_logger("storage")


class DiskRefused(Unavailable):
    """The disk did not accept records.

    After a failed write or fsync the content of the file is unknown: the kernel may have dropped the
    pages and report success for the next fsync.  A segment is therefore never used again after a failure.  If the
    disk is full (:attr:`DiskRefused.full`), the same records may be committed again: they go to a fresh segment as a
    whole, and its header holds the end of the trusted part of the previous one.  After any other error the storage
    refuses all commits.

    ``full``: there is no room, and the same commit may succeed later; otherwise no commit will.
    """

    def __init__(self, path: Path, error: OSError):
        self.full = error.errno in _NO_ROOM
        state = "is full" if self.full else "failed"
        super().__init__(f"the disk of this node {state}: {path}: {error.strerror or error}")


def _since(at: float) -> float:
    """Return the seconds since ``at``; infinite if the clock was set back since."""
    seconds = time.time() - at
    return math.inf if seconds < -CLOCK_SECONDS else max(0.0, seconds)


class DirectoryLock:
    """Keeps other processes out of a data directory; the lock ends with the process.

    ``downtime_seconds``: time since the last :meth:`touch` of any holder; 0 for a new directory, infinite if the clock
    was set back since, because the downtime is then unknown.  Taking the lock does not touch: a process that dies
    before it has stored its downtime must find it again at the next start.
    """

    def __init__(self, data: Path):
        """Raise LocalProtocolError if another process has the lock, or OSError."""
        path = data / "lock"
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise LocalProtocolError(f"setting data: {data} is in use by another process ({holder})") from None
        found = os.fstat(self._descriptor)
        self.downtime_seconds = _since(found.st_mtime)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        os.utime(self._descriptor, ns=(found.st_atime_ns, found.st_mtime_ns))

    def touch(self) -> None:
        """Record on the disk that this process lives.  Raises OSError."""
        os.utime(self._descriptor)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def write_durably(files: Files, path: Path, text: str) -> None:
    """Write a small file atomically: after a crash it has its old or its new content.  Raises OSError."""
    fresh = path.with_suffix(path.suffix + ".new")
    descriptor = files.create(fresh)
    try:
        files.write(descriptor, [text.encode()])
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(fresh, path)
    files.sync_directory(path.parent)


def state_files(directory: Path) -> list[str]:
    """Return the names of the newest snapshot, if there is one, and of the logs after it, ascending."""
    found = [(int(match[1]), match[2]) for each in directory.iterdir() if (match := _NAME.fullmatch(each.name))]
    snapshot = max((number for number, kind in found if kind == "snapshot"), default=0)
    logs = sorted(number for number, kind in found if kind == "log" and number > snapshot)
    return [f"{snapshot:08d}.snapshot"] * bool(snapshot) + [f"{number:08d}.log" for number in logs]


class Storage:
    """The state of one node.  Blocking; all calls but properties come from one thread at a time."""

    def __init__(self, directory: Path, identity: bytes, cluster: bytes, files: Files | None = None):
        """Open or create the state in a directory whose lock is held.

        ``identity`` names the node, ``cluster`` the cluster.  Raises LocalProtocolError if the state belongs to
        another node or cluster or has an unknown format, and OSError.
        """
        self._files = files or Files()
        self._directory = directory
        self._identity = identity
        self._failure: DiskRefused | None = None
        self._writer: SegmentWriter | None = None
        self.damages: list[Damage] = []
        """Damages found when the state was read: the first DAMAGES_MAX."""
        self.damage_count = 0
        self._quarantine = directory / "quarantine"
        self._quarantine.mkdir(parents=True, exist_ok=True)
        self._check_owner(cluster)
        self._snapshot, self._logs = self._take_stock()
        for reader in self._readers():
            reader.close()  # opening a segment checks its owner
        last = max(self._logs, default=self._snapshot)
        self._last = last if last is not None else 0
        self._last_end = 0
        self._was_read = False
        self.snapshot_bytes = self._size(SNAPSHOT, self._snapshot) if self._snapshot is not None else 0
        self.log_bytes = sum(self._size(LOG, number) for number in self._logs)
        self.snapshot_records = self.log_records = 0
        """Numbers of records; known when all have been read."""

    # --- inventory -----------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of the snapshot and all logs."""
        return self.snapshot_bytes + self.log_bytes

    @property
    def segments(self) -> int:
        """Number of log segments."""
        return len(self._logs)

    @property
    def damaged(self) -> bool:
        """Whether part of the state could not be read back."""
        return self.damage_count > 0

    def _path(self, kind: int, number: int) -> Path:
        return self._directory / f"{number:08d}.{_SUFFIXES[kind]}"

    def _size(self, kind: int, number: int) -> int:
        return self._path(kind, number).stat().st_size

    def _check_owner(self, cluster: bytes) -> None:
        """Compare the owner file with this node; write it if it is missing or unreadable."""
        path = self._directory / "owner"
        expected = [f"format {FORMAT}", f"node {self._identity.hex()}", f"cluster {cluster.hex()}"]
        if path.exists():
            found = path.read_bytes().decode("latin-1").split("\n")
            if len(found) == len(expected) + 2 and found[-2:] == [_check_line(found[:-2]), ""]:
                for ours, line in zip(expected, found[:-2], strict=True):
                    self._refuse_unless_same(path, ours, line)
                return
            self._quarantine_file(path)
        write_durably(self._files, path, "\n".join([*expected, _check_line(expected), ""]))

    @staticmethod
    def _refuse_unless_same(path: Path, expected: str, found: str) -> None:
        if found == expected:
            return
        reason = f"{path}: the state of {found}, but this is {expected}"
        if expected.startswith("cluster"):
            reason += " (the name of a cluster is made from its secret; remove the file if that was changed)"
        raise LocalProtocolError(reason)

    def _take_stock(self) -> tuple[int | None, list[int]]:
        """Return the numbers of the snapshot and of the logs after it; remove superseded files."""
        found: dict[str, list[int]] = {"log": [], "snapshot": []}
        for path in sorted(self._directory.iterdir()):
            if path.suffix == ".new":
                self._files.remove(path)  # a snapshot or owner file that was not completed
            elif match := _NAME.fullmatch(path.name):
                found[match[2]].append(int(match[1]))
        snapshot = max(found["snapshot"], default=None)
        if snapshot is None:
            return None, sorted(found["log"])
        for number in found["snapshot"]:
            if number < snapshot:
                self._files.remove(self._path(SNAPSHOT, number))
        for number in found["log"]:
            if number <= snapshot:
                self._files.remove(self._path(LOG, number))
        return snapshot, sorted(number for number in found["log"] if number > snapshot)

    def _readers(self) -> Iterator[SegmentReader]:
        if self._snapshot is not None:
            path = self._path(SNAPSHOT, self._snapshot)
            yield SegmentReader(self._files, path, self._identity, SNAPSHOT, self._snapshot)
        for number in self._logs:
            yield SegmentReader(self._files, self._path(LOG, number), self._identity, LOG, number)

    @property
    def verified(self) -> bool:
        """Whether the digests of all terms in the state were verified (:mod:`p2prdf_node.records`)."""
        return (self._directory / VERIFIED).exists()

    def mark_verified(self) -> None:
        """Note that all digests were verified.  If the disk refuses, the next start verifies them again."""
        with contextlib.suppress(OSError):
            write_durably(self._files, self._directory / VERIFIED, "")

    # --- reading ---------------------------------------------------------------------------------

    def read(self) -> Iterator[bytes]:
        """Return all records in order, each verified.  Must be read to its end before the first commit.

        Damaged parts are left out, copied to the quarantine, logged and listed in :attr:`damages`.
        """
        expected = 1 if self._snapshot is None else self._snapshot + 1
        if self._snapshot is not None:
            path = self._path(SNAPSHOT, self._snapshot)
            reader = SegmentReader(self._files, path, self._identity, SNAPSHOT, self._snapshot)
            for record in self._scan(reader, finished=True):
                self.snapshot_records += 1
                yield record
        for place, number in enumerate(self._logs):
            for missing in range(expected, number):
                self._damaged(Damage(self._path(LOG, missing), 0, 0, "the file is missing"))
            expected = number + 1
            reader = SegmentReader(self._files, self._path(LOG, number), self._identity, LOG, number)
            for record in self._scan(reader, end=self._end_by_successor(place + 1, number)):
                self.log_records += 1
                yield record
            self._last_end = reader.end
        self._was_read = True

    def _end_by_successor(self, place: int, number: int) -> int | None:
        """Return the end of a log by the header of the next one; None without a next one."""
        if place >= len(self._logs) or self._logs[place] != number + 1:
            return None
        path = self._path(LOG, self._logs[place])
        reader = SegmentReader(self._files, path, self._identity, LOG, self._logs[place])
        reader.close()
        return reader.before

    def _scan(self, reader: SegmentReader, *, end: int | None = None, finished: bool = False) -> Iterator[bytes]:
        try:
            for item in reader.scan(end=end, finished=finished):
                if isinstance(item, bytes):
                    yield item
                else:
                    self._damaged(item, reader)
        finally:
            reader.close()

    def _damaged(self, damage: Damage, reader: SegmentReader | None = None) -> None:
        """Count and report a damage, and copy the damaged part."""
        self.damage_count += 1
        if len(self.damages) >= DAMAGES_MAX:
            return
        self.damages.append(damage)
        copy = self._quarantine / f"{damage.path.name}-{damage.start}"
        if reader is not None and damage.end > damage.start and not copy.exists():
            room = QUARANTINE_BYTES_MAX - sum(path.stat().st_size for path in self._quarantine.iterdir())
            with contextlib.suppress(OSError):  # the copy is for people; the state does not need it
                reader.copy(damage, copy, max(0, room))
        self._log_damage(damage, copy)

    def _quarantine_file(self, path: Path) -> None:
        self.damage_count += 1
        damage = Damage(path, 0, path.stat().st_size, "checksum")
        self.damages.append(damage)
        copy = self._quarantine / path.name
        self._files.rename(path, copy)
        self._log_damage(damage, copy)

    @staticmethod
    def _log_damage(damage: Damage, copy: Path) -> None:
        log.error(
            "state_damaged", file=str(damage.path), start=damage.start, end=damage.end, reason=damage.reason,
            quarantine=str(copy) if copy.exists() else None,
        )  # fmt: skip

    # --- writing ---------------------------------------------------------------------------------

    def commit(self, records: Sequence[bytes]) -> None:
        """Append records; when this returns they are on the disk.

        Raises DiskRefused; then none of the records counts as stored.  If the disk is full, the same call may succeed
        later; otherwise every further call fails.
        """
        assert self._was_read, "the state is read before anything is added to it"
        if self._failure is not None:
            raise self._failure
        try:
            writer = self._ready_writer()
            writer.write(records)
            writer.sync()
        except OSError as error:
            raise self._refused(error) from error
        self.log_bytes += writer.end - self._last_end
        self._last_end = writer.end
        self.log_records += len(records)

    def _ready_writer(self) -> SegmentWriter:
        """Return the current segment, or a fresh one."""
        if self._writer is not None and self._last_end >= SEGMENT_BYTES:
            self._end_segment()
        if self._writer is None:
            number = self._last + 1
            path = self._path(LOG, number)
            try:
                self._writer = SegmentWriter(self._files, path, self._identity, LOG, number, self._last_end)
                self._writer.sync()
                self._files.sync_directory(self._directory)
            except OSError:
                self._end_segment()
                with contextlib.suppress(OSError):
                    self._files.remove(path)
                raise
            self._last, self._last_end = number, 0
            self._logs.append(number)
        return self._writer

    def _end_segment(self) -> None:
        """End the current segment; the next commit begins another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.close()

    def _refused(self, error: OSError) -> DiskRefused:
        """End the failed segment at its trusted end, and return the refusal."""
        if self._writer is not None:
            with contextlib.suppress(OSError):  # bytes behind the end are ignored, but occupy room
                self._writer.cut(self._last_end)
            self._end_segment()
        refusal = DiskRefused(self._directory, error)
        if not refusal.full:
            self._failure = refusal
        return refusal

    def close(self) -> None:
        """End the current segment; the caller releases the lock."""
        self._end_segment()

    # --- replacing -------------------------------------------------------------------------------

    def replace(self) -> Replacement:
        """Begin a snapshot that replaces everything committed so far.

        Commits go on meanwhile.  The call ends the current log segment N; the snapshot must contain all records up to
        N, and may contain more.  When it is complete and durable, one rename names it N.snapshot, and the files that
        it replaces are removed.  At any crash either the old files or the snapshot are complete, and the logs after N
        exist in both cases.  Reading the snapshot and then these logs may replay changes in their original order; the
        peer's restore is idempotent (:mod:`p2prdf.peer.core`).

        Its content must be taken from the node's state after this call has returned.  One at a time.
        Raises DiskRefused.
        """
        if self._failure is not None:
            raise self._failure
        self._end_segment()
        number, replaced = self._last, self.log_records
        path = self._path(SNAPSHOT, number)
        fresh = path.with_suffix(".snapshot.new")
        try:
            writer = SegmentWriter(self._files, fresh, self._identity, SNAPSHOT, number, 0)
        except OSError as error:
            raise self._replacement_refused(fresh, error) from error
        return Replacement(
            writer,
            adopt=lambda size, records: self._adopt(fresh, number, size, records, replaced),
            refused=lambda error: self._replacement_refused(fresh, error),
            remove=lambda: self._files.remove(fresh),
        )

    def _adopt(self, fresh: Path, number: int, size: int, records: int, replaced: int) -> None:
        """Rename a complete snapshot, and remove the files that it replaces."""
        before, old_logs = self._snapshot, [each for each in self._logs if each <= number]
        self._files.rename(fresh, self._path(SNAPSHOT, number))
        self._files.sync_directory(self._directory)
        self._snapshot, self.snapshot_bytes = number, size
        self.snapshot_records, self.log_records = records, self.log_records - replaced
        self._logs = [each for each in self._logs if each > number]
        if before is not None and before != number:
            self._files.remove(self._path(SNAPSHOT, before))
        for each in old_logs:
            self._files.remove(self._path(LOG, each))
        self.log_bytes = sum(self._size(LOG, each) for each in self._logs)

    def _replacement_refused(self, fresh: Path, error: OSError) -> DiskRefused:
        with contextlib.suppress(OSError):  # the next start removes it
            self._files.remove(fresh)
        refusal = DiskRefused(fresh, error)
        if not refusal.full:
            self._failure = refusal
        return refusal


class Replacement:
    """A snapshot being written beside the log.  Blocking, in the thread of the storage's other calls.

    Every call may raise DiskRefused; the snapshot is then dropped, and the log goes on if the disk is full.
    """

    def __init__(
        self,
        writer: SegmentWriter,
        *,
        adopt: Callable[[int, int], None],
        refused: Callable[[OSError], DiskRefused],
        remove: Callable[[], None],
    ):
        self._writer = writer
        self._adopt, self._refused, self._remove = adopt, refused, remove
        self._synced = self._records = 0

    def append(self, records: Sequence[bytes]) -> None:
        """Write a part of the snapshot."""
        try:
            self._writer.write(records)
            self._records += len(records)
            if self._writer.end - self._synced >= SYNC_BYTES:
                self._synced = self._writer.end
                self._writer.sync()
        except OSError as error:
            self._writer.close()
            raise self._refused(error) from error

    def finish(self) -> None:
        """Replace the old state by the snapshot, which is durable when this returns."""
        try:
            self._writer.finish()
            self._writer.sync()
            self._adopt(self._writer.end, self._records)
        except OSError as error:
            raise self._refused(error) from error
        finally:
            self._writer.close()

    def abandon(self) -> None:
        """Drop the snapshot; does nothing after it was finished or refused."""
        self._writer.close()
        with contextlib.suppress(OSError):
            self._remove()


def _check_line(lines: Sequence[str]) -> str:
    return "check " + hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
