"""A process without a port shows by a file that its loop turns."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from p2prdf_cli import registered
from p2prdf_cli.registered import sign_of_life


async def test_the_file_is_touched_until_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered, "ALIVE_SECONDS", 0.01)
    file = tmp_path / "alive"
    async with asyncio.timeout(30), sign_of_life(file):
        for _ in range(2):
            os.utime(file, (0, 0))
            while file.stat().st_mtime == 0:
                await asyncio.sleep(0.005)
    os.utime(file, (0, 0))
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert file.stat().st_mtime == 0


async def test_a_file_that_cannot_be_written_is_reported_at_the_beginning(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with sign_of_life(tmp_path / "absent/alive"):
            raise AssertionError
    async with sign_of_life(None):
        assert list(tmp_path.iterdir()) == []
