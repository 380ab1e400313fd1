"""Real nodes serve at once after their clock was an hour ahead and was set right."""

import asyncio
import os
import socket
import time

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


def kill(node, data, *, ahead):
    """Kill a node, and set the time of last use in its directory to its own clock."""
    node.kill()
    until = time.time() + ahead
    os.utime(data / "lock", (until, until))


async def subjects(subscription, count):
    """Return the subjects of ``count`` solutions."""
    found = []
    async with asyncio.timeout(DEADLINE):
        async for solution in subscription:
            found.append(solution["s"])
            if len(found) >= count:
                break
    return sorted(found)


@pytest.mark.parametrize("count", [1, 3])
async def test_nodes_that_were_an_hour_ahead_serve_at_once_when_they_start_with_right_clocks(
    launcher, tmp_path, status, until, all_know_each_other, monkeypatch, count
):
    monkeypatch.setenv("CLOCK_AHEAD_SECONDS", "3600")
    nodes = started(launcher, tmp_path, count, module="shifted_node")
    await until(lambda: all_know_each_other(nodes))
    async with p2prdf.connect(nodes[0].address) as client, asyncio.timeout(DEADLINE):
        await client.publish(triples("early"))
        await client.retract(triples("early", 1))

    async def all_copies_acknowledged():  # two of three are enough for the publisher
        return not any([(await status(node))["peer"]["outbox"] for node in nodes])

    await until(all_copies_acknowledged)
    for number, node in enumerate(nodes):
        kill(node, tmp_path / f"data{number}", ahead=3600)
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


@pytest.mark.parametrize("ahead", [-3600, 3600])
async def test_two_of_five_nodes_an_hour_off_together_take_no_work_and_the_others_serve(
    launcher, tmp_path, status, until, all_know_each_other, monkeypatch, ahead
):
    doors = ",".join(f"127.0.0.1:{port}" for port in free_ports(3))
    listen = [*doors.split(","), "127.0.0.1:0", "127.0.0.1:0"]

    def start(number, module="p2prdf_node"):
        return launcher.launch(module=module, data=tmp_path / f"data{number}", bootstrap=doors, listen=listen[number])

    nodes = [start(number) for number in range(5)]
    for node in nodes:
        node.wait_ready()
        listen[nodes.index(node)] = node.address
    await until(lambda: all_know_each_other(nodes))
    right, wrong = [nodes[0], nodes[3], nodes[4]], [1, 2]
    async with p2prdf.connect(",".join(node.address for node in right)) as client, asyncio.timeout(4 * DEADLINE):
        subscription = await client.subscribe(QUERY)
        await client.publish(triples("early"))
        for number in wrong:
            nodes[number].kill()
        monkeypatch.setenv("CLOCK_AHEAD_SECONDS", str(ahead))
        for number in wrong:
            nodes[number] = start(number, "shifted_node")
        for number in wrong:
            nodes[number].wait_ready()  # they are members, of a view of their own

        async def fenced():
            told = [(await status(nodes[number]))["discovery"] for number in wrong]
            return all(each["fenced"] and each["strangers"] for each in told)

        await until(fenced)
        for number in wrong:
            async with p2prdf.connect(nodes[number].address, reconnect_seconds=0) as astray:
                with pytest.raises(p2prdf.P2PRDFError, match="set the clock that is wrong"):
                    await astray.publish(triples("lost"), busy_seconds=0)
        await client.publish(triples("meanwhile"))
        assert len(await client.query(QUERY)) == 20
        assert [(await status(node))["discovery"]["fenced"] for node in right] == [None] * 3
        for number in wrong:
            kill(nodes[number], tmp_path / f"data{number}", ahead=ahead)
            nodes[number] = start(number)
        for number in wrong:
            nodes[number].wait_ready()
        await until(lambda: all_know_each_other(nodes))
        assert [(await status(node))["discovery"]["fenced"] for node in nodes] == [None] * 5
        async with p2prdf.connect(nodes[1].address) as healed:
            await healed.publish(triples("late"))
            assert len(await healed.query(QUERY)) == 30
        expected = sorted(s for name in ("early", "meanwhile", "late") for s, _, _ in triples(name))
        assert await subjects(subscription, 30) == expected


def free_ports(count):
    """Return ports that no process uses just now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
