"""State of interrupted ``p2prdf publish`` commands, from which the same command continues.

One JSON file holds for each file in progress its identity (path, size, modification time), the publisher's identity,
and the number of statements that all owners have acknowledged.  A continued run uses the same publisher and event
numbers, so nodes recognise events that were published but not yet saved here, and ignore them.  A completely
published file is forgotten: publishing it again is a new publication.

The state file is replaced atomically, at most once a second and at the end.  It survives a power failure: a lost
publisher identity would make statements count twice.  Two commands that publish different files at once keep each
other's entries, except those written in the same second.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p2prdf.errors import LocalProtocolError
from p2prdf_cli.render import remark

__all__ = [
    "Entry", "FileIdentity", "StateFile", "default_state_file", "new_publisher", "state_folder", "write_whole",
]  # fmt: skip

WRITE_SECONDS: Final = 1.0
ENTRIES_MAX: Final = 1000
"""Most interrupted files remembered; beyond, the oldest is forgotten."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Identity of a file and of the operation on it.

    A file is identified by path, size and modification time, so an edited file is another one.  The operation:
    publication or deletion (``removed``) in a default graph (``graph``), or elements of a stream with the options of
    their event times.
    """

    path: str
    size: int
    modified_ns: int
    removed: bool = False
    graph: str = ""
    stream: str = ""
    times: str = ""

    @classmethod
    def of(
        cls, path: Path, *, removed: bool = False, graph: str = "", stream: str = "", times: str = ""
    ) -> FileIdentity:
        """Return the identity of a file."""
        status = path.stat()
        return cls(str(path.resolve()), status.st_size, status.st_mtime_ns, removed, graph, stream, times)


@dataclass(frozen=True, slots=True)
class Entry:
    """One interrupted publication of ``publisher``; event numbers are statement numbers.

    ``began`` and ``latest``: first and last event time of a stream so far, in milliseconds; equal to the common event
    time if all elements have the same one.
    """

    identity: FileIdentity
    publisher: int
    statements: int
    began: int | None = None
    latest: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "path": self.identity.path,
            "size": self.identity.size,
            "modified_ns": self.identity.modified_ns,
            "publisher": f"{self.publisher:016x}",
            "statements": self.statements,
            **({"removed": True} if self.identity.removed else {}),
            **({"graph": self.identity.graph} if self.identity.graph else {}),
            **({"stream": self.identity.stream, "times": self.identity.times} if self.identity.stream else {}),
            **({"began": self.began} if self.began is not None else {}),
            **({"latest": self.latest} if self.latest is not None else {}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Entry:
        """Read the output of :meth:`as_json`.  Raises KeyError, TypeError or ValueError for other values."""
        removed = value.get("removed", False) is True
        graph, stream, times = (str(value.get(name, "")) for name in ("graph", "stream", "times"))
        identity = FileIdentity(
            str(value["path"]), int(value["size"]), int(value["modified_ns"]), removed, graph, stream, times
        )
        began, latest = (None if value.get(name) is None else int(value[name]) for name in ("began", "latest"))
        return cls(identity, int(value["publisher"], 16), int(value["statements"]), began, latest)


def new_publisher() -> int:
    """Return a random publisher identity."""
    return secrets.randbits(64)


def state_folder() -> Path:
    """Return the folder of the commands' state."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "p2prdf"


def default_state_file() -> Path:
    """Return the default state file."""
    return state_folder() / "publish.json"


def write_whole(path: Path, text: str) -> None:
    """Replace a file atomically and durably.

    Raises OSError, and leaves no temporary file.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class StateFile:
    """The file of interrupted publications."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic):
        self.path = path
        self._clock = clock
        self._written_at = float("-inf")
        self._reported = False

    def find(self, identity: FileIdentity) -> Entry | None:
        """Return the entry of a file; None if the file has changed since.

        Raises LocalProtocolError if the state file is malformed.
        """
        return next((entry for entry in self._read() if entry.identity == identity), None)

    def note(self, entry: Entry, *, now: bool = False) -> None:
        """Save progress, at most once a second unless ``now``."""
        if now or self._clock() - self._written_at >= WRITE_SECONDS:
            others = [other for other in self._read() if other.identity.path != entry.identity.path]
            self._write([*others, entry][-ENTRIES_MAX:])

    def forget(self, identity: FileIdentity) -> None:
        """Drop the entry of a file."""
        entries = self._read()
        left = [entry for entry in entries if entry.identity.path != identity.path]
        if len(left) < len(entries):
            self._write(left)

    def _read(self) -> list[Entry]:
        try:
            document = json.loads(self.path.read_text("utf-8"))
            return [Entry.from_json(value) for value in _files(document)]
        except FileNotFoundError:
            return []
        except (KeyError, TypeError, ValueError) as error:
            raise LocalProtocolError(f"state file {self.path}: {error}; remove it to publish from the start") from None

    def _write(self, entries: list[Entry]) -> None:
        """Replace the file; if it cannot be written, report that once and continue."""
        self._written_at = self._clock()
        document = {"version": _VERSION, "files": [entry.as_json() for entry in entries]}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, json.dumps(document, indent=1))
        except OSError as error:
            if not self._reported:
                self._reported = True
                remark(f"cannot keep progress in {self.path} ({error.strerror}); an interruption will start over")


def _files(document: dict[str, Any]) -> list[dict[str, Any]]:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']} is not known here")
    files: list[dict[str, Any]] = document["files"]
    return files
