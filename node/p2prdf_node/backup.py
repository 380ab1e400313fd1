"""A copy of a node's data directory that is consistent while the node runs.

The node does not take part.  Its files only grow (:mod:`p2prdf_node.storage`): a log is appended to, a snapshot never
changes, and a compaction makes a snapshot before it removes the files that this replaces.  So the copy opens the
newest snapshot and the logs after it, and lists the directory again.  If a compaction came in between, it begins
again; otherwise the open files belong together, also if they are removed from now on.  The last log may end inside a
record, as after a crash; that record was not acknowledged when the copy began.

The lock file of the copy has the time at which the node was known to run, so that a node started from the copy knows
how long it was away.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import BinaryIO, Final

from p2prdf.errors import LocalProtocolError, Unavailable
from p2prdf_node.segment import Files
from p2prdf_node.storage import VERIFIED, state_files

__all__ = ["back_up"]

_ATTEMPTS: Final = 20
_BLOCK_BYTES: Final = 4 << 20


def back_up(data: Path, to: Path) -> int:
    """Copy a node's data directory to a new directory; return the number of bytes.

    Raises LocalProtocolError if there is no node's state or the target exists, Unavailable if compactions follow each
    other too fast, and OSError; then the target does not exist.
    """
    if not (data / "node-id").is_file() or not (data / "state" / "owner").is_file():
        raise LocalProtocolError(f"{data} is not the data directory of a node")
    if to.exists() or to.is_symlink():
        raise LocalProtocolError(f"{to} exists; a backup needs a new directory")
    fresh = to.with_name(to.name + ".partial")
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.mkdir(parents=True)
    try:
        size = _copy(data, fresh)
        fresh.rename(to)
        Files().sync_directory(to.parent)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return size


def _copy(data: Path, to: Path) -> int:
    lived = (data / "lock").stat()
    state = to / "state"
    state.mkdir()
    with contextlib.ExitStack() as stack:
        found = _opened(data / "state", stack)
        size = sum(_write(each, state / name) for name, each in found.items())
    for name in ("node-id", "state/owner"):
        with (data / name).open("rb") as source:
            size += _write(source, to / name)
    if (data / "state" / VERIFIED).exists():
        (state / VERIFIED).touch()
    lock = to / "lock"
    lock.touch(0o640)
    os.utime(lock, ns=(lived.st_atime_ns, lived.st_mtime_ns))
    for folder in (state, to):
        Files().sync_directory(folder)
    return size


def _opened(state: Path, stack: contextlib.ExitStack) -> dict[str, BinaryIO]:
    """Open the newest snapshot and the logs after it."""
    for _ in range(_ATTEMPTS):
        attempt = contextlib.ExitStack()
        with contextlib.suppress(FileNotFoundError), attempt:
            names = state_files(state)
            found: dict[str, BinaryIO] = {name: attempt.enter_context((state / name).open("rb")) for name in names}
            if state_files(state)[: len(names)] == names:
                stack.enter_context(attempt.pop_all())
                return found
    raise Unavailable(f"{state}: compactions removed files faster than they were opened; try again")


def _write(source: BinaryIO, path: Path) -> int:
    """Copy a file up to its present length, to the disk; return the length."""
    left = size = os.fstat(source.fileno()).st_size
    with path.open("xb") as target:
        while left and (block := source.read(min(left, _BLOCK_BYTES))):
            target.write(block)
            left -= len(block)
        target.flush()
        os.fsync(target.fileno())
    path.chmod(0o640)
    return size - left
