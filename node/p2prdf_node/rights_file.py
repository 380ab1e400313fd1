"""The file of rights, read again when it changes.

As with certificates (:mod:`p2prdf_node.tls`) it is judged as a whole: if anything in it is wrong that is told in the
log once, and shown in the status, and what was in use stays in use.  A node does not start with a bad one.

A file that is only half written may well be a good one, which gives nobody any rights.  So one that has changed is read
when it is found the same twice, and one without any section is bad.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from p2prdf.errors import LocalProtocolError
from p2prdf_node.rights_text import read_rights
from p2prdf_node.watched import mark_of

if TYPE_CHECKING:
    from pathlib import Path

    from p2prdf_node.rights import RightsTable

__all__ = ["RightsFile"]

BYTES_MAX: Final = 4 << 20

log = structlog.get_logger("rights")


class RightsFile:
    """The rights in use.  Raises LocalProtocolError when it is made, if the file does not do."""

    def __init__(self, path: Path):
        self._path = path
        self._seen = self._found = mark_of(path)
        self.table = self._read()
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
            self.table = await asyncio.to_thread(self._read)
        except LocalProtocolError as error:
            return self._refused(str(error))
        self.problem = ""
        self.renewed += 1
        log.info("rights_file_read", clients=len(self.table.clients))
        return True

    def _refused(self, reason: str) -> bool:
        """Go on with what was in use."""
        self.problem = reason
        log.error("rights_file_refused", reason=reason)
        return False

    def status(self) -> dict[str, Any]:
        """Return what is in use, for people and monitoring."""
        return {"clients": len(self.table.clients), "renewed": self.renewed, "problem": self.problem or None}

    def _read(self) -> RightsTable:
        """Read and judge the file.  Blocking.  Raises LocalProtocolError, naming it."""
        try:
            with self._path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
            if len(data) > BYTES_MAX:
                raise LocalProtocolError(f"{self._path}: more than {BYTES_MAX} bytes")
            return read_rights(data.decode(), str(self._path))
        except (OSError, UnicodeDecodeError) as error:
            raise LocalProtocolError(f"{self._path}: {getattr(error, 'strerror', None) or error}") from error
