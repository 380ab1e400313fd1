"""Channel workers, in the process of a test or as processes of their own; subscribers that record notifications."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

from member_process import MemberProcess

import p2prdf
from p2prdf.channel_workers.worker import ChannelWorker, ChannelWorkerConfig
from p2prdf.channels.settings import Settings

__all__ = ["SECONDS", "ChannelWorkerProcess", "Subscriber", "channel_worker", "evaluated_by", "given", "subscribed"]

SECONDS = 60.0


@contextlib.asynccontextmanager
async def channel_worker(addresses, *, lease_seconds=4.0, settle_seconds=0.5, kind=ChannelWorker, tls=None):
    """Run a channel worker in this process; it leaves in order."""
    host = kind(
        lambda reconnect_seconds: p2prdf.connect(addresses, reconnect_seconds=reconnect_seconds, tls=tls),
        ChannelWorkerConfig(lease_seconds=lease_seconds, check_seconds=0.5, settle_seconds=settle_seconds),
    )
    task = asyncio.create_task(host.run())
    try:
        yield host
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class ChannelWorkerProcess(MemberProcess):
    """A channel worker as a process of its own."""

    words = ("serve", "channels")


class Subscriber:
    """The notifications of a channel: in order, and the bindings that are left of them."""

    def __init__(self, hearing):
        self.heard = []
        self.held = {}
        """The kind of each binding that holds according to the notifications."""
        self.hearing = hearing
        self.changed = asyncio.Event()
        self._counts = Counter()

    async def listen(self):
        async for each in self.hearing:
            binding = tuple(each.binding.values())
            self.heard.append((each.kind, binding, each.removed))
            self._counts[each.kind, binding] += -1 if each.removed else 1
            count = self._counts[each.kind, binding]
            assert count in (0, 1), f"{each.kind} {binding} was told {count} times"
            kinds = self.held.setdefault(binding, set())
            (kinds.discard if each.removed else kinds.add)(each.kind)
            if not kinds:
                del self.held[binding]
            self.changed.set()

    def told(self, kind):
        """Return the bindings of a kind, each as often as it was reported."""
        return [binding for each, binding, removed in self.heard if each == kind and not removed]

    async def until(self, holds, seconds=SECONDS):
        """Wait until a condition holds for the notifications."""
        try:
            async with asyncio.timeout(seconds):
                while not holds(self):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"it did not come true: {self.held}") from None

    async def exactly(self, bindings):
        """Wait until exactly these bindings hold, all of them confirmed."""
        wanted = set(bindings)
        await self.until(
            lambda each: each.held.keys() == wanted and all(kinds != {"tentative"} for kinds in each.held.values())
        )


@contextlib.asynccontextmanager
async def subscribed(client, *names):
    """Subscribe to channels, including removals; yield one subscriber, or several."""
    found = [Subscriber(await client.channels.subscribe(name, removed=True)) for name in names]
    tasks = [asyncio.create_task(each.listen()) for each in found]
    try:
        yield found[0] if len(found) == 1 else found
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in found:
            await each.hearing.subscription.unsubscribe()


async def evaluated_by(client, name, hosts):
    """Return the worker that evaluates a channel, once one does."""
    async with asyncio.timeout(SECONDS):
        while True:
            (found,) = await client.channels.stats(name)
            known = [each for each in hosts if each.name == found.get("worker")]
            if found["state"] == "evaluated" and known:
                return known[0]


def given(settings):
    """Return settings as they are given in registrations."""
    names = Settings.__dataclass_fields__
    plain = {name: getattr(settings, name) for name in names}
    plain["evaluation"] = settings.evaluation.value
    plain["heuristics"] = [each.value for each in settings.heuristics]
    return plain
