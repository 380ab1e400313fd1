"""Started processes that react to SIGINT, also where the tests themselves ignore it."""

from __future__ import annotations

import signal

__all__ = ["let_children_be_interrupted"]


def let_children_be_interrupted() -> None:
    """Make started processes react to SIGINT although the calling process ignores it.

    A shell without job control starts the command before ``&`` with SIGINT ignored, and child processes inherit
    an ignored signal.  A handler is not inherited: ``execve`` replaces it by the default action.  This function
    therefore installs a handler that does nothing in place of "ignore".
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _nothing)


def _nothing(_number: int, _frame: object) -> None:
    """Ignore the signal."""
