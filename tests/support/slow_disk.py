"""A disk that works when the test says so."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Executor, Future

__all__ = ["Disk", "breathe"]


class Disk(Executor):
    """The storage's thread, which does a piece of work when the test says so."""

    def __init__(self):
        self.work = deque()
        self.done = 0

    def submit(self, call, /, *args, **kwargs):
        future = Future()
        self.work.append((future, call))
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        while self.work:
            self.do()

    def do(self):
        """Do the oldest piece of work."""
        future, call = self.work.popleft()
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        self.done += 1

    async def turn(self):
        """Do the oldest piece of work, and let the loop hear of it."""
        self.do()
        await breathe()

    async def follow(self):
        """Do all work as it comes up, as a quick disk would."""
        while True:
            if self.work:
                self.do()
            await asyncio.sleep(0)


async def breathe():
    """Let the loop run all ready tasks."""
    for _ in range(5):
        await asyncio.sleep(0)
