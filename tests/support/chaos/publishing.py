"""Publishers with streams that survive their node, and the ledger of attempts and acknowledgements.

A publisher sends its publications through one connection, many under way.  When that breaks it connects to
another node and repeats the unacknowledged ones under the same event numbers; now and then it *gives up*
instead, as a publisher that dies: such a publication was attempted and may or may not appear.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import p2prdf
from chaos.queries import Triple
from p2prdf.client import Progress
from p2prdf.errors import Busy, P2PRDFError, Unavailable
from p2prdf.rdf.ntriples import TripleBatch

__all__ = ["Attempt", "Publication", "Publisher", "Source"]

CONNECT_SECONDS: Final = 2.0
SILENCE_SECONDS: Final = 15.0
"""Seconds without an acknowledgement after which a node is given up; publications go to another."""
AGAIN_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to publish: its node, and its time (monotonic seconds)."""

    node: str
    called_at: float


@dataclass(slots=True, eq=False)
class Publication:
    """Triples published at once.  ``due``: planned time; ``acknowledged_at``: 0 without an acknowledgement."""

    triples: Sequence[Triple]
    due: float
    publisher: int = 0
    first_event: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    acknowledged_at: float = 0.0


Source = Callable[[], Awaitable[Publication | None]]
"""A function that returns the next publication when it is due, None at the end."""


class Publisher:
    """One stream.

    ``give_up``: the share of broken connections after which publications under way are given up.
    ``reconnect_seconds``: how long the client library may look for another node by itself; 0: that is done here.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        source: Source,
        rng: random.Random,
        *,
        give_up: float = 0.0,
        reconnect_seconds: float = 0.0,
    ):
        self.publications: list[Publication] = []
        """All attempts."""
        self.failures: Counter[str] = Counter()
        """Connections and publications that failed, by code; all but ``refused`` were tried again."""
        self.number = rng.getrandbits(64)
        self._addresses = list(addresses)
        self._source = source
        self._rng = rng
        self._give_up = give_up
        self._reconnect_seconds = reconnect_seconds
        self._next_event = 0
        self._pending: deque[Publication] = deque()
        self._done = 0
        self._ended = False

    @property
    def unfinished(self) -> int:
        """The number of publications under way."""
        return len(self._pending)

    async def run(self) -> None:
        """Publish until the source has ended and everything is acknowledged or given up."""
        while not (self._ended and not self._pending):
            self._rng.shuffle(self._addresses)
            connecting = p2prdf.connect(
                ",".join(self._addresses), connect_seconds=CONNECT_SECONDS, timeout_seconds=SILENCE_SECONDS,
                reconnect_seconds=self._reconnect_seconds,
            )
            try:
                async with connecting as client:
                    await self._publish(client)
            except (Unavailable, Busy) as error:
                self.failures[error.code] += 1
                if self._pending and self._rng.random() < self._give_up:
                    self._pending.clear()
                await asyncio.sleep(AGAIN_SECONDS)
            except P2PRDFError as error:
                self.failures[f"refused: {error.code}: {error}"] += 1
                self._pending.clear()

    async def _publish(self, client: p2prdf.client.Client) -> None:
        first = self._pending[0].first_event if self._pending else self._next_event
        self._done = 0
        await client.publish(
            self._feed(client.peer_address), publisher=self.number, first_event=first, batch_triples=1 << 16,
            on_progress=self._progress,
        )  # fmt: skip

    async def _feed(self, node: str) -> AsyncIterator[TripleBatch]:
        for publication in list(self._pending):
            yield self._attempt(publication, node)
        while not self._ended:
            fresh = await self._source()
            if fresh is None:
                self._ended = True
                return
            fresh.publisher, fresh.first_event = self.number, self._next_event
            self._next_event += len(fresh.triples)
            self._pending.append(fresh)
            self.publications.append(fresh)
            yield self._attempt(fresh, node)

    @staticmethod
    def _attempt(publication: Publication, node: str) -> TripleBatch:
        publication.attempts.append(Attempt(node, time.monotonic()))
        s, p, o = (list(column) for column in zip(*publication.triples, strict=True))
        return TripleBatch(s, p, o, 0, 0)

    def _progress(self, progress: Progress) -> None:
        now = time.monotonic()
        while self._done < progress.triples:
            publication = self._pending.popleft()
            publication.acknowledged_at = now
            self._done += len(publication.triples)
