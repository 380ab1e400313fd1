"""Nodes and clients with certificates: who is let in, who is not, and what becomes of that while they run."""

from __future__ import annotations

import asyncio

import pytest
from tls_files import Certificates, tls_of

import p2prdf

QUERY = "SELECT ?s ?o { ?s <urn:p> ?o }"


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


def start_overlay(launcher, certificates, count, **options):
    """Start nodes with certificates, each joining by the first; return them and their folders."""
    folders = [certificates.node() for _ in range(count)]
    first = launcher.start(**certificates.settings(folders[0]), **options)
    others = [
        launcher.launch(bootstrap=first.address, **certificates.settings(folder), **options) for folder in folders[1:]
    ]
    return [first, *(node.wait_ready() for node in others)], folders


async def state(node, folder):
    async with p2prdf.connect(node.address, reconnect_seconds=0, tls=tls_of(folder)) as client:
        return await client.status()


async def together(nodes, folder):
    """Tell whether each node knows all others."""
    keys = {node.key for node in nodes}
    return all([{p["key"] for p in (await state(n, folder))["peers"]} | {n.key} == keys for n in nodes])


async def test_an_overlay_with_certificates_publishes_subscribes_answers_and_outlives_a_node(
    launcher, until, certificates
):
    nodes, folders = await asyncio.to_thread(start_overlay, launcher, certificates, 3, roles="all")
    alice = certificates.client()
    await until(lambda: together(nodes, alice))
    for node, folder in zip(nodes, folders, strict=True):
        assert certificates.authority.entries()[folders.index(folder)].uri == f"urn:p2prdf:node:{node.key}"
    async with (
        p2prdf.connect(nodes[0].address, tls=tls_of(alice)) as client,
        p2prdf.connect(nodes[1].address, tls=tls_of(folders[2])) as with_a_nodes_certificate,
    ):
        subscription = await client.subscribe(QUERY)
        await with_a_nodes_certificate.publish((f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(500))
        async with asyncio.timeout(10):
            assert len({(await anext(subscription))["o"] for _ in range(500)}) == 500
        assert len((await client.query(QUERY)).rows) == 500
        nodes[2].kill()
        await until(lambda: together(nodes[:2], alice), seconds=20)
        again = await asyncio.to_thread(
            launcher.start, bootstrap=nodes[0].address, roles="all", **certificates.settings(folders[2])
        )
        assert again.key == nodes[2].key
        await until(lambda: together([*nodes[:2], again], alice), seconds=20)
        await client.publish([("<urn:last>", "<urn:p>", '"last"')])
        async with asyncio.timeout(10):
            assert (await anext(subscription))["o"] == '"last"'
