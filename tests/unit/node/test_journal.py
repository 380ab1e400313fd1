"""The order of effects and disk: no effect is visible before the records it rests on are kept, and none overtakes."""

from __future__ import annotations

import asyncio
import errno
import gc
import random
import shutil
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import structlog
from failing_files import FailingFiles, QuickFiles
from slow_disk import Disk, breathe

from p2prdf.columns import ARRAYS
from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.contract import FindOwner, Persist, Trace
from p2prdf.wire.messages import Answers, Forward, Groups, IndexQuery, IndexTriples, Rows
from p2prdf_node import journal as journal_module
from p2prdf_node import storage as storage_module
from p2prdf_node.journal import Journal
from p2prdf_node.records import Records, joined
from p2prdf_node.storage import Storage


@pytest.fixture(autouse=True)
def logged():
    """The log records, kept from the screen."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@dataclass
class Node:
    """A journal on a real storage, and its performed effects."""

    directory: object
    durability: str = "fsync"
    files: object = None
    queued_bytes_max: int = 1 << 20
    compact_bytes_min: int = 1 << 30
    disk: Disk = field(default_factory=Disk)

    def __post_init__(self):
        self.performed = []
        self.resumed = self.failures = 0
        self.state = []
        self.on_effect = lambda _: None
        self.terms = TermDictionary()
        self.records = Records(FrameCodec(self.terms, ARRAYS))
        kept = self.durability != "memory"
        self.storage = Storage(self.directory, b"n" * 20, b"c" * 8, self.files or QuickFiles()) if kept else None
        self.journal = Journal(
            self.storage, self.records, durability=self.durability, queued_bytes_max=self.queued_bytes_max,
            compact_bytes_min=self.compact_bytes_min, thread=self.disk,
        )  # fmt: skip
        self.journal.connect(
            self._perform, resume=self._resume, failed=self._fail, snapshot=lambda: self.snapshot(),
        )  # fmt: skip
        self.restored = []
        self.journal.restore(lambda messages: self.restored.extend(n for m in messages for n in m.time.tolist()))

    def _perform(self, effect):
        self.performed.append(effect.key if isinstance(effect, FindOwner) else effect.event)
        self.on_effect(effect)

    def _resume(self):
        self.resumed += 1

    def _fail(self):
        self.failures += 1

    def snapshot(self):
        return iter(())

    def take(self, *parts):
        """Take a list: numbers are effects, ``P3`` persists message 3, other texts are traces."""
        effects = []
        for part in parts:
            if isinstance(part, int):
                effects.append(FindOwner(part))
            elif part.startswith("P"):
                effects.append(Persist(self.message(int(part[1:]))))
            else:
                effects.append(Trace(part))
        self.journal.take(effects)

    def message(self, number, rows=1):
        term = self.terms.intern("<urn:a>")
        column, numbers = np.full(rows, term, np.uint32), np.full(rows, number, np.uint64)
        return IndexTriples(column, column, column, numbers, numbers, np.full(rows, 1, np.uint32))

    def kept(self):
        """The records that another process would find on the disk now."""
        copy = self.directory.with_name(self.directory.name + "-copy")
        shutil.copytree(self.directory, copy)
        storage = Storage(copy, b"n" * 20, b"c" * 8, QuickFiles())
        found = [number_of(message) for record in storage.read() for message in self.records.decode(record)]
        assert not storage.damaged
        storage.close()
        shutil.rmtree(copy)
        return found

    async def journal_settled(self):
        """Let a quick disk do all pending work."""
        follower = asyncio.create_task(self.disk.follow())
        await self.journal.settle()
        await breathe()
        follower.cancel()

    async def close(self):
        follower = asyncio.create_task(self.disk.follow())
        await self.journal.close()
        follower.cancel()


def number_of(message):
    return int(message.time[0])


# --- order ---------------------------------------------------------------------------------------


async def test_effects_after_a_persist_wait_for_the_disk(tmp_path):
    node = Node(tmp_path)
    node.take(1, "P10", 2, 3)
    await breathe()
    assert node.performed == [1]
    assert node.kept() == []
    node.disk.do()
    assert (node.performed, node.kept()) == ([1], [10])
    await breathe()
    assert node.performed == [1, 2, 3]
    await node.close()


async def test_later_lists_queue_behind_in_order_and_wait_for_no_more_than_they_must(tmp_path):
    node = Node(tmp_path)
    node.take("P1", 1)
    await breathe()
    node.take(2)
    node.take(3, "P2", 4)
    node.take(5)
    await breathe()
    assert node.performed == []
    await node.disk.turn()
    assert node.performed == [1, 2, 3]
    await node.disk.turn()
    assert node.performed == [1, 2, 3, 4, 5]
    await node.close()


async def test_without_anything_to_keep_effects_go_out_at_once(tmp_path):
    node = Node(tmp_path)
    node.take(1, 2)
    assert node.performed == [1, 2]
    await breathe()
    assert not node.disk.work
    assert node.journal.idle
    await node.close()


async def test_records_that_gather_during_a_commit_are_the_next_commit(tmp_path):
    node = Node(tmp_path)
    node.take("P1", 1)
    node.take("P2", 2)
    await breathe()
    for number in range(3, 9):
        node.take(f"P{number}", number)
        await breathe()
    assert len(node.disk.work) == 1, "one commit at a time"
    await node.disk.turn()
    assert node.performed == [1, 2], "what came in one turn of the loop goes together"
    assert len(node.disk.work) == 1
    await node.disk.turn()
    assert node.performed == list(range(1, 9))
    assert node.journal.status()["written"]["commits"] == 2
    assert node.kept() == list(range(1, 9))
    await node.close()


async def test_traces_do_not_wait(tmp_path):
    node = Node(tmp_path)
    node.take("before", "P1", 1, "after")
    node.take("later")
    assert node.performed == ["before", "after", "later"]
    await node.close()


async def test_an_effect_that_leads_to_further_ones_keeps_the_order(tmp_path):
    """Effects caused by an effect form a list of their own, behind the rest of the list that it came from."""
    node = Node(tmp_path)

    def more(effect):
        if effect == FindOwner(1):
            node.take("P2", 20)

    node.on_effect = more
    node.take(1, "P1", 2)
    await breathe()
    assert node.performed == [1]
    await node.disk.turn()
    assert node.performed == [1, 2, 20]
    assert node.kept() == [1, 2]
    await node.close()


@pytest.mark.parametrize("seed", range(30))
async def test_under_any_timing_effects_keep_their_order_and_never_outrun_the_disk(tmp_path, seed):
    """Random lists and a disk of random pace; at each effect the records it rests on are on the disk already."""
    random_ = random.Random(seed)
    node = Node(tmp_path)
    expected, rests_on, persisted, kept = [], {}, 0, []

    def check(effect):
        if len(kept) < rests_on[effect.key]:
            kept[:] = node.kept()
        assert len(kept) >= rests_on[effect.key]

    node.on_effect = check
    for _ in range(30):
        if random_.random() < 0.7:
            parts = []
            for _ in range(random_.randrange(5)):
                if random_.random() < 0.3:
                    persisted += 1
                    parts.append(f"P{persisted}")
                else:
                    expected.append(len(expected))
                    rests_on[expected[-1]] = persisted
                    parts.append(expected[-1])
            node.take(*parts)
        elif node.disk.work and random_.random() < 0.8:
            node.disk.do()
        if random_.random() < 0.7:
            await breathe()
        assert node.performed == expected[: len(node.performed)]
    await node.close()
    assert node.performed == expected
    assert node.kept() == list(range(1, persisted + 1))


async def test_without_a_directory_nothing_waits_and_nothing_is_kept(tmp_path):
    node = Node(tmp_path, durability="memory")
    node.take(1, "P1", 2)
    assert node.performed == [1, 2]
    assert node.journal.status() == {"durability": "memory"}
    assert list(tmp_path.iterdir()) == []
    await node.close()


async def test_asynchronous_durability_waits_for_nothing_and_keeps_everything_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "ASYNC_SECONDS", 0.0)
    node = Node(tmp_path, durability="async")
    node.take(1, "P1", 2)
    node.take(3)
    assert node.performed == [1, 2, 3]
    async with asyncio.timeout(5):
        while not node.disk.work:
            await asyncio.sleep(0)
    await node.disk.turn()
    assert node.kept() == [1]
    node.take("P2", 4)
    assert node.performed == [1, 2, 3, 4]
    await node.close()
    assert node.kept() == [1, 2]


async def test_asynchronous_records_gather_before_they_are_written(tmp_path):
    node = Node(tmp_path, durability="async")
    for number in range(1, 6):
        node.take(f"P{number}", number)
        await breathe()
    assert not node.disk.work
    await node.close()
    assert node.journal.status()["written"]["commits"] == 1
    assert node.kept() == [1, 2, 3, 4, 5]


# --- bounds --------------------------------------------------------------------------------------


async def test_beyond_its_bound_no_more_is_wanted_until_there_is_room(tmp_path):
    node = Node(tmp_path, queued_bytes_max=1000)
    number = 0
    while not node.journal.full:
        number += 1
        node.take(f"P{number}", number)
    assert node.journal.status()["queued_bytes"] > 1000
    await breathe()
    assert node.resumed == 0
    await node.disk.turn()
    assert (node.resumed, node.journal.full) == (1, False)
    node.take("P99")
    await breathe()
    await node.disk.turn()
    assert node.resumed == 1, "there was room all the time"
    await node.close()


async def test_effects_that_wait_are_bounded_too(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "WAITING_MAX", 10)
    node = Node(tmp_path)
    node.take("P1", *range(11))
    assert node.journal.full
    await breathe()
    await node.disk.turn()
    assert not node.journal.full
    await node.close()


# --- disks that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["fsync", "async"])
@pytest.mark.parametrize("call", ["write", "sync"])
async def test_when_the_disk_fails_nothing_goes_out_any_more_and_the_node_ends(tmp_path, call, durability, logged):
    files = FailingFiles()
    node = Node(tmp_path, files=files, durability=durability)
    node.take("P1", 1)
    await node.journal_settled()
    before = list(node.performed)
    files.fail(call, errno.EIO, partial=10)
    node.take("P2")
    await node.journal_settled()
    assert node.failures == 1
    assert [line["event"] for line in logged if line["log_level"] == "error"] == ["disk_failed"]
    assert "the disk of this node failed" in node.journal.refusal
    files.errors.clear()
    node.take(3)
    node.take("P4", 4)
    await breathe()
    assert (node.performed, node.failures) == (before, 1)
    assert node.journal.full
    await node.close()
    assert 4 not in node.kept()


async def test_effects_that_waited_when_the_disk_failed_are_never_performed(tmp_path):
    files = FailingFiles()
    node = Node(tmp_path, files=files)
    files.fail("sync", errno.EROFS)
    node.take("P1", 1)
    node.take(2)
    await node.journal_settled()
    await node.close()
    assert (node.performed, node.failures) == ([], 1)


async def test_a_defect_of_the_storage_ends_the_node_as_well(tmp_path, monkeypatch):
    node = Node(tmp_path)
    monkeypatch.setattr(node.storage, "commit", lambda _: 1 / 0)
    node.take("P1", 1)
    await node.journal_settled()
    assert (node.performed, node.failures) == ([], 1)
    await node.close()


async def test_a_full_disk_is_tried_until_there_is_room_and_then_all_goes_on_in_order(tmp_path, monkeypatch, logged):
    monkeypatch.setattr(journal_module, "RETRY_SECONDS", 0.0)
    files = FailingFiles()
    node = Node(tmp_path, files=files)
    node.take("P1", 1)
    await node.journal_settled()
    files.fail("write", errno.ENOSPC, partial=20)
    node.take("P2", 2)
    await breathe()
    for attempt in range(4):
        async with asyncio.timeout(5):
            while not node.disk.work:
                await asyncio.sleep(0)
        await node.disk.turn()
        node.take(10 + attempt)
        node.take(f"P{20 + attempt}", 20 + attempt)
        assert node.journal.full
        assert "the disk of this node is full" in node.journal.refusal
    assert (node.performed, node.failures, node.resumed) == ([1], 0, 0)
    files.errors.clear()
    await node.journal_settled()
    assert node.performed == [1, 2, 10, 20, 11, 21, 12, 22, 13, 23]
    assert node.kept() == [1, 2, 20, 21, 22, 23]
    assert (node.journal.refusal, node.journal.full, node.resumed) == (None, False, 1)
    assert [line["event"] for line in logged if line["log_level"] != "info"] == ["disk_full", "disk_has_room"]
    await node.close()


async def test_closing_while_the_disk_is_full_does_not_wait_for_room(tmp_path):
    files = FailingFiles()
    node = Node(tmp_path, files=files)
    files.fail("write", errno.ENOSPC)
    node.take("P1", 1)
    await breathe()
    await node.disk.turn()
    async with asyncio.timeout(5):
        await node.close()
    assert node.performed == []


# --- start and end -------------------------------------------------------------------------------


async def test_queued_records_are_committed_and_performed_before_the_end(tmp_path):
    node = Node(tmp_path)
    node.take("P1", 1)
    await breathe()
    node.take("P2", 2)
    await node.close()
    assert node.performed == [1, 2]
    assert node.kept() == [1, 2]


async def test_settling_waits_for_queued_records_and_not_for_later_ones(tmp_path):
    node = Node(tmp_path)
    node.take("P1", 1)
    await breathe()
    node.take("P2", 2)  # queued behind the commit that is under way
    node.on_effect = lambda effect: node.take(f"P{effect.key + 10}", effect.key + 10)  # each brings one more
    follower = asyncio.create_task(node.disk.follow())
    async with asyncio.timeout(5):
        await node.journal.settle()
    assert node.performed[:2] == [1, 2]
    assert not node.journal.idle
    node.on_effect = lambda _: None
    follower.cancel()
    await node.close()


async def test_a_disk_that_refuses_the_last_records_is_no_error_of_the_loop(tmp_path):
    """The journal reports it; asyncio would report the same error as forgotten."""
    files, forgotten = FailingFiles(), []
    node = Node(tmp_path, files=files)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: forgotten.append(context["message"]))
    files.fail("write", errno.ENOSPC)
    node.take("P1", 1)
    async with asyncio.timeout(5):
        await node.close()
    gc.collect()
    await breathe()
    assert forgotten == []


async def test_a_start_restores_the_kept_messages_in_their_order(tmp_path, logged):
    for life in range(3):
        node = Node(tmp_path)
        assert node.restored == list(range(2 * life))
        node.take(f"P{2 * life}")
        node.take(f"P{2 * life + 1}")
        await node.close()
    told = [line for line in logged if line["event"] == "state_restored"]
    assert [line["messages"] for line in told] == [0, 2, 4]


async def test_a_record_that_is_whole_but_not_understood_stops_the_start(tmp_path):
    storage = Storage(tmp_path, b"n" * 20, b"c" * 8)
    assert list(storage.read()) == []
    storage.commit([b"\0\0\0\x02\x93\x07"])
    storage.close()
    with pytest.raises(LocalProtocolError, match="an undamaged record cannot be decoded"):
        Node(tmp_path)


# --- records -------------------------------------------------------------------------------------


def both_ways(node, message):
    records = node.records.encode([message])
    return records, [message for record in records for message in node.records.decode(record)]


async def test_a_message_of_more_rows_than_a_frame_takes_becomes_several(tmp_path):
    node = Node(tmp_path)
    message = node.message(7, rows=200_000)
    message = replace(message, event=np.arange(200_000, dtype=np.uint64))
    records, found = both_ways(node, message)
    assert len(records) == 4
    assert np.concatenate([part.event for part in found]).tolist() == list(range(200_000))
    assert all(set(part.time.tolist()) == {7} for part in found)
    await node.close()


async def test_rows_groups_and_answers_are_cut_by_their_rows(tmp_path):
    node = Node(tmp_path)
    plan = make_plan(
        ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), ("<urn:p>", "<urn:q>"), (0,), ("s",)), (0, 1), Algorithm.CSBV
    )
    count = 100_000
    numbers, few = np.arange(count, dtype=np.uint64), np.arange(count, dtype=np.uint32) % 3
    term = np.full(count, node.terms.intern("<urn:a>"), np.uint32)

    def groups(size):
        column, param = np.arange(size, dtype=np.uint64), term[:1].repeat(size)
        return Groups(column, column, column, column, (param, param))

    rows = Rows(few, numbers, numbers, numbers, (term, term))
    for message, name in (
        (Answers(np.arange(3, dtype=np.uint64), rows), "rows"),
        (IndexQuery(plan, 0, groups(count)), "groups"),
        (Forward(plan, 1, groups(3), rows), "rows"),
    ):
        records, found = both_ways(node, message)
        assert len(records) > 1
        parts = [getattr(each, name) for each in found]
        column = "identity" if name == "rows" else "ids"
        assert np.concatenate([getattr(part, column) for part in parts]).tolist() == list(range(count))
    await node.close()


async def test_neighbours_that_say_the_same_are_taken_back_together_in_their_order(tmp_path):
    node = Node(tmp_path)
    plain = [node.message(number, rows) for number, rows in ((1, 2), (2, 1), (3, 8190), (4, 1))]
    later = [replace(node.message(number), origin=9, began=5, complete=number) for number in (5, 6, 7)]
    other = replace(node.message(8), origin=9, began=6)
    query = IndexQuery(make_plan(ConjunctiveQuery(((0, ~0, 1),), ("<urn:p>",), (0,), ("s",)), (0,), Algorithm.CSBV), 0,
                       Groups(plain[0].time, plain[0].time, plain[0].time, plain[0].time, (plain[0].s,)))  # fmt: skip
    found = list(joined([*plain, *later, other, query, node.message(9), node.message(10)]))
    assert [getattr(m, "time", np.array([0])).tolist() for m in found] == [
        [1, 1, 2], [3] * 8190 + [4], [5, 6, 7], [8], [0], [9, 10],
    ]  # fmt: skip
    assert [(m.origin, m.began, m.complete) for m in found[2:4]] == [(9, 5, 7), (9, 6, 0)]
    assert all(len(m.s) == len(m.roles) == len(m.time) for m in found if isinstance(m, IndexTriples))
    await node.close()


async def test_a_record_that_fits_no_frame_is_never_acknowledged(tmp_path, logged):
    """No frame can have brought it; still, the rule holds: a message that is not kept has no effects."""
    node = Node(tmp_path)
    huge = node.terms.intern('"' + "x" * (5 << 20) + '"')
    message = node.message(1)
    message.o[:] = huge
    node.journal.take([FindOwner(1), Persist(message), FindOwner(2)])
    node.take("P2", 3)
    await node.close()
    assert node.performed == [3]
    assert node.journal.status()["written"]["unencodable"] == 1
    assert logged[-1]["event"] == "record_failed"


# --- compaction ----------------------------------------------------------------------------------


@pytest.fixture
def in_slices(monkeypatch):
    """Snapshots of one message at a time, without pauses."""
    monkeypatch.setattr(journal_module, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(journal_module, "PAUSE_SECONDS", 0.0)


class Growing(Node):
    """Its state is the list of numbers it took in."""

    def snapshot(self):
        for number in list(self.state):
            yield self.message(number)

    def grow(self, number):
        self.state.append(number)
        self.take(f"P{number}", number)


async def test_when_the_state_has_doubled_a_snapshot_takes_its_place(tmp_path, in_slices):
    node = Growing(tmp_path, compact_bytes_min=5000)
    follower = asyncio.create_task(node.disk.follow())
    sizes = []
    for number in range(1, 400):
        node.grow(number % 40 + 1)
        node.state = sorted(set(node.state))
        await breathe()
        sizes.append(node.storage.size)
    await node.journal_settled()
    told = node.journal.status()
    assert 1 < told["written"]["compactions"] < 40
    assert max(sizes) < 4 * 5000
    follower.cancel()
    await node.close()
    assert sorted(set(node.kept())) == list(range(1, 41))
    assert len(list(tmp_path.glob("*.snapshot"))) == 1


@pytest.mark.parametrize("seed", range(15))
async def test_nothing_is_lost_through_any_event_while_a_snapshot_is_taken(tmp_path, in_slices, seed):
    """Commits between any two steps of a compaction, and a process that dies after any of them."""
    random_ = random.Random(seed)
    node = Growing(tmp_path, compact_bytes_min=1500)
    compacting = checked = 0
    for number in range(1, 80):
        if random_.random() < 0.6:
            node.grow(number)
        for _ in range(random_.randrange(5)):
            if node.disk.work:
                node.disk.do()
            await asyncio.sleep(0)
        compacting += node.journal.status()["compacting"]
        if len(node.performed) > checked:
            checked = len(node.performed)
            assert set(node.performed) <= set(node.kept())
    assert compacting > 2
    await node.close()
    assert set(node.kept()) == set(node.state)


async def test_a_snapshot_that_finds_no_room_is_tried_again_later(tmp_path, in_slices, logged, monkeypatch):
    monkeypatch.setattr(journal_module, "RETRY_SECONDS", 0.0)
    files = FailingFiles()
    node = Growing(tmp_path, compact_bytes_min=1500, files=files)
    follower = asyncio.create_task(node.disk.follow())

    def no_room():
        files.fail("write", errno.ENOSPC)
        yield from Growing.snapshot(node)

    node.snapshot = no_room
    number = 0
    async with asyncio.timeout(10):
        while not any(line["event"] == "compaction_refused" for line in logged):
            number += 1
            node.grow(number)
            await breathe()
    files.errors.clear()
    async with asyncio.timeout(10):
        while node.journal.full:
            await asyncio.sleep(0)
    assert node.failures == 0
    node.grow(number + 1)
    await node.journal_settled()
    assert node.journal.status()["compacting"] is False, "not at once"
    follower.cancel()
    await node.close()
    assert sorted(set(node.kept())) == list(range(1, number + 2))
    assert not list(tmp_path.glob("*.snapshot*"))


async def test_a_snapshot_that_fails_to_be_taken_is_counted_and_costs_nothing(tmp_path, in_slices, logged):
    node = Growing(tmp_path, compact_bytes_min=1500)

    def defective():
        yield node.message(1)
        raise ZeroDivisionError

    node.snapshot = defective
    follower = asyncio.create_task(node.disk.follow())
    for number in range(1, 30):
        node.grow(number)
        await breathe()
    follower.cancel()
    await node.close()
    assert node.journal.status()["written"]["compactions_failed"] == 1
    assert node.kept() == list(range(1, 30))


async def test_a_disk_that_fails_under_a_snapshot_ends_the_node(tmp_path, in_slices):
    files = FailingFiles()
    node = Growing(tmp_path, compact_bytes_min=1500, files=files)
    follower = asyncio.create_task(node.disk.follow())

    def fails():
        files.fail("write", errno.EIO)
        yield node.message(1)

    node.snapshot = fails
    number = 0
    async with asyncio.timeout(10):
        while not node.failures:
            number += 1
            node.grow(number)
            await breathe()
    follower.cancel()
    await node.close()
    assert node.failures == 1


async def test_many_short_segments_call_for_a_compaction(tmp_path, in_slices, monkeypatch):
    monkeypatch.setattr(journal_module, "SEGMENTS_MAX", 3)
    monkeypatch.setattr(storage_module, "SEGMENT_BYTES", 1)
    node = Growing(tmp_path)
    follower = asyncio.create_task(node.disk.follow())
    for number in range(1, 20):
        node.grow(number)
        await breathe()
    follower.cancel()
    await node.close()
    assert node.journal.status()["written"]["compactions"] >= 2
    assert node.storage.segments < 19
    assert sorted(set(node.kept())) == list(range(1, 20))


async def test_many_small_records_call_for_a_compaction(tmp_path, in_slices, monkeypatch):
    monkeypatch.setattr(journal_module, "LOG_RECORDS", 10)
    monkeypatch.setattr(journal_module, "RECORDS_FACTOR", 2)
    node = Growing(tmp_path)
    follower = asyncio.create_task(node.disk.follow())
    for number in range(1, 200):
        node.grow(number % 20)
        node.state = sorted(set(node.state))
        await breathe()
    follower.cancel()
    await node.close()
    assert node.storage.log_records < 2 * 40
    assert 2 < node.journal.status()["written"]["compactions"] < 15
    again = Storage(tmp_path, b"n" * 20, b"c" * 8)
    assert len(list(again.read())) == again.log_records + again.snapshot_records
    assert (again.log_records, again.snapshot_records) == (node.storage.log_records, node.storage.snapshot_records)
    again.close()


async def test_closing_in_the_middle_of_a_snapshot_leaves_the_log(tmp_path, in_slices):
    node = Growing(tmp_path, compact_bytes_min=1500)
    number = 0
    while not node.journal.status()["compacting"]:
        number += 1
        node.grow(number)
        await breathe()
        if node.disk.work:
            await node.disk.turn()
    for _ in range(5):
        await node.disk.turn()
    await node.close()
    assert sorted(set(node.kept())) == list(range(1, number + 1))
    assert not list(tmp_path.glob("*.new"))
    assert not list(tmp_path.glob("*.snapshot"))
