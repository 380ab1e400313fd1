"""Trees of ``isIn`` triples that stream through a window: the workload of the stream-reasoning paper (ESWC 2010, 5).

Trees of one depth and fan-out form a pool.  A share of the pool is background and always present; of the rest, a window
is present at any time.  In each step, triples from outside the window enter, and as many leave: most of them expire,
oldest first, and a share, at random places, is retracted early.  The only rule: ``isIn`` is transitive.

Terms are numbered in order of first appearance, as by a dictionary of terms, so neighbours in a tree need not be
neighbours in memory.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning import FOREVER, Atom, Fact, Rule

__all__ = ["IS_IN", "TRANSITIVE", "IsInStream", "Step", "StreamShape"]

IS_IN: Final = "<urn:p2prdf:isIn>"
TRANSITIVE: Final = Rule(Atom("?x", IS_IN, "?z"), (Atom("?x", IS_IN, "?y"), Atom("?y", IS_IN, "?z")), "transitive")
_PREDICATE: Final = 0
"""The number of the only predicate; :meth:`IsInStream.intern` returns it."""


@dataclass(frozen=True, slots=True)
class StreamShape:
    """Sizes of a stream: ``pool`` in windows, ``background`` as a share of the pool, ``taken_back`` of leaving triples.

    ``parents``: parents of each node; 1 gives trees, in which every fact has one derivation.
    """

    window: int = 10_000
    depth: int = 8
    fan_out: int = 2
    pool: float = 1.6
    background: float = 0.0
    taken_back: float = 0.1
    parents: int = 1

    def validate(self) -> None:
        """Raise LocalProtocolError for an invalid shape."""
        for name, least, most in (
            ("window", 100, 10_000_000), ("depth", 1, 30), ("fan_out", 1, 1000), ("parents", 1, self.fan_out),
        ):  # fmt: skip
            size = getattr(self, name)
            if not least <= size <= most:
                raise LocalProtocolError(f"{name}: {size} is not between {least:,} and {most:,}")
        for name in ("background", "taken_back"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                raise LocalProtocolError(f"{name}: {share} is not at least 0 and below 1")
        if not 1.5 <= self.pool * (1 - self.background) <= 100:
            raise LocalProtocolError(f"pool: {self.pool} windows less background are not 1.5 to 100 windows")


@dataclass(frozen=True, slots=True)
class Step:
    """The facts that enter and leave at one time."""

    now: int
    given: dict[Fact, int]
    taken_back: list[Fact]


class IsInStream:
    """A stream of one shape, in which ``entering`` triples enter per step; the first step fills the window."""

    def __init__(self, shape: StreamShape, entering: int, seed: int):
        """``entering``: at most half of a window."""
        self._shape, self._entering = shape, entering
        self._rng = random.Random(seed)
        edges = self._edges(round(shape.window * shape.pool))
        self._rng.shuffle(edges)
        numbers: dict[tuple[int, ...], int] = {}
        pool = [
            (numbers.setdefault(s, len(numbers) + 1), _PREDICATE, numbers.setdefault(o, len(numbers) + 1))
            for s, o in edges
        ]
        background = round(len(pool) * shape.background)
        self._background, self._outside = pool[:background], pool[background:]

    @staticmethod
    def intern(term: str) -> int:
        """Return the number of the only term in the rule."""
        assert term == IS_IN, term
        return _PREDICATE

    def steps(self) -> Iterator[Step]:
        """Yield the step that fills the window, then further steps without end."""
        spans = max(1, self._shape.window // self._entering)
        back = round(self._entering * self._shape.taken_back)
        inside: deque[list[Fact]] = deque()
        given = dict.fromkeys(self._background, FOREVER)
        for now in range(spans):
            inside.append(self._enter())
            given |= dict.fromkeys(inside[-1], now + spans - 1)
        now = spans - 1
        yield Step(now, given, [])
        while True:
            now += 1
            arrivals = self._enter()  # before others leave, so a leaving triple does not return at once
            self._outside += inside.popleft()
            taken_back = [self._drawn(self._rng.choice(inside)) for _ in range(back)]
            self._outside += taken_back
            yield Step(now, dict.fromkeys(arrivals, now + spans - 1), taken_back)
            inside.append(arrivals)

    def _enter(self) -> list[Fact]:
        return [self._drawn(self._outside) for _ in range(self._entering)]

    def _drawn(self, facts: list[Fact]) -> Fact:
        """Remove and return a random fact."""
        at = self._rng.randrange(len(facts))
        facts[at], facts[-1] = facts[-1], facts[at]
        return facts.pop()

    def _edges(self, count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return ``count`` edges of trees, child and parent, tree by tree; the last tree may be incomplete."""
        edges: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        root = 0
        while len(edges) < count:
            level: list[tuple[int, ...]] = [(root,)]
            for _ in range(self._shape.depth):
                level = [(*node, child) for node in level for child in range(self._shape.fan_out)]
                edges += [(node, parent) for node in level for parent in self._parents(node)]
                if len(edges) >= count:
                    break
            root += 1
        return edges[:count]

    def _parents(self, node: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return a node's parents: its own and, below a root, siblings of that one."""
        parent, fan_out = node[:-1], self._shape.fan_out
        if len(parent) == 1:
            return [parent]
        *above, place = parent
        return [(*above, (place + step) % fan_out) for step in range(self._shape.parents)]
