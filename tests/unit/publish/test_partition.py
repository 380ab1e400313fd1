"""One partition on its way: its node, its identity, rejected rows, and its report.  Without Spark."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time

import pytest
from scripted_nodes import ScriptedNode, nodes

pa = pytest.importorskip("pyarrow")

from p2prdf.errors import DataRefused, Unavailable  # noqa: E402
from p2prdf.publish.identity import Identity  # noqa: E402
from p2prdf.publish.options import writing_options  # noqa: E402
from p2prdf.publish.partition import Place, write_partition  # noqa: E402
from p2prdf.publish.report import append_report, progress_line, read_report, summary  # noqa: E402
from p2prdf.wire import messages  # noqa: E402

PLACE = Place(0, 0)
NUMBERED, BY_CONTENT = Identity(7, by_content=False), Identity(7, by_content=True)


def batches(count, rows, *, bad=(), signs=None):
    """Return record batches of a given size, with some bad rows."""
    subjects = ["bad" if n in bad else f"<urn:{n}>" for n in range(count * rows)]
    columns = {"s": subjects, "p": ["<urn:p>"] * len(subjects), "o": ['"x"'] * len(subjects)}
    if signs is not None:
        columns["sign"] = signs
    return pa.table(columns).to_batches(rows)


async def write(data, *peers, place=PLACE, identity=NUMBERED, **options):
    chosen = writing_options({"peers": ",".join(peers), **{key: str(value) for key, value in options.items()}})
    async with asyncio.timeout(30):
        return await asyncio.to_thread(write_partition, iter(data), chosen, identity, place)


def heard(node):
    return [message for visit in node.visits for message in visit.of(messages.ClientPublish)]


def spelled(node):
    """Return event number and subject of all that came in."""
    found = []
    for visit in node.visits:
        for message in visit.of(messages.ClientPublish):
            subjects = visit.terms[message.request].texts(message.s)
            found += zip(range(message.first_event, message.first_event + len(subjects)), subjects, strict=True)
    return found


async def test_rows_are_numbered_by_their_place_however_they_are_cut():
    first, second = ScriptedNode(), ScriptedNode()
    async with nodes(first, second):
        done = await write(batches(3, 10, bad=(4, 25)), first.address, badRows="skip")
        await write(batches(6, 5, bad=(4, 25)), second.address, badRows="skip", batchTriples=3)
    assert (done.rows, done.triples, done.bad_rows, done.frames) == (30, 28, 2, 3)
    assert spelled(first) == spelled(second)
    assert len(spelled(first)) == 28
    publishers = {message.publisher for node in (first, second) for message in heard(node)}
    assert publishers == {NUMBERED.of(0).publisher}


async def test_by_content_nothing_is_numbered_and_all_partitions_are_one_publisher():
    node = ScriptedNode()
    async with nodes(node):
        for partition in (0, 1):
            await write(batches(2, 5), node.address, identity=BY_CONTENT, place=Place(partition, 0))
    assert {(m.publisher, m.first_event, m.by_content) for m in heard(node)} == {(7, 0, True)}


async def test_partitions_begin_at_different_given_or_discovered_nodes():
    scripted = [ScriptedNode() for _ in range(3)]
    async with nodes(*scripted[1:]):
        scripted[0].others = scripted[1:]
        async with nodes(scripted[0]):
            first = scripted[0].address
            done = [await write(batches(1, 5), first, place=Place(partition, 0)) for partition in range(3)]
            used = [each.node for each in done]
            assert sorted(used) == sorted(each.address for each in scripted)
            for partition in range(3):
                done = await write(batches(1, 5), scripted[0].address, place=Place(partition, 0), discover="false")
                assert done.node == scripted[0].address
            given = [each.address for each in scripted]
            used = [
                (await write(batches(1, 5), *given, place=Place(partition, 0), discover="false")).node
                for partition in range(3)
            ]
            assert used == given


async def test_a_discovered_node_that_cannot_be_reached_is_passed_by():
    gone, node = ScriptedNode(), ScriptedNode()
    async with nodes(gone):
        pass
    node.others = (gone,)
    async with nodes(node):
        found = [await write(batches(1, 5), node.address, place=Place(partition, 0)) for partition in range(2)]
    assert [done.node for done in found] == [node.address] * 2


async def test_a_partition_without_rows_asks_nobody():
    done = await write(pa.table({"s": [], "p": [], "o": []}).to_batches(), "127.0.0.1:1")
    assert (done.rows, done.triples, done.node) == (0, 0, "")


async def test_nobody_there_is_an_error():
    with pytest.raises(Unavailable):
        await write(batches(1, 1), "127.0.0.1:1")


async def test_a_bad_row_ends_the_partition_and_says_which_it_was():
    node = ScriptedNode()
    async with nodes(node):
        with pytest.raises(DataRefused) as refusal:
            await write(batches(3, 10, bad=(14,)), node.address, place=Place(5, 0))
    assert "partition 5, row 14: subject is not an IRI or literal in N-Triples syntax: 'bad'" in str(refusal.value)
    assert "{'s': 'bad', 'p': '<urn:p>', 'o': '\"x\"'}" in str(refusal.value)


async def test_bad_rows_are_counted_and_written_with_those_that_nodes_refuse(tmp_path):
    def choosy(visit, message):
        subjects = visit.terms[message.request].texts(message.s)
        if "<urn:7>" in subjects:
            visit.send(messages.ClientError(message.request, "data-refused", "not this one"))
        else:
            visit.send(messages.ClientPublished(message.request, 1))

    node = ScriptedNode(on={messages.ClientPublish: choosy})
    async with nodes(node):
        done = await write(
            batches(2, 10, bad=(3, 4, 15)), node.address,
            place=Place(2, 1), badRows="skip", badRowsPath=tmp_path / "bad",
        )  # fmt: skip
    assert (done.rows, done.triples, done.bad_rows) == (20, 16, 4)
    assert len(done.examples) == 3
    (file,) = (tmp_path / "bad").iterdir()
    assert str(file) == done.bad_rows_file
    assert file.name == "part-00002-attempt-1.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(line["row"] for line in lines if line["row"] is not None) == [3, 4, 15]
    assert [line["content"] for line in lines if line["row"] is None] == [["<urn:7>", "<urn:p>", '"x"', ""]]
    assert all(line["partition"] == 2 for line in lines)


async def test_additions_and_removals_are_published_apart():
    node = ScriptedNode()
    async with nodes(node):
        done = await write(batches(1, 4, signs=[1, -1, 1, -1]), node.address)
    assert [(m.removed, len(m)) for m in heard(node)] == [(True, 2), (False, 2)]
    assert (done.triples, done.removed) == (4, 2)


async def test_rows_lost_with_a_node_are_sent_again_under_the_same_numbers_and_counted():
    def break_at_the_second(visit, message):
        if len(visit.of(messages.ClientPublish)) == 2:
            visit.abort()

    first, second = ScriptedNode(on={messages.ClientPublish: break_at_the_second}), ScriptedNode()
    async with nodes(first, second):
        done = await write(batches(4, 5), first.address, second.address, discover="false")
    assert done.triples == 20
    assert done.repeated > 0
    assert sorted(set(spelled(second))) == [(n, f"<urn:{n}>") for n in range(20)]
    assert done.node == second.address


async def test_triples_go_no_faster_than_was_chosen():
    node = ScriptedNode()
    async with nodes(node):
        begun = time.monotonic()
        done = await write(batches(2, 100), node.address, partitionRate=400)
        seconds = time.monotonic() - begun
    assert done.triples == 200
    assert seconds > 0.35, "the last of four eighths of a second begins after three of them"
    assert {len(message) for message in heard(node)} == {50}


def test_reports_add_up_and_are_read_back(tmp_path):
    one, two = (write_nothing(partition, triples=partition * 10) for partition in (1, 2))
    two = dataclasses.replace(two, bad_rows=1, examples=["bad: x"], repeated=4, seconds=2.0, place=Place(2, 1))
    found = summary([one, two], query="q", batch=3)
    assert (found["triples"], found["bad_rows"], found["attempts"], found["batch"]) == (30, 1, 1, 3)
    assert progress_line(found) == (
        "p2prdf: batch 3: 30 triples acknowledged in 2.0 s, 15/s, 4 sent again, 1 bad rows skipped"
    )
    assert progress_line(summary([])) == "p2prdf: 0 triples acknowledged in 0.0 s, 0/s"
    path = tmp_path / "report"
    assert read_report(path) == []
    for _ in range(2):
        append_report(str(path), found)
    assert read_report(path) == [found, found]


def write_nothing(partition, **more):
    options = writing_options({"peers": "a:1"})
    return dataclasses.replace(write_partition(iter([]), options, NUMBERED, Place(partition, 0)), **more)
