"""The datagrams' key of a running overlay is replaced."""

from __future__ import annotations

import asyncio
import socket
import time

import p2prdf
from p2prdf_node.config import load_config, split_address
from p2prdf_node.seal import Keyring, Sealer
from p2prdf_node.seal_keys import read_keys

OLD, NEW = "the old key of the test", "the new key of the test"
STEPS = (f"{OLD}\n", f"{OLD}\n{NEW}\n", f"{NEW}\n{OLD}\n", f"{NEW}\n")


def names(text):
    return list(Keyring(read_keys(load_config().seal_key, text, "keys")).names)


async def test_it_is_replaced_in_three_steps_while_all_goes_on(launcher, until, all_know_each_other, status, tmp_path):
    """One node takes each step later than all others; nothing is lost, and nobody taken for gone."""
    files = [tmp_path / f"keys{place}" for place in range(5)]
    files[0].write_text(STEPS[0])
    nodes = [launcher.start(seal_keys=files[0], tls_poll_seconds=0.1)]
    for file in files[1:]:
        file.write_text(STEPS[0])
        nodes.append(launcher.launch(seal_keys=file, tls_poll_seconds=0.1, bootstrap=nodes[0].address))
    for node in nodes[1:]:
        await asyncio.to_thread(node.wait_ready)
    await until(lambda: all_know_each_other(nodes))
    before = {each["key"]: each["incarnation"] for each in (await status(nodes[0]))["discovery"]["members"]}

    async def has_taken(node, text):
        return (await status(node))["seal"] == {"keys": names(text), "renewed": STEPS.index(text), "problem": None}

    stop = asyncio.Event()
    sent = []

    async def publish(client):
        while not stop.is_set():
            triple = ("<urn:s>", "<urn:p>", f'"{len(sent)}"')
            await client.publish([triple])
            sent.append(triple)

    async with p2prdf.connect(nodes[1].address) as publisher, p2prdf.connect(nodes[4].address) as hearer:
        subscription = await hearer.subscribe("SELECT ?o WHERE { <urn:s> <urn:p> ?o }")
        publishing = asyncio.create_task(publish(publisher))
        for text in STEPS[1:]:
            for node, file in zip(nodes[:4], files[:4], strict=True):
                file.write_text(text)
                await until(lambda node=node, text=text: has_taken(node, text))
            assert not await has_taken(nodes[4], text)
            files[4].write_text(text)
            await until(lambda text=text: has_taken(nodes[4], text))
        enough = len(sent) + 20

        async def more_sent():
            return len(sent) >= enough

        await until(more_sent)
        stop.set()
        await publishing
        heard = set()
        async with asyncio.timeout(10):
            while len(heard) < len(sent):
                answer = await anext(subscription)
                heard.add(answer["o"])
    for node in nodes:
        found = (await status(node))["discovery"]
        assert found["peers"] == 4
        assert found["datagrams_refused"]["key"] == 0
        members = {each["key"]: each["incarnation"] for each in found["members"]}
        assert all(members[key] == before[key] for key in before.keys() & members.keys()), "nobody was suspected"
        assert {each["state"] for each in found["members"]} == {"alive"}

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
        keyring = Keyring(read_keys(load_config().seal_key, STEPS[0], "keys"))
        sealed = Sealer(keyring, 0).seal(b"K", receiver=0, nonce=bytes(8), now=time.time())
        outside.sendto(sealed, split_address(nodes[2].address))

        async def refused():
            return (await status(nodes[2]))["discovery"]["datagrams_refused"]["key"] == 1

        await until(refused)


async def test_a_bad_file_changes_nothing_and_is_reported(launcher, until, status, tmp_path):
    file = tmp_path / "keys"
    file.write_text(STEPS[0])
    node = await asyncio.to_thread(launcher.start, seal_keys=file, tls_poll_seconds=0.1)
    node.expected.append("seal_keys_file_refused")
    file.write_text("half a key\n")

    async def problem():
        return (await status(node))["seal"]["problem"]

    told = await until(problem)
    assert "line 1: a key has at least 16 bytes" in told
    assert "half a key" not in node.text()
    assert (await status(node))["seal"]["keys"] == names(STEPS[0])


def test_a_node_does_not_start_with_a_bad_file(launcher, tmp_path):
    node = launcher.launch(seal_keys=tmp_path / "none")
    assert node.wait() == 2
    assert "none: No such file" in node.text()
