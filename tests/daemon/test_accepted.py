"""Publications that are accepted by real nodes: acknowledged at once, indexed after a kill."""

from __future__ import annotations

import asyncio
import signal

import p2prdf

NAMES = [(f"<urn:s{n}>", "<urn:name>", f'"{n}"') for n in range(500)]
AGES = [(f"<urn:s{n}>", "<urn:age>", f'"{n}"') for n in range(500)]
WHO = "SELECT ?s ?n ?a WHERE { ?s <urn:name> ?n . ?s <urn:age> ?a }"


async def test_staged_publication_is_answered_although_its_node_was_killed(launcher, tmp_path, status, until):
    """Two of five nodes stand still, so some keys have too few replicas to be indexed; then the node is killed."""
    options = {"ping_strikes_linked": 100_000, "log_level": "debug"}
    first = launcher.start(data=tmp_path / "0", ordinal=0, **options)
    others = [
        launcher.launch(data=tmp_path / str(n), ordinal=n, bootstrap=first.address, **options) for n in range(1, 5)
    ]
    nodes = [first, *(node.wait_ready() for node in others)]

    async def whole():
        peers = [(await status(node))["peer"] for node in nodes]
        return all(len(p["contacts"]) == 5 and p["settled"] and p["in_sync"] for p in peers)

    await until(whole, seconds=60)
    entry, *rest = nodes
    rest.sort(key=lambda node: int(node.key, 16) ^ int(entry.key, 16))
    fellow, still = rest[0], rest[2:]
    async with p2prdf.connect(fellow.address) as subscriber:
        subscription = await subscriber.subscribe(WHO)
        async with p2prdf.connect(entry.address, timeout_seconds=120) as client:
            await client.publish(NAMES)
            for node in still:
                node.process.send_signal(signal.SIGSTOP)
            assert await asyncio.wait_for(client.publish(AGES, acknowledge="accepted"), 60) == 500
            assert (await client.status())["peer"]["publications_open"] == 1
        entry.kill()
        for node in still:
            node.process.send_signal(signal.SIGCONT)
        again = launcher.start(data=tmp_path / "0", ordinal=0, listen=entry.address, bootstrap=fellow.address)
        assert again.key == entry.key
        answers = []
        async with asyncio.timeout(120):
            while len(answers) < 500:
                answers.append((await anext(subscription))["s"])
    assert sorted(answers) == sorted(s for s, _, _ in NAMES)
