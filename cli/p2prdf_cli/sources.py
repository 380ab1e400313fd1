"""Inputs of ``p2prdf publish``: files and standard input, parsed in a separate thread.

The thread reads and parses into a bounded queue, so that a slow pipe or disk never delays acknowledgements, and
Ctrl-C works at once: the thread is a daemon and holds no lock while it waits (standard input is read by its
descriptor).

Lines from a pipe are parsed as soon as they arrive, not when a chunk is full: a stream with one triple per minute is
published at that pace.

An error in the data ends the stream *after* all preceding batches.  :attr:`Feeder.error` holds it, and the caller
raises it after their publication.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final

from p2prdf.errors import P2PRDFError
from p2prdf.rdf.lines import is_compressed
from p2prdf.rdf.ntriples import BadLine, Syntax, TripleBatch, detect, read_triples
from p2prdf.rdf.remote_contexts import Contexts
from p2prdf.rdf.timed_lines import read_timed

__all__ = ["Feeder", "Input", "choose_input"]

STDIN: Final = "-"
QUEUED_BATCHES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Input:
    """One input; ``path`` is None for standard input.  ``timed``: its lines have event times."""

    name: str
    path: Path | None
    syntax: Syntax
    compressed: bool
    timed: bool = False

    @property
    def live(self) -> bool:
        """Whether lines or frames are parsed as they arrive: from standard input, a named pipe or a device."""
        if self.compressed or not self.syntax.as_it_arrives:
            return False
        return self.path is None or (self.path.exists() and not self.path.is_file())


def choose_input(name: str, syntax: str | None, *, timed: bool = False) -> Input:
    """Return the input of a file or ``-``.  Raises DataRefused if neither name nor ``syntax`` determines the format.

    ``timed``: lines hold a time and a statement, regardless of the name.
    """
    if timed:
        path = None if name == STDIN else Path(name)
        compressed = path is not None and is_compressed(name)
        return Input("standard input" if path is None else name, path, Syntax.N_TRIPLES, compressed, timed=True)
    chosen = Syntax(syntax) if syntax is not None else None
    if name == STDIN:
        return Input("standard input", None, chosen or Syntax.N_TRIPLES, compressed=False)
    if chosen is not None:
        return Input(name, Path(name), chosen, compressed=is_compressed(name))
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
        contexts: Contexts | None = None,
    ):
        self.source = source
        self.position = 0
        self.bad_lines = 0
        self.error: Exception | None = None
        self._publication_id = publication_id
        self._strict = strict
        self._skip = skip
        self._base = base
        self._contexts = contexts
        self._on_bad_line = on_bad_line
        self._stopped = False

    async def __aiter__(self) -> AsyncIterator[TripleBatch]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[TripleBatch | None] = asyncio.Queue(QUEUED_BATCHES_MAX)

        def put(item: TripleBatch | None) -> None:
            """Wait for room in the queue; called by the thread, possibly after the event loop has ended."""
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
        except (P2PRDFError, OSError) as error:
            self.error = error
        put(None)

    def _batches(self) -> Iterator[TripleBatch]:
        if self.source.path is None:
            with os.fdopen(os.dup(0), "rb", buffering=0) as raw:
                yield from self._read(raw, live=self.source.live)
        elif self.source.live:
            with self.source.path.open("rb", buffering=0) as raw:
                yield from self._read(raw, live=True)
        else:
            with self.source.path.open("rb") as stream:
                for batch in self._read(stream):
                    self.position = stream.tell()
                    yield batch

    def _read(self, stream: IO[bytes], *, live: bool = False) -> Iterator[TripleBatch]:
        def bad_line(bad: BadLine) -> None:
            self.bad_lines += 1
            self._on_bad_line(bad)

        of_syntax = partial(read_triples, syntax=self.source.syntax, base=self._base, contexts=self._contexts)
        read: Callable[..., Iterator[TripleBatch]] = read_timed if self.source.timed else of_syntax
        yield from read(
            stream,
            publication_id=self._publication_id,
            compressed=self.source.compressed,
            source=self.source.name,
            strict=self._strict,
            skip=self._skip,
            on_bad_line=bad_line,
            live=live,
        )
