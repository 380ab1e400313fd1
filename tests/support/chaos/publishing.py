"""Publishers: streams of pieces that survive their node, and the ledger of what was attempted and acknowledged.

A publisher sends its pieces through one connection, many under way.  When that breaks it connects to another node and
repeats what is not acknowledged under the same event numbers; now and then it *gives up* instead, as a publisher that
dies: such a piece was attempted and may or may not appear.
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

__all__ = ["Attempt", "Piece", "Publisher"]

CONNECT_SECONDS: Final = 2.0
SILENCE_SECONDS: Final = 15.0
"""A node that does not acknowledge for so long is given up; pieces go to another."""
AGAIN_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to publish a piece: at which node, and when (monotonic seconds)."""

    node: str
    called_at: float


@dataclass(slots=True, eq=False)
class Piece:
    """Triples published at once.  ``due``: when that was to happen; ``acknowledged_at``: 0 if it never was."""

    triples: Sequence[Triple]
    due: float
    publisher: int = 0
    first_event: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    acknowledged_at: float = 0.0


class Publisher:
    """One stream.  ``source`` returns the next piece when it is due, None at the end.

    ``give_up``: the share of broken connections after which pieces under way are given up.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        source: Callable[[], Awaitable[Piece | None]],
        rng: random.Random,
        *,
        give_up: float = 0.0,
    ):
        self.pieces: list[Piece] = []
        """Everything that was attempted."""
        self.failures: Counter[str] = Counter()
        """Connections and publications that failed, by code; all but ``refused`` were tried again."""
        self.number = rng.getrandbits(64)
        self._addresses = list(addresses)
        self._source = source
        self._rng = rng
        self._give_up = give_up
        self._next_event = 0
        self._pending: deque[Piece] = deque()
        self._done = 0
        self._ended = False

    @property
    def unfinished(self) -> int:
        """Publications that are under way."""
        return len(self._pending)

    async def run(self) -> None:
        """Publish until the source has ended and everything is acknowledged or given up."""
        while not (self._ended and not self._pending):
            self._rng.shuffle(self._addresses)
            connecting = p2prdf.connect(
                ",".join(self._addresses), connect_seconds=CONNECT_SECONDS, timeout_seconds=SILENCE_SECONDS
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
        for piece in list(self._pending):
            yield self._attempt(piece, node)
        while not self._ended:
            piece = await self._source()
            if piece is None:
                self._ended = True
                return
            piece.publisher, piece.first_event = self.number, self._next_event
            self._next_event += len(piece.triples)
            self._pending.append(piece)
            self.pieces.append(piece)
            yield self._attempt(piece, node)

    @staticmethod
    def _attempt(piece: Piece, node: str) -> TripleBatch:
        piece.attempts.append(Attempt(node, time.monotonic()))
        s, p, o = (list(column) for column in zip(*piece.triples, strict=True))
        return TripleBatch(s, p, o, 0, 0)

    def _progress(self, progress: Progress) -> None:
        now = time.monotonic()
        while self._done < progress.triples:
            piece = self._pending.popleft()
            piece.acknowledged_at = now
            self._done += len(piece.triples)
