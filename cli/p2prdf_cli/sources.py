"""Where ``p2prdf publish`` reads from: files and standard input, parsed in a thread of their own.

A thread reads and parses into a bounded queue, so that a slow pipe or a slow disk never keeps
acknowledgements from coming in, and Ctrl-C works at once: the thread is a daemon and owns no lock
when it waits (standard input is read by its descriptor).

Lines from a pipe are parsed as soon as they are there, not when a chunk is full: a stream that says
one triple a minute is published one triple a minute.

An error of the data ends the stream *after* everything before it; it is kept in :attr:`Feeder.error`
for the caller to raise once that has been published.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import BadLine, Syntax, TripleBatch, detect, read_triples
from p2prdf.rdf.timed_lines import read_timed

__all__ = ["Feeder", "Input", "choose_input"]

STDIN: Final = "-"
QUEUED_BATCHES_MAX: Final = 16
PIPE_BYTES: Final = 1 << 18
LINE_BYTES_MAX: Final = 16 << 20
"""A line from a pipe that is longer is handed on in pieces, for the parser to refuse."""


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to publish; ``path`` is None for standard input.  ``timed``: of lines with event times."""

    name: str
    path: Path | None
    syntax: Syntax
    compressed: bool
    timed: bool = False

    @property
    def live(self) -> bool:
        """Whether lines are to be parsed as they come."""
        return self.path is None and not self.compressed and self.syntax.by_lines


def choose_input(name: str, syntax: str | None, *, timed: bool = False) -> Input:
    """Return how to read a file or ``-``.  Raises DataRefused if neither name nor ``syntax`` tells.

    ``timed``: lines of a time and a statement, whatever the name is.
    """
    if timed:
        path = None if name == STDIN else Path(name)
        compressed = path is not None and name.lower().endswith(".gz")
        return Input("standard input" if path is None else name, path, Syntax.N_TRIPLES, compressed, timed=True)
    chosen = Syntax(syntax) if syntax is not None else None
    if name == STDIN:
        return Input("standard input", None, chosen or Syntax.N_TRIPLES, compressed=False)
    if chosen is not None:
        return Input(name, Path(name), chosen, compressed=name.lower().endswith(".gz"))
    return Input(name, Path(name), *detect(name))


class Feeder:
    """Batches of one input, read ahead by a thread; ``async for batch in feeder``.

    ``position``: bytes of the file read so far.  ``bad_lines``: lines skipped so far.
    """

    def __init__(
        self,
        source: Input,
        *,
        publication_id: str,
        strict: bool,
        skip: int,
        base: str | None,
        on_bad_line: Callable[[BadLine], None],
    ):
        self.source = source
        self.position = 0
        self.bad_lines = 0
        self.error: Exception | None = None
        self._publication_id = publication_id
        self._strict = strict
        self._skip = skip
        self._base = base
        self._on_bad_line = on_bad_line
        self._stopped = False

    async def __aiter__(self) -> AsyncIterator[TripleBatch]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[TripleBatch | None] = asyncio.Queue(QUEUED_BATCHES_MAX)

        def put(item: TripleBatch | None) -> None:
            """Called by the thread: wait for room; the loop may be gone by then."""
            try:
                asyncio.run_coroutine_threadsafe(queue.put(item), loop).result()
            except RuntimeError:
                self._stopped = True

        thread = threading.Thread(target=self._work, args=(put,), name="reader", daemon=True)
        thread.start()
        try:
            while (batch := await queue.get()) is not None:
                yield batch
        finally:
            self._stopped = True

    def _work(self, put: Callable[[TripleBatch | None], None]) -> None:
        try:
            for batch in self._batches():
                put(batch)
                if self._stopped:
                    return
        except (DataRefused, OSError) as error:
            self.error = error
        put(None)

    def _batches(self) -> Iterator[TripleBatch]:
        if self.source.live:
            yield from self._live_batches()
        elif self.source.path is None:
            with os.fdopen(os.dup(0), "rb", buffering=0) as raw:
                yield from self._read(raw, self._skip)
        else:
            with self.source.path.open("rb") as stream:
                for batch in self._read(stream, self._skip):
                    self.position = stream.tell()
                    yield batch

    def _read(self, stream: IO[bytes], skip: int, first_line: int = 1) -> Iterator[TripleBatch]:
        def bad_line(bad: BadLine) -> None:
            self.bad_lines += 1
            self._on_bad_line(BadLine(bad.line + first_line - 1, bad.reason))

        of_syntax = partial(read_triples, syntax=self.source.syntax, base=self._base)
        read: Callable[..., Iterator[TripleBatch]] = read_timed if self.source.timed else of_syntax
        try:
            yield from read(
                stream,
                publication_id=self._publication_id,
                compressed=self.source.compressed,
                source=self.source.name,
                strict=self._strict,
                skip=skip,
                on_bad_line=bad_line,
            )
        except DataRefused as error:
            line = None if error.line is None else error.line + first_line - 1
            raise DataRefused(error.reason, source=error.source, line=line) from None

    def _live_batches(self) -> Iterator[TripleBatch]:
        """Parse whole lines of standard input as soon as they are there."""
        done, line = 0, 1
        for chunk in _live_lines():
            before = done
            for batch in self._read(io.BytesIO(chunk), 0, line):
                done = before + batch.statements_done
                yield dataclasses.replace(batch, statements_done=done, line=line + batch.line - 1)
            line += chunk.count(b"\n")


def _live_lines() -> Iterator[bytes]:
    rest: list[bytes] = []
    size = 0
    while piece := os.read(0, PIPE_BYTES):
        cut = piece.rfind(b"\n") + 1
        if cut or size > LINE_BYTES_MAX:
            cut = cut or len(piece)
            yield b"".join((*rest, piece[:cut]))
            rest, size = [piece[cut:]], len(piece) - cut
        else:
            rest.append(piece)
            size += len(piece)
    if any(rest):
        yield b"".join(rest)
