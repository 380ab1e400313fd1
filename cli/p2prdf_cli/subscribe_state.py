"""State of a named subscription, from which ``p2prdf subscribe --name`` continues.

*Exactly once into a file.*  The command may be killed at any moment, and the machine may lose power.  The state holds
the resume token and the length of the output at that token.  First the output, which only grows, is synced; then the
state is replaced atomically; only then are solutions acknowledged.  At the start the output is cut to the length in
the state: solutions beyond it are delivered again.

*At least once to a pipe or terminal.*  Written solutions cannot be taken back there.  The state is saved after the
write, and a kill between the two makes them come again.

The folder holds ``NAME.json`` and ``NAME.lock`` for each name; the lock belongs to the process, so a kill releases it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from p2prdf.client.token import canonical_query
from p2prdf.errors import LocalProtocolError
from p2prdf_cli.publish_state import state_folder, write_whole
from p2prdf_cli.render import time_text

__all__ = ["NOW", "NamedState", "OutputFile", "Record", "Wish", "check_name", "default_folder"]

NOW: Final = "now"
_VERSION: Final = 1
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(text: str) -> str:
    """Return a name that is safe in a file name.  Raises ValueError."""
    if _NAME.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no name: a letter or digit, then at most 99 letters, digits, '.', '_', '-'")
    return text


def default_folder() -> Path:
    """Return the default folder of states."""
    return state_folder() / "subscriptions"


@dataclass(frozen=True, slots=True)
class Wish:
    """Properties of a named subscription, which are fixed for its name.

    ``output``: None is standard output.  ``since``: first publication time that counts: ``now`` (the time when the
    name was first subscribed or renewed), ``beginning``, or seconds since 1970.
    """

    query: str
    algorithm: str
    per_event: bool
    output: Path | None
    as_json: bool
    since: float | str = NOW

    def difference(self, name: str, other: Wish) -> str | None:
        """Describe the first difference between the requested and the stored properties; None if there is none."""
        if canonical_query(other.query) != canonical_query(self.query):
            return f"{name} stands for the query {self.query}, not the query {other.query}"
        for now, was, what in (
            (_mode(other), _mode(self), ""),
            (_since(other), _since(self), "publications since"),
            (_place(other), _place(self), "output to"),
            (_format(other), _format(self), "solutions as"),
        ):
            if now != was:
                return f"{name} stands for {what} {was!s}, not {what} {now!s}".replace("  ", " ")
        return None


def _mode(wish: Wish) -> str:
    return f"{wish.algorithm} {'per event' if wish.per_event else 'per triple'}"


def _since(wish: Wish) -> str:
    if isinstance(wish.since, str):
        return "it was subscribed" if wish.since == NOW else f"the {wish.since}"
    return time_text(wish.since)


def _place(wish: Wish) -> str:
    return "standard output" if wish.output is None else str(wish.output)


def _format(wish: Wish) -> str:
    """Return the output format; empty for standard output, of which nothing is kept."""
    if wish.output is None:
        return ""
    return "JSON (--json)" if wish.as_json else "tab-separated values"


@dataclass(frozen=True, slots=True)
class Record:
    """State of a named subscription: its number, its resume token, and the output's length in bytes at that token."""

    wish: Wish
    subscription: int
    token: bytes
    length: int

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        wish = self.wish
        return {
            "version": _VERSION,
            "query": wish.query,
            "algorithm": wish.algorithm,
            "per_event": wish.per_event,
            "output": None if wish.output is None else str(wish.output),
            "json": wish.as_json,
            "since": wish.since,
            "subscription": f"{self.subscription:016x}",
            "token": self.token.hex(),
            "length": self.length,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Record:
        """Read the output of :meth:`as_json`.  Raises KeyError, TypeError or ValueError for other values."""
        if value["version"] != _VERSION:
            raise ValueError(f"version {value['version']} is not known here")
        output = value["output"]
        wish = Wish(
            str(value["query"]), str(value["algorithm"]), bool(value["per_event"]),
            None if output is None else Path(output), bool(value["json"]), _time(value.get("since", NOW)),
        )  # fmt: skip
        number = int(value["subscription"], 16)
        return cls(wish, number, bytes.fromhex(value["token"]), int(value["length"]))


def _time(value: Any) -> float | str:
    """Parse a stored point in time.  Raises ValueError or TypeError for other values."""
    return value if value in (NOW, "beginning") else float(value)


class NamedState:
    """The state of one name, locked while in a ``with`` block.

    Raises LocalProtocolError if another process holds the lock or the state is malformed; OSError.
    """

    def __init__(self, folder: Path, name: str):
        self.name = name
        self.path = folder / f"{name}.json"
        self._lock = -1

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise LocalProtocolError(f"subscription {self.name} is in use by another process") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    def read(self) -> Record | None:
        """Return the stored record; None for a new name."""
        try:
            return Record.from_json(json.loads(self.path.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise LocalProtocolError(f"state file {self.path}: {error}; --renew starts again") from None

    def save(self, record: Record) -> None:
        """Replace the state durably."""
        write_whole(self.path, json.dumps(record.as_json(), indent=1))

    def forget(self) -> None:
        """Forget the name."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


class OutputFile:
    """A file to which solutions are appended.  Raises LocalProtocolError if the file is unsuitable, OSError."""

    def __init__(self, path: Path):
        if path.exists() and not path.is_file():
            raise LocalProtocolError(f"{path} is not a regular file, and cannot be truncated")
        self.path = path
        self.stream = path.open("a", encoding="utf-8", newline="\n")
        try:
            fcntl.flock(self.stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.stream.close()
            raise LocalProtocolError(f"{path} is written by another process") from None

    @property
    def length(self) -> int:
        """Length of the file in bytes, without data that :meth:`sync` has still to write."""
        return os.fstat(self.stream.fileno()).st_size

    def check(self, length: int) -> None:
        """Raise LocalProtocolError if the file is shorter than its saved length."""
        if self.length < length:
            raise LocalProtocolError(
                f"{self.path} has {self.length:,} bytes, and had {length:,}: it was replaced or cut;"
                " restore it, or start again with --renew"
            )

    def cut(self, length: int) -> None:
        """Cut the file to ``length``."""
        self.stream.flush()
        os.truncate(self.stream.fileno(), length)

    def cut_torn(self, length: int) -> None:
        """Cut an incomplete last line after ``length``, if there is one."""
        with self.path.open("rb") as file:
            file.seek(length)
            tail = file.read()
        if len(tail) and not tail.endswith(b"\n"):
            self.cut(length + tail.rfind(b"\n") + 1)

    def sync(self) -> int:
        """Write everything durably; return the file's length."""
        self.stream.flush()
        os.fsync(self.stream.fileno())
        return self.length

    def close(self) -> None:
        """Close the file, which releases its lock."""
        self.stream.close()
