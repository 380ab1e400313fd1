"""Settled delivery while real processes are killed: marks go on, and no part of a large transaction is told."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import sys
import time

import p2prdf
from p2prdf import hlc

STATEMENTS = 10_000
QUERY = "SELECT (COUNT(*) AS ?n) { ?x <urn:large> ?y }"
PUBLISHER = """
import asyncio, sys, p2prdf

async def main(address, number, count):
    async with p2prdf.connect(address) as client, client.transaction() as transaction:
        transaction.publish((f"<urn:x{at}>", "<urn:large>", f"<urn:y{number}>") for at in range(int(count)))
        print("begins", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


class Counted:
    """The count that a settled subscriber was told at each mark."""

    def __init__(self):
        self.counts, self.arrivals, self.latest = [], [], 0.0

    async def follow(self, subscription):
        held = {}
        async for batch in subscription.batches():
            for row in batch:
                if row.removed:
                    del held[row.identity]
                else:
                    held[row.identity] = row.value("n")
            if batch.bookmark is not None:
                self.counts.append([*held.values()])
                self.arrivals.append(time.monotonic())
                self.latest = batch.bookmark

    async def told(self, count):
        """Return whether a mark had this count."""
        return [count] in self.counts

    def gap(self, since):
        """Return the longest time without a mark after a moment."""
        times = [*self.arrivals, time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(times) if after > since)


async def test_a_transaction_of_10_000_triples_is_never_told_in_parts(launcher, until, status):
    """Publishers are killed at random times while they send, then the entry node of the last one."""
    nodes = launcher.overlay(4)

    async def in_sync():
        peers = [(await status(node))["peer"] for node in nodes]
        return all(peer["settled"] and peer["in_sync"] for peer in peers)

    await until(in_sync, seconds=60)
    rng, counted, interrupted = random.Random(7), Counted(), 0
    async with asyncio.timeout(240), p2prdf.connect(nodes[0].address) as client:
        subscription = await client.subscribe(QUERY, settled=True)
        following = asyncio.create_task(counted.follow(subscription))
        for number in range(5):
            publisher = await asyncio.create_subprocess_exec(
                sys.executable, "-c", PUBLISHER, nodes[-1].address, str(number), str(STATEMENTS),
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert await publisher.stdout.readline() == b"begins\n"
            if number:  # the first one ends by itself
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                if number == 4:
                    nodes[-1].kill()
                with contextlib.suppress(ProcessLookupError):  # it has ended already
                    publisher.send_signal(signal.SIGKILL)
            interrupted += await publisher.wait() != 0
            if not number:
                await until(lambda: counted.told(STATEMENTS), seconds=60)
        killed = time.monotonic()
        await until(lambda: _true_later(client, counted), seconds=120)
        gap = counted.gap(killed)
        following.cancel()
    told = {count for counts in counted.counts for count in counts}
    print(
        f"{interrupted} of 4 publishers killed before their end; counts at {len(counted.counts)} marks: {sorted(told)};"
        f" {gap:.1f} s without a mark after the kill"
    )
    assert interrupted
    assert all(len(counts) <= 1 for counts in counted.counts)
    assert all(count % STATEMENTS == 0 for count in told)


async def _true_later(client, counted):
    """Return whether a mark is later than a publication of now."""
    if not hasattr(counted, "wanted"):
        async with client.transaction() as transaction:
            transaction.publish([("<urn:last>", "<urn:other>", "<urn:z>")])
        counted.wanted = hlc.seconds(transaction.stamp)
    return counted.latest >= counted.wanted
