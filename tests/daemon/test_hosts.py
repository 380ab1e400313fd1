"""Real nodes on test hosts of their own, with addresses that change and a network that breaks (``make netns``).

Each scenario runs in its own process, and its network namespaces end with the process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

NOT_HERE = 77
STORIES = {
    "rolling_restart": {"restarts": 5},
    "scaling": {"newcomers": 6, "leavers": 6},
    "partition": {"partitions": 1},
    "one_way": {"deaf ways out": 1, "deaf ways in": 1},
    "pulled_cable": {"pulled cables": 1},
    "new_addresses": {"moves": 5},
    "exchanged_addresses": {"moves": 5},
}


def told(tmp_path, story, *words):
    file = tmp_path / "told.json"
    done = subprocess.run(
        [sys.executable, "-m", "netns", story, "--cut-seconds", "8", "--json", file, *words],
        capture_output=True, text=True, timeout=1800, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    if done.returncode == NOT_HERE:
        pytest.skip(done.stderr.strip())
    assert file.exists(), done.stderr
    return done.returncode, json.loads(file.read_text())[story]


@pytest.mark.parametrize("story", STORIES)
def test_nothing_is_lost_twice_or_made_up_and_publishers_notice_nothing(story, tmp_path):
    code, figures = told(tmp_path, story)
    assert code == 0, figures
    assert figures["good"]
    assert figures["faults"] == STORIES[story]
    assert figures["verdict"]["acknowledged"] > 1000
    assert not figures["failures"]["publishers"]


def test_nodes_that_keep_nothing_lose_answers_when_they_are_moved_and_the_story_says_so(tmp_path):
    words = [f"--set={each}" for each in ("replicas=1", "copies_min=1", "durability=memory")] + ["--rest-seconds=3"]
    code, figures = told(tmp_path, "exchanged_addresses", *words)
    assert code == 1
    assert figures["verdict"]["lost"] > 0
