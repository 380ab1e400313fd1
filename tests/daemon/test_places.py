"""A node that claims a position beside a key gets no data of the key, unless its certificate grants the position."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from tls_files import Certificates, tls_of

import p2prdf
from p2prdf import keys

KINDS = ["kademlia", "chord overlay"]
"""Two ways in which nodes know of each other: complete views, or neighbours."""


def place_of(subject):
    """Return the ring key of a triple by its subject: a node at this position owns it, under any metric."""
    return keys.role_key(keys.S, keys.term_hash(subject), 0, 0)


async def state(node, folder):
    async with p2prdf.connect(node.address, reconnect_seconds=0, tls=tls_of(folder)) as client:
        return await client.status()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_node_gets_no_data_of_a_position_that_its_certificate_does_not_grant(
    launcher, until, tmp_path, options_of, kind
):
    """Datagrams carry the claim: every holder of the cluster secret can send them. Triples go to certificates only."""
    certificates, place = Certificates(tmp_path), place_of("<urn:wanted>")
    options = {"replicas": 1, "copies_min": 1, "hello_seconds": 3, **options_of(kind)}
    honest = launcher.start(**certificates.settings(certificates.node()), **options)
    sybil = await asyncio.to_thread(
        launcher.start, module="sybil_node", zone=f"{place:016x}", bootstrap=honest.address,
        **certificates.settings(certificates.node()), **options,
    )  # fmt: skip
    assert sybil.key == f"{place:016x}"
    alice = certificates.client()

    async def believed():
        return sybil.key in [each["key"] for each in (await state(honest, alice))["peers"]]

    await until(believed, seconds=30)
    async with p2prdf.connect(honest.address, tls=tls_of(alice)) as client:
        sending = asyncio.ensure_future(client.publish([("<urn:wanted>", "<urn:p>", "<urn:o>")]))
        try:

            async def noticed():
                return (await state(honest, alice))["connections"]["tls_refused"].get("other-key") or sending.done()

            await until(noticed, seconds=30)
            held = await state(sybil, alice)
            assert (held["peer"]["triples"], held["peer"]["terms"]) == (0, 0)
            assert not sending.done() or (await state(honest, alice))["peer"]["triples"] == 1
            sybil.kill()
            async with asyncio.timeout(60):
                assert await sending == 1
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
