"""Drivers as processes, with everything below them: started, watched, killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import ClassVar, Final

__all__ = ["Driver", "DriverFailed", "Standalone", "until"]

LOOPBACK: Final = "127.0.0.1"
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"


class DriverFailed(Exception):
    """A driver ended otherwise than it should."""


class Driver:
    """One driver process, its JVM and its workers: a process group of their own."""

    _started: ClassVar[list[Driver]] = []

    def __init__(self, name: str, folder: Path, process: asyncio.subprocess.Process):
        self._started.append(self)
        self.name = name
        self._log = folder / f"{name}.log"
        self._process = process
        self.begun = time.monotonic()

    @classmethod
    async def start(cls, name: str, folder: Path, *arguments: str) -> Driver:
        """Start ``spark_check.driver`` with arguments."""
        log = folder / f"{name}.log"
        here = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK}  # as a cluster's user sets it, too
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "spark_check.driver", *arguments, start_new_session=True, env=os.environ | here,
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        return cls(name, folder, process)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def done(self, seconds: float) -> float:
        """Wait for a good end; return the seconds since the start.  Raises DriverFailed."""
        try:
            async with asyncio.timeout(seconds):
                status = await self._process.wait()
        except TimeoutError:
            self.kill()
            raise DriverFailed(f"{self.name} did not end within {seconds:.0f} s: {self.tail()}") from None
        if status != 0:
            raise DriverFailed(f"{self.name} ended with {status}: {self.tail()}")
        return time.monotonic() - self.begun

    def kill(self) -> None:
        """SIGKILL for the driver, its JVM and their process group; workers end when the JVM is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @classmethod
    def kill_all(cls) -> None:
        """Kill those that still run: they are no longer in the process group of their starter."""
        for each in cls._started:
            if each.running:
                each.kill()

    def tail(self) -> str:
        """Return the end of its output."""
        return self.text()[-3000:]

    def text(self) -> str:
        """Return all that it wrote."""
        return self._log.read_text(errors="replace")

    def executors(self) -> list[int]:
        """Return the processes of its executors."""
        return [pid for pid in _below(self._process.pid) if _EXECUTOR in _command(pid)]


def _below(root: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found, todo = [], [root]
    while todo:
        above = todo.pop()
        below = [pid for pid, parent in parents.items() if parent == above]
        found += below
        todo += below
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def until(condition, seconds: float, what: str):
    """Wait until a condition (a coroutine function) holds; return its value.  Raises DriverFailed at the deadline."""
    deadline = time.monotonic() + seconds
    while not (value := await condition()):
        if time.monotonic() > deadline:
            raise DriverFailed(f"{what}: not within {seconds:.0f} s")
        await asyncio.sleep(0.1)
    return value


class Standalone:
    """A standalone cluster of Spark: a master and a worker, from the programs that pip installs."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._processes: list[asyncio.subprocess.Process] = []
        self.master = f"spark://{LOOPBACK}:{_free_port()}"

    async def start(self) -> None:
        """Start both, and wait until the worker has registered."""
        from p2prdf.publish.java import ensure_java

        ensure_java()
        port = self.master.rpartition(":")[2]
        named = ("--host", LOOPBACK, "--port")
        await self._start("master.Master", *named, port, "--webui-port", "0")
        size = ("--cores", "2", "--memory", "1g")
        await self._start("worker.Worker", *named, "0", "--webui-port", "0", *size, self.master)

        async def registered() -> bool:
            return "Successfully registered with master" in (self._folder / "worker.Worker.log").read_text()

        await until(registered, 120, "the worker of a standalone cluster")

    async def _start(self, name: str, *arguments: str) -> None:
        import pyspark

        environment = {
            **os.environ, "SPARK_LOCAL_IP": LOOPBACK, "SPARK_WORKER_DIR": str(self._folder / "work"),
            "SPARK_CONF_DIR": str(self._folder), "PYSPARK_PYTHON": sys.executable,
        }  # fmt: skip
        self._folder.mkdir(exist_ok=True)
        with (self._folder / f"{name}.log").open("wb") as log:
            command = (Path(pyspark.__file__).parent / "bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments)
            self._processes.append(
                await asyncio.create_subprocess_exec(
                    *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,
                )
            )  # fmt: skip

    async def close(self) -> None:
        """End both, and the processes that they have started."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])
