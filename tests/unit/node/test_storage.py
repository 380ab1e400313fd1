"""A node's state on real files: confirmed records are read back after any failure of process, disk and bits."""

from __future__ import annotations

import errno
import math
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
import structlog
from failing_files import FailingFiles, QuickFiles

from p2prdf.errors import LocalProtocolError
from p2prdf_node import segment, storage
from p2prdf_node.segment import HEAD_BYTES, HEADER_BYTES, Files
from p2prdf_node.storage import DirectoryLock, DiskRefused, Storage, write_durably

NODE, CLUSTER = b"n" * 20, b"c" * 8


@pytest.fixture(autouse=True)
def logged():
    """The log records, kept from the screen."""
    with structlog.testing.capture_logs() as lines:
        yield lines


def opened(directory, files=None, identity=NODE, cluster=CLUSTER):
    """Open a state; return it with the records it holds."""
    held = Storage(directory, identity, cluster, files or QuickFiles())
    return held, list(held.read())


def filled(directory, *commits):
    """Make a state of some commits, and close it."""
    held, _ = opened(directory)
    for records in commits:
        held.commit(records)
    held.close()
    return directory


def contents(directory):
    held, records = opened(directory)
    held.close()
    return records


def some_records(random_, count, size=60):
    return [random_.randbytes(random_.randrange(size)) for _ in range(count)]


# --- keeping -------------------------------------------------------------------------------------


def test_records_come_back_in_their_order_over_many_starts(tmp_path):
    expected = []
    for start in range(5):
        held, found = opened(tmp_path)
        assert found == expected
        for number in range(3):
            records = [f"{start} {number} {each}".encode() for each in range(number + 1)]
            held.commit(records)
            expected += records
        held.close()
    held, found = opened(tmp_path)
    assert found == expected
    assert not held.damaged
    held.close()


def test_empty_and_large_records_are_kept(tmp_path):
    records = [b"", random.Random(1).randbytes(9 << 20), b"", b"x" * 700]
    assert contents(filled(tmp_path, records)) == records


def test_more_parts_than_one_system_call_takes_are_written(tmp_path):
    records = [b"%d" % number for number in range(3000)]
    assert contents(filled(tmp_path, records)) == records


def test_a_segment_is_ended_when_it_is_long(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "SEGMENT_BYTES", 1000)
    records = [bytes([number]) * 300 for number in range(20)]
    filled(tmp_path, *([record] for record in records))
    assert len(list(tmp_path.glob("*.log"))) == 7
    held, found = opened(tmp_path)
    assert found == records
    assert held.segments == 7
    assert held.log_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
    held.close()


def test_nothing_is_added_before_everything_was_read(tmp_path):
    held = Storage(tmp_path, NODE, CLUSTER)
    with pytest.raises(AssertionError):
        held.commit([b"one"])
    held.close()


# --- replacing -----------------------------------------------------------------------------------


def test_a_snapshot_stands_for_all_before_it_and_for_nothing_after(tmp_path):
    held, _ = opened(tmp_path)
    held.commit([b"old 1", b"old 2"])
    snapshot = held.replace()
    held.commit([b"meanwhile"])
    snapshot.append([b"all of old"])
    snapshot.append([b"and more"])
    held.commit([b"meanwhile 2"])
    snapshot.finish()
    held.commit([b"after"])
    assert held.size == sum(path.stat().st_size for path in tmp_path.glob("0*"))
    held.close()
    assert contents(tmp_path) == [b"all of old", b"and more", b"meanwhile", b"meanwhile 2", b"after"]


def test_snapshots_follow_each_other(tmp_path):
    held, _ = opened(tmp_path)
    for number in range(4):
        if number % 2:
            held.commit([b"log %d" % number])
        snapshot = held.replace()
        snapshot.append([b"state %d" % number])
        snapshot.finish()
    held.close()
    assert contents(tmp_path) == [b"state 3"]
    assert len(list(tmp_path.glob("*.snapshot"))) == 1
    assert not list(tmp_path.glob("*.log"))
    filled(tmp_path, [b"more"])
    held, found = opened(tmp_path)
    assert found == [b"state 3", b"more"]
    assert not held.damaged
    held.close()


def test_an_abandoned_snapshot_changes_nothing(tmp_path):
    held, _ = opened(tmp_path)
    held.commit([b"one"])
    snapshot = held.replace()
    snapshot.append([b"half of it"])
    snapshot.abandon()
    held.commit([b"two"])
    held.close()
    assert contents(tmp_path) == [b"one", b"two"]
    assert not list(tmp_path.glob("*.new"))


# --- torn, truncated, flipped --------------------------------------------------------------------


def test_a_log_that_ends_anywhere_gives_its_whole_records_and_goes_on(tmp_path):
    """A crash may leave any prefix of the bytes being written: none of them was confirmed, so this is no damage."""
    made = filled(tmp_path / "made", [b"first", b"second record"], [b"", b"fourth"])
    records = [b"first", b"second record", b"", b"fourth"]
    whole = (made / "00000001.log").read_bytes()
    ends = [HEADER_BYTES]
    for record in records:
        ends.append(ends[-1] + HEAD_BYTES + len(record))
    assert ends[-1] == len(whole)
    for cut in range(len(whole) + 1):
        for zeros in (0, 5000):
            copy = tmp_path / f"cut{cut}-{zeros}"
            shutil.copytree(made, copy)
            (copy / "00000001.log").write_bytes(whole[:cut] + bytes(zeros if cut in (0, *ends) else 0))
            kept = records[: sum(end <= cut for end in ends[1:])]
            held, found = opened(copy)
            assert (found, held.damages) == (kept, []), cut
            held.commit([b"next"])
            held.close()
            held, found = opened(copy)
            assert (found, held.damages) == ([*kept, b"next"], []), cut
            held.close()
            shutil.rmtree(copy)


def rich_state(directory):
    """A snapshot, an ended log and a last log; return their records."""
    random_ = random.Random(5)
    parts = [some_records(random_, 12, 200) for _ in range(3)]
    held, _ = opened(directory)
    held.commit([b"replaced"])
    snapshot = held.replace()
    snapshot.append(parts[0])
    held.commit(parts[1])
    snapshot.finish()
    held.close()
    filled(directory, parts[2])
    assert sorted(path.name for path in directory.glob("0*")) == [
        "00000001.snapshot", "00000002.log", "00000003.log",
    ]  # fmt: skip
    return [record for part in parts for record in part]


@pytest.mark.parametrize("name", ["00000001.snapshot", "00000002.log", "00000003.log", "owner"])
def test_every_flipped_bit_is_noticed_and_costs_at_most_one_record(tmp_path, name, logged):
    """Any of 1,000 flips over all kinds of files: nothing altered comes back, and the loss is reported."""
    records = rich_state(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    random_ = random.Random(name)
    for _ in range(250):
        at, bit = random_.randrange(len(whole)), 1 << random_.randrange(8)
        flipped = bytearray(whole)
        flipped[at] ^= bit
        path.write_bytes(flipped)
        held, found = opened(tmp_path)
        assert held.damaged, (at, bit)
        assert held.damages[0].path == path
        lost = len(records) - len(found)
        assert 0 <= lost <= 1, (at, bit)
        assert not lost or any(found == records[:n] + records[n + 1 :] for n in range(len(records))), (at, bit)
        assert list((tmp_path / "quarantine").iterdir())
        assert logged[-1]["event"] == "state_damaged"
        assert logged[-1]["file"] == str(path)
        held.close()
        path.write_bytes(whole)
        shutil.rmtree(tmp_path / "quarantine")
    held, found = opened(tmp_path)
    assert (found, held.damages) == (records, [])
    held.close()


@pytest.mark.parametrize("name", ["00000001.snapshot", "00000002.log"])
def test_missing_bytes_of_a_complete_file_are_damage(tmp_path, name):
    records = rich_state(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        held, found = opened(tmp_path)
        assert held.damaged, cut
        assert all(record in records for record in found)
        assert found[-12:] == records[-12:]
        held.close()
        shutil.rmtree(tmp_path / "quarantine")


def test_a_missing_log_is_damage(tmp_path):
    records = rich_state(tmp_path)
    (tmp_path / "00000002.log").unlink()
    held, found = opened(tmp_path)
    assert [str(damage.path.name) for damage in held.damages] == ["00000002.log"]
    assert found == records[:12] + records[-12:]
    held.close()


def test_behind_a_long_stretch_of_rubbish_reading_goes_on(tmp_path):
    random_ = random.Random(3)
    records = [random_.randbytes(3 << 20) for _ in range(3)]
    filled(tmp_path, records)
    path = tmp_path / "00000001.log"
    whole = bytearray(path.read_bytes())
    second = HEADER_BYTES + HEAD_BYTES + len(records[0])
    start, size = second - 1000, 2 << 20
    whole[start : start + size] = (b"\xf5rec" + random_.randbytes(124)) * (size // 128)
    path.write_bytes(whole)
    held, found = opened(tmp_path)
    assert found == records[2:]
    assert held.damages[-1].end == second + HEAD_BYTES + len(records[1])
    copied = (tmp_path / "quarantine" / f"00000001.log-{second}").read_bytes()
    assert copied == bytes(whole[second : held.damages[-1].end])
    held.close()


def test_a_record_in_the_wrong_place_or_file_is_no_record(tmp_path):
    """Old blocks, and contents that look like records, do not pass for records after a damage."""
    filled(tmp_path / "other", [b"an old block"])
    block = (tmp_path / "other" / "00000001.log").read_bytes()[HEADER_BYTES:]
    mine = filled(tmp_path / "mine", [b"some content", block * 3, b"third"])
    path = mine / "00000001.log"
    whole = bytearray(path.read_bytes())
    whole[HEADER_BYTES + HEAD_BYTES + 12] ^= 1  # the head of the second record
    path.write_bytes(whole)
    assert contents(mine) == [b"some content", b"third"]


class UnreadableFiles(QuickFiles):
    """A disk with one bad block."""

    bad = range(0)

    def read(self, descriptor, size, position):
        if position < self.bad.stop and position + size > self.bad.start and size > 0:
            raise OSError(errno.EIO, "bad block")
        return super().read(descriptor, size, position)


def test_a_block_that_cannot_be_read_is_damage(tmp_path):
    records = [bytes([number]) * 3000 for number in range(20)]
    filled(tmp_path, records)
    files = UnreadableFiles()
    files.bad = range(8192, 12288)
    held, found = opened(tmp_path, files)
    assert held.damaged
    assert found == records[:2] + records[4:] or found == records[:2] + records[5:]
    held.close()


def test_copies_of_damaged_parts_do_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "QUARANTINE_BYTES_MAX", 10_000)
    filled(tmp_path, [bytes(6000), bytes(6000), bytes(6000)])
    path = tmp_path / "00000001.log"
    path.write_bytes(path.read_bytes().replace(bytes(100), b"\x01" + bytes(99)))
    held, found = opened(tmp_path)
    assert found == []
    assert held.damage_count == 3
    assert sum(copy.stat().st_size for copy in (tmp_path / "quarantine").iterdir()) <= 10_000
    held.close()


def test_many_damages_are_counted_and_some_of_them_reported(tmp_path, monkeypatch, logged):
    monkeypatch.setattr(storage, "DAMAGES_MAX", 5)
    filled(tmp_path, [bytes(100)] * 20)
    path = tmp_path / "00000001.log"
    path.write_bytes(path.read_bytes().replace(bytes(100), bytes(99) + b"\x01"))
    held, _ = opened(tmp_path)
    assert (held.damage_count, len(held.damages), len(logged)) == (20, 5, 5)
    held.close()


# --- the state's owner -------------------------------------------------------------------------


def test_state_of_another_node_is_refused(tmp_path):
    filled(tmp_path, [b"mine"])
    with pytest.raises(LocalProtocolError, match=r"state of node 6e6e.*but this is node 6d6d"):
        Storage(tmp_path, b"m" * 20, CLUSTER)
    (tmp_path / "owner").unlink()
    with pytest.raises(LocalProtocolError, match=r"00000001.log: state of the node 6e6e.*this one is 6d6d"):
        Storage(tmp_path, b"m" * 20, CLUSTER)


def test_state_of_another_cluster_is_refused_without_explicit_permission(tmp_path):
    filled(tmp_path, [b"mine"])
    with pytest.raises(LocalProtocolError, match="remove the file if that was changed"):
        Storage(tmp_path, NODE, b"other---")
    (tmp_path / "owner").unlink()
    held, found = opened(tmp_path, cluster=b"other---")
    assert found == [b"mine"]
    held.close()


def test_an_unknown_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "FORMAT", 2)
    filled(tmp_path, [b"from tomorrow"])
    monkeypatch.undo()
    with pytest.raises(LocalProtocolError, match=r"00000001.log: state of format 2; this version reads 1"):
        Storage(tmp_path, NODE, CLUSTER)


def test_a_file_under_another_name_is_refused(tmp_path):
    rich_state(tmp_path)
    (tmp_path / "00000003.log").rename(tmp_path / "00000004.log")
    with pytest.raises(LocalProtocolError, match="written under another name"):
        Storage(tmp_path, NODE, CLUSTER)


LOCKER = """
import sys
from pathlib import Path
from p2prdf_node.storage import DirectoryLock
DirectoryLock(Path(sys.argv[1]))
"""


def test_a_directory_has_one_user_at_a_time(tmp_path):
    lock = DirectoryLock(tmp_path)
    with pytest.raises(LocalProtocolError, match=rf"in use by another process \({os.getpid()}\)"):
        DirectoryLock(tmp_path)
    ended = subprocess.run([sys.executable, "-c", LOCKER, tmp_path], capture_output=True, text=True, check=False)
    assert "in use by another process" in ended.stderr
    lock.release()
    DirectoryLock(tmp_path).release()


def test_a_directory_shows_the_time_of_its_last_use(tmp_path):
    lock = DirectoryLock(tmp_path)
    assert lock.downtime_seconds < 60.0
    os.utime(tmp_path / "lock", (0, 1_000_000_000.0))
    lock.release()
    for _ in range(2):  # a lock held is no sign of activity
        lock = DirectoryLock(tmp_path)
        assert lock.downtime_seconds > 1e8
        lock.release()
    lock = DirectoryLock(tmp_path)
    lock.touch()
    lock.release()
    lock = DirectoryLock(tmp_path)
    assert lock.downtime_seconds < 60.0
    os.utime(tmp_path / "lock", (0, time.time() + 600.0))
    lock.release()
    assert DirectoryLock(tmp_path).downtime_seconds == math.inf, "the clock was set back: nobody knows"


# --- disks that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["write", "sync"])
def test_after_an_error_of_the_disk_nothing_is_confirmed_any_more(tmp_path, call):
    """Not even when the next fsync succeeds: the pages of the failed one may be gone."""
    files = FailingFiles()
    held, _ = opened(tmp_path, files)
    held.commit([b"kept"])
    files.fail(call, errno.EIO, partial=10)
    with pytest.raises(DiskRefused, match=r"the disk of this node failed: .*Input/output error") as failed:
        held.commit([b"not kept"])
    assert not failed.value.full
    files.errors.clear()
    for attempt in (lambda: held.commit([b"nor this"]), held.replace):
        with pytest.raises(DiskRefused):
            attempt()
    held.close()
    held, found = opened(tmp_path)
    assert found[0] == b"kept"
    assert b"nor this" not in found
    held.close()


@pytest.mark.parametrize("call", ["write", "sync", "create", "sync_directory"])
@pytest.mark.parametrize("partial", [0, 5, 70])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_refuses_and_takes_the_same_again_when_there_is_room(tmp_path, monkeypatch, call, partial, number):
    monkeypatch.setattr(storage, "SEGMENT_BYTES", 100)  # so that a segment is begun each time
    files = FailingFiles()
    held, _ = opened(tmp_path, files)
    expected = []
    for record in (b"one" * 20, b"two" * 20, b"three" * 20):
        files.fail(call, number, partial=partial)
        for _ in range(3):
            with pytest.raises(DiskRefused, match="is full") as refused:
                held.commit([record])
            assert refused.value.full
        files.errors.clear()
        held.commit([record])
        expected.append(record)
    held.close()
    held, found = opened(tmp_path)
    assert (found, held.damages) == (expected, [])
    assert held.log_bytes == sum(path.stat().st_size for path in tmp_path.glob("0*"))
    held.close()


def test_a_full_disk_in_the_middle_of_a_segment_leaves_no_rubbish_behind(tmp_path):
    files = FailingFiles()
    held, _ = opened(tmp_path, files)
    held.commit([b"one"])
    size = held.size
    files.fail("write", errno.ENOSPC, partial=50)
    for _ in range(5):
        with pytest.raises(DiskRefused):
            held.commit([b"x" * 1000])
    assert sum(path.stat().st_size for path in tmp_path.glob("0*")) == size
    files.errors.clear()
    held.commit([b"two"])
    held.close()
    held, found = opened(tmp_path)
    assert (found, held.damages) == ([b"one", b"two"], [])
    held.close()


@pytest.mark.parametrize("call", ["write", "sync", "create", "sync_directory"])
def test_a_snapshot_that_finds_no_room_leaves_the_log_as_it_was(tmp_path, call):
    files = FailingFiles()
    held, _ = opened(tmp_path, files)
    held.commit([b"one"])
    with pytest.raises(DiskRefused, match="is full"):
        _snapshot_that_fails(held, files, call)
    files.errors.clear()
    held.commit([b"two"])
    held.close()
    expected = [b"state", b"two"] if call == "sync_directory" else [b"one", b"two"]
    held, found = opened(tmp_path)
    assert (found, held.damages) == (expected, [])
    held.close()


def _snapshot_that_fails(held, files, call):
    if call == "create":
        files.fail(call, errno.ENOSPC)
    snapshot = held.replace()
    files.fail(call, errno.ENOSPC)
    snapshot.append([b"state"])
    snapshot.finish()


def test_a_small_file_is_written_as_a_whole_or_not_at_all(tmp_path):
    files = FailingFiles()
    path = tmp_path / "name"
    write_durably(files, path, "before")
    files.fail("sync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        write_durably(files, path, "after")
    assert path.read_text() == "before"


# --- crashes -------------------------------------------------------------------------------------


class Crash(BaseException):
    """The machine stops here."""


class CrashingFiles(Files):
    """A disk cache: unsynced bytes may be lost when the machine stops at a given call."""

    def __init__(self, stop_at, random_):
        self.calls = 0
        self._stop_at = stop_at
        self._random = random_
        self._names = {}
        self._synced = {}
        self._undo = []

    def _step(self):
        self.calls += 1
        if self.calls == self._stop_at:
            raise Crash

    def create(self, path):
        self._step()
        descriptor = super().create(path)
        self._names[descriptor] = path
        self._synced[path] = 0
        self._undo.append(lambda: path.unlink(missing_ok=True))
        return descriptor

    def close(self, descriptor):
        super().close(descriptor)
        del self._names[descriptor]

    def write(self, descriptor, parts):
        self._step()
        super().write(descriptor, parts)
        self._step()

    def sync(self, descriptor):
        self._step()
        super().sync(descriptor)
        self._synced[self._names[descriptor]] = os.fstat(descriptor).st_size
        self._step()

    def rename(self, path, to):
        self._step()
        before = to.read_bytes() if to.exists() else None

        def undo():
            to.rename(path)
            if before is not None:
                to.write_bytes(before)

        super().rename(path, to)
        self._synced[to] = self._synced.pop(path)
        self._undo.append(undo)

    def remove(self, path):
        self._step()
        super().remove(path)

    def sync_directory(self, path):
        self._step()
        super().sync_directory(path)
        self._undo.clear()

    def lose(self):
        """Take back some of the unsynced changes, as a power cut would."""
        for descriptor in list(self._names):
            self.close(descriptor)
        for path, synced in self._synced.items():
            if path.exists():
                os.truncate(path, self._random.randint(synced, max(synced, path.stat().st_size)))
        if self._random.random() < 0.5:
            for undo in reversed(self._undo):
                undo()


def live(directory, files, random_, confirmed):
    """Commit and take snapshots until stopped; a snapshot is one record that lists all committed numbers."""
    held, found = opened(directory, files)
    known = {number for record in found for number in numbers_of(record)}
    for _ in range(4):
        snapshot = held.replace() if random_.random() < 0.6 else None
        if snapshot is not None:
            snapshot.append([numbers_as_record(known)])
        for _ in range(random_.randrange(3)):
            number = max(known, default=0) + 1
            held.commit([numbers_as_record({number})])
            known.add(number)
            confirmed.add(number)
        if snapshot is not None:
            snapshot.finish() if random_.random() < 0.8 else snapshot.abandon()
    held.close()


def numbers_as_record(numbers):
    return struct.pack(f">{len(numbers)}I", *sorted(numbers))


def numbers_of(record):
    return struct.unpack(f">{len(record) // 4}I", record)


@pytest.mark.parametrize("seed", range(8))
def test_confirmed_records_survive_a_stop_at_every_system_call(tmp_path, seed, monkeypatch):
    """Power cuts at each call in turn; unsynced bytes, names and renames may be lost, confirmed records never."""
    monkeypatch.setattr(storage, "SEGMENT_BYTES", 200)
    stop_at = 0
    while True:
        stop_at += 1
        directory = tmp_path / str(stop_at)
        confirmed = set()
        stopped = 0
        for life in range(3):
            files = CrashingFiles(stop_at, random.Random(f"{seed} {stop_at} {life}"))
            try:
                live(directory, files, random.Random(f"{seed} {life}"), confirmed)
            except Crash:
                stopped += 1
                files.lose()
            if (directory / "quarantine").exists():
                held, found = opened(directory)
                assert confirmed <= {number for record in found for number in numbers_of(record)}, stop_at
                assert held.damages == [], stop_at
                held.close()
        shutil.rmtree(directory, ignore_errors=True)
        if not stopped:
            break
    assert stop_at > 20


WRITER = """
import sys
from pathlib import Path
from p2prdf_node import storage
storage.SEGMENT_BYTES = 20_000
held = storage.Storage(Path(sys.argv[1]), b"n" * 20, b"c" * 8)
known = [record[:8] for record in held.read()]
assert not held.damaged
number = int.from_bytes(known[-1]) if known else 0
snapshot = None
while True:
    if number % 25 == 7:
        if snapshot is not None:
            snapshot.finish()
        snapshot = held.replace()
        snapshot.append(known)
    number += 1
    record = number.to_bytes(8)
    held.commit([record + bytes(number % 3000)])
    known.append(record)
    print(number, flush=True)
"""


def test_confirmed_records_survive_kill_9(tmp_path):
    """A writer is killed again and again, at moments chosen by its confirmations."""
    random_ = random.Random(9)
    confirmed = 0
    for _ in range(12):
        process = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True)
        for _ in range(random_.randrange(1, 60)):
            confirmed = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().split()
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        confirmed = int(rest[-1]) if rest else confirmed
        held, found = opened(tmp_path)
        numbers = [int.from_bytes(record[:8]) for record in found]
        assert sorted(set(numbers)) == list(range(1, max(numbers) + 1))
        assert max(numbers) >= confirmed
        assert not held.damaged
        held.close()


# --- the system's own failures -------------------------------------------------------------------


APPENDER = """
import sys
from pathlib import Path
from p2prdf_node.storage import DiskRefused, Storage
held = Storage(Path(sys.argv[1]), b"n" * 20, b"c" * 8)
list(held.read())
for number in range(200):
    try:
        held.commit([b"%05d" % number + bytes(50_000)])
    except DiskRefused as error:
        print(error.full, error, flush=True)
        break
    print(number, flush=True)
if sys.argv[2:]:
    sys.stdin.readline()
    held.commit([b"%05d" % number + bytes(50_000)])
    print("again", flush=True)
held.close()
"""


def run_appender(*command, **options):
    return subprocess.run(
        [*command], capture_output=True, text=True, check=False, timeout=60, **options
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_an_fsync_that_the_kernel_fails_confirms_nothing(tmp_path):
    """The real system call fails, by strace."""
    inject = ["strace", "-f", "-o", tmp_path / "trace", "-e", "inject=fdatasync:error=EIO:when=5"]
    ended = run_appender(*inject, sys.executable, "-c", APPENDER, tmp_path / "state")
    if "ptrace" in ended.stderr:
        pytest.skip("strace may not trace here")
    *numbers, refusal = ended.stdout.splitlines()
    assert refusal.startswith("False the disk of this node failed"), ended.stdout + ended.stderr
    assert 0 < len(numbers) < 5
    found = contents(tmp_path / "state")
    assert [int(record[:5]) for record in found][: len(numbers)] == list(range(len(numbers)))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"file systems cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="mount is not installed")
def test_a_full_disk_refuses_and_goes_on_when_there_is_room(small_disk):
    (small_disk / "ballast").write_bytes(bytes(1 << 20))
    process = subprocess.Popen(
        [sys.executable, "-c", APPENDER, small_disk / "state", "again"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    numbers = []
    while not (line := process.stdout.readline()).startswith("True"):
        numbers.append(int(line))
    assert "the disk of this node is full" in line
    assert 50 < len(numbers) < 65
    (small_disk / "ballast").unlink()
    out, _ = process.communicate("there is room\n", timeout=30)
    assert out == "again\n"
    held, found = opened(small_disk / "state")
    assert [int(record[:5]) for record in found] == [*numbers, len(numbers)]
    assert not held.damaged
    held.close()


def test_a_limit_on_file_size_counts_as_a_full_disk(tmp_path):
    ended = run_appender(
        sys.executable, "-c", APPENDER, tmp_path / "state",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)),
    )  # fmt: skip
    *numbers, refusal = ended.stdout.splitlines()
    assert refusal.startswith("True the disk of this node is full"), ended.stdout + ended.stderr
    assert [int(record[:5]) for record in contents(tmp_path / "state")] == [int(number) for number in numbers]


def test_the_name_of_the_state_is_where_the_documents_say(tmp_path):
    filled(tmp_path / "state", [b"x"])
    assert sorted(path.name for path in Path(tmp_path / "state").iterdir()) == ["00000001.log", "owner", "quarantine"]
