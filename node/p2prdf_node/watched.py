"""Configuration files that are reloaded when they change.

A file is validated as a whole: if anything is wrong, the reason is logged once and shown in the status, and the
previous content stays in use.  A node does not start with a bad file.  A half-written file may be valid with another
meaning, so a changed file is read only when it is found unchanged by two checks in a row.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import structlog

from p2prdf.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["BYTES_MAX", "Watched", "WatchedFile", "mark_of"]

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


class Watched(ABC, Generic[T]):
    """Content of some files; ``label`` names them in the log.

    The constructor raises LocalProtocolError for bad files.  ``twice``: read changed files only when two checks in a
    row have found them unchanged.
    """

    def __init__(self, label: str, *paths: Path, twice: bool):
        self._paths, self._twice = paths, twice
        self._event_read, self._event_refused = f"{label}_read", f"{label}_refused"
        self._seen = self._found = self._marks()
        self.problem = ""
        self.renewed = 0
        """Number of times that changed files were taken into use."""
        self._take(self._read())

    def _marks(self) -> list[object]:
        return [mark_of(path) for path in self._paths]

    @abstractmethod
    def _read(self) -> T:
        """Read and validate the files.  Blocking.  Raises LocalProtocolError, naming the file."""

    def _take(self, value: T) -> None:
        """Take new content into use.  Raises LocalProtocolError if it does not go with the content in use."""
        self.value = value

    async def poll(self) -> bool:
        """Reload the files if they have changed; return whether new content is in use."""
        marks, before = await asyncio.to_thread(self._marks), self._found
        self._found = marks
        if marks == self._seen or (self._twice and marks != before):
            return False
        self._seen = marks
        try:
            self._take(await asyncio.to_thread(self._read))
        except LocalProtocolError as error:  # the previous content stays in use
            return self._refuse(str(error))
        self.problem = ""
        self.renewed += 1
        log.info(self._event_read, **self.facts())
        return True

    def _refuse(self, reason: str) -> bool:
        self.problem = reason
        log.error(self._event_refused, reason=reason)
        return False

    def facts(self) -> dict[str, Any]:
        """Return the facts about the content in use, for log and status."""
        return {}

    def status(self) -> dict[str, Any]:
        """Return the state of the files, for people and monitoring."""
        return {**self.facts(), "renewed": self.renewed, "problem": self.problem or None}


class WatchedFile(Watched[T]):
    """Content of one text file, as ``read`` parses it from text and name."""

    def __init__(self, path: Path, read: Callable[[str, str], T], label: str):
        self._path, self._reader = path, read
        super().__init__(label, path, twice=True)

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
