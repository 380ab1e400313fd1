"""A folder of N-Triples as a target: each change is a pair of files, which other replicas can read.

Files are named as in a folder of changesets (:mod:`p2prdf.replica.changeset_files`), so a replica can be the
source of others. A pair is written under temporary names and renamed; then the cursor, which counts the valid
pairs, is written. Each step is on the disk before the next. After a crash a pair beyond the cursor is written
again.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

from p2prdf.errors import DataRefused, LocalProtocolError, TargetMoved
from p2prdf.interest import Triple
from p2prdf.replica.changeset_files import read_file

__all__ = ["TripleFiles", "replace_file"]

_CURSOR: Final = "cursor.json"


class TripleFiles:
    """A folder with pairs of files, ``000001.removed.nt.gz`` and ``000001.added.nt.gz`` and so on."""

    respells = False
    triples_max = 1 << 62

    def __init__(self, folder: Path):
        """Raises DataRefused for a cursor that cannot be read."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalProtocolError(f"{folder}: {error.strerror}") from None
        self._at, self._pairs = self._read_cursor()

    async def cursor(self) -> str | None:
        """Return the cursor, None if nothing was written yet."""
        return self._at

    async def update(
        self, removed: Iterable[Triple], added: Iterable[Triple], *, before: str | None, after: str
    ) -> None:
        """Write a pair of files, then the cursor."""
        if self._at != before:
            raise TargetMoved(f"{self._folder}: the cursor is {self._at!r} instead of {before!r}")
        await asyncio.to_thread(self._write, list(removed), list(added), after)

    async def triples(self) -> AsyncIterator[Triple]:
        """Yield the triples that result from the pairs up to the cursor."""
        found: dict[Triple, None] = {}
        for number in range(1, self._pairs + 1):
            for triple in read_file(self._path(number, "removed"), blank_scope="files"):
                found.pop(triple, None)
            found.update(dict.fromkeys(read_file(self._path(number, "added"), blank_scope="files")))
        for triple in found:
            yield triple

    async def close(self) -> None:
        """Do nothing: no file is open."""

    def _path(self, number: int, word: str) -> Path:
        return self._folder / f"{number:06}.{word}.nt.gz"

    def _read_cursor(self) -> tuple[str | None, int]:
        path = self._folder / _CURSOR
        if not path.exists():
            return None, 0
        try:
            found = json.loads(path.read_text("utf-8"))
            return str(found["at"]), int(found["pairs"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataRefused(f"the cursor cannot be read: {error}", source=str(path)) from None

    def _write(self, removed: list[Triple], added: list[Triple], after: str) -> None:
        number = self._pairs + 1
        for word, triples in (("removed", removed), ("added", added)):
            data = gzip.compress("".join(f"{s} {p} {o} .\n" for s, p, o in triples).encode(), mtime=0)
            replace_file(self._path(number, word), data)
        replace_file(self._folder / _CURSOR, json.dumps({"at": after, "pairs": number}).encode() + b"\n")
        self._at, self._pairs = after, number


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically: after a crash either the old or the new one exists."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
