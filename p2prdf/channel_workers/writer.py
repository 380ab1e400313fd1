"""Publishes notifications into the overlay, in order, in larger batches when it falls behind."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from itertools import groupby, islice
from typing import Final

from p2prdf.channels.notification_state import NotificationState, Writes
from p2prdf.errors import Busy, DataRefused, Unavailable
from p2prdf.reasoning import Triple
from p2prdf.workers.overlay import Writing

__all__ = ["Writer"]

_TRIPLES: Final = 5_000
"""Maximum number of triples in one publication."""
_WAITING_MAX: Final = 50_000
"""Evaluation pauses while so many triples wait to be published."""
_PAUSE_SECONDS: Final = 0.5
_SURE_SECONDS: Final = 0.05


class Writer:
    """The writer of one knowledge base."""

    def __init__(
        self, overlay: Writing, graph: str, notifications: NotificationState, *, holds_lease: Callable[[], bool],
        on_error: Callable[[str], None],
    ):  # fmt: skip
        """``holds_lease``: whether this worker certainly still holds its lease, so that it may write."""
        self._overlay = overlay
        self._graph = graph
        self._notifications = notifications
        self._holds_lease = holds_lease
        self._on_error = on_error
        self._waiting: deque[tuple[bool, Triple]] = deque()
        self._changed = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()
        self.refused = 0
        """Number of triples that nodes refused."""

    def write(self, writes: Writes) -> None:
        """Enqueue triples after all that are queued already."""
        self._waiting += [(False, each) for each in writes.added]
        self._waiting += [(True, each) for each in writes.removed]
        if self._waiting:
            self._written.clear()
            self._changed.set()

    async def room(self) -> None:
        """Wait until the queue has room."""
        if len(self._waiting) >= _WAITING_MAX:
            await self._written.wait()

    async def written(self) -> None:
        """Wait until the queue is empty."""
        await self._written.wait()

    async def sure(self) -> None:
        """Wait until this worker certainly holds its lease."""
        while not self._holds_lease():
            await asyncio.sleep(_SURE_SECONDS)

    async def run(self) -> None:
        """Publish and delete the queued triples until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting:
                await self._next()
            self._written.set()

    async def _next(self) -> None:
        removed, run = next(groupby(self._waiting, key=lambda each: each[0]))
        triples = [triple for _, triple in islice(run, _TRIPLES)]
        await self.sure()
        try:
            await (self._overlay.retract if removed else self._overlay.publish)(triples, graph=self._graph)
        except (Busy, Unavailable) as error:
            self._on_error(str(error))
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        except DataRefused as error:
            self._on_error(str(error))
            self.refused += len(triples)
        self._notifications.wrote(triples, time.monotonic())
        for _ in triples:
            self._waiting.popleft()
