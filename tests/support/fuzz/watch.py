"""``python -m fuzz.watch ADDRESS``: a genuine client in a process of its own, and its waiting times meanwhile.

It sends fifty pings a second and publishes a triple of its own four times a second, until its standard input is
closed; then it prints its waiting times as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import p2prdf
from p2prdf.client.session import open_session
from p2prdf.wire import messages

__all__ = ["Watch"]

PING_SECONDS: Final = 0.02
PUBLISH_SECONDS: Final = 0.25
ANSWER_SECONDS: Final = 30.0
_PATH: Final = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])


class Watch:
    """The process, as its starter sees it."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process

    @classmethod
    async def start(cls, address: str, name: str) -> Watch:
        """Begin; triples are about ``name``; none are published if it is empty."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fuzz.watch", address, name,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": _PATH},
        )  # fmt: skip
        assert process.stdout is not None
        assert await process.stdout.readline() == b"begun\n"
        return cls(process)

    async def end(self) -> dict[str, Any]:
        """Stop it and return its measurements."""
        said, _ = await self._process.communicate(b"")
        seen: dict[str, Any] = json.loads(said)
        return seen


async def _watch(address: str, name: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    session = await open_session(host, int(port), connect_seconds=ANSWER_SECONDS)
    client = await p2prdf.connect(address)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print("begun", flush=True)
    pings: list[float] = []
    publications: list[float] = []

    async def ping() -> None:
        while not ended.done():
            began = time.monotonic()
            await session.ask(messages.ClientPing, timeout_seconds=ANSWER_SECONDS)
            pings.append(time.monotonic() - began)
            await asyncio.sleep(PING_SECONDS)

    async def publish() -> None:
        while name and not ended.done():
            began = time.monotonic()
            await client.publish([(f"<urn:watch:{name}:{len(publications)}>", "<urn:watch:p>", '"o"')])
            publications.append(time.monotonic() - began)
            await asyncio.sleep(PUBLISH_SECONDS)

    await asyncio.gather(ping(), publish())
    await ended
    session.close()
    await client.close()
    return {"ping": _seconds(pings), "publication": _seconds(publications)}


def _seconds(found: list[float]) -> dict[str, float]:
    ranked = sorted(found) or [0.0]
    middle, high = ranked[len(ranked) // 2], ranked[int(0.99 * (len(ranked) - 1))]
    return {"count": len(found), "p50": middle, "p99": high, "max": ranked[-1]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_watch(*sys.argv[1:]))))
