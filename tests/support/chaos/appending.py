"""``python -m chaos.appending``: a subscriber that writes its answers to a file, once, however often it is killed.

What it has is in two files.  The output holds one JSON object a line.  The state holds the resume token and how long
the output was then; it is replaced as a whole, after the output is on the disk.
On start the output is cut to the length that the state tells: what was written after it comes again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import p2prdf
from p2prdf.client import Batch, Client, Subscription
from p2prdf.errors import Unavailable
from p2prdf.rdf.terms import to_json

LEASE_SECONDS: Final = 3600.0
AGAIN_SECONDS: Final = 0.1


class Output:
    """Output and state, kept in step."""

    def __init__(self, output: Path, state: Path):
        self._state = state
        self.token: bytes | None = None
        length = 0
        if state.exists():
            kept: dict[str, Any] = json.loads(state.read_text())
            self.token, length = bytes.fromhex(kept["token"]), kept["length"]
        self._file = output.open("ab")
        self._file.truncate(length)

    def write(self, names: tuple[str, ...], batch: Batch) -> None:
        """Write answers."""
        for solution in batch:
            bindings = {name: to_json(term) for name, term in zip(names, solution.terms, strict=True)}
            line = json.dumps({"identity": f"{solution.identity:016x}", "bindings": bindings})
            self._file.write(line.encode() + b"\n")

    def save(self, token: bytes) -> None:
        """Put both on the disk, the output first."""
        self._file.flush()
        os.fsync(self._file.fileno())
        fresh = self._state.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump({"token": token.hex(), "length": self._file.tell()}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._state)
        self.token = token


async def follow(peers: str, query: str, output: Output) -> None:
    """Write answers for ever, coming back after every broken connection."""
    while True:
        try:
            async with p2prdf.connect(peers, connect_seconds=2.0) as client:
                subscription = await _begin(client, query, output)
                print(f"subscription {subscription.id:016x}", file=sys.stderr, flush=True)
                async for batch in subscription.batches():
                    output.write(subscription.names, batch)
                    output.save(subscription.token())
                    subscription.acknowledge()
        except Unavailable as error:
            print(error, file=sys.stderr, flush=True)
            await asyncio.sleep(AGAIN_SECONDS)


async def _begin(client: Client, query: str, output: Output) -> Subscription:
    if output.token is not None:
        return await client.attach(output.token, auto_acknowledge=False)
    subscription = await client.subscribe(query, lease_seconds=LEASE_SECONDS, auto_acknowledge=False)
    output.save(subscription.token())
    return subscription


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("query")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    arguments = parser.parse_args()
    asyncio.run(follow(arguments.peer, arguments.query, Output(arguments.output, arguments.state)))


if __name__ == "__main__":
    main()
