"""Sources of triples that may block, read concurrently with a publication.

A list has all items at once. A generator may block (on a file, a queue, ``time.sleep``), and an asynchronous
source may wait for hours. Items already yielded must be sent meanwhile, and acknowledgements must be received.
So an asynchronous source runs in its own task, and any other lazy source in its own thread. Both read ahead by
about one batch.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterable, Iterable, Iterator, Sized
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, cast

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import TripleBatch

if TYPE_CHECKING:
    from collections.abc import Collection

    from p2prdf.client.pieces import Item, Source

__all__ = ["LINGER_SECONDS", "Feed", "checked_source"]

LINGER_SECONDS: Final = 0.005
"""Default time after which an incomplete batch is sent while the source yields nothing."""
_END: Final[Any] = object()


def checked_source(source: Any) -> Any:
    """Return a source of statements; raise DataRefused for an object that is none, with the remedy.

    A text and a single triple can be iterated too, and would otherwise fail at their first character or term.
    """
    if isinstance(source, str | bytes | bytearray | PathLike):
        raise DataRefused(
            f"{source!r:.80} is a {type(source).__name__}, not statements: parse it, for example with "
            "rdflib.Graph().parse() or pyoxigraph.parse(), or publish the file with `p2prdf publish`"
        )
    if isinstance(source, tuple) and len(source) in (3, 4) and isinstance(source[0], str):
        raise DataRefused(f"{source!r:.200} is one statement: put it into a list")
    if not isinstance(source, Iterable | AsyncIterable):
        raise DataRefused(f"{source!r:.200} is no iterable of statements")
    return source


class Feed:
    """The items of one source, as they arrive.  ``ahead``: how many triples to read ahead, about.

    Call :meth:`close` in the end. Items of a sized source (list, tuple, set, graph) are available from the
    start. Raises DataRefused for an object that is no source.
    """

    def __init__(self, source: Source, *, ahead: int) -> None:
        self._source = checked_source(source)
        self._ahead = ahead
        self._items: deque[Item] = deque()
        self._triples = 0
        """Triples among the items that were read and not taken."""
        self._ended = False
        self._error: BaseException | None = None
        self._closed = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._lock = threading.Condition()
        self._hungry = False
        """The loop waits for the thread to read an item."""
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._iterator: Iterator[Item] | None = None
        """Set for a sized source only."""
        self._started = False

    async def take(self, *, patience: float | None = None) -> list[Item] | None:
        """Return the available items, at least one; None at the end of the source.

        ``patience``: return an empty list if no item arrives within so many seconds. Raises the error of the
        source, after all items before it were taken.
        """
        if not self._started:
            self._start()
        if self._iterator is not None:
            return self._next_of_sized(self._iterator)
        while True:
            with self._lock:
                if self._items or self._ended:
                    break
                self._hungry = True
                self._news.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._news.wait()
            except TimeoutError:
                return []
        with self._lock:
            items = list(self._items)
            self._items.clear()
            self._triples = 0
            self._room.set()
            self._lock.notify_all()
        if items:
            return items
        if self._error is not None:
            raise self._error
        return None

    async def close(self) -> None:
        """Stop reading; a thread that waits for its source ends when the source yields."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _start(self) -> None:
        self._started = True
        if isinstance(self._source, AsyncIterable):
            self._task = self._loop.create_task(self._read_async(self._source), name="p2prdf-source")
        elif isinstance(self._source, Sized):
            self._iterator = iter(cast("Collection[Item]", self._source))
        else:
            iterator = iter(self._source)
            read = partial(contextvars.copy_context().run, self._read_in_thread, iterator)
            threading.Thread(target=read, name="p2prdf-source", daemon=True).start()

    def _next_of_sized(self, source: Iterator[Item]) -> list[Item] | None:
        while self._triples < self._ahead and (item := next(source, _END)) is not _END:
            self._add(item)
        items = list(self._items)
        self._items.clear()
        self._triples = 0
        return items or None

    def _add(self, item: Item) -> None:
        self._items.append(item)
        self._triples += _size(item)

    # --- an asynchronous source: in a task -------------------------------------------------------

    async def _read_async(self, source: AsyncIterable[Item]) -> None:
        try:
            async for item in source:
                self._add(item)
                self._news.set()
                while self._triples >= self._ahead:
                    self._room.clear()
                    await self._room.wait()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised where items are taken
            self._error = error
        self._ended = True
        self._news.set()

    # --- another source: in a thread -------------------------------------------------------------

    def _read_in_thread(self, source: Iterable[Item]) -> None:
        error: BaseException | None = None
        try:
            for item in source:
                with self._lock:
                    self._add(item)
                    self._tell()
                    while self._triples >= self._ahead and not self._closed:
                        self._lock.wait()
                    if self._closed:
                        return
        except BaseException as raised:  # noqa: BLE001 - raised where items are taken
            error = raised
        with self._lock:
            self._error, self._ended = error, True
            self._tell()

    def _tell(self) -> None:
        """Wake the loop if it waits.  Called by the thread with the lock held."""
        if not self._hungry or self._closed:
            return
        self._hungry = False
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop was closed
            self._closed = True


def _size(item: Item) -> int:
    """Return the number of triples in an item."""
    if isinstance(item, tuple):
        return 1
    if isinstance(item, TripleBatch):
        return max(1, len(item.s))
    try:
        return max(1, len(item))
    except TypeError:
        return 1
