"""End of a command: one line on standard error for an error, and an exit code for scripts.

Expected errors are those of :mod:`p2prdf.errors` and of the operating system; they become ``p2prdf: error [code]:
text``.  Any other exception is a defect and shows its traceback.

An interruption (Ctrl-C, or SIGTERM from a supervisor) cancels the command's task, so that its ``finally`` blocks
clean up: daemons, subscriptions, progress bars, state files.  When the reader of a pipe goes away, as in ``p2prdf
subscribe ... | head -3``, the command ends quietly, like other Unix tools.
"""

from __future__ import annotations

import asyncio
import enum
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, Final

import typer

from p2prdf.errors import Busy, LocalProtocolError, P2PRDFError, Unavailable

__all__ = ["EXIT_CODES", "EXIT_CODES_HELP", "ExitCode", "complain", "run", "run_plain"]


class ExitCode(enum.IntEnum):
    """Exit codes of every command; 2 is the argument parser's own."""

    OK = 0
    """Done."""

    FAILURE = 1
    """Failed: a file cannot be read, a comparison found differences, or the node broke the protocol."""

    USAGE = 2
    """Wrong usage: an unknown option, a missing argument, an invalid setting."""

    UNAVAILABLE = 3
    """The node cannot be reached, went away, or stays too busy."""

    REFUSED = 4
    """Refused: the query or the data is malformed or not supported, or the subscription does not exist."""

    CLAIM = 5
    """An experiment ran, and a claim about its figures does not hold."""

    INTERRUPTED = 130
    """Interrupted (Ctrl-C)."""

    PIPE_CLOSED = 141
    """The reader of the output went away, as in `p2prdf subscribe ... | head -3`."""

    TERMINATED = 143
    """Ended by SIGTERM."""


EXIT_CODES: Final = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unavailable, 4 refused, 130 interrupted."
EXIT_CODES_HELP: Final = "Exit codes: see p2prdf --help."


def complain(error: BaseException) -> ExitCode:
    """Write the line about an error, and return its exit code."""
    code = error.code if isinstance(error, P2PRDFError) else "system"
    text = _system_text(error) if isinstance(error, OSError) else str(error)
    print(f"p2prdf: error [{code}]: {' '.join(text.split())}", file=sys.stderr)
    if isinstance(error, Unavailable | Busy):
        return ExitCode.UNAVAILABLE
    if isinstance(error, LocalProtocolError):
        return ExitCode.REFUSED
    return ExitCode.FAILURE


def run(action: Coroutine[Any, Any, ExitCode | None]) -> None:
    """Run a command's coroutine to its end, and leave the process with its exit code."""
    raise typer.Exit(_guarded(lambda: _run_loop(action)))


def run_plain(action: Any) -> None:
    """Run a command without an event loop, as :func:`run` does."""
    raise typer.Exit(_guarded(action))


def _guarded(action: Any) -> int:
    try:
        code = action()
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes standard output once more at exit: redirect it to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE_CLOSED
    except (P2PRDFError, OSError) as error:
        return complain(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BaseExceptionGroup as group:
        return _guarded_group(group)
    return ExitCode.OK if code is None else code


def _guarded_group(group: BaseExceptionGroup[BaseException]) -> int:
    """Report the first error of a task group; its siblings were cancelled because of it."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]

    def again() -> None:
        raise first from group

    return _guarded(again)


def _run_loop(action: Coroutine[Any, Any, ExitCode | None]) -> int | None:
    terminated = False

    async def main() -> ExitCode | None:
        task = asyncio.current_task()
        assert task is not None

        def terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await action

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(main())
    except asyncio.CancelledError:
        if terminated:
            return ExitCode.TERMINATED
        raise


def _loop_factory() -> Any:
    import uvloop  # slow to load for --help

    return uvloop.new_event_loop


def _system_text(error: OSError) -> str:
    if error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
