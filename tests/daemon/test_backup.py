"""``p2prdf backup`` of running nodes: everything acknowledged before is in the copy, and a node starts from it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest

import p2prdf
from p2prdf.errors import LocalProtocolError, Unavailable
from p2prdf_node import backup
from p2prdf_node.backup import back_up
from p2prdf_node.storage import DirectoryLock, state_files

COUNTED = "SELECT (COUNT(*) AS ?n) { ?s <urn:p> ?o }"


def run(*arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("P2PRDF_")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-m", "p2prdf_cli", "backup", *map(str, arguments)],
        capture_output=True, text=True, env=environment, timeout=60, check=False,
    )  # fmt: skip


async def published_while(address, work):
    """Publish statements one batch after the other during some work; return numbers acknowledged before and after."""
    done, on = 0, True

    async def publish(client):
        nonlocal done
        while on:
            await client.publish([(f"<urn:s{done + n}>", "<urn:p>", f'"{done + n}"') for n in range(20)])
            done += 20

    async with p2prdf.connect(address) as client:
        task = asyncio.create_task(publish(client))
        async with asyncio.timeout(60):
            while done < 400:
                await asyncio.sleep(0.01)
        before = done
        result = await work()
        on = False
        await task
    return before, done, result


async def count(address):
    async with p2prdf.connect(address) as client:
        [(found,)] = (await client.query(COUNTED)).rows
        return int(found.split('"')[1])


def test_node_started_from_a_backup_has_everything_acknowledged_before(launcher, tmp_path):
    options = {"replicas": 1, "copies_min": 1, "compact_bytes_min": 20_000}
    node = launcher.start(data=tmp_path / "node", **options)
    copies = [tmp_path / f"copy{n}" for n in range(2)]

    async def back_up_twice():
        for each in copies:
            done = await asyncio.to_thread(run, tmp_path / "node", each)
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(f"{each}: ")

    before, after, _ = asyncio.run(published_while(node.address, back_up_twice))
    node.kill()
    for each in copies:
        restored = launcher.start(data=each, **options)
        found = asyncio.run(count(restored.address))
        assert before <= found <= after
        assert "state_damaged" not in restored.text()
        restored.kill()


def test_cluster_started_from_backups_has_everything_acknowledged_before(launcher, tmp_path):
    options = {"hello_seconds": 1, "drain_seconds": 1}
    names = [f"n{n}" for n in range(3)]
    first = launcher.start(data=tmp_path / names[0], **options)
    others = [launcher.start(data=tmp_path / each, bootstrap=first.address, **options) for each in names[1:]]

    async def back_up_all():
        for each in names:
            back_up(tmp_path / each, tmp_path / f"{each}.copy")

    before, after, _ = asyncio.run(published_while(first.address, back_up_all))
    for each in (first, *others):
        each.kill()
    first = launcher.launch(data=tmp_path / f"{names[0]}.copy", **options)
    first.wait_ready()
    for each in names[1:]:
        launcher.start(data=tmp_path / f"{each}.copy", bootstrap=first.address, **options)
    found = asyncio.run(count(first.address))
    assert before <= found <= after


# --- the copy ---------------------------------------------------------------------------------------


def directory(path, *names, content=b"x" * 100):
    """Make a data directory with some files of state."""
    (path / "state" / "quarantine").mkdir(parents=True)
    (path / "node-id").write_text("ab\n")
    (path / "state" / "owner").write_text("owner\n")
    DirectoryLock(path).release()
    for each in names:
        (path / "state" / each).write_bytes(content)
    return path


def test_newest_snapshot_and_the_logs_after_it_are_copied_and_nothing_else(tmp_path):
    names = ["00000001.snapshot", "00000002.log", "00000003.snapshot", "00000004.log", "00000005.log", "x.snapshot.new"]
    data = directory(tmp_path / "data", *names)
    size = back_up(data, tmp_path / "copy")
    copied = sorted(str(each.relative_to(tmp_path / "copy")) for each in (tmp_path / "copy").rglob("*"))
    assert copied == [
        "lock", "node-id", "state", "state/00000003.snapshot", "state/00000004.log", "state/00000005.log",
        "state/owner",
    ]
    assert size == 300 + 3 + 6
    assert not (tmp_path / "copy.partial").exists()


def test_copy_knows_since_when_its_node_is_away(tmp_path):
    data = directory(tmp_path / "data")
    os.utime(data / "lock", (1, time.time() - 500))
    back_up(data, tmp_path / "copy")
    lock = DirectoryLock(tmp_path / "copy")
    assert 499 < lock.downtime_seconds < 560
    lock.release()


def test_copy_begins_again_when_a_compaction_removes_files(tmp_path, monkeypatch):
    data = directory(tmp_path / "data", "00000001.log", "00000002.log")
    state, listed = data / "state", []

    def compacting(folder):
        names = state_files(folder)
        listed.append(names)
        if len(listed) == 1:  # after the first list
            (state / "00000002.snapshot").write_bytes(b"all")
            for each in names:
                (state / each).unlink()
        return names

    monkeypatch.setattr(backup, "state_files", compacting)
    back_up(data, tmp_path / "copy")
    assert state_files(tmp_path / "copy" / "state") == ["00000002.snapshot"]


def test_endless_compactions_are_reported_and_leave_no_copy(tmp_path, monkeypatch):
    data = directory(tmp_path / "data", "00000001.log")
    monkeypatch.setattr(backup, "state_files", lambda _: ["00000009.log"])
    with pytest.raises(Unavailable, match="compactions removed files"):
        back_up(data, tmp_path / "copy")
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_a_backup_needs_a_data_directory_and_a_new_target(tmp_path):
    data = directory(tmp_path / "data")
    (tmp_path / "taken").mkdir()
    with pytest.raises(LocalProtocolError, match="taken exists"):
        back_up(data, tmp_path / "taken")
    with pytest.raises(LocalProtocolError, match="not the data directory of a node"):
        back_up(tmp_path / "taken", tmp_path / "copy")
    done = run(tmp_path / "nowhere", tmp_path / "copy")
    assert done.returncode == 4
    assert "is not the data directory of a node" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_target_that_cannot_be_written_is_reported(tmp_path):
    data = directory(tmp_path / "data")
    (tmp_path / "closed").mkdir(mode=0o500)
    done = run(data, tmp_path / "closed" / "copy")
    assert done.returncode == 1
    assert "Permission denied" in done.stderr
