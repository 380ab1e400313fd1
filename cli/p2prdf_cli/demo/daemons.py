"""Node processes of the demonstration, on free loopback ports, with three safeguards against leftovers.

The demonstration stops its daemons in order (SIGTERM, a drained leave).  :meth:`Daemons.kill`, called last and
without an event loop, kills the remaining ones.  On Linux each daemon also dies with its parent, in case the parent
is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from p2prdf.errors import Unavailable

__all__ = ["Daemon", "Daemons"]

READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
LOG_TAIL_BYTES: Final = 2000
_PR_SET_PDEATHSIG: Final = 1


@dataclass(slots=True)
class Daemon:
    """One node process."""

    name: str
    process: asyncio.subprocess.Process
    address: str
    key: str
    log: Path


@dataclass(slots=True)
class Daemons:
    """The demonstration's node processes, in order of start."""

    running: list[Daemon] = field(default_factory=list)
    _pids: list[int] = field(default_factory=list)
    _folder: tempfile.TemporaryDirectory[str] | None = None

    async def start(self, count: int) -> None:
        """Start nodes, the first one as the seed of the others.  Raises Unavailable with the end of a failed node's
        log."""
        self._folder = tempfile.TemporaryDirectory(prefix="p2prdf-demo-")
        first = await self._start_one("node 1", ())
        self.running.append(first)
        others = (self._start_one(f"node {n}", ("--bootstrap", first.address)) for n in range(2, count + 1))
        self.running.extend(await asyncio.gather(*others))

    async def _start_one(self, name: str, arguments: tuple[str, ...]) -> Daemon:
        assert self._folder is not None
        log = Path(self._folder.name) / f"{name.replace(' ', '-')}.log"
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "p2prdf_node", "--listen", "127.0.0.1:0", *arguments,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=stderr,
                env=_environment(), start_new_session=True, preexec_fn=_prepare_child,
            )  # fmt: skip
        self._pids.append(process.pid)
        assert process.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(process.stdout.readline(), READY_SECONDS)
        match line.decode().split():
            case ["ready", address, key]:
                return Daemon(name, process, address, key, log)
        raise Unavailable(f"{name} did not get ready in {READY_SECONDS:.0f} s: {_tail(log)}")

    def check(self) -> None:
        """Raise Unavailable if a node has ended by itself."""
        for daemon in self.running:
            if daemon.process.returncode is not None:
                raise Unavailable(f"{daemon.name} ended with status {daemon.process.returncode}: {_tail(daemon.log)}")

    async def stop(self) -> None:
        """Ask all nodes to leave and wait until they have."""
        for daemon in self.running:
            with contextlib.suppress(ProcessLookupError):
                daemon.process.send_signal(signal.SIGTERM)
        waits = (daemon.process.wait() for daemon in self.running)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waits), STOP_SECONDS)

    def kill(self) -> None:
        """Kill the remaining processes, and remove the logs.  Harmless when all have stopped."""
        ended = {daemon.process.pid for daemon in self.running if daemon.process.returncode is not None}
        for pid in self._pids:
            if pid not in ended:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        if self._folder is not None:
            self._folder.cleanup()


def _environment() -> dict[str, str]:
    """Return this process's environment without the settings of nodes."""
    return {name: value for name, value in os.environ.items() if not name.startswith("P2PRDF_")}


def _prepare_child() -> None:
    """Run in the new process: restore SIGINT even if the parent ignores it, and die with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _tail(log: Path) -> str:
    return log.read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "replace").strip() or "(it wrote no log)"
