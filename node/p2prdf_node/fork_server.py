"""Fork server: forks children from a process that the node left behind before it had threads.

A node forks the server at its very start (:meth:`ForkServer.start`): before the event loop, sockets, threads and the
lock on the data directory exist.  The server therefore shares the node's imported modules (copy on write), and holds
none of its resources: it closes all inherited descriptors and gets a session of its own, so signals to the node's
process group do not reach it.  On request it forks a child, which serves one stream socket.  The server reports the
end of each child.  When the node ends, by any signal, the server reads the end of its control socket, kills its
children and exits.

The control socket keeps message boundaries.  Requests: ``F`` with one descriptor (fork a child that serves it), ``K``
and a process id (kill that child).  Reports: ``S`` and a process id (forked), ``E`` and a process id (ended), ``N``
(the fork failed).  The server reaps a child only after its end, so a process id in use never belongs to another
process.

Only Linux is served: other platforms have no ``fork``, or system libraries that do not survive it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from p2prdf.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["ForkServer", "ForkedChild"]

_REPORT: Final = struct.Struct(">ci")
_FORK, _KILL = b"F", b"K"
_STARTED, _ENDED, _NOT_STARTED = b"S", b"E", b"N"
_NAME: Final = "p2prdf-parser"
"""Name of the server and its children in lists of processes."""


class ForkedChild:
    """A child of the fork server, seen from the node."""

    def __init__(self, server: ForkServer, pid: int):
        self.pid = pid
        self._server = server
        self._ended = asyncio.Event()

    def kill(self) -> None:
        """Have the child killed; nothing happens if it has ended."""
        if not self._ended.is_set():
            self._server.kill(self.pid)

    async def wait(self) -> None:
        """Wait until the child has ended."""
        await self._ended.wait()

    def note_end(self) -> None:
        """Record that the process is gone."""
        self._ended.set()


class ForkServer:
    """The node's end of the control socket.  All methods except :meth:`start` belong to the event loop."""

    def __init__(self, pid: int, control: socket.socket):
        self.pid = pid
        self._control = control
        self._children: dict[int, ForkedChild] = {}
        self._starting: deque[asyncio.Future[ForkedChild]] = deque()
        """The children that were asked for, in order."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gone = False

    @classmethod
    def start(cls, prepare: Callable[[], None], serve: Callable[[socket.socket], None]) -> ForkServer | None:
        """Fork the server, or return None where a fork is unsafe (another platform, a process with threads).

        ``prepare`` runs in the server before its first fork and loads the modules that children share; ``serve`` runs
        in each child.
        """
        if sys.platform != "linux" or threading.active_count() > 1:
            return None
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError:
            own.close()
            other.close()
            return None
        if pid == 0:
            _exit_after(lambda: _run_server(other, prepare, serve))
        other.close()
        own.setblocking(False)
        return cls(pid, own)

    @property
    def gone(self) -> bool:
        """Whether the server has ended; no child can be forked any more."""
        return self._gone

    async def fork(self, served: socket.socket) -> ForkedChild:
        """Fork a child that serves a socket, and close that socket here.  Raises Unavailable."""
        with served:
            if self._gone:
                raise Unavailable("the fork server of the query parser has ended")
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
                self._loop.add_reader(self._control.fileno(), self._read)
            try:
                socket.send_fds(self._control, [_FORK], [served.fileno()])
            except OSError as error:
                raise Unavailable(f"the fork server of the query parser takes no request: {error}") from error
            started: asyncio.Future[ForkedChild] = self._loop.create_future()
            self._starting.append(started)
        return await started

    def kill(self, pid: int) -> None:
        """Kill a child that has not ended."""
        try:
            self._control.send(_REPORT.pack(_KILL, pid))
        except OSError:
            _kill(pid)

    def close(self) -> None:
        """End the server."""
        if self._gone:
            return
        self._end()
        _kill(self.pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _read(self) -> None:
        try:
            report = self._control.recv(_REPORT.size)
        except BlockingIOError:
            return
        except OSError:
            report = b""
        if not report:
            self.close()
            return
        what, pid = _REPORT.unpack(report)
        if what == _ENDED:
            self._children.pop(pid).note_end()
            return
        starting = self._starting.popleft()
        if what == _NOT_STARTED:
            _fail(starting, "the fork server of the query parser cannot fork")
            return
        self._children[pid] = child = ForkedChild(self, pid)
        if starting.done():  # its caller was cancelled meanwhile
            child.kill()
        else:
            starting.set_result(child)

    def _end(self) -> None:
        self._gone = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._control.fileno())
        self._control.close()
        children, self._children = self._children, {}
        for pid, child in children.items():
            _kill(pid)
            child.note_end()
        while self._starting:
            _fail(self._starting.popleft(), "the fork server of the query parser has ended")


def _fail(starting: asyncio.Future[ForkedChild], reason: str) -> None:
    if not starting.done():
        starting.set_exception(Unavailable(reason))


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# --- the server ----------------------------------------------------------------------------------


def _exit_after(work: Callable[[], None]) -> NoReturn:
    """Run the rest of a forked process; nothing of the process that it was forked from runs in it afterwards."""
    try:
        work()
    except BaseException:  # noqa: BLE001 - no frame of the node may see an exception of this process
        os._exit(1)
    os._exit(0)


def _run_server(control: socket.socket, prepare: Callable[[], None], serve: Callable[[socket.socket], None]) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    gc.disable()
    gc.freeze()  # a collection would copy every page shared with the node
    control = socket.socket(fileno=fcntl.fcntl(control.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    _close_others([control.fileno()])
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(_NAME, "ascii")
    children: dict[int, int] = {}
    try:
        _serve_requests(control, children, prepare, serve)
    finally:
        for pid in children.values():
            _kill(pid)


def _serve_requests(
    control: socket.socket, children: dict[int, int], prepare: Callable[[], None],
    serve: Callable[[socket.socket], None],
) -> None:  # fmt: skip
    """Serve until the node closes; ``children`` maps a descriptor that ends with the child to its process."""
    prepared = False
    while True:
        readable, _, _ = select.select([control.fileno(), *children], [], [])
        for ended in children.keys() & set(readable):
            pid = children.pop(ended)
            os.close(ended)
            os.waitpid(pid, 0)
            control.send(_REPORT.pack(_ENDED, pid))
        if control.fileno() not in readable:
            continue
        request, served, _, _ = socket.recv_fds(control, _REPORT.size, 1)
        if not request:
            return
        if request == _FORK:
            if not prepared:
                prepare()
                gc.freeze()
                prepared = True
            _fork_child(control, served[0], children, serve)
            os.close(served[0])
        else:
            _, pid = _REPORT.unpack(request)
            if pid in children.values():
                _kill(pid)


def _fork_child(
    control: socket.socket, served: int, children: dict[int, int], serve: Callable[[socket.socket], None]
) -> None:
    alive, held = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(alive)
        os.close(held)
        control.send(_REPORT.pack(_NOT_STARTED, 0))
        return
    if pid == 0:
        _close_others([served, held])
        gc.enable()
        _exit_after(lambda: serve(socket.socket(fileno=served)))
    os.close(held)
    children[alive] = pid
    control.send(_REPORT.pack(_STARTED, pid))


def _close_others(kept: Iterable[int]) -> None:
    keep = {0, 1, 2, *kept}
    for path in list(Path("/proc/self/fd").iterdir()):
        if (descriptor := int(path.name)) not in keep:
            with contextlib.suppress(OSError):  # the one that listed the directory is closed already
                os.close(descriptor)
