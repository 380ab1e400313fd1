"""A sync worker of interests, or a channel worker, as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys

__all__ = ["MemberProcess"]

READY_SECONDS = 60.0


class MemberProcess:
    """One worker of a group; subclasses define its command."""

    words = ()

    def __init__(self, process, name):
        self.process = process
        self.name = name

    @classmethod
    async def start(cls, addresses, *more):
        """Start it, and wait until it has reported its name."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "p2prdf_cli", *cls.words, "--peer", addresses, "--json", *more,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        told = json.loads(await asyncio.wait_for(process.stdout.readline(), READY_SECONDS))
        assert told["event"] == "ready"
        return cls(process, told["worker"])

    async def end(self, how=signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(how)
            self.process.send_signal(signal.SIGCONT)  # a paused process hears of nothing else
        await self.process.communicate()
        return self.process.returncode
