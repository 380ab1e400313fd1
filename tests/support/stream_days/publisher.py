"""A publisher of elements in such a schedule: it announces its progress, closes, and perhaps comes back."""

from __future__ import annotations

import math
from random import Random
from typing import Final

from p2prdf import keys
from p2prdf.sim.world import Node
from p2prdf.wire import contract
from schedules.failures.clients import Publisher
from schedules.failures.world import FailingWorld

__all__ = ["EPOCH_MS", "NODES", "PREDICATES", "STREAMS", "StreamPublisher"]

EPOCH_MS: Final = 1_091_944_800_000
STEP_MS_MIN: Final = 200
"""By which the next elements of a publisher are younger than the last, before some of them are late."""
STREAMS: Final = ("<urn:s1>", "<urn:s2>")
NODES: Final = tuple(f"<urn:n{number}>" for number in range(4))
PREDICATES: Final = ("<urn:p>", "<urn:q>")
SILENT_MS: Final = 60_000
"""Milliseconds promised ahead in the end, and possibly at closing; a publisher that comes back is as far behind."""
END_PATIENCE_SECONDS: Final = 8.0
"""How long it is waited for that an end is kept, before another peer is asked."""


class StreamPublisher(Publisher):
    """A publisher of elements, which says how far it is."""

    def __init__(self, world: FailingWorld, name: str, random: Random, *, late_ms: int, scale: int):
        super().__init__(world, name, random)
        self._late_ms = late_ms * scale
        self._scale = scale
        self._clock_ms = EPOCH_MS
        self._done = False
        self._opening = 1
        self._closing_ms: int | None = None
        """The promise of its end."""
        self._kept: set[str] = set()
        """Streams with an acknowledged end."""
        self._beats = False

    # --- elements --------------------------------------------------------------------------------

    def emit(self) -> None:
        """Publish a few elements, none of them as late as was promised not to come."""
        rng = self._random
        self._clock_ms += rng.choice((STEP_MS_MIN, 1000, 2500)) * self._scale
        count, stream = rng.choice((1, 1, 2, 4)), rng.choice(STREAMS)
        times = [max(EPOCH_MS, self._clock_ms - rng.randrange(self._late_ms)) for _ in range(count)]
        quads = [(rng.choice(NODES), rng.choice(PREDICATES), rng.choice(NODES), stream) for _ in range(count)]
        self.publish(0.0, quads, times=times)

    def upto(self, stream: str) -> int:
        """Return up to when all is acknowledged that was, or will be, published."""
        last = math.inf if self._done else self._next_ms
        for publishing in self.published:
            if publishing.triples[0][3] == stream and publishing.open:
                last = min(last, *publishing.times)
        farthest = self._clock_ms + SILENT_MS * self._scale if self._closing_ms is None else self._closing_ms + 1
        return max(EPOCH_MS, int(min(last, farthest)) - 1)

    @property
    def _next_ms(self) -> int:
        """The earliest time of an element that is not published yet, if any will be."""
        return self._clock_ms + STEP_MS_MIN * self._scale - self._late_ms

    @property
    def furthest_ms(self) -> int:
        """The latest time it has said anything of."""
        return max(self._clock_ms, self._closing_ms or 0)

    def finish(self) -> None:
        """Publish nothing more."""
        self._done = True

    # --- how far it is ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Say how far it is from now on."""
        if not self._beats:
            self._beats = True
            self._heartbeat()

    def _heartbeat(self) -> None:
        """Announce its progress at a live peer, and again in a moment."""
        living = self._world.living()
        if living:
            node = self._random.choice(living)
            for stream in STREAMS:
                if stream not in self._kept:
                    said = contract.Heartbeat(
                        keys.term_hash(stream), self.identity, EPOCH_MS, self.upto(stream), self._opening
                    )
                    self._world.submit(node, said)
        self._world.schedule(self._random.choice((0.1, 1.0)), self._heartbeat)

    # --- closing ---------------------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        """Whether it closes, or has."""
        return self._closing_ms is not None

    @property
    def closed(self) -> bool:
        """Whether it knows that its ends are kept."""
        return len(self._kept) == len(STREAMS)

    def close(self, ahead_ms: int) -> None:
        """Close when all is acknowledged, with a promise from the last element or the last heartbeat on."""
        self._done = True
        self._closing_ms = max(self._clock_ms, self._next_ms - 1) + ahead_ms * self._scale
        self._close_soon()

    def _close_soon(self) -> None:
        if any(each.open for each in self.published):
            self._later(0.5, self._close_soon)
            return
        for stream in STREAMS:
            self._end(stream, self._opening)

    def _end(self, stream: str, opening: int) -> None:
        """Ask some peer to keep the end of a stream, until one says so."""
        if opening != self._opening or stream in self._kept:
            return
        node = self._elsewhere()
        if node is not None:
            hashed, upto = keys.term_hash(stream), self.upto(stream)
            self._world.request(
                node,
                lambda number: contract.EndStream(number, hashed, self.identity, EPOCH_MS, upto, opening),
                _Ending(self, stream, opening),
            )
        self._world.schedule(END_PATIENCE_SECONDS, self._end, stream, opening)

    def ended(self, stream: str, opening: int, outcome: contract.Outcome | None) -> None:
        """Take the outcome of an end; None: it is unknown."""
        if isinstance(outcome, contract.StreamEnded):
            if opening == self._opening:
                self._kept.add(stream)
                self._world.happened["end"] += 1
        else:
            self._later(0.5, self._end, stream, opening)

    def reopen(self, after_ms: int, *, another: bool) -> None:
        """Come back with elements later than a time, perhaps as another publisher."""
        assert self.closed
        self._world.happened["reopening"] += 1
        self._opening += 1
        if another:
            self.identity = keys.fmix(self.identity)
        self._closing_ms, self._done = None, False
        self._kept.clear()
        self._clock_ms = after_ms + SILENT_MS * self._scale + self._late_ms


class _Ending:
    """One request to keep an end."""

    def __init__(self, publisher: StreamPublisher, stream: str, opening: int):
        self._publisher, self._stream, self._opening = publisher, stream, opening

    def completed(self, _: Node, __: int, outcome: contract.Outcome) -> None:
        self._publisher.ended(self._stream, self._opening, outcome)

    def cut_off(self, _: Node) -> None:
        self._publisher.ended(self._stream, self._opening, None)
