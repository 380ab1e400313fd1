"""Real node processes on loopback.  Every wait has a deadline and ends on a condition."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import p2prdf

READY_SECONDS = 60.0
LAST_SECONDS = 1
"""Seconds that nodes may take to leave if all leave at once: no node remains for a handoff."""
HERE = Path(__file__).parent
_shared = {}
"""Resources that tests of several files share: name to the pair of resource and function that ends it."""


class NodeProcess:
    """One daemon as a child process."""

    def __init__(self, directory, name, *, module="p2prdf_node", **options):
        """Start a process; ``module`` names the Python module to run, if it is not a node."""
        self.log = directory / f"{name}.log"
        command = [sys.executable, "-m", module]
        for option, value in {"listen": "127.0.0.1:0", "log_format": "json", **options}.items():
            command += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("P2PRDF_")}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True
            )
        self.address = self.key = ""
        self.expected = ["link_failed", "tcp_probe_failed"]
        """Failures that a test brings about."""

    def wait_ready(self):
        """Read the one line of standard output."""
        readable, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS)
        line = self.process.stdout.readline() if readable else ""
        assert line.startswith("ready "), f"no ready line but {line!r}; log:\n{self.text()}"
        _, self.address, self.key = line.split()
        return self

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def text(self):
        return self.log.read_text(errors="replace")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wait(self, seconds=15.0):
        return self.process.wait(seconds)

    def close(self):
        """Stop the process in any state, and check that its log holds no unexpected failure."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            self.process.wait(60)  # a node that leaves may take 20 s
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()
        assert "Traceback" not in self.text(), self.text()
        text = self.text()
        for event in self.expected:
            text = text.replace(event, "")
        assert "_failed" not in text, self.text()


class Launcher:
    """Starts nodes, and stops all of them in the end."""

    def __init__(self, directory):
        self.directory = directory
        self.nodes = []

    def start(self, **options):
        """Start one node and wait until it is ready."""
        return self.launch(**options).wait_ready()

    def launch(self, **options):
        """Start one node without waiting."""
        node = NodeProcess(self.directory, f"node{len(self.nodes)}", **options)
        self.nodes.append(node)
        return node

    def overlay(self, count, **options):
        """Start an overlay: the other members join by the first one."""
        first = self.start(**options)
        others = [self.launch(bootstrap=first.address, **options) for _ in range(count - 1)]
        return [first, *(node.wait_ready() for node in others)]

    def close(self):
        for node in self.nodes:
            with contextlib.suppress(ProcessLookupError):
                node.process.terminate()
        with contextlib.ExitStack() as stack:  # closes all, even if closing one of them raises
            for node in self.nodes:
                stack.callback(node.close)


@pytest.fixture
def launcher(tmp_path):
    """Nodes of one test."""
    started = Launcher(tmp_path)
    yield started
    started.close()


@pytest.fixture(scope="session")
def launcher_in(tmp_path_factory):
    """Start nodes for several tests, and stop them when the context is left."""

    @contextlib.contextmanager
    def started(name):
        launcher = Launcher(tmp_path_factory.mktemp(name))
        try:
            yield launcher
        finally:
            launcher.close()

    return started


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """End the shared resources after the last test of this folder: idle nodes take time from the remaining tests.

    Some thirty nodes are running at the end of this folder, and most tests of the suite may still follow.
    """
    if nextitem is None or nextitem.path.parent != HERE:
        with contextlib.ExitStack() as stack:  # ends all, even if ending one of them raises
            while _shared:
                _, (_, end) = _shared.popitem()
                stack.callback(end)


def shared(name, start):
    """Return the shared resource of a name; create it with ``start`` at first use.

    ``start`` returns the resource and the function that ends it.
    """
    if name not in _shared:
        _shared[name] = start()
    return _shared[name][0]


def running(directory, **options):
    """Return five nodes that know each other, as their launcher, and how they are stopped."""
    launcher = Launcher(directory)
    try:
        nodes = launcher.overlay(5, hello_seconds=1, drain_seconds=LAST_SECONDS, **options)
        ready_at = time.monotonic()
        asyncio.run(until(lambda: all_know_each_other(nodes), seconds=15))
    except BaseException:
        launcher.close()
        raise
    launcher.seconds_to_meet = time.monotonic() - ready_at
    return launcher, launcher.close


@pytest.fixture
def overlays(tmp_path_factory):
    """Overlays of five nodes, one of each kind, started when first asked for."""
    return lambda kind: shared(kind, lambda: running(tmp_path_factory.mktemp(kind), **options_of(kind)))


@pytest.fixture
def keeping_all(tmp_path_factory):
    """Five nodes with unlimited retention, so that any pattern finds earlier publications; tests must not hurt them.

    Queries with conditions on texts use keyword routing there.
    """
    return shared("all", lambda: running(tmp_path_factory.mktemp("all"), keyword_routing="on")).nodes


@pytest.fixture
def spark(tmp_path_factory):
    """A session with two cores on this machine; each task has three attempts.

    All tests share one: its start takes longer than most of their work.
    """
    from p2prdf.publish import session

    def start():
        folder = tmp_path_factory.mktemp("spark")
        started = session(
            master="local[2,3]",
            settings={
                "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2",
                "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.driver.memory": "512m", "spark.task.maxFailures": "3",
                # No code here runs often enough to repay the time of Java's optimising compiler.
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            },
        )  # fmt: skip
        return started, started.stop

    return shared("spark", start)


@pytest.fixture
def overlay(request, overlays):
    """Five nodes that know each other; shared by all tests that do not hurt them.

    With Kademlia's metric and a view, or of the kind that a test is parametrised with (indirectly).
    """
    return overlays(getattr(request, "param", "kademlia")).nodes


def options_of(kind):
    """Return the settings of a kind of overlay: its metric, and how members know each other if not by a view."""
    overlay, _, membership = kind.partition(" ")
    if not membership:
        return {"overlay": overlay}
    return {"overlay": overlay, "membership": membership, "replicas": 1, "copies_min": 1}


@pytest.fixture(params=["kademlia", "chord", "kademlia overlay", "chord overlay"])
def kind(request):
    """Each kind of overlay."""
    return request.param


@pytest.fixture(name="options_of")
def _options_of():
    return options_of


async def until(condition, seconds=10.0):
    """Wait until an asynchronous condition holds; return its value.  Fails at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = await condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"the condition did not come true within {seconds} s"
        await asyncio.sleep(0.02)


async def status(node):
    """Return a node's state."""
    async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
        return await client.status()


async def all_know_each_other(nodes):
    """Tell whether each node has all the others in its table."""
    keys = {node.key for node in nodes}
    views = [{peer["key"] for peer in (await status(node))["peers"]} | {node.key} for node in nodes]
    return all(view == keys for view in views)


@pytest.fixture(name="until", scope="session")
def _until():
    return until


@pytest.fixture(name="status")
def _status():
    return status


@pytest.fixture(name="all_know_each_other", scope="session")
def _all_know_each_other():
    return all_know_each_other


@pytest.fixture
def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
