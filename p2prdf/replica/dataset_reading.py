"""A standing query for a dataset's candidates, processed bookmark by bookmark."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import P2PRDFError, Unavailable
from p2prdf.interest import Triple
from p2prdf.interest.registration import Registration
from p2prdf.workers.overlay import Subscription

__all__ = ["Reading", "Step"]

_TRIPLES_MAX: Final = 10_000_000
"""Bound on the candidates of one dataset."""
_GOODBYE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """The changes up to a bookmark, or the error that ended the query."""

    reading: Reading
    change: Counter[Triple]
    as_of: float
    error: P2PRDFError | None = None


class Reading:
    """A standing query, and its results up to the last processed bookmark."""

    def __init__(
        self, left: Subscription, wanted: Mapping[str, Registration], steps: asyncio.Queue[Step | None], *,
        on_read: Callable[[int], None],
    ):  # fmt: skip
        """``wanted``: the interests that it serves; ``on_read`` is called with numbers of solutions."""
        self.wanted = wanted
        self.state: Counter[Triple] = Counter()
        """All candidates; kept only until the engine has them."""
        self._left = left
        self._steps = steps
        self._on_read = on_read
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        change: Counter[Triple] = Counter()
        try:
            async for batch in self._left.batches():
                if batch.lost:
                    raise Unavailable(f"the coordinator dropped {batch.lost} solutions")
                self._on_read(len(batch))
                for solution in batch:
                    change[solution.terms] += -1 if solution.removed else 1
                if len(change) > _TRIPLES_MAX:
                    raise Unavailable(f"more than {_TRIPLES_MAX:,} triples change at once")
                if batch.bookmark is not None and batch.bookmark > self._left.opened:
                    await self._steps.put(Step(self, change, batch.bookmark))
                    change = Counter()
            error: P2PRDFError = Unavailable("the query of the dataset ended")
        except P2PRDFError as raised:
            error = raised
        await self._steps.put(Step(self, Counter(), 0, error))

    async def end(self) -> None:
        """Stop reading, and end the query."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        with contextlib.suppress(P2PRDFError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._left.unsubscribe()
