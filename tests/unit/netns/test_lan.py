"""Test hosts in network namespaces: reachability while a link between them is broken, and complete removal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

NOT_HERE = 77
ALL = ["a>b", "a>c", "b>a", "b>c", "c>a", "c>b"]
SECONDS = 120.0
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
WAITING = """
import os
import subprocess
import sys
from pathlib import Path
from netns.lan import Lan, Refused, enter
try:
    enter()
    lan = Lan()
except Refused as reason:
    sys.exit(f"no hosts: {reason}")
from chaos.cluster import Node
node = Node("a", "", "", Path(), [], enter=lan.add("a").enter)
waits = "import time; print(1, flush=True); time.sleep(600)"
there = subprocess.Popen([sys.executable, "-c", waits], preexec_fn=node.begin, stdout=subprocess.PIPE)
there.stdout.readline()
print(os.getpid(), there.pid, flush=True)
sys.stdin.read()
"""


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "netns", *words], capture_output=True, text=True, timeout=SECONDS, check=False,
        env=ENVIRONMENT,
    )  # fmt: skip


def test_a_fault_between_hosts_is_one_way_or_both_ways_and_affects_no_other_host():
    done = run("--check")
    if done.returncode == NOT_HERE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["whole"] == told["healed"] == told["moved"] == ALL
    assert told["cut"] == [pair for pair in ALL if pair != "a>b"], "the other way still works"
    assert told["parted"] == told["pulled"] == ["b>c", "c>b"]
    old, new = told["addresses"]
    assert old != new
    assert told["named"] == [new]


def network(process):
    """Return which network a process is in, None if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/ns/net").stat().st_ino
    return None


def test_hosts_and_their_processes_are_gone_when_their_maker_is_killed():
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=ENVIRONMENT,
    )  # fmt: skip
    with process:
        line = process.stdout.readline()
        if not line:
            pytest.skip(process.stderr.read().strip())
        own, there = map(int, line.split())
        networks = [network("self"), network(own), network(there)]
        assert len(set(networks)) == 3, "one of its own, one on the host, and neither is this one"
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)
    deadline = time.monotonic() + SECONDS
    while network(there) == networks[2]:
        assert time.monotonic() < deadline, "who ran on a host still does"
        time.sleep(0.02)
    assert network("self") == networks[0]
