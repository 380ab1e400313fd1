"""Real nodes serve at once after their clock was an hour ahead and was set right."""

import asyncio

import pytest

import p2prdf

QUERY = "SELECT ?s ?o WHERE { ?s <urn:p> ?o }"
DEADLINE = 60.0


def triples(name, count=10):
    return [(f"<urn:{name}{n}>", "<urn:p>", f'"{n}"') for n in range(count)]


def started(launcher, tmp_path, count, *, module):
    """Start nodes with disks of their own, the later ones by the address of the first."""
    first = launcher.start(module=module, data=tmp_path / "data0")
    others = [
        launcher.launch(module=module, data=tmp_path / f"data{n}", bootstrap=first.address) for n in range(1, count)
    ]
    return [first, *(node.wait_ready() for node in others)]


async def subjects(subscription, count):
    """Return the subjects of so many solutions."""
    found = []
    async with asyncio.timeout(DEADLINE):
        async for solution in subscription:
            found.append(solution["s"])
            if len(found) >= count:
                break
    return sorted(found)


@pytest.mark.parametrize("count", [1, 3])
async def test_nodes_that_were_an_hour_ahead_serve_at_once_when_they_start_with_right_clocks(
    launcher, tmp_path, status, monkeypatch, count
):
    monkeypatch.setenv("CLOCK_AHEAD_SECONDS", "3600")
    nodes = started(launcher, tmp_path, count, module="shifted_node")
    async with p2prdf.connect(nodes[0].address) as client, asyncio.timeout(DEADLINE):
        await client.publish(triples("early"))
        await client.retract(triples("early", 1))
    for node in nodes:
        node.kill()
    nodes = started(launcher, tmp_path, count, module="p2prdf_node")
    async with p2prdf.connect(nodes[0].address) as client, asyncio.timeout(DEADLINE):
        assert len(await client.query(QUERY)) == 9
        subscription = await client.subscribe(QUERY)
        await client.publish(triples("late"))
        assert await subjects(subscription, 10) == sorted(s for s, _, _ in triples("late"))
        await client.publish(triples("early", 1))  # a removal from the future does not stand in its way
        await client.retract(triples("early", 2)[1:])
        assert len(await client.query(QUERY)) == 19
    corrected = [(await status(node))["peer"]["stamps_corrected"] for node in nodes]
    assert all(corrected)
    assert all("stamps-corrected" in node.text() for node in nodes)
