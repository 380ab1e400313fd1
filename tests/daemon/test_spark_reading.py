"""Subscriptions as streams of real Spark, and one-time queries as frames, at real nodes."""

from __future__ import annotations

import asyncio
import itertools
import json
import time

import pytest

pytest.importorskip("pyspark")

from settled_states import States, query_of, replaced

import p2prdf

_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:reading{next(_names)}:"


@pytest.fixture
def overlay(keeping_all):
    """Nodes with retention of earlier triples."""
    return keeping_all


def publish(overlay, ns, numbers, *, remove=False):
    """Publish triples, or remove them, until they are acknowledged."""

    async def run():
        async with p2prdf.connect(overlay[4].address) as client:
            triples = [(f"<{ns}{number}>", f"<{ns}p>", f'"{number}"') for number in numbers]
            await (client.retract(triples) if remove else client.publish(triples))

    asyncio.run(run())


def source(spark, overlay, ns, *, streaming=True, **options):
    reader = spark.readStream if streaming else spark.read
    given = {"peers": overlay[1].address, "query": f"SELECT ?s ?o WHERE {{ ?s <{ns}p> ?o }}", **options}
    return reader.format("p2prdf").options(**given).load()


def written(folder):
    """Return the rows of files that a stream wrote."""
    lines = (line for file in folder.glob("part-*.json") for line in file.read_text().splitlines())
    return [json.loads(line) for line in lines]


def wait(condition, query):
    deadline = time.monotonic() + 60
    while not condition():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline
        query.processAllAvailable()


def begin(frame, folder, **trigger):
    """Write a stream as files, each batch once."""
    return (
        frame.writeStream.format("json").option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger or {"processingTime": "100 milliseconds"}).start(str(folder / "out"))
    )  # fmt: skip


def test_a_frame_holds_the_answers_of_a_query_asked_once(spark, overlay, ns):
    publish(overlay, ns, range(1, 31))
    frame = source(spark, overlay, ns, streaming=False)
    assert frame.schema.simpleString() == "struct<s:string,o:string>"
    assert sorted(tuple(row) for row in frame.collect()) == sorted((f"<{ns}{at}>", f'"{at}"') for at in range(1, 31))
    optional = f"SELECT ?s ?x WHERE {{ ?s <{ns}p> ?o OPTIONAL {{ ?s <{ns}none> ?x }} }}"
    rows = source(spark, overlay, ns, streaming=False, query=optional).collect()
    assert {row.x for row in rows} == {None}


@pytest.mark.long
def test_a_stream_goes_on_where_its_checkpoint_is_and_nothing_comes_twice(spark, overlay, ns, tmp_path):
    publish(overlay, ns, range(1, 11))
    options = {"since": "beginning", "maxRowsPerBatch": "4", "partitions": "2"}
    query = begin(source(spark, overlay, ns, **options), tmp_path)
    wait(lambda: len(written(tmp_path / "out")) >= 10, query)
    query.stop()
    publish(overlay, ns, range(11, 21))  # while nobody reads
    query = begin(source(spark, overlay, ns, **options), tmp_path)
    publish(overlay, ns, range(21, 26))
    wait(lambda: len(written(tmp_path / "out")) >= 25, query)
    query.stop()
    assert sorted(int(row["o"].strip('"')) for row in written(tmp_path / "out")) == list(range(1, 26))


def test_a_batch_with_a_noted_end_that_was_not_done_is_computed_again_with_the_same_rows(spark, overlay, ns, tmp_path):
    seen = {}

    def fail_once(frame, batch):
        rows = sorted(tuple(row) for row in frame.collect())
        if rows:
            seen.setdefault(batch, []).append(rows)
            if len(seen[batch]) == 1 and len(seen) == 2:
                raise RuntimeError("the sink failed")

    def run():
        frame = source(spark, overlay, ns, since="beginning", maxRowsPerBatch="5")
        stream = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(fail_once)
        stream.trigger(availableNow=True).start().awaitTermination()

    publish(overlay, ns, range(1, 13))
    with pytest.raises(Exception, match="the sink failed"):
        run()
    publish(overlay, ns, range(13, 16))
    run()
    first, *rest = seen.values()
    assert len(first) == 1
    assert rest[0][0] == rest[0][1], "the batch that failed"
    every = [row for tries in seen.values() for row in tries[-1]]
    assert sorted(every) == sorted((f"<{ns}{at}>", f'"{at}"') for at in range(1, 16))


@pytest.mark.long
def test_a_stream_of_the_available_rows_ends(spark, overlay, ns, tmp_path):
    publish(overlay, ns, range(1, 31))
    query = begin(
        source(spark, overlay, ns, since="beginning", maxRowsPerBatch="7", sign="true", born="true"), tmp_path,
        availableNow=True,
    )  # fmt: skip
    assert query.awaitTermination(60)
    rows = written(tmp_path / "out")
    assert sorted(int(row["o"].strip('"')) for row in rows) == list(range(1, 31))
    assert {row["sign"] for row in rows} == {1}
    assert len(query.recentProgress) >= 5
    publish(overlay, ns, [5, 6], remove=True)
    query = begin(source(spark, overlay, ns, sign="true", born="true"), tmp_path, availableNow=True)
    assert query.awaitTermination(60)
    rows = [row for row in written(tmp_path / "out") if row["sign"] == -1]
    assert sorted(row["o"] for row in rows) == ['"5"', '"6"']


@pytest.mark.long
def test_settled_stream_has_states_at_its_marks_also_after_a_failure_and_a_restart(spark, overlay, ns, tmp_path):
    """A stream that runs while values are replaced; with one row in a batch a mark takes two of them.

    An immediate stream has a batch behind the retraction of the only value.
    """
    seen, failing = {True: {}, False: {}}, [True]

    def start(settled):
        def take(frame, batch):
            rows = [(row.o.strip('"'), row.sign, row.mark if settled else None) for row in frame.collect()]
            seen[settled].setdefault(batch, []).append(rows)
            if failing and settled and rows:
                failing.clear()
                raise RuntimeError("the sink failed")

        options = {"settled": "true", "mark": "true"} if settled else {"since": "beginning"}
        frame = source(spark, overlay, ns, query=query_of(ns), maxRowsPerBatch="1", sign="true", **options)
        return frame.writeStream.option("checkpointLocation", str(tmp_path / str(settled))).foreachBatch(take).start()

    def states_of(settled):
        states = States()
        for tries in seen[settled].values():
            assert all(again == tries[0] for again in tries), "a repeated batch has the same rows and the same mark"
            rows = tries[0]
            states.take([o for o, sign, _ in rows if sign > 0], [o for o, sign, _ in rows if sign < 0])
            if rows and (rows[0][2] is not None or not settled):
                states.mark()
        return states

    def goes_on(stream, settled, last):
        wait(lambda: states_of(settled).values == [last], stream)

    streams = {settled: start(settled) for settled in (True, False)}
    last, _ = asyncio.run(replaced(overlay[4].address, ns, count=3))
    with pytest.raises(Exception, match="the sink failed"):
        goes_on(streams[True], True, last)
    asyncio.run(replaced(overlay[4].address, ns, first=3, count=3))  # while no settled stream runs
    streams[True] = start(True)
    last, _ = asyncio.run(replaced(overlay[4].address, ns, first=6, count=3))
    for settled, stream in streams.items():
        goes_on(stream, settled, last)
        stream.stop()
    assert any(len(tries) > 1 for tries in seen[True].values()), "the batch that failed"
    assert states_of(True).told > 0
    assert states_of(True).impossible == 0
    assert states_of(False).impossible > 0
    stream = source(spark, overlay, ns, query=query_of(ns), sign="true", settled="false").writeStream
    stream = stream.option("checkpointLocation", str(tmp_path / "True")).foreachBatch(lambda *_: None).start()
    with pytest.raises(Exception, match="belongs to a stream with the other value"):
        wait(lambda: False, stream)


def test_senseless_options_are_refused_by_name(spark, overlay, ns):
    unfinished = {"query": "SELECT ?s WHERE { ?s ?p"}
    for options, why in ((unfinished, "line 1"), ({"maxRows": "3"}, "unknown option maxrows")):
        with pytest.raises(Exception, match=why):
            source(spark, overlay, ns, **options)
    with pytest.raises(Exception, match="applies to streams only"):
        source(spark, overlay, ns, streaming=False, since="beginning").collect()
    with pytest.raises(Exception, match="a schema is refused"):
        spark.read.schema("a int").format("p2prdf").options(
            peers=overlay[0].address, query="SELECT * { ?s <urn:p> ?o }"
        ).load().collect()
