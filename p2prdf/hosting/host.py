"""A host: one of any number of equal processes that evaluate the channels that are registered in an overlay.

A member of a group (:mod:`p2prdf.presence.member`).  The channels over one knowledge base are at one host, as they
share its facts and rules; whose a knowledge base is follows from the hosts that live.  Nothing is kept here: who takes
a knowledge base over reads what was published and what was told.  That two evaluate the same for a while is harmless:
they write the same triples, and each retracts what does not hold (:mod:`p2prdf.hosting.base_pass`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from p2prdf.channels.registration import HOSTS
from p2prdf.errors import LocalProtocolError
from p2prdf.hosting.answers import answer
from p2prdf.hosting.base_pass import BasePass
from p2prdf.hosting.registry import REGISTRY, ChannelRegistry
from p2prdf.presence.member import Member, check_times, ended
from p2prdf.presence.overlay import Connect, Writing
from p2prdf.presence.roll import Triple

__all__ = ["Host", "HostConfig"]


@dataclass(frozen=True, slots=True)
class HostConfig:
    """``lease_seconds``: so long after its last sign of life a host is taken for gone, at the latest.

    ``check_seconds``: how often others are looked at; ``settle_seconds``: how long a query that was left out after a
    publication may wait for others.
    """

    lease_seconds: float = 8.0
    check_seconds: float = 2.0
    settle_seconds: float = 0.5

    def validate(self) -> None:
        """Raise LocalProtocolError for times that are none."""
        check_times(HOSTS, self.lease_seconds, self.check_seconds)
        if not 0 <= self.settle_seconds < float("inf"):
            raise LocalProtocolError(f"a query cannot wait {self.settle_seconds} seconds")


class Host(Member):
    """Evaluates what is its own until cancelled."""

    def __init__(
        self, connect: Connect, config: HostConfig, *,
        tell: Callable[[str, Mapping[str, object]], None] = lambda _event, _what: None,
    ):  # fmt: skip
        """``tell`` is called with events."""
        config.validate()
        super().__init__(
            connect, HOSTS, REGISTRY, lease_seconds=config.lease_seconds, check_seconds=config.check_seconds, tell=tell
        )
        self.config = config
        self.passes: dict[str, BasePass] = {}
        """By knowledge base."""
        self.refused: dict[str, str] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def _unknowing(self) -> ChannelRegistry:
        self.registry = ChannelRegistry()
        return self.registry

    def _said(self) -> Mapping[str, object]:
        return {}

    async def _answer(self, overlay: Writing, request: Triple) -> None:
        await answer(self, overlay, request)

    async def _put_down(self) -> None:
        await asyncio.gather(*(self._stop(base) for base in list(self.passes)))

    async def _was_taken_for_gone(self) -> None:
        await self._put_down()  # what waits to be written is of a time that is past

    async def _share(self, overlay: Writing) -> None:
        # In a thread, for reading very many channels for the first time takes longer than a lease.
        own, self.refused = await asyncio.to_thread(self.registry.share, self.name)
        for base in [each for each in self.passes if each not in own]:
            self._tell("left", {"base": base[1:-1]})
            self._spawn(self._stop(base, dropped=base not in self.registry.bases()))
        for base, channels in own.items():
            found = self.passes.get(base)
            if found is None:
                found = self.passes[base] = BasePass(
                    overlay, base, settle_seconds=self.config.settle_seconds, is_sure=self.is_sure,
                    on_error=lambda text: self._tell("error", {"error": text}),
                )  # fmt: skip
                self._running[base] = asyncio.create_task(found.run())
                self._tell("took", {"base": base[1:-1]})
            found.want(channels)

    async def _stop(self, base: str, *, dropped: bool = False) -> None:
        """End a pass; it is none from now on.  ``dropped``: its channels were, so nothing is told of them any more."""
        found, task = self.passes.pop(base, None), self._running.pop(base, None)
        if found is None or task is None:
            return
        try:
            if dropped:
                await found.forget()
        finally:
            await ended(task)
