"""A channel worker: one of any number of equal processes that evaluate the channels of an overlay.

It is a worker of a group (:mod:`p2prdf.workers.worker`).  All channels over one knowledge base are evaluated by one
channel worker, because they share facts and rules; the live workers decide which one.  A channel worker keeps no state
of its own: the next worker of a knowledge base reads the publications and the notifications from the overlay.  Two
workers that evaluate the same channels for a while do no harm: they publish the same triples, and each retracts
obsolete notifications (:mod:`p2prdf.channel_workers.base_pass`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from p2prdf.channel_workers.answers import answer
from p2prdf.channel_workers.base_pass import BasePass
from p2prdf.channel_workers.registry import REGISTRY, ChannelRegistry
from p2prdf.channels.registration import CHANNEL_WORKERS
from p2prdf.errors import LocalProtocolError
from p2prdf.workers.membership import Triple
from p2prdf.workers.overlay import Connect, Writing
from p2prdf.workers.worker import Worker, check_times, ended

__all__ = ["ChannelWorker", "ChannelWorkerConfig"]


@dataclass(frozen=True, slots=True)
class ChannelWorkerConfig:
    """Times of a channel worker, in seconds.

    ``lease_seconds``: the time after its last renewal at which a worker counts as dead, at the latest;
    ``check_seconds``: the pause between two checks of the other workers; ``settle_seconds``: how long a query that was
    skipped after a publication may wait for further publications.
    """

    lease_seconds: float = 8.0
    check_seconds: float = 2.0
    settle_seconds: float = 0.5

    def validate(self) -> None:
        """Raise LocalProtocolError for invalid times."""
        check_times(self.lease_seconds, self.check_seconds)
        if not 0 <= self.settle_seconds < float("inf"):
            raise LocalProtocolError(f"settle_seconds must be a finite number, 0 or more, not {self.settle_seconds}")


class ChannelWorker(Worker):
    """Evaluates its share of the channels until cancelled."""

    def __init__(
        self, connect: Connect, config: ChannelWorkerConfig, *,
        tell: Callable[[str, Mapping[str, object]], None] = lambda _event, _what: None,
    ):  # fmt: skip
        """``tell`` is called with events."""
        config.validate()
        super().__init__(
            connect, CHANNEL_WORKERS, REGISTRY, lease_seconds=config.lease_seconds,
            check_seconds=config.check_seconds, tell=tell,
        )  # fmt: skip
        self.config = config
        self.passes: dict[str, BasePass] = {}
        """The evaluated knowledge bases, by IRI."""
        self.refused: dict[str, str] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def _new_registry(self) -> ChannelRegistry:
        self.registry = ChannelRegistry()
        return self.registry

    def _properties(self) -> Mapping[str, object]:
        return {}

    async def _answer(self, overlay: Writing, request: Triple) -> None:
        await answer(self, overlay, request)

    async def _stop_work(self) -> None:
        await asyncio.gather(*(self._stop(base) for base in list(self.passes)))

    async def _lease_expired(self) -> None:
        await self._stop_work()  # queued writes are out of date

    async def _share(self, overlay: Writing) -> None:
        # In a thread, because the first reading of very many channels takes longer than a lease.
        own, self.refused = await asyncio.to_thread(self.registry.share, self.name)
        for base in [each for each in self.passes if each not in own]:
            self._tell("left", {"base": base[1:-1]})
            self._spawn(self._stop(base, dropped=base not in self.registry.bases()))
        for base, channels in own.items():
            found = self.passes.get(base)
            if found is None:
                found = self.passes[base] = BasePass(
                    overlay, base, settle_seconds=self.config.settle_seconds, holds_lease=self.holds_lease,
                    on_error=lambda text: self._tell("error", {"error": text}),
                )  # fmt: skip
                self._running[base] = asyncio.create_task(found.run())
                self._tell("took", {"base": base[1:-1]})
            found.set_wanted(channels)

    async def _stop(self, base: str, *, dropped: bool = False) -> None:
        """Stop evaluating a knowledge base.  ``dropped``: its channels were dropped, so delete their notifications."""
        found, task = self.passes.pop(base, None), self._running.pop(base, None)
        if found is None or task is None:
            return
        try:
            if dropped:
                await found.forget()
        finally:
            await ended(task)
