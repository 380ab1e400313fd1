"""A driver of its own: ``python -m spark_check.driver KIND ...`` publishes a folder of files, or reads answers."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from p2prdf.publish import read_rdf, read_report, session, stream_rdf


def main() -> None:
    """Publish as a batch, as a stream, or several times to measure the rate; or read."""
    parser = argparse.ArgumentParser("spark_check.driver")
    parser.add_argument("kind", choices=("batch", "stream", "rate", "read"))
    parser.add_argument("--input", default="")
    parser.add_argument("--master", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--report", default="")
    parser.add_argument("--query", default="")
    parser.add_argument("--output", default="")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--partition-rate", default="0")
    parser.add_argument("--rounds", type=int, default=4)
    chosen = parser.parse_args()
    spark = session(master=chosen.master, settings={"spark.log.level": "OFF", "spark.driver.memory": "1g"})
    options = {"peers": chosen.peers, "report": chosen.report, "partitionRate": chosen.partition_rate}
    if chosen.kind == "stream":
        stream = stream_rdf(spark, chosen.input, files_per_batch=2)
        writer = stream.writeStream.format("p2prdf").options(**options, checkpointLocation=chosen.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    elif chosen.kind == "read":
        _read(spark, chosen)
    elif chosen.kind == "batch":
        frame = read_rdf(spark, chosen.input).repartition(8, "s")
        frame.write.format("p2prdf").mode("append").options(**options).save()
    else:
        _rate(spark, chosen, options)
    spark.stop()


def _read(spark, chosen) -> None:
    """Write the answers to a query as files, until killed or, with ``--once``, as far as there are any."""
    given = {"peers": chosen.peers, "query": chosen.query, "maxRowsPerBatch": "500", "leaseSeconds": "600"}
    answers = spark.readStream.format("p2prdf").options(**given).load()
    writer = answers.writeStream.format("json").option("checkpointLocation", chosen.checkpoint)
    when = {"availableNow": True} if chosen.once else {"processingTime": "200 milliseconds"}
    writer.trigger(**when).start(chosen.output).awaitTermination()


def _rate(spark, chosen, options) -> None:
    """Print the time of each round with the same rows, read from a columnar file and from lines."""
    columns = str(Path(chosen.input).with_name("columns"))
    read_rdf(spark, chosen.input).drop("graph").repartition(2).write.parquet(columns)
    for source, frame in (("columns", spark.read.parquet(columns)), ("lines", read_rdf(spark, chosen.input))):
        for _ in range(chosen.rounds):
            begun = time.monotonic()
            frame.write.format("p2prdf").mode("append").options(**options).save()
            seconds = time.monotonic() - begun
            print(json.dumps({"source": source, "seconds": seconds, **read_report(chosen.report)[-1]}), flush=True)


if __name__ == "__main__":
    main()
