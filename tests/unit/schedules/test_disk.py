"""A disk keeps the synced records, in the order of writing, through any crash of the process."""

from __future__ import annotations

from schedules.failures.disk import Disk


def _written(count: int) -> Disk:
    disk = Disk()
    for number in range(1, count + 1):
        assert disk.write(b"%d" % number) == number
    return disk


def test_a_record_is_durable_once_it_is_synced():
    disk = _written(4)
    disk.sync(3)
    assert (disk.durable, disk.buffer) == ([b"1", b"2", b"3"], [b"4"])
    disk.sync(2)  # an older sync that ends late takes nothing back
    assert (disk.synced, disk.written) == (3, 4)


def test_a_crash_keeps_the_synced_records_and_a_prefix_of_the_rest():
    disk = _written(5)
    disk.sync(2)
    disk.crash(1)
    assert disk.durable == [b"1", b"2", b"3"]
    assert not disk.buffer
    assert disk.write(b"next") == 4
    disk.sync(4)
    assert disk.durable[-1] == b"next"


def test_a_lost_disk_is_empty_and_can_be_written_again():
    disk = _written(3)
    disk.sync(3)
    disk.lose()
    assert (disk.durable, disk.losses) == ([], 1)
    disk.sync(disk.write(b"new"))
    assert disk.durable == [b"new"]


def test_a_snapshot_replaces_the_records_written_before_it_began_and_nothing_else():
    disk = _written(5)
    disk.sync(3)
    disk.begin_compaction()
    disk.write(b"6")
    disk.write(b"7")
    disk.sync(6)
    disk.end_compaction([b"state"])
    assert disk.durable == [b"state", b"6"]
    assert disk.buffer == [b"7"]
    assert not disk.compacting


def test_a_snapshot_that_ends_before_its_records_are_synced_loses_none_of_them():
    disk = _written(4)
    disk.sync(1)
    disk.begin_compaction()
    disk.end_compaction([b"state"])
    disk.sync(4)
    assert disk.durable == [b"state", b"2", b"3", b"4"]


def test_a_crash_during_a_compaction_leaves_the_old_records():
    disk = _written(2)
    disk.sync(2)
    disk.begin_compaction()
    disk.crash(0)
    assert disk.durable == [b"1", b"2"]
    assert not disk.compacting
