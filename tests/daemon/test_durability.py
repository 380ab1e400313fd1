"""Real nodes with real disks: killed, stopped, filled up and failing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import subprocess
import sys

import pytest

import p2prdf

NAMES = [(f"<urn:s{n}>", "<urn:p>", f'"{n}"') for n in range(2000)]


def state_of(node_status):
    peer, storage = node_status["peer"], node_status["storage"]
    return peer["triples"], storage["damaged"], storage["durability"]


async def test_acknowledged_triples_survive_kill_9_and_restart(launcher, tmp_path, status, until):
    """Several times, in the middle of a publication; every acknowledged triple is held for good."""
    first = launcher.start(data=tmp_path / "data")
    node, acknowledged = first, 0
    for _ in range(4):
        async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
            done = 0

            def progress(told, node=node):
                nonlocal done
                done = told.triples
                if done >= 300:
                    node.kill()

            with contextlib.suppress(p2prdf.errors.Unavailable):
                await client.publish(NAMES[acknowledged:], batch_triples=50, on_progress=progress)
            acknowledged += done
        node.kill()
        node = launcher.start(data=tmp_path / "data")
        assert node.key == first.key
        told = await status(node)
        assert told["peer"]["triples"] >= acknowledged
        assert (told["storage"]["damaged"], told["storage"]["durability"]) == (0, "fsync")
    assert acknowledged >= 1200


@pytest.mark.parametrize("durability", ["fsync", "async"])
async def test_a_clean_stop_loses_nothing(launcher, tmp_path, status, durability):
    node = launcher.start(data=tmp_path / "data", durability=durability)
    async with p2prdf.connect(node.address) as client:
        await client.publish(NAMES, batch_triples=500)
    node.terminate()
    assert node.wait() == 0
    again = launcher.start(data=tmp_path / "data", durability=durability)
    assert state_of(await status(again)) == (2000, 0, durability)


async def test_without_durability_a_directory_keeps_the_identifier_alone(launcher, tmp_path, status):
    node = launcher.start(data=tmp_path / "data", durability="memory")
    async with p2prdf.connect(node.address) as client:
        await client.publish(NAMES[:100])
    node.terminate()
    assert node.wait() == 0
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["lock", "node-id"]
    again = launcher.start(data=tmp_path / "data", durability="memory")
    assert again.key == node.key
    told = await status(again)
    assert (told["peer"]["triples"], told["storage"]) == (0, {"durability": "memory"})


async def test_the_state_is_compacted_while_the_node_works(launcher, tmp_path, status, until):
    options = {"data": tmp_path / "data", "compact_bytes_min": 100_000}
    node = launcher.start(**options)

    async def compacted():
        told = await status(node)
        return told["storage"]["written"]["compactions"]

    async with p2prdf.connect(node.address) as client:
        await client.publish(NAMES, batch_triples=20)
        await until(compacted)
        await client.publish([(s, "<urn:later>", o) for s, _, o in NAMES[:100]])
    node.kill()
    again = launcher.start(**options)
    assert state_of(await status(again))[:2] == (2100, 0)
    assert list((tmp_path / "data" / "state").glob("*.snapshot"))


async def test_a_flipped_bit_is_reported_and_the_rest_is_used(launcher, tmp_path, status):
    node = launcher.start(data=tmp_path / "data")
    async with p2prdf.connect(node.address) as client:
        for start in range(0, 2000, 200):
            await client.publish(NAMES[start : start + 200])
    node.kill()
    path = tmp_path / "data" / "state" / "00000001.log"
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 4
    path.write_bytes(whole)
    again = launcher.start(data=tmp_path / "data")
    told = await status(again)
    assert told["storage"]["damaged"] == 1
    assert 1000 <= told["peer"]["triples"] < 2000
    (line,) = [json.loads(line) for line in again.text().splitlines() if "state_damaged" in line]
    assert line["file"] == str(path)
    assert line["start"] < len(whole) // 2 < line["end"]


def refused(tmp_path, **options):
    """Start a node that must not start; return its error output."""
    command = [sys.executable, "-m", "p2prdf_node", "--listen", "127.0.0.1:0", "--data", tmp_path / "data"]
    for option, value in options.items():
        command += [f"--{option.replace('_', '-')}", str(value)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2, ended.stderr
    return ended.stderr


def test_a_directory_that_is_in_use_or_not_ours_is_refused(launcher, tmp_path):
    node = launcher.start(data=tmp_path / "data")
    assert "is in use by another process" in refused(tmp_path)
    node.terminate()
    assert node.wait() == 0
    secret = tmp_path / "secret"
    secret.write_text("another secret altogether")
    assert "state of cluster" in refused(tmp_path, secret_file=secret)
    name = tmp_path / "data" / "node-id"
    name.write_text("00" * 20 + "\n")
    assert "state of node" in refused(tmp_path)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
async def test_a_node_with_a_failing_disk_exits_with_status_1_and_acknowledges_nothing_unsaved(
    launcher, tmp_path, status
):
    """The kernel fails an fsync; all triples acknowledged before it are there afterwards."""
    node = launcher.start(data=tmp_path / "data")
    async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
        await client.publish(NAMES[:500], batch_triples=50)
        tracer = subprocess.Popen(
            ["strace", "-f", "-o", tmp_path / "trace", "-e", "inject=fdatasync:error=EIO", "-p", str(node.process.pid)],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        line = tracer.stderr.readline()
        if "attached" not in line:
            tracer.kill()
            tracer.communicate()
            pytest.skip(f"strace may not trace here: {line}")
        with pytest.raises(p2prdf.errors.Unavailable, match="the disk of this node failed"):
            await client.publish(NAMES[500:], batch_triples=50)
    assert await asyncio.to_thread(node.wait) == 1
    tracer.communicate()
    (line,) = [json.loads(line) for line in node.text().splitlines() if "disk_failed" in line]
    assert "Input/output error" in line["reason"]
    node.expected.append("disk_failed")
    again = launcher.start(data=tmp_path / "data")
    assert (await status(again))["peer"]["triples"] >= 500


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"file systems cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="mount is not installed")
async def test_a_node_with_a_full_disk_refuses_and_goes_on_when_there_is_room(small_disk, launcher, status, until):
    node = launcher.start(data=small_disk / "data")
    # The remaining room is too little for the 1.2 MB published; without the ballast there is room for all of it.
    (small_disk / "ballast").write_bytes(bytes(3_745_728))

    async def refuses():
        return (await status(node))["storage"]["refusal"]

    async with (
        p2prdf.connect(node.address, reconnect_seconds=0) as client,
        p2prdf.connect(node.address, reconnect_seconds=0) as other,
    ):
        publishing = asyncio.create_task(client.publish(NAMES * 10, batch_triples=1000))
        assert "the disk of this node is full" in await until(refuses)
        with pytest.raises(p2prdf.errors.Unavailable, match="the disk of this node is full"):
            await other.subscribe("SELECT ?s WHERE { ?s <urn:p> ?o }")
        with pytest.raises(p2prdf.errors.Unavailable, match="the disk of this node is full"):
            await other.publish(NAMES[:1])
        (small_disk / "ballast").unlink()

        async def goes_on():
            return not await refuses()

        await until(goes_on)
        with contextlib.suppress(p2prdf.errors.Unavailable):
            await publishing  # refused on the way, or done
        await other.publish(NAMES, batch_triples=1000)
    node.process.send_signal(signal.SIGKILL)
    node.process.wait()
    again = launcher.start(data=small_disk / "data")
    assert (await status(again))["peer"]["triples"] == 2000
    assert "disk_has_room" in node.text()
    again.terminate()
    assert again.wait() == 0
