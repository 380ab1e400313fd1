"""What an interrupted ``p2prdf publish`` has achieved, so that the same command goes on from there.

One JSON file holds, for each file under way, its identity (path, size, modification time), the
publisher's identity, and how many of its statements all owners have acknowledged.  Going on with the
same publisher and the same numbering makes repeated events the same events: what was published but not
yet noted here is recognised by the nodes and changes nothing.  A file that was published to its end is
forgotten: publishing it again is a new publication.

The file is replaced as a whole, at most once a second and at the end, so it is never half written, also when the
machine loses power: a forgotten publisher would count twice what it has published.  Two
commands that publish different files at once keep each other's entries, but for those of the same second.
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
"""Interrupted files remembered; beyond that the oldest is forgotten."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Tells a file from another and from an edited self, and what is done with it: whether it is published or removed,
    and the graph of what names none; or the stream, and what is said of its event times.
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
        """Look at a file."""
        status = path.stat()
        return cls(str(path.resolve()), status.st_size, status.st_mtime_ns, removed, graph, stream, times)


@dataclass(frozen=True, slots=True)
class Entry:
    """One interrupted publication: event numbers are statement numbers, from ``publisher``.

    ``began`` and ``latest``: of a stream its first and last event time so far, in milliseconds; where all elements
    have one, that.
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
        """Read what :meth:`as_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        removed = value.get("removed", False) is True
        graph, stream, times = (str(value.get(name, "")) for name in ("graph", "stream", "times"))
        identity = FileIdentity(
            str(value["path"]), int(value["size"]), int(value["modified_ns"]), removed, graph, stream, times
        )
        began, latest = (None if value.get(name) is None else int(value[name]) for name in ("began", "latest"))
        return cls(identity, int(value["publisher"], 16), int(value["statements"]), began, latest)


def new_publisher() -> int:
    """Return a publisher identity that nobody else has."""
    return secrets.randbits(64)


def state_folder() -> Path:
    """Return where commands keep their state."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "p2prdf"


def default_state_file() -> Path:
    """Return where state is kept if the user names no file."""
    return state_folder() / "publish.json"


def write_whole(path: Path, text: str) -> None:
    """Replace a file: whatever happens, it holds all of the old text or all of the new; then it is on the disk.

    Raises OSError, and leaves nothing beside it.
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
        self._told = False

    def find(self, identity: FileIdentity) -> Entry | None:
        """Return what is known of a file; nothing if it has changed since.

        Raises LocalProtocolError if the state file is no such file.
        """
        return next((entry for entry in self._read() if entry.identity == identity), None)

    def note(self, entry: Entry, *, now: bool = False) -> None:
        """Remember progress; written at most once a second, or ``now``."""
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
        """Replace the file; where it cannot be written, say so once and go on without."""
        self._written_at = self._clock()
        document = {"version": _VERSION, "files": [entry.as_json() for entry in entries]}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, json.dumps(document, indent=1))
        except OSError as error:
            if not self._told:
                self._told = True
                remark(f"cannot keep progress in {self.path} ({error.strerror}); an interruption will start over")


def _files(document: dict[str, Any]) -> list[dict[str, Any]]:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']} is not known here")
    files: list[dict[str, Any]] = document["files"]
    return files
