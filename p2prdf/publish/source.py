"""The data source ``p2prdf``: the classes that Spark calls, in several of its processes.

Planning (:meth:`P2PRDF.writer`), commit and abort run in helper processes of the driver, ``write`` in the
executors' Python workers. They exchange pickled objects and share nothing. Spark repeats a task after the loss
of an executor, may run two copies at once, and repeats a streaming batch without a recorded commit. Nothing is
rolled back: a repeated row is the same event (:mod:`p2prdf.publish.identity`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    WriterCommitMessage,
)

from p2prdf.errors import LocalProtocolError
from p2prdf.publish.identity import Identity, batch_identity, stream_identity
from p2prdf.publish.options import WriteOptions, writing_options
from p2prdf.publish.partition import Place, Written, write_partition
from p2prdf.publish.read_options import ReadOptions, reading_options
from p2prdf.publish.reading import OnceReader, StreamReader, columns_of
from p2prdf.publish.report import append_report, progress_line, summary
from p2prdf.publish.statements import Statements

__all__ = ["P2PRDF"]


class P2PRDF(DataSource):
    """RDF in and out of an overlay: ``spark.dataSource.register(P2PRDF)``, then ``format("p2prdf")``.

    docs/reference/spark.md describes the options. Planning a write raises LocalProtocolError for invalid
    options and columns.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "p2prdf"

    def schema(self) -> types.StructType:
        """Return the columns of a read: those of the query."""
        return columns_of(reading_options(self.options))

    def reader(self, schema: types.StructType) -> DataSourceReader:
        """Plan a one-time query."""
        return OnceReader(self._read(schema))

    def streamReader(self, schema: types.StructType) -> DataSourceStreamReader:  # noqa: N802
        """Plan the source of a streaming query."""
        return StreamReader(self._read(schema))

    def _read(self, schema: types.StructType) -> ReadOptions:
        options = reading_options(self.options)
        if schema != columns_of(options):
            raise LocalProtocolError(
                f"a schema is refused: the query determines the columns, {columns_of(options).simpleString()}"
            )
        return options

    def writer(self, schema: types.StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Plan a batch write."""
        if overwrite:
            raise LocalProtocolError(
                'mode "overwrite" is refused: a job must not replace the triples of other publishers; use '
                'mode("append"), and a column sign with -1 for deletions'
            )
        options = self._planned(schema)
        return _BatchWriter(options, batch_identity(options))

    def streamWriter(self, schema: types.StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Plan a streaming write; called again for each commit."""
        if overwrite:
            raise LocalProtocolError(
                'output mode "complete" is refused: a query must not replace triples of other publishers; use '
                'outputMode("append"), or "update"'
            )
        return _StreamWriter(self._planned(schema))

    def _planned(self, schema: types.StructType) -> WriteOptions:
        options = writing_options(self.options)
        Statements(pa.schema([(field.name, _arrow_type(field.dataType)) for field in schema]), options.mapping)
        return options


class _Message(WriterCommitMessage):
    """A partition's message to the driver."""

    def __init__(self, written: Written):
        self.written = written


class _BatchWriter(DataSourceArrowWriter):
    """Publishes a frame.  Made at planning and sent to every task, so all share a random publisher."""

    def __init__(self, options: WriteOptions, identity: Identity):
        self._options = options
        self._identity = identity

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task()
        place = Place(context.partitionId(), context.attemptNumber())
        return _Message(write_partition(iterator, self._options, self._identity, place))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _tell(summary(_written(messages)), self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _tell_aborted("the write", messages)


class _StreamWriter(DataSourceStreamArrowWriter):
    """Publishes the batches of a streaming query."""

    def __init__(self, options: WriteOptions):
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None, "Spark says which query it is"
        assert batch is not None, "and which batch"
        place = Place(context.partitionId(), context.attemptNumber(), query, batch)
        identity = stream_identity(self._options, query, batch)
        return _Message(write_partition(iterator, self._options, identity, place))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        parts = _written(messages)
        query = parts[0].place.query if parts else ""
        _tell(summary(parts, query=query, batch=batchId), self._options)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _tell_aborted(f"batch {batchId}", messages)


def _arrow_type(kind: types.DataType) -> Any:
    """Return the Arrow type of a column.  (Spark's own function has other arguments in each version.)"""
    match kind:
        case types.ArrayType():
            return pa.list_(_arrow_type(kind.elementType))
        case types.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case types.StringType() | types.VarcharType() | types.CharType():
            return pa.string()
    found = _ARROW_TYPES.get(type(kind))
    return pa.struct([]) if found is None else found


_ARROW_TYPES: Final[dict[type[types.DataType], Any]] = {
    types.ByteType: pa.int8(), types.ShortType: pa.int16(), types.IntegerType: pa.int32(), types.LongType: pa.int64(),
    types.FloatType: pa.float32(), types.DoubleType: pa.float64(), types.BooleanType: pa.bool_(),
    types.BinaryType: pa.binary(), types.DateType: pa.date32(), types.TimestampType: pa.timestamp("us", "UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
}  # fmt: skip
"""Other types have no datatype in RDF; all of them map to one placeholder."""


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "a partition is written by a task"
    return context


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [message.written for message in messages if isinstance(message, _Message)]


def _tell(found: dict[str, Any], options: WriteOptions) -> None:
    if options.report:
        append_report(options.report, found)
    print(progress_line(found), file=sys.stderr, flush=True)


def _tell_aborted(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = len(_written(messages))
    print(
        f"p2prdf: {what} failed when {done} of {len(messages)} partitions were done; their publications stay, "
        "and count once if they are repeated",
        file=sys.stderr, flush=True,
    )  # fmt: skip
