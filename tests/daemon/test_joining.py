"""Nodes with bootstrap names that resolve late form one cluster, and none of them is a cluster before."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

import p2prdf
from p2prdf.errors import ClustersMerging, P2PRDFError, Unavailable

STATEMENT = [("<urn:ann>", "<urn:likes>", "<urn:tea>")]
QUERY = "SELECT ?s WHERE { ?s <urn:likes> <urn:tea> }"


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture
def late(launcher, tmp_path, monkeypatch):
    """Three nodes with names that do not resolve yet, and the file that makes the names resolve."""
    file = tmp_path / "names"
    monkeypatch.setenv("LATE_NAMES_FILE", str(file))
    ports = free_ports(3)
    names = ",".join(f"n{at}.peers:{port}" for at, port in enumerate(ports))

    def launch(at):
        node = launcher.launch(
            module="late_names_node", listen=f"127.0.0.1:{ports[at]}", bootstrap=names, data=tmp_path / f"data{at}"
        )
        node.address = f"127.0.0.1:{ports[at]}"
        return node

    return [launch(at) for at in range(3)], file, launch


@pytest.fixture
def islands(launcher, tmp_path, monkeypatch):
    """Two clusters of two nodes each, both begun by ``--first`` as the name of the other did not resolve.

    Return the nodes, those of each cluster together, and the file that makes the names resolve.
    """
    file = tmp_path / "names"
    monkeypatch.setenv("LATE_NAMES_FILE", str(file))
    ports = free_ports(4)
    address = [f"127.0.0.1:{port}" for port in ports]
    other = {0: f"n2.peers:{ports[2]}", 2: f"n0.peers:{ports[0]}"}
    nodes = []
    for at, own in enumerate(address):
        is_first = at in other
        options = {"module": "late_names_node", "first": True} if is_first else {}
        bootstrap = other[at] if is_first else address[at - 1]
        nodes.append(launcher.launch(listen=own, bootstrap=bootstrap, data=tmp_path / f"data{at}", **options))
        nodes[-1].address = own
    for node in nodes:
        node.wait_ready()
    return nodes, file


async def one_cluster(nodes, status, *, merges):
    states = [(await status(node))["peer"] for node in nodes]
    whole = len({state["cluster"] for state in states}) == 1 and states[0]["cluster"]
    return whole and all(state["merging"] is None and state["cluster_merges"] >= merges for state in states)


async def whole_or_refused(node):
    """Ask a one-time query once two clusters have met; return whether it was answered, which must not be in parts."""
    async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
        try:
            result = await client.query(QUERY)
        except ClustersMerging:
            return False
    assert len(result.rows) == 2
    return True


async def test_two_clusters_that_meet_say_so_merge_and_deliver_the_data_of_both(islands, until, status):
    nodes, file = islands
    for pair in (nodes[:2], nodes[2:]):
        await until(lambda pair=pair: one_cluster(pair, status, merges=0), seconds=60)
    names = [(await status(node))["peer"]["cluster"] for node in nodes]
    assert names[0] == names[1] != names[2] == names[3]
    async with p2prdf.connect(nodes[1].address) as one, p2prdf.connect(nodes[3].address) as other:
        subscriptions = [await client.subscribe(QUERY) for client in (one, other)]
        await one.publish(STATEMENT)
        await other.publish([("<urn:bob>", "<urn:likes>", "<urn:tea>")])
        assert len((await one.query(QUERY)).rows) == 1, "neither cluster knows of the other"
        file.touch()
        await until(lambda: all_have_heard(nodes, status), seconds=60)
        for node in nodes:
            await until(lambda node=node: whole_or_refused(node), seconds=60)
        for subscription in subscriptions:
            async with asyncio.timeout(60):
                found = {(await anext(subscription))["s"] for _ in range(2)}
            assert found == {"<urn:ann>", "<urn:bob>"}
    await until(lambda: one_cluster(nodes, status, merges=1), seconds=60)
    assert (await status(nodes[0]))["peer"]["cluster"] == min(names)
    for node in nodes:
        assert "clusters-met" in node.text()
        assert max(names) in node.text()
    nodes[0].kill()
    async with p2prdf.connect(nodes[1].address) as client:
        assert len((await client.query(QUERY)).rows) == 2


async def all_have_heard(nodes, status):
    return all([(await status(node))["peer"]["cluster_merges"] for node in nodes])


async def test_a_first_node_that_remembers_its_cluster_does_not_begin_another(launcher, tmp_path, until, status):
    ports = free_ports(2)
    address = [f"127.0.0.1:{port}" for port in ports]

    def launch(at):
        first = {"first": True} if at == 0 else {}
        node = launcher.launch(listen=address[at], bootstrap=address[1 - at], data=tmp_path / f"data{at}", **first)
        node.address = address[at]
        return node

    nodes = [launch(0).wait_ready(), launch(1).wait_ready()]
    await until(lambda: one_cluster(nodes, status, merges=0), seconds=60)
    before = (await status(nodes[0]))["peer"]["cluster"]
    for node in nodes:
        node.kill()
    again = launch(0)
    assert await until(lambda: joining(again, status), seconds=60)
    nodes = [again, launch(1)]
    await until(lambda: are_members(nodes, status), seconds=60)
    for node in nodes:
        state = (await status(node))["peer"]
        assert (state["cluster"], state["cluster_merges"]) == (before, 0)


async def are_members(nodes, status):
    try:
        return await one_cluster(nodes, status, merges=0) and not any(
            [(await status(node))["discovery"]["joining"] for node in nodes]
        )
    except P2PRDFError:
        return False


async def joining(node, status):
    try:
        state = await status(node)
    except P2PRDFError:
        return None  # it does not listen yet
    return state["uptime_seconds"] > 2.5 and state["discovery"]["joining"]


async def test_nodes_with_late_names_serve_nothing_before_the_names_resolve_and_all_after(
    late, until, status
):
    nodes, file, launch = late
    for node in nodes:
        reason = await until(lambda node=node: joining(node, status), seconds=60)
        assert "n2.peers" in reason
        assert "does not resolve" in reason
        async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
            with pytest.raises(Unavailable, match="none of its bootstrap addresses"):
                await client.publish(STATEMENT)
            with pytest.raises(Unavailable, match="none of its bootstrap addresses"):
                await client.query(QUERY)
        assert "node_ready" not in node.text()
    nodes[2].kill()
    nodes[2] = launch(2)
    await until(lambda: joining(nodes[2], status), seconds=60)
    began = time.monotonic()
    file.touch()
    for node in nodes:
        await asyncio.to_thread(node.wait_ready)
    assert time.monotonic() - began < 10
    async with p2prdf.connect(nodes[0].address, reconnect_seconds=0) as client:
        await client.publish(STATEMENT)
    nodes[0].kill()
    for node in nodes[1:]:
        assert (await status(node))["discovery"]["joining"] is None
        async with p2prdf.connect(node.address) as client:
            assert len((await client.query(QUERY)).rows) == 1


async def refused(node):
    """Return whether a node that listens refuses a publication and a query; a node that starts counts as one."""
    try:
        async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
            for request in (client.publish(STATEMENT), client.query(QUERY, timeout_seconds=5)):
                with pytest.raises(P2PRDFError):
                    await request
    except P2PRDFError:
        return True
    return True


async def ask_until(done, node, acknowledged):
    """Ask one query after the other; each answer holds all statements acknowledged before.  Return how many answers."""
    answers = 0
    while not done.is_set():
        before = set(acknowledged)
        try:
            async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
                rows = {s for (s,) in (await client.query(QUERY, timeout_seconds=5)).rows}
        except P2PRDFError:
            continue
        assert before <= rows, f"{len(before - rows)} of {len(before)} statements missing: an answer in parts"
        answers += 1
    return answers


async def publish_until(done, nodes, acknowledged):
    """Publish one statement after the other, each at the next node, and note those that are acknowledged."""
    number = 0
    while not done.is_set():
        number += 1
        try:
            async with p2prdf.connect(nodes[number % len(nodes)].address, reconnect_seconds=0) as client:
                await client.publish([(f"<urn:person:{number}>", "<urn:likes>", "<urn:tea>")])
        except P2PRDFError:
            continue
        acknowledged.append(f"<urn:person:{number}>")


@pytest.mark.long
async def test_three_nodes_with_names_a_minute_late_are_ready_soon_and_never_give_partial_answers(
    late, until, status
):
    nodes, file, launch = late
    for node in nodes:
        await until(lambda node=node: joining(node, status), seconds=60)
    resolve_at, restarts = time.monotonic() + 60, 0
    while time.monotonic() < resolve_at:
        assert all([await refused(node) for node in nodes])
        victim = restarts % 3
        nodes[victim].kill()
        nodes[victim], restarts = launch(victim), restarts + 1
        await until(lambda victim=victim: joining(nodes[victim], status), seconds=60)
    acknowledged, done = [], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask_until(done, node, acknowledged)) for node in nodes]
        group.create_task(publish_until(done, nodes, acknowledged))
        file.touch()
        began = time.monotonic()
        await until(lambda: are_ready(nodes, status), seconds=60)
        seconds = time.monotonic() - began
        await until(lambda: enough(acknowledged), seconds=60)
        done.set()
    assert seconds < 10
    assert any(task.result() for task in asking)
    before = set(acknowledged)
    nodes[0].kill()
    for node in nodes[1:]:
        async with p2prdf.connect(node.address) as client:
            rows = {s for (s,) in (await client.query(QUERY)).rows}
        assert before <= rows, "one kill loses no acknowledged statement"


async def are_ready(nodes, status):
    try:
        return all([(await status(node))["discovery"]["joining"] is None for node in nodes])
    except P2PRDFError:
        return False


async def enough(acknowledged):
    return len(acknowledged) >= 20
