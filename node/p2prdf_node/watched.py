"""Configuration files that are reloaded when they change.

A file is validated as a whole: if anything is wrong, the reason is logged once and shown in the status, and the
previous content stays in use.  A node does not start with a bad file.  A half-written file may be valid with another
meaning, so a changed file is read only when it is found unchanged by two checks in a row.
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
    """Return a mark that stays equal while a file is unchanged, or while it is missing.  Blocking."""
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


class WatchedFile(Generic[T]):
    """Content of a file, as ``read`` parses it from text and name; the last argument names it in the log.

    The constructor raises LocalProtocolError for a bad file.
    """

    def __init__(self, path: Path, read: Callable[[str, str], T], what: str):
        self._path = path
        self._reader = read
        self._taken, self._bad = f"{what}_read", f"{what}_refused"
        self._seen = self._found = mark_of(path)
        self.value = self._read()
        self.problem = ""
        self.renewed = 0
        """Number of times that a changed file was taken into use."""

    async def poll(self) -> bool:
        """Reload the file if it has changed; return whether new content is in use."""
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
        log.info(self._taken, **self.facts())
        return True

    def _refused(self, reason: str) -> bool:
        """Keep the previous content in use."""
        self.problem = reason
        log.error(self._bad, reason=reason)
        return False

    def facts(self) -> dict[str, Any]:
        """Return the facts about the content in use, for log and status."""
        return {}

    def status(self) -> dict[str, Any]:
        """Return the state of the file, for people and monitoring."""
        return {**self.facts(), "renewed": self.renewed, "problem": self.problem or None}

    def _read(self) -> T:
        """Read and parse the file.  Blocking.  Raises LocalProtocolError, naming it."""
        try:
            with self._path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
            if len(data) > BYTES_MAX:
                raise LocalProtocolError(f"{self._path}: more than {BYTES_MAX} bytes")
            return self._reader(data.decode("utf-8-sig"), str(self._path))
        except (OSError, UnicodeDecodeError) as error:
            raise LocalProtocolError(f"{self._path}: {getattr(error, 'strerror', None) or error}") from error
