"""Spark sources: a subscription as a stream, a one-time query as a frame.

A stream runs in one process of the driver while the query runs; its rows go to the executors inside the
partitions of their batch. The task that reads a one-time query executes it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import ByteType, StringType, StructField, StructType, TimestampType

from p2prdf.client.client import connect
from p2prdf.errors import LocalProtocolError
from p2prdf.publish.following import BEGINNING, Follower, Row
from p2prdf.publish.read_options import BORN, MARK, SIGN, ReadOptions
from p2prdf.rdf.terms import spelled

if TYPE_CHECKING:
    from p2prdf.client.query import Result

__all__ = ["OnceReader", "StreamReader", "columns_of"]

_PLACE = "token"
"""The only field of an offset."""
_ROWS_OF_A_BATCH = 16_384


def columns_of(options: ReadOptions) -> StructType:
    """Return the columns of a read: terms as texts, null where a variable is unbound."""
    fields = [StructField(name, StringType()) for name in options.names]
    if options.sign:
        fields.append(StructField(SIGN, ByteType()))
    if options.born:
        fields.append(StructField(BORN, TimestampType()))
    if options.mark:
        fields.append(StructField(MARK, TimestampType()))
    return StructType(fields)


class _Rows(InputPartition):
    """A part of a stream's batch in Arrow's stream format, which a task reads directly."""

    def __init__(self, data: bytes):
        super().__init__(None)
        self.data = data


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A subscription as the source of a streaming query."""

    def __init__(self, options: ReadOptions):
        self._options = options
        self._follower = Follower(options)

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        """Return the first offset of a query without a checkpoint."""
        return {_PLACE: BEGINNING}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the bound on the rows of a batch."""
        return ReadMaxRows(self._options.rows_max)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        """Read on; besides the limit, the number of unacknowledged solutions bounds the rows."""
        rows_max = self._options.rows_max
        if isinstance(limit, ReadMaxRows):
            rows_max = limit.max_rows
        elif not isinstance(limit, ReadAllAvailable):
            raise LocalProtocolError(f"a limit of {type(limit).__name__} is not supported: rows are counted, not bytes")
        return {_PLACE: self._follower.advance(start[_PLACE], rows_max)}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Return the partitions of a batch, also repeatedly."""
        rows = self._follower.rows(start[_PLACE], end[_PLACE])
        if not self._options.sign and any(row.removed for row in rows):
            raise LocalProtocolError(
                "a solution that was read is retracted; with option sign = true a column shows retractions (1 and -1)"
            )
        count = min(self._options.partitions, len(rows))
        bounds = [len(rows) * at // count for at in range(count + 1)] if count else []
        mark = self._follower.mark(end[_PLACE])
        return [_Rows(_packed(rows[first:last], self._options, mark)) for first, last in itertools.pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition; called in a task."""
        assert isinstance(partition, _Rows)
        with pa.ipc.open_stream(partition.data) as batches:
            yield from batches

    def commit(self, end: dict[str, str]) -> None:
        """Acknowledge everything up to an offset."""
        if end[_PLACE] != BEGINNING:
            self._follower.done(end[_PLACE])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End the stream at a bookmark, after everything that is true now."""
        self._follower.end_now()

    def stop(self) -> None:
        """Close the connection."""
        self._follower.close()


class OnceReader(DataSourceReader):
    """The result of a one-time query."""

    def __init__(self, options: ReadOptions):
        if options.streaming:
            names = ", ".join(options.streaming)
            raise LocalProtocolError(f"option {names} applies to streams only, not to a one-time query")
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Execute the query and return its result; called in a task."""
        del partition
        rows = asyncio.run(self._ask()).rows
        for start in range(0, len(rows), _ROWS_OF_A_BATCH):
            yield _batch([Row(terms, False, 0.0) for terms in rows[start : start + _ROWS_OF_A_BATCH]], self._options)

    async def _ask(self) -> Result:
        options = self._options
        where = ",".join(options.peers)
        async with connect(where, connect_seconds=options.connect_seconds, tls=options.tls) as client:
            return await client.query(
                options.query, algorithm=options.algorithm, timeout_seconds=options.timeout_seconds
            )


def _packed(rows: list[Row], options: ReadOptions, mark: float | None) -> bytes:
    sink = pa.BufferOutputStream()
    parts = (rows[at : at + _ROWS_OF_A_BATCH] for at in range(0, len(rows), _ROWS_OF_A_BATCH))
    batches = [_batch(part, options, mark) for part in parts]
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _batch(rows: list[Row], options: ReadOptions, mark: float | None = None) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        name: pa.array([_spelled(row.terms[at]) for row in rows], pa.string()) for at, name in enumerate(options.names)
    }
    if options.sign:
        columns[SIGN] = pa.array([-1 if row.removed else 1 for row in rows], pa.int8())
    if options.born:
        born = [int(row.born * 1e6) for row in rows]
        columns[BORN] = pa.array(born, pa.timestamp("us", tz="UTC"))
    if options.mark:
        marked = None if mark is None else int(mark * 1e6)
        columns[MARK] = pa.array([marked] * len(rows), pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_pydict(columns)


def _spelled(term: str | None) -> str | None:
    return None if term is None else spelled(term)
