"""Nodes with bootstrap names that resolve late form one cluster, and none of them is a cluster before."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

import p2prdf
from p2prdf.errors import P2PRDFError, Unavailable

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


async def joining(node, status):
    try:
        state = await status(node)
    except P2PRDFError:
        return None  # it does not listen yet
    return state["uptime_seconds"] > 2.5 and state["discovery"]["joining"]


async def test_nodes_whose_names_resolve_late_acknowledge_and_answer_nothing_before_and_all_after(
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
