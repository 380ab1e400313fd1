"""The load of a step, run in a pod of the image: ``python3 load.py PEERS NAME RATE``.

It subscribes, prints ``live``, publishes one triple after the other until a line or the end of its input arrives, waits
for the solutions of everything that was acknowledged, and prints its ledger as one line of JSON.  It imports nothing
but the standard library and p2prdf.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator

import p2prdf
from p2prdf.errors import P2PRDFError

SETTLE_SECONDS = float(os.environ.get("SETTLE_SECONDS", "120"))
RECONNECT_SECONDS = 240.0
LEASE_SECONDS = 900.0


class Ledger:
    """Everything sent, acknowledged and delivered."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.solutions: list[tuple[int, bool]] = []
        self.seen: set[int] = set()
        self.lost_by_home = 0
        self.pause = 0.0
        self.reconnections = 0
        self.error = ""
        self.latest = time.monotonic()

    @property
    def complete(self) -> bool:
        """Whether each acknowledged publication has been delivered."""
        return len(self.seen) >= self.acknowledged

    def deliver(self, number: int, *, removed: bool) -> None:
        """Note a solution, and the pause before it."""
        now = time.monotonic()
        self.pause, self.latest = max(self.pause, now - self.latest), now
        self.solutions.append((number, removed))
        if not removed:
            self.seen.add(number)

    def reconnected(self, _address: str) -> None:
        """Count a reconnection."""
        self.reconnections += 1

    def dump(self) -> str:
        """Return the ledger as JSON."""
        names = ("sent", "acknowledged", "solutions", "reconnections", "error")
        text = {name: getattr(self, name) for name in names} | {"pause": round(self.pause, 2)}
        if self.lost_by_home:
            text["error"] = f"{self.lost_by_home} solutions dropped by the coordinator"
        return json.dumps(text)


async def run(peers: str, name: str, rate: float) -> Ledger:
    """Publish and subscribe until the input ends."""
    ledger = Ledger()
    options = {"reconnect_seconds": RECONNECT_SECONDS, "on_reconnect": ledger.reconnected, "tls": _tls()}
    predicate = f"<urn:cluster-check:{name}>"
    async with p2prdf.connect(peers, **options) as reader, p2prdf.connect(peers, **options) as writer:  # type: ignore[arg-type]
        subscription = await reader.subscribe(
            f"SELECT ?s ?o WHERE {{ ?s {predicate} ?o }}", lease_seconds=LEASE_SECONDS
        )
        stop = asyncio.Event()

        async def read() -> None:
            async for batch in subscription.batches():
                ledger.lost_by_home += batch.lost
                for term, removed in zip(batch.columns[1], batch.removed, strict=True):
                    ledger.deliver(int(term.strip('"')), removed=removed)

        async def feed() -> AsyncIterator[tuple[str, str, str]]:
            while not stop.is_set():
                number, ledger.sent = ledger.sent, ledger.sent + 1
                yield f"<urn:cluster-check:{number}>", predicate, f'"{number}"'
                await asyncio.sleep(1 / rate)

        def progress(done: p2prdf.client.Progress) -> None:
            ledger.acknowledged = done.triples

        print("live", flush=True)
        ledger.latest = time.monotonic()
        reading = asyncio.create_task(read())
        writing = asyncio.create_task(
            writer.publish(feed(), batch_triples=16, linger_seconds=0.05, busy_seconds=RECONNECT_SECONDS,
                           on_progress=progress)
        )  # fmt: skip
        ending = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        await asyncio.wait({reading, writing, ending}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                await writing
                while not ledger.complete and not reading.done():
                    await asyncio.sleep(0.1)
            await asyncio.sleep(2)  # a solution that comes a second time comes soon
        except (P2PRDFError, TimeoutError) as error:
            ledger.error = (
                f"publisher: {type(error).__name__}: {error}" if not writing.done() or writing.exception() else ""
            )
        if reading.done() and reading.exception():
            ledger.error = f"subscriber: {reading.exception()}"
        reading.cancel()
        await asyncio.wait({reading})
    return ledger


def _tls() -> p2prdf.Tls | None:
    """Return the certificate that the variables of the command line name, or None."""
    if "P2PRDF_TLS_CERT" not in os.environ:
        return None
    return p2prdf.Tls(*(os.environ[f"P2PRDF_TLS_{each}"] for each in ("CA", "CERT", "KEY")))


if __name__ == "__main__":
    print(asyncio.run(run(sys.argv[1], sys.argv[2], float(sys.argv[3]))).dump(), flush=True)
    os._exit(0)  # a thread may still wait for input
