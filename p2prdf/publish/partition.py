"""Writing one partition of a frame: read, convert to statements, publish, count.

Each partition is written in a process of its own, by an event loop with the same life. Reading and encoding
block that loop on purpose: there is one stream of data, and acknowledgements may wait within the node's credit.
Partitions start at different nodes, so all nodes take publications; after a loss they continue at another node
(:mod:`p2prdf.client.sessions`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from p2prdf import client as p2p
from p2prdf.client import Client, Effort, Quad, TermColumns
from p2prdf.errors import DataRefused
from p2prdf.publish.identity import Identity
from p2prdf.publish.options import WriteOptions
from p2prdf.publish.statements import BadRow, Statements

__all__ = ["Place", "Written", "write_partition"]

BAD_ROWS_TOLD: Final = 3
"""Bad rows of a partition that its commit message contains; the others are counted."""
_PACED_SECONDS: Final = 0.125
"""With a rate, a frame holds the triples of this many seconds."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a job: ``query`` and ``batch`` of a stream, "" for a batch job."""

    partition: int
    attempt: int
    query: str = ""
    batch: str = ""

    @property
    def name(self) -> str:
        """Base name of the files of this partition and attempt."""
        batch = f"{self.query[:8]}-{self.batch}-" if self.query else ""
        return f"{batch}part-{self.partition:05d}-attempt-{self.attempt}"


@dataclass(slots=True)
class Written:
    """The result of a partition.

    ``rows``: rows read; ``bad_rows``: those skipped, and statements that nodes refused. ``triples``:
    acknowledged ones, including deletions; ``removed``: deletions. ``frames``: frames sent. ``repeated``:
    triples sent again because a node was busy or lost. Seconds: ``reading`` (by Spark), ``encoding``
    (statements and frames), ``waiting`` (for acknowledgements), and the total.
    """

    place: Place
    node: str = ""
    rows: int = 0
    triples: int = 0
    removed: int = 0
    frames: int = 0
    repeated: int = 0
    bad_rows: int = 0
    examples: list[str] = field(default_factory=list)
    bad_rows_file: str = ""
    reading_seconds: float = 0.0
    encoding_seconds: float = 0.0
    waiting_seconds: float = 0.0
    seconds: float = 0.0


def write_partition(batches: Iterator[Any], options: WriteOptions, identity: Identity, place: Place) -> Written:
    """Publish the record batches of a partition; return when all is acknowledged.

    Raises DataRefused for a bad row unless bad rows are skipped; Busy or Unavailable as the client does.
    """
    return asyncio.run(_Partition(batches, options, identity.of(place.partition), place).write())


class _Partition:
    def __init__(self, batches: Iterator[Any], options: WriteOptions, identity: Identity, place: Place):
        self._batches = batches
        self._options = options
        self._identity = identity
        self._written = Written(place)
        self._begun = time.perf_counter()
        self._statements: Statements | None = None
        self._bad_rows: BadRowsFile | None = None
        self._paced = 0
        """Triples sent at the limited rate so far, since :attr:`_paced_from`."""
        self._paced_from = 0.0

    async def write(self) -> Written:
        """Write the partition."""
        options, done = self._options, self._written
        effort = Effort()
        first = self._next()
        if first is not None:
            if options.skip and options.bad_rows_path:
                self._bad_rows = BadRowsFile(Path(options.bad_rows_path), done.place)
            try:
                async with await self._connect() as client:
                    done.triples = await client.publish(
                        self._source(first), publisher=self._identity.publisher, batch_triples=self._frame_triples,
                        acknowledge=options.acknowledge, busy_seconds=options.busy_seconds,
                        graph=options.graph or None, by_content=self._identity.by_content, effort=effort,
                        on_refused=self._refused if options.skip else None,
                    )  # fmt: skip
                    done.node = client.peer_address
            finally:
                if self._bad_rows is not None:
                    done.bad_rows_file = self._bad_rows.close()
        done.rows = self._statements.rows if self._statements is not None else 0
        done.frames, done.repeated = effort.frames, effort.repeated_triples
        done.encoding_seconds += effort.packing_seconds
        done.waiting_seconds = effort.waiting_seconds
        done.seconds = time.perf_counter() - self._begun
        return done

    @property
    def _frame_triples(self) -> int:
        options = self._options
        if not options.partition_rate:
            return options.batch_triples
        return max(1, min(options.batch_triples, int(options.partition_rate * _PACED_SECONDS)))

    async def _connect(self) -> Client:
        """Connect to the node that is this partition's turn, among the given and the reported ones.

        Nodes that cannot be reached are skipped; the given ones are alternatives if the chosen node fails.
        """
        options = self._options
        client = await self._open(_turned(options.peers, self._written.place.partition))
        if not options.discover:
            return client
        known = sorted({*options.peers, client.peer_address, *client.others})
        chosen = _turned(known, self._written.place.partition)
        if chosen[0] == client.peer_address:
            return client
        await client.close()
        return await self._open([chosen[0], *_turned(options.peers, self._written.place.partition)])

    async def _open(self, peers: list[str]) -> Client:
        options = self._options
        return await p2p.connect(
            ",".join(dict.fromkeys(peers)), connect_seconds=options.connect_seconds,
            timeout_seconds=options.timeout_seconds, reconnect_seconds=options.reconnect_seconds,
            tls=options.tls,
        )  # fmt: skip

    def _next(self) -> Any:
        """Return the next batch with rows, or None."""
        begun = time.perf_counter()
        try:
            return next((batch for batch in self._batches if batch.num_rows), None)
        finally:
            self._written.reading_seconds += time.perf_counter() - begun

    async def _source(self, batch: Any) -> AsyncIterator[TermColumns]:
        while batch is not None:
            begun = time.perf_counter()
            if self._statements is None:
                self._statements = Statements(batch.schema, self._options.mapping)
            found = list(self._statements.of(batch))
            self._written.encoding_seconds += time.perf_counter() - begun
            for bad in self._statements.bad:
                self._bad(bad)
            for columns in found:
                self._written.removed += len(columns) if columns.removed else 0
                async for part in self._at_rate(columns):
                    yield part
            batch = self._next()

    async def _at_rate(self, columns: TermColumns) -> AsyncIterator[TermColumns]:
        """Yield statements no faster than the configured rate."""
        rate, size = self._options.partition_rate, self._frame_triples
        if not rate:
            yield columns
            return
        self._paced_from = self._paced_from or time.monotonic()
        for start in range(0, len(columns), size):
            part = columns.part(start, min(start + size, len(columns)))
            due = self._paced_from + self._paced / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._paced += len(part)
            yield part

    def _bad(self, bad: BadRow) -> None:
        done = self._written
        if not self._options.skip:
            raise DataRefused(str(bad), source=f"partition {done.place.partition}, row {bad.row}")
        self._note(str(bad), {"row": bad.row, "reason": bad.reason, "content": bad.content})

    def _refused(self, statement: Quad, error: DataRefused) -> None:
        self._note(f"{error.reason}: {statement!r}", {"row": None, "reason": error.reason, "content": list(statement)})

    def _note(self, text: str, entry: dict[str, Any]) -> None:
        done = self._written
        done.bad_rows += 1
        if len(done.examples) < BAD_ROWS_TOLD:
            done.examples.append(text)
        if self._bad_rows is not None:
            self._bad_rows.write({"partition": done.place.partition, **entry})


class BadRowsFile:
    """The bad rows of one attempt at a partition, as JSON lines; the first bad row creates the file."""

    def __init__(self, folder: Path, place: Place):
        self._path = folder / f"{place.name}.jsonl"
        self._file: Any = None

    def write(self, entry: dict[str, Any]) -> None:
        """Append a row; values that JSON cannot represent become text."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8")
        self._file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")

    def close(self) -> str:
        """Close the file; return its path, "" if nothing was written."""
        if self._file is None:
            return ""
        self._file.close()
        return str(self._path)


def _turned(values: list[str] | tuple[str, ...], by: int) -> list[str]:
    by %= len(values)
    return [*values[by:], *values[:by]]
