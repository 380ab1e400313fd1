"""A real peer behind a driver and a disk that the test drives: nothing is sent before it is persisted."""

from __future__ import annotations

import asyncio
import errno
from itertools import pairwise

import numpy as np
import pytest
import structlog
from failing_files import FailingFiles, QuickFiles
from slow_disk import Disk, breathe

from p2prdf import hlc
from p2prdf.columns import ARRAYS
from p2prdf.peer import Pace, Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire import contract
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import Acknowledge, Contact, Envelope, IndexTriples
from p2prdf_node.driver import Clock, Driver
from p2prdf_node.inbox import ROWS_MAX
from p2prdf_node.journal import Journal
from p2prdf_node.records import Records
from p2prdf_node.storage import Storage

OWN = Contact(1, "127.0.0.1", 7400)
FAR = Contact(1 << 63, "127.0.0.1", 7401)


@pytest.fixture(autouse=True)
def logged():
    """The log records, kept from the screen."""
    with structlog.testing.capture_logs() as lines:
        yield lines


class Outside:
    """Links, clients and membership in one: records all output."""

    def __init__(self):
        self.posted, self.completions, self.lookups, self.admitted = [], [], [], 0
        self.sent = 0
        """Envelopes posted before the last flush."""
        self.publications_wait = False

    def post(self, to, envelope):
        self.posted.append((to, envelope.message))

    def flush(self):
        self.sent = len(self.posted)

    def admit(self, may_go_on):
        self.admitted += 1

    def notify(self, effect):
        raise AssertionError("nobody has subscribed")

    def completed(self, effect):
        self.completions.append(effect.outcome)

    def acknowledged(self):
        """Transfers of the other peer that were acknowledged to it."""
        return [n for to, m in self.posted if isinstance(m, Acknowledge) and to == FAR for n in m.transfers]


class Wire:
    """A connection with incoming envelopes."""

    address = "test"

    def __init__(self):
        self.holds = set()

    def hold(self, reason):
        self.holds.add(reason)

    def release(self, reason):
        self.holds.discard(reason)


class Node:
    """One node without sockets."""

    def __init__(
        self, directory, *, files=None, queued_bytes_max=1 << 20, compact_bytes_min=1 << 30, alone=True, pace=None
    ):
        self.terms = TermDictionary()
        self.disk = Disk()
        self.outside = Outside()
        self.failures = 0
        self.transfer = 0
        self.wire = Wire()
        self.storage = Storage(directory, b"n" * 20, b"c" * 8, files or QuickFiles())
        self.journal = Journal(
            self.storage, Records(FrameCodec(self.terms, ARRAYS)), durability="fsync",
            queued_bytes_max=queued_bytes_max, compact_bytes_min=compact_bytes_min, thread=self.disk,
        )  # fmt: skip
        self.peer = Peer(OWN, PeerConfig(durable=True), self.terms, pace=pace)
        self.clock = Clock()
        self.driver = Driver(self.peer, self.clock, lambda work, _: work.close(), self.journal)
        self.driver.connect(self.outside, self.outside, self.outside, disk_failed=self._failed)
        self.driver.restore()
        if alone:
            self.driver.submit(contract.OwnersFound(0, (OWN,), complete=True))

    def _failed(self):
        self.failures += 1

    def triples(self, first, count):
        s = np.array(self.terms.intern_all(f"<urn:s{n}>" for n in range(first, first + count)), np.uint32)
        p = np.full(count, self.terms.intern("<urn:p>"), np.uint32)
        return s, p, s

    def receive(self, first, count):
        """Have the other peer send triples with keys of this one."""
        self.transfer += 1
        stamp = hlc.from_seconds(self.clock())
        times, events = np.full(count, stamp, np.uint64), np.arange(first, first + count, dtype=np.uint64)
        message = IndexTriples(*self.triples(first, count), times, events, np.full(count, 1, np.uint32))
        self.driver.receive(Envelope(self.transfer, stamp, message), FAR, self.wire)

    async def close(self):
        while self.disk.work:
            await self.disk.turn()
        await self.journal.settle()
        self.driver.stop()
        self.storage.close()


async def test_an_envelope_is_acknowledged_when_its_content_is_on_the_disk(tmp_path):
    node = Node(tmp_path)
    node.receive(0, 10)
    await breathe()
    assert node.peer.status()["triples"] == 10, "the peer is ahead of its disk"
    assert node.outside.acknowledged() == []
    node.disk.do()
    assert node.outside.acknowledged() == []
    await breathe()
    assert node.outside.acknowledged() == [1]
    await node.close()


async def test_an_envelope_that_waited_for_the_disk_is_sent_without_another_turn(tmp_path):
    node = Node(tmp_path)
    node.receive(0, 10)
    await breathe()
    turns = node.driver.counts["turns"]
    node.disk.do()
    await breathe()
    assert node.outside.acknowledged() == [1]
    assert node.outside.sent == len(node.outside.posted)
    assert node.driver.counts["turns"] == turns
    await node.close()


async def test_a_node_that_stops_takes_in_nothing_more_and_ends_work_that_waits_for_the_disk(tmp_path):
    node = Node(tmp_path)
    node.receive(0, 10)
    await breathe()
    node.driver.stop()
    node.receive(10, 10)
    node.driver.schedule()
    turns = node.driver.counts["turns"]
    await breathe()
    node.disk.do()
    await breathe()
    assert node.outside.acknowledged() == [1], "what was taken in before is acknowledged once it is kept"
    assert (node.peer.status()["triples"], node.driver.counts["turns"]) == (10, turns)
    await node.close()


async def test_a_publication_is_done_when_it_is_on_the_disk(tmp_path):
    node = Node(tmp_path)
    node.driver.submit(contract.Publish(1, 7, 0, *node.triples(0, 5)))
    await breathe()
    assert node.outside.completions == []
    while node.disk.work:
        await node.disk.turn()
    assert [type(each) for each in node.outside.completions] == [contract.Published]
    await node.close()


async def test_while_too_much_waits_for_the_disk_no_turn_is_made_and_connections_are_held(tmp_path):
    node = Node(tmp_path, queued_bytes_max=100)
    node.receive(0, 100)
    await breathe()
    assert node.journal.full
    turns = node.driver.counts["turns"]
    node.receive(100, ROWS_MAX)
    node.receive(100 + ROWS_MAX, 1)
    await breathe()
    assert node.driver.counts["turns"] == turns
    assert node.driver.counts["turns_put_off"] >= 1
    assert node.wire.holds == {"turn"}
    assert node.peer.status()["triples"] == 100
    await node.disk.turn()
    assert node.wire.holds == set()
    assert node.peer.status()["triples"] >= 100 + ROWS_MAX
    assert node.outside.acknowledged() == [1]
    await node.close()
    assert node.peer.status()["triples"] == 101 + ROWS_MAX
    assert node.outside.acknowledged() == [1, 2, 3]


async def test_on_a_full_disk_nothing_is_acknowledged_until_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr("p2prdf_node.journal.RETRY_SECONDS", 0.0)
    files = FailingFiles()
    node = Node(tmp_path, files=files)
    files.fail("sync", errno.ENOSPC)
    node.receive(0, 10)
    await breathe()
    await node.disk.turn()
    node.receive(10, 10)
    await breathe()
    assert node.outside.posted == []
    assert node.journal.full
    files.errors.clear()
    await node.close()
    assert node.outside.acknowledged() == [1, 2]


async def test_after_an_error_of_the_disk_nothing_is_said_any_more(tmp_path):
    files = FailingFiles()
    node = Node(tmp_path, files=files)
    files.fail("sync", errno.EIO)
    node.receive(0, 10)
    await breathe()
    await node.disk.turn()
    files.errors.clear()
    node.receive(10, 10)
    await breathe()
    assert not node.disk.work
    assert node.outside.posted == []
    assert node.failures == 1
    await node.close()


async def test_a_restarted_peer_restores_its_data(tmp_path):
    first = Node(tmp_path)
    for start in range(0, 300, 100):
        first.receive(start, 100)
        await breathe()
    await first.close()
    again = Node(tmp_path)
    status = again.peer.status()
    assert (status["triples"], status["terms"]) == (300, 301)
    assert again.journal.status()["restored"]["bytes"] > 0
    again.receive(0, 300)
    await breathe()
    assert again.peer.status()["triples"] == 300, "it knows them"
    await again.close()


async def test_a_peers_snapshot_takes_the_place_of_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr("p2prdf_node.journal.PAUSE_SECONDS", 0.0)
    first = Node(tmp_path, compact_bytes_min=20_000)
    count = 0
    while not first.journal.status()["written"]["compactions"]:
        assert count < 100_000
        first.receive(count, 50)
        count += 50
        for _ in range(3):
            await breathe()
            if first.disk.work:
                first.disk.do()
    await first.close()
    assert len(list(tmp_path.glob("*.snapshot"))) == 1
    again = Node(tmp_path)
    assert again.peer.status()["triples"] == count
    await again.close()


# --- turns with a budget -------------------------------------------------------------------------


class Meter:
    """Processor time that the test lets pass: so much whenever it is read."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def busy_node(tmp_path):
    """Return a node: every step of its spends the budget of a turn."""
    config = PeerConfig(durable=True)
    return Node(tmp_path, pace=Pace(config.turn_budget_seconds, Meter(config.turn_budget_seconds)))


async def test_the_loop_goes_on_with_other_things_between_the_turns_of_a_busy_node(tmp_path):
    """Between them it answers datagrams of the failure detector, however much work waits for the peer."""
    busy = busy_node(tmp_path)
    for number in range(20):
        busy.receive(number, 1)
    waiting = []
    for _ in range(200):
        await asyncio.sleep(0)
        waiting.append(busy.driver.turn_status()["inbox"])
    steps = [before - after for before, after in pairwise(waiting)]
    assert max(steps) == 1, "a turn takes in one envelope here, then the loop has its turn"
    assert waiting[-1] == 0
    while busy.disk.work:
        await busy.disk.turn()
    await breathe()
    assert busy.peer.status()["triples"] == 20
    await busy.close()
    assert sorted(busy.outside.acknowledged()) == list(range(1, 21))


def acknowledge(node):
    """Have the other peer acknowledge a message."""
    node.driver.receive(Envelope(0, 0, Acknowledge(np.array([77], np.uint64))), FAR, node.wire)


async def test_acknowledgement_reaches_a_busy_peer_on_arrival(tmp_path):
    busy = busy_node(tmp_path)
    for number in range(5):
        busy.receive(number, 1)
    taken = []
    receive = busy.peer.receive
    busy.peer.receive = lambda envelope, **rest: (taken.append(type(envelope.message)), receive(envelope, **rest))[1]
    acknowledge(busy)
    assert taken == [Acknowledge]
    await busy.close()


async def test_acknowledgement_leads_to_a_turn_only_if_publications_wait_for_room(tmp_path):
    node = Node(tmp_path)
    await breathe()
    turns = node.driver.counts["turns"]
    acknowledge(node)
    await breathe()
    assert node.driver.counts["turns"] == turns
    node.outside.publications_wait = True
    acknowledge(node)
    await breathe()
    assert node.driver.counts["turns"] == turns + 1
    await node.close()


async def test_publications_are_admitted_in_the_turns_that_begin_and_not_in_one_that_is_open(tmp_path):
    busy = busy_node(tmp_path)
    for number in range(3):
        busy.receive(number, 1)
        envelope, sender, _ = busy.driver._inbox.take()
        busy.peer.receive(envelope, sender=sender, now=busy.clock())
    await asyncio.sleep(0)
    assert busy.peer.turn_open
    admitted = busy.outside.admitted
    await asyncio.sleep(0)
    assert busy.outside.admitted == admitted
    await busy.close()


async def test_the_longest_turn_names_its_component(tmp_path):
    busy = busy_node(tmp_path)
    busy.receive(0, 1)
    await breathe()
    status = busy.driver.turn_status()
    assert status["turn_longest_component"] in status["turn_component_seconds_max"]
    assert {"receive", "engine", "repair"} <= status["turn_component_seconds_max"].keys()
    await busy.close()


async def test_a_stopped_node_takes_in_nothing_that_waits_and_acknowledges_nothing_of_it(tmp_path):
    busy = busy_node(tmp_path)
    for number in range(5):
        busy.receive(number, 1)
    busy.driver.stop()
    await breathe()
    assert busy.peer.status()["triples"] == 0
    await busy.close()
    assert busy.outside.acknowledged() == []
