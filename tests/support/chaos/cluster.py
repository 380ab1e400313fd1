"""Node processes with data directories: started, killed, paused, started again at the same address.

Ports are chosen below the range that the system gives to outgoing connections, so that none of those takes a
node's port while the node is down.  Every process is set to die with this one (Linux), and
:meth:`Cluster.close` kills the remaining ones.  A process that ends without having been asked to is a finding
(``failures``).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import p2prdf
from chaos.proxy import Proxy
from p2prdf.columns import LISTS
from p2prdf.errors import LocalProtocolError, P2PRDFError
from p2prdf.rdf.dictionary import TermNames
from p2prdf.wire.codec import FrameCodec, FrameReader
from p2prdf.wire.messages import PeerHello
from p2prdf_node.transport import bind_pair

__all__ = ["Cluster", "Node", "NodeFailed", "sender_of"]

READY_SECONDS: Final = 60.0
WHOLE_SECONDS: Final = 60.0
STATUS_SECONDS: Final = 3.0
STOP_SECONDS: Final = 45.0
"""Bound in seconds of a node's leaving: 20 s (``drain_seconds``), and time for its disk."""
POLL_SECONDS: Final = 0.05
LOG_TAIL_BYTES: Final = 2000
PORTS: Final = range(20_000, 32_000)
_PR_SET_PDEATHSIG: Final = 1


class NodeFailed(Exception):
    """A node did not get ready, or ended by itself."""


@dataclass(slots=True)
class Node:
    """One node: a place in the cluster, independent of the process that runs there now.

    ``address``: the address for clients.  ``advertised``: the address for other nodes; its front, if there is a
    proxy. ``enter``: called in each new process before it becomes a node.
    """

    name: str
    address: str
    advertised: str
    folder: Path
    arguments: list[str]
    process: asyncio.subprocess.Process | None = None
    ready: bool = False
    paused: bool = False
    starts: int = 0
    failures: list[str] = field(default_factory=list)
    enter: Callable[[], None] | None = None
    _dying: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        """Whether the node's process runs and is not paused."""
        return self.ready and not self.paused

    @property
    def log(self) -> Path:
        """The node's standard error, of all its incarnations."""
        return self.folder / "log"

    async def start(self) -> float:
        """Start the process; return the seconds until it is ready.  Raises NodeFailed."""
        if self._dying is not None:
            await self._dying.wait()  # it holds the port until then
        begun = time.monotonic()
        self.starts += 1
        with self.log.open("ab") as log:
            self.process = process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "p2prdf_node", *self.arguments,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("P2PRDF_")},
                start_new_session=True, preexec_fn=self.begin,
            )  # fmt: skip
        assert process.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(process.stdout.readline(), READY_SECONDS)
        if not line.startswith(b"ready ") and self.process is process:
            raise NodeFailed(f"{self.name} did not get ready: {self.tail()}")
        self.ready = self.process is process
        return time.monotonic() - begun

    def begin(self) -> None:
        """Run in the new process: tie its life to this one's, and enter its namespace."""
        _die_with_parent()
        if self.enter is not None:
            self.enter()

    async def leave(self, seconds: float = STOP_SECONDS) -> float:
        """Ask the process to stop in order; return the seconds it took.  Raises NodeFailed."""
        process = self.process
        assert process is not None, "it runs"
        begun = time.monotonic()
        self._dying = process
        self._forget()
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)
        if process.returncode != 0:
            raise NodeFailed(f"{self.name} did not stop in order (status {process.returncode}): {self.tail()}")
        return time.monotonic() - begun

    def kill(self) -> None:
        """Send SIGKILL, in any state of the process."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self._dying = self.process
        self._forget()

    def _forget(self) -> None:
        self.process, self.ready, self.paused = None, False, False

    def pause(self) -> None:
        """SIGSTOP: alive for the kernel, dead for everybody else."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        if self.process is not None and self.paused:
            self.process.send_signal(signal.SIGCONT)
            self.paused = False

    def check(self) -> None:
        """Record a process that ended without having been asked to."""
        if self.process is not None and self.process.returncode is not None:
            self.failures.append(f"{self.name} ended with status {self.process.returncode}: {self.tail()}")
            self._forget()

    def tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "replace").strip() or "(it wrote no log)"

    def tracebacks(self) -> int:
        """Count unexpected errors in the log."""
        return self.log.read_bytes().count(b"Traceback")

    async def status(self) -> dict[str, Any] | None:
        """Return the node's state, None if it does not answer."""
        try:
            async with asyncio.timeout(STATUS_SECONDS), p2prdf.connect(self.address, reconnect_seconds=0) as client:
                return await client.status()
        except (P2PRDFError, TimeoutError):
            return None


class Cluster:
    """Some nodes on this machine, behind a proxy if ``behind_proxy``.

    ``settings``: of every node, by name as in docs/reference/operations.md.  Everything lies in ``folder``, a temporary
    one by default; it is removed at the end unless ``keep`` is set.
    """

    def __init__(
        self,
        count: int,
        settings: Mapping[str, object],
        *,
        behind_proxy: bool = False,
        folder: Path | None = None,
        seed: int = 0,
    ):
        self.keep = folder is not None
        self.folder = Path(tempfile.mkdtemp(prefix="p2prdf-chaos-")) if folder is None else folder
        self.nodes: list[Node] = []
        self.former: list[Node] = []
        """Nodes that have left for good."""
        self.proxy: Proxy | None = None
        self._count = count
        self._settings = settings
        self._behind_proxy = behind_proxy
        self._seed = seed

    async def start(self) -> None:
        """Start all nodes and wait until the cluster is whole.  Raises NodeFailed."""
        ports = _free_ports(2 * self._count)
        names = [f"n{number}" for number in range(self._count)]
        own = [f"127.0.0.1:{port}" for port in ports[: self._count]]
        fronts = [f"127.0.0.1:{port}" for port in ports[self._count :]] if self._behind_proxy else own
        if self._behind_proxy:
            by_front = dict(zip(fronts, names, strict=True))
            self.proxy = Proxy(lambda received: sender_of(received, by_front), seed=self._seed)
            for name, target, front in zip(names, own, fronts, strict=True):
                await self.proxy.open(name, _pair(target), front=_pair(front))
        for number, name in enumerate(names):
            folder = self.folder / name
            folder.mkdir(parents=True)
            others = ",".join(front for front in fronts if front != fronts[number])
            settings = {
                "listen": own[number], "advertise": fronts[number], "bootstrap": others, "data": folder / "data",
                "ordinal": number, "log_format": "json", **self._settings,
            }  # fmt: skip
            arguments = [
                part for key, value in settings.items() if value != ""
                for part in (f"--{key.replace('_', '-')}", str(value))
            ]  # fmt: skip
            self.nodes.append(Node(name, own[number], fronts[number], folder, arguments))
        await asyncio.gather(*(node.start() for node in self.nodes))
        await self.until_whole()

    @property
    def running(self) -> list[Node]:
        """Nodes that are ready and neither killed nor paused."""
        return [node for node in self.nodes if node.running]

    @property
    def addresses(self) -> list[str]:
        """The addresses that clients connect to."""
        return [node.address for node in self.nodes]

    @property
    def failures(self) -> list[str]:
        """Processes that ended without having been asked to."""
        return [failure for node in self.nodes for failure in node.failures]

    async def statuses(self) -> list[dict[str, Any] | None]:
        """Return the state of every node, None for a node that gives none."""
        return await asyncio.gather(*(node.status() for node in self.nodes))

    async def until_whole(self, seconds: float = WHOLE_SECONDS) -> float:
        """Wait until every node knows all others and no copy is missing anywhere.

        Returns how many seconds it took.  Raises NodeFailed.
        """
        begun = time.monotonic()
        while not all(state is not None and self._whole(state["peer"]) for state in await self.statuses()):
            for node in self.nodes:
                node.check()
            if self.failures:
                raise NodeFailed(self.failures[0])
            if time.monotonic() - begun > seconds:
                raise NodeFailed(f"the cluster is not whole after {seconds:.0f} s")
            await asyncio.sleep(POLL_SECONDS)
        return time.monotonic() - begun

    def _whole(self, peer: dict[str, Any]) -> bool:
        met = len(peer["contacts"]) == len(self.nodes) and peer["settled"]
        return met and peer["in_sync"] and not peer["comparing"] and not peer["recomputing"]

    async def stop(self, seconds: float = STOP_SECONDS) -> list[str]:
        """Ask all nodes to stop in order; return those that failed, or took too long."""
        for node in self.nodes:
            if node.process is not None:
                node.resume()
                node.check()
        asked = [(node, node.process) for node in self.nodes if node.process is not None]
        for _, process in asked:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(process.wait() for _, process in asked)), seconds)
        for node, _ in asked:
            node.ready = False
        return [
            f"{node.name} did not stop in order (status {process.returncode}): {node.tail()}"
            for node, process in asked
            if process.returncode != 0
        ]

    async def close(self) -> None:
        """Kill the processes that still run; remove their files unless they are to be kept."""
        for node in self.nodes:
            node.kill()
            if node._dying is not None:
                await node._dying.wait()
        if self.proxy is not None:
            await self.proxy.close()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    """Return ports that are free for streams and datagrams, in random order."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        try:
            for each in bind_pair("127.0.0.1", port):
                each.close()
        except LocalProtocolError:
            continue
        found.append(port)
        if len(found) == count:
            return found
    raise NodeFailed(f"there are no {count} free ports")


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def sender_of(received: bytes, by_front: Mapping[str, str]) -> str | None:
    """Return the node that opened a stream, by the hello in its first frame; "" if it is no node."""
    bodies: Sequence[bytes] = FrameReader().feed(received)
    if not bodies:
        return None
    for message in FrameCodec(TermNames(), LISTS).decode(bodies[0]):
        if isinstance(message, PeerHello):
            return by_front.get(f"{message.sender.host}:{message.sender.port}", "")
    return ""


def _die_with_parent() -> None:
    """Run in the new process: ask the kernel to end it when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
