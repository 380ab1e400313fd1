"""Equal seeds give equal traces, under any order of Python's hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"


def _trace(seed: int, hash_seed: str) -> list[str]:
    """Return every message, outcome and fact of one simulated story, without the line about its speed."""
    run = subprocess.run(
        [sys.executable, "-m", "schedules", "--seeds", "1", "--start", str(seed), "--trace"],
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(SUPPORT)}, check=False,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    return [line for line in run.stdout.splitlines() if " seeds/s" not in line]


@pytest.mark.parametrize("seed", [2, 8])
def test_a_seed_gives_one_trace_under_any_hash_seed(seed: int) -> None:
    first, second = _trace(seed, "0"), _trace(seed, "4711")
    assert len(first) > 20
    assert first == second
