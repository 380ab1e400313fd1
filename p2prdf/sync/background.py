"""A thread with an event loop of its own, in which the calls of other threads run.

Each call is one task of the loop; the calling thread waits for it.  A signal interrupts the waiting: the task is
cancelled and :class:`KeyboardInterrupt` goes on in the calling thread.  The thread is a daemon and refers to nothing
of its users.  So an abandoned client is collected and closed, and the interpreter closes those that remain at exit.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Generic, TypeVar

from p2prdf.errors import LocalProtocolError, P2PRDFError, Unavailable

__all__ = ["Background"]

_R = TypeVar("_R")
_CANCEL_SECONDS: Final = 10.0
"""How long an interrupted call may take to end: a query ends its subscription first."""
_EXIT_SECONDS: Final = 5.0
"""How long the interpreter waits for a connection to close."""


class _Call(Generic[_R]):
    """One call: a task of the loop, and its outcome for the waiting thread."""

    def __init__(self, begin: Callable[[], Awaitable[_R]]):
        self._begin = begin
        self._task: asyncio.Task[_R] | None = None
        self.ended = threading.Event()

    def start(self) -> None:
        """Start the task.  Called in the loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="p2prdf-sync-call")
        self._task.add_done_callback(self._done)

    def _done(self, _: asyncio.Task[_R]) -> None:
        if not _exits.is_set():  # only daemon threads still wait then, and an error in them would be printed
            self.ended.set()

    async def _run(self) -> _R:
        return await self._begin()

    def cancel(self) -> None:
        """Cancel the task.  Called in the loop."""
        if self._task is None:  # the interrupt came before the start
            self.ended.set()
        else:  # not before the first step: an item that is waiting is taken even without time to wait
            asyncio.get_running_loop().call_soon(self._task.cancel)

    @property
    def cancelled(self) -> bool:
        """Whether the ended task was cancelled."""
        assert self._task is not None
        return self._task.cancelled()

    @property
    def succeeded(self) -> bool:
        """Whether the ended task has a result."""
        return self._task is not None and not self._task.cancelled() and self._task.exception() is None

    def result(self) -> _R:
        """Return the result of the ended task, or raise its error."""
        assert self._task is not None
        return self._task.result()


class _Loop:
    """The loop and its thread.  Knows no :class:`Background`, so that an abandoned one is collected."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._stop = asyncio.Event()
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """Carried out before the loop ends, the last one first."""
        self.thread = threading.Thread(target=self._work, name="p2prdf-sync", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stop.wait()
        for close in reversed(self.closing):
            with contextlib.suppress(P2PRDFError, OSError):
                await close()

    def schedule(self, function: Callable[[], None]) -> None:
        """Call a function in the loop.  Raises Unavailable after :meth:`close`, LocalProtocolError after a fork."""
        if os.getpid() != self._process:
            raise LocalProtocolError("this client belongs to the process before the fork: connect again")
        with self._lock:  # every function scheduled before the end of the loop runs
            if self._closed:
                raise Unavailable("the client was closed")
            self._loop.call_soon_threadsafe(function)

    def close(self, seconds: float | None = None) -> None:
        """End the loop and its thread; calls under way raise Unavailable.  ``seconds``: how long to wait for it."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self.thread:  # the thread itself may collect an abandoned client
            self.thread.join(seconds)


_loops: weakref.WeakSet[_Loop] = weakref.WeakSet()
_exits = threading.Event()
"""The interpreter exits."""


@atexit.register
def _exit() -> None:
    """Close the connections that are still open."""
    _exits.set()
    for each in list(_loops):
        each.close(_EXIT_SECONDS)


class Background:
    """A thread with an event loop, for the calls of any number of other threads."""

    def __init__(self) -> None:
        self._loop = _Loop()
        self._end = weakref.finalize(self, self._loop.close, _EXIT_SECONDS)
        self._end.atexit = False
        _loops.add(self._loop)

    def before_closing(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have ``close`` carried out in the loop before it ends."""
        self._loop.closing.append(close)

    def close(self) -> None:
        """End the loop and the thread.  Calls under way in other threads raise Unavailable."""
        self._loop.close()
        self._end.detach()

    def run(
        self, begin: Callable[[], Awaitable[_R]], *, timeout_seconds: float | None = None,
        put_back: Callable[[_R], None] | None = None,
    ) -> _R:  # fmt: skip
        """Carry out a call in the loop; return its result, or raise its error.

        ``begin`` is called in the loop.  ``timeout_seconds``: cancel the call after this time.
        ``put_back``: is called in the loop with the result of a call that ended while its thread was interrupted.

        Raises TimeoutError after ``timeout_seconds``, Unavailable if the client is closed meanwhile, and
        LocalProtocolError in the loop's own thread: a callback that waits would wait for itself.
        """
        if threading.current_thread() is self._loop.thread:
            raise LocalProtocolError(
                "a callback of the client calls the client and would wait for itself; call it from another thread"
            )
        call = _Call(begin)
        with self._abandoned_on_interrupt(call, put_back):
            self._loop.schedule(call.start)
            in_time = call.ended.wait(timeout_seconds)
            if not in_time:
                self._cancel(call)
                call.ended.wait()
        if call.cancelled:
            if in_time:
                raise Unavailable("the client was closed")
            raise TimeoutError(f"nothing arrived within {timeout_seconds:g} s")
        try:
            return call.result()
        finally:
            del call  # an error refers to this frame

    def read(self, function: Callable[[], _R]) -> _R:
        """Call a function in the loop and return its result.  Raises the errors of :meth:`run`."""

        async def called() -> _R:
            return function()

        return self.run(called)

    @contextlib.contextmanager
    def _abandoned_on_interrupt(
        self, call: _Call[_R], put_back: Callable[[_R], None] | None
    ) -> Iterator[None]:
        """Cancel a call if a signal interrupts the thread that waits for it."""
        try:
            yield
        except P2PRDFError:  # the call was not scheduled
            raise
        except BaseException:
            self._cancel(call)
            if call.ended.wait(_CANCEL_SECONDS) and call.succeeded and put_back is not None:
                result = call.result()
                self.read(lambda: put_back(result))
            raise

    def _cancel(self, call: _Call[_R]) -> None:
        with contextlib.suppress(Unavailable):  # the end of the loop cancels it
            self._loop.schedule(call.cancel)
