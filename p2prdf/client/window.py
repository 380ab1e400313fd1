"""The unanswered publications of one connection, bounded by the node's credit."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Window"]


class Window:
    """Slots for publications under way on one connection, shared by all ``publish`` calls of a client.

    A call takes a slot before it sends a frame; the answer to the frame gives the slot back.  Calls that find no free
    slot wait in a queue, so a long publication does not keep short ones waiting for longer than one answer each.
    """

    def __init__(self, slots: int) -> None:
        self._free = max(1, slots)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def take(self) -> bool:
        """Take a slot if one is free; return whether it was."""
        if self._closed or not self._free:
            return False
        self._free -= 1
        return True

    async def wait(self) -> bool:
        """Wait for a slot and take it; return False when the connection was lost meanwhile."""
        if self.take():
            return True
        if self._closed:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot came together with the cancellation
                self.give()
            raise
        return not self._closed

    def give(self) -> None:
        """Give a slot back: to the call that has waited longest, if one waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        """Take note that the connection is lost: calls that wait look for another one."""
        self._closed = True
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
