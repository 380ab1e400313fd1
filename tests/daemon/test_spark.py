"""Frames and streams of real Spark into real nodes: arrivals and refusals, and no triple counts twice."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import itertools
import json
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import p2prdf
from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.publish import read_rdf, read_report, stream_rdf

_names = itertools.count()
TERMS = "s string, p string, o string"


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:spark{next(_names)}:"


def write(frame, overlay, **options):
    """Write a frame, beginning at the third node."""
    chosen = {"peers": overlay[2].address, **{key: str(value) for key, value in options.items()}}
    frame.write.format("p2prdf").mode("append").options(**chosen).save()


async def answers(overlay, query, wanted, **more):
    """Return the answers to a standing query with history, once the wanted number has come and no more follow."""
    async with p2prdf.connect(overlay[0].address) as client:
        subscription = await client.subscribe(query, since="beginning", **more)
        held = {}
        async with asyncio.timeout(30):
            while len(held) < wanted:
                solution = await anext(subscription)
                if solution.removed:
                    del held[solution.identity]
                else:
                    held[solution.identity] = solution.terms
        await subscription.unsubscribe()
        return sorted(held.values())


async def events_while(run, overlay, query):
    """Return how often each value of one variable is delivered, per publication event, until no more come.

    ``run`` blocks this thread: Spark knows its data sources in the one that made the session.
    """
    async with p2prdf.connect(overlay[1].address) as client:
        subscription = await client.subscribe(query, per_event=True, bookmarks=True)
        run()
        seen, now = Counter(), time.time()
        async with asyncio.timeout(30):
            async for batch in subscription.batches():
                seen.update(batch.columns[0])
                if batch.bookmark is not None and batch.bookmark > now:
                    break
        await subscription.unsubscribe()
        return seen


def rows(ns, count):
    return [(f"<{ns}{n}>", f"<{ns}p>", f'"{n}"') for n in range(count)]


def test_terms_are_published_by_all_partitions_and_counted_in_a_report(spark, keeping_all, ns, tmp_path):
    data = rows(ns, 1000)
    write(spark.createDataFrame(data, TERMS).repartition(4), keeping_all, report=tmp_path / "report")
    assert asyncio.run(answers(keeping_all, f"SELECT ?s ?o {{ ?s <{ns}p> ?o }}", 1000)) == sorted(
        (s, o) for s, _, o in data
    )
    (told,) = read_report(tmp_path / "report")
    assert [told[name] for name in ("rows", "triples", "partitions", "repeated", "bad_rows")] == [1000, 1000, 4, 0, 0]
    assert len(told["nodes"]) == 4, "each partition began at another node"
    assert told["partition_seconds"]["all"] >= told["partition_seconds"]["waiting"] > 0


def test_a_named_job_that_is_run_again_counts_once_though_partitioned_otherwise(spark, keeping_all, ns):
    frame = spark.createDataFrame(rows(ns, 100), TERMS)

    def run():
        write(frame.repartition(3), keeping_all, job=ns)
        write(frame.repartition(2), keeping_all, job=ns, batchTriples=7)
        write(frame.limit(1), keeping_all, job=f"{ns}another")

    seen = asyncio.run(events_while(run, keeping_all, f"SELECT ?s {{ ?s <{ns}p> ?o }}"))
    assert sorted(seen.values()) == [1] * 99 + [2]


@pytest.mark.long
def test_ordinary_columns_graphs_and_signs(spark, keeping_all, ns):
    options = {
        "subject": f"{ns}sensor/{{id}}", "predicate.temperature": f"{ns}temperature", "predicate.at": f"{ns}at",
        "predicate.tags": f"{ns}tag", "graph": f"{ns}graph",
    }  # fmt: skip
    select = "CAST(id AS INT) id, CAST(id AS DOUBLE) / 2 temperature, TIMESTAMP '2026-01-02 03:04:05' at"
    frame = spark.range(3).selectExpr(*select.split(", "), "IF(id = 1, NULL, array('a', 'b')) tags")
    write(frame, keeping_all, **options)
    g, xsd = f"GRAPH <{ns}graph>", "http://www.w3.org/2001/XMLSchema#"
    assert asyncio.run(answers(keeping_all, f"SELECT ?s ?t {{ {g} {{ ?s <{ns}temperature> ?t }} }}", 3)) == [
        (f"<{ns}sensor/{n}>", f'"{n / 2:g}"^^<{xsd}double>') for n in range(3)
    ]
    assert asyncio.run(answers(keeping_all, f"SELECT ?s ?t {{ {g} {{ ?s <{ns}tag> ?t }} }}", 4)) == [
        (f"<{ns}sensor/{n}>", f'"{tag}"') for n in (0, 2) for tag in "ab"
    ]
    at = asyncio.run(answers(keeping_all, f"SELECT DISTINCT ?t {{ {g} {{ ?s <{ns}at> ?t }} }}", 1))
    assert at == [(f'"2026-01-02T03:04:05Z"^^<{xsd}dateTime>',)]
    write(frame.where("id = 0").selectExpr("*", "-1 sign"), keeping_all, **options)

    async def left():
        async with p2prdf.connect(keeping_all[3].address) as client:
            return sorted((await client.query(f"SELECT ?s ?t {{ {g} {{ ?s <{ns}tag> ?t }} }}")).rows)

    assert asyncio.run(left()) == [(f"<{ns}sensor/2>", '"a"'), (f"<{ns}sensor/2>", '"b"')]


def test_bad_rows_end_a_write_or_are_skipped_and_written(spark, keeping_all, ns, tmp_path):
    data = rows(ns, 20)
    data[7] = (None, *data[7][1:])
    data[13] = ("no term", *data[13][1:])
    frame = spark.createDataFrame(data, TERMS).coalesce(1)
    with pytest.raises(Exception, match=r"DataRefused: partition 0, row 7: subject is null: \{'s': None"):
        write(frame, keeping_all)
    write(
        frame, keeping_all, badRows="skip", badRowsPath=tmp_path / "bad", report=tmp_path / "report", graph=f"{ns}g"
    )
    (told,) = read_report(tmp_path / "report")
    assert (told["triples"], told["bad_rows"]) == (18, 2)
    (file,) = told["bad_rows_files"]
    assert [json.loads(line)["row"] for line in Path(file).read_text().splitlines()] == [7, 13]
    query = f"SELECT ?s {{ GRAPH <{ns}g> {{ ?s <{ns}p> ?o }} }}"
    assert len(asyncio.run(answers(keeping_all, query, 18))) == 18


@pytest.mark.parametrize(
    ("options", "mode", "told"),
    [
        ({}, "overwrite", 'mode "overwrite" is refused: a job must not replace'),
        ({"pears": "x:1"}, "append", "unknown option pears"),
        ({"peers": "x"}, "append", "option peers: 'x' is not host:port"),
        ({"subject": "urn:{q}", "predicate.s": "urn:s"}, "append", "there is no column q"),
    ],
)
def test_an_unplannable_write_is_refused_by_name(spark, keeping_all, options, mode, told):
    frame = spark.createDataFrame(rows("urn:x:", 1), TERMS)
    with pytest.raises(Exception) as refusal:
        frame.write.format("p2prdf").mode(mode).options(**{"peers": keeping_all[0].address, **options}).save()
    assert told in str(refusal.value)


@pytest.mark.long
def test_a_stream_goes_on_from_its_checkpoint_and_a_batch_that_is_sent_again_counts_once(
    spark, keeping_all, ns, tmp_path
):
    """The report cannot be written at first: the commit fails after all was published, and the batch comes again."""
    folder, report = tmp_path / "in", tmp_path / "reports" / "report"
    folder.mkdir()

    def arrive(name, data):
        lines = [json.dumps(dict(zip("spo", row, strict=True))) for row in data]
        (folder / f"{name}.json").write_text("\n".join(lines))

    def run():
        stream = spark.readStream.schema(TERMS).option("maxFilesPerTrigger", 1).json(str(folder))
        query = (
            stream.writeStream.format("p2prdf").option("peers", keeping_all[4].address).option("report", str(report))
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    def twice():
        arrive("one", rows(ns, 50))
        with pytest.raises(Exception, match="No such file or directory"):
            run()
        report.parent.mkdir()
        arrive("two", rows(ns, 60)[50:])
        arrive("three", rows(ns, 1))
        run()

    seen = asyncio.run(events_while(twice, keeping_all, f"SELECT ?s {{ ?s <{ns}p> ?o }}"))
    assert seen == Counter([*(s for s, _, _ in rows(ns, 60)), f"<{ns}0>"])
    told = read_report(report)
    assert [each["batch"] for each in told] == [0, 1, 2]
    assert sorted(each["triples"] for each in told) == [1, 10, 50]
    assert len({each["query"] for each in told}) == 1


# --- RDF files -----------------------------------------------------------------------------------

LINES = """<urn:a> <urn:p> "1" .
# nothing
_:x <urn:p> _:y .
this is no line
<urn:a> <urn:p> "\\u00e9"@EN .
"""


def files(folder):
    """Write the same in all formats; return the frames' columns by the names of files."""
    folder.mkdir(exist_ok=True)
    text = LINES.encode()
    for name, content in {
        "plain.nt": text, "small.nt.gz": gzip.compress(text), "split.nt.bz2": bz2.compress(text),
        "graphs.nq": b"<urn:a> <urn:p> <urn:b> <urn:g> .\n<urn:a> <urn:p> <urn:b> .\n",
        "whole.ttl": b"<urn:a> <urn:p> [ <urn:q> 1 ] .", "graphs.trig": b"<urn:g> { <urn:a> <urn:p> _:x }",
        "damaged.ttl": b"<urn:a> <urn:p> <urn:damaged> . <urn:a> no .", "left out.txt": b"nothing",
        "o.rdf": b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><r:Bag r:about="urn:bag"/></r:RDF>',
    }.items():  # fmt: skip
        (folder / name).write_bytes(content)
    return folder


def shape(rows):
    """Return statements without the names of files in their blank nodes, and those names."""
    names = {term.split(":")[2] for row in rows for term in row[:3] if term.startswith("<urn:bnode:")}
    short = (tuple("_" + t.split(":")[3] if t and t.startswith("<urn:bnode:") else t for t in row) for row in rows)
    return Counter(short), names


HELD = Counter({
    ("<urn:a>", "<urn:p>", '"1"', None): 3, ("<urn:a>", "<urn:p>", '"é"@en', None): 3,
    ("_x>", "<urn:p>", "_y>", None): 3,
    ("<urn:a>", "<urn:p>", "<urn:b>", "<urn:g>"): 1, ("<urn:a>", "<urn:p>", "<urn:b>", None): 1,
    ("_~0>", "<urn:q>", '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', None): 1,
    ("<urn:a>", "<urn:p>", "_~0>", None): 1,
    ("<urn:a>", "<urn:p>", "_x>", "<urn:g>"): 1, ("<urn:a>", "<urn:p>", "<urn:damaged>", None): 1,
    ("<urn:bag>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
     "<http://www.w3.org/1999/02/22-rdf-syntax-ns#Bag>", None): 1,
})  # fmt: skip


def test_files_of_all_formats_are_read_with_their_blank_nodes_and_bad_lines_reported(spark, tmp_path):
    folder, bad = files(tmp_path / "in"), spark.sparkContext.accumulator(0)
    frame = read_rdf(spark, str(folder), bad_lines=bad, bad_lines_path=str(tmp_path / "bad"))
    found, names = shape(frame.collect())
    assert found == HELD
    assert len(names) == 5, "each file has names of its own"
    assert bad.value == 4
    told = [json.loads(line) for file in (tmp_path / "bad").iterdir() for line in file.read_text().splitlines()]
    assert Counter(each["text"] for each in told) == Counter({"this is no line": 3, None: 1})
    names_told = {each["file"].rpartition("/")[2] for each in told}
    assert names_told == {"plain.nt", "small.nt.gz", "split.nt.bz2", "damaged.ttl"}
    again, same = shape(read_rdf(spark, [f"{folder}/*.nt*", f"{folder}/whole.ttl"]).collect())
    assert again.total() == 11
    assert same < names, "the same whenever they are read"
    other = shape(read_rdf(spark, f"{folder}/*.nt*", publication="other").collect())[1]
    assert not other & names
    with pytest.raises(Exception, match=r"DataRefused.*this is no line"):
        read_rdf(spark, f"{folder}/plain.nt", strict=True).collect()
    with pytest.raises(LocalProtocolError, match="no such file"):
        read_rdf(spark, f"{folder}/missing.nt")
    with pytest.raises(DataRefused, match="has no known suffix"):
        read_rdf(spark, f"{folder}/left out.txt")


def test_a_large_file_is_split_and_its_blank_nodes_are_the_same_in_all_parts(spark, tmp_path):
    path = tmp_path / "large.nt"
    path.write_text("".join(f"_:x <urn:p> <urn:{n}> .\n<urn:{n}> <urn:p> \"{n}\" .\n" for n in range(20_000)))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "200000")
    try:
        frame = read_rdf(spark, str(path))
        assert frame.rdd.getNumPartitions() > 3
        found, names = shape(frame.collect())
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert len(names) == 1
    assert found == Counter(
        [("_x>", "<urn:p>", f"<urn:{n}>", None) for n in range(20_000)]
        + [(f"<urn:{n}>", "<urn:p>", f'"{n}"', None) for n in range(20_000)]
    )


def test_files_that_appear_are_streamed_once(spark, tmp_path):
    folder = files(tmp_path / "in")
    frame = stream_rdf(spark, str(folder))
    query = (
        frame.writeStream.format("memory").queryName("appeared").option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert shape(spark.table("appeared").collect())[0] == HELD
