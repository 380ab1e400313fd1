"""Files of an operator's that are read again when they change.

Such a file is judged as a whole: if anything in it is wrong that is told in the log once, and shown in the status, and
what was in use stays in use.  A node does not start with a bad one.  One that is only half written may well be a good
one that says something else, so one that has changed is read when it is found the same twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import structlog

from p2prdf.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["BYTES_MAX", "WatchedFile", "mark_of"]

BYTES_MAX: Final = 4 << 20

T = TypeVar("T")

log = structlog.get_logger("files")


def mark_of(path: Path) -> object:
    """Return something that is equal as long as a file is the same, or as long as it cannot be found.  Blocking."""
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


class WatchedFile(Generic[T]):
    """What a file says, as ``read`` takes it from its text and name; ``what`` names it in the log.

    Raises LocalProtocolError when it is made, if the file does not do.
    """

    def __init__(self, path: Path, read: Callable[[str, str], T], what: str):
        self._path = path
        self._reader = read
        self._taken, self._bad = f"{what}_read", f"{what}_refused"
        self._seen = self._found = mark_of(path)
        self.value = self._read()
        self.problem = ""
        self.renewed = 0
        """How often a file was taken up that had changed."""

    async def poll(self) -> bool:
        """Look at the file, and take up what has changed.  Return whether something was taken up."""
        mark, before = await asyncio.to_thread(mark_of, self._path), self._found
        self._found = mark
        if mark == self._seen or mark != before:
            return False
        self._seen = mark
        try:
            self.value = await asyncio.to_thread(self._read)
        except LocalProtocolError as error:
            return self._refused(str(error))
        self.problem = ""
        self.renewed += 1
        log.info(self._taken, **self.said())
        return True

    def _refused(self, reason: str) -> bool:
        """Go on with what was in use."""
        self.problem = reason
        log.error(self._bad, reason=reason)
        return False

    def said(self) -> dict[str, Any]:
        """Return what the log and the status tell of what is in use."""
        return {}

    def status(self) -> dict[str, Any]:
        """Return what is in use, for people and monitoring."""
        return {**self.said(), "renewed": self.renewed, "problem": self.problem or None}

    def _read(self) -> T:
        """Read and judge the file.  Blocking.  Raises LocalProtocolError, naming it."""
        try:
            with self._path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
            if len(data) > BYTES_MAX:
                raise LocalProtocolError(f"{self._path}: more than {BYTES_MAX} bytes")
            return self._reader(data.decode("utf-8-sig"), str(self._path))
        except (OSError, UnicodeDecodeError) as error:
            raise LocalProtocolError(f"{self._path}: {getattr(error, 'strerror', None) or error}") from error
