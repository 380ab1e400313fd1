"""Changesets as files: the layout of DBpedia Live, and similar folders.

A changeset is a pair of N-Triples files, with or without ``.gz``; one may be missing. DBpedia Live has two
further files: ``reinserted`` triples are added; ``clear``, for subjects that lose all their triples, is counted
and not applied (:attr:`~p2prdf.interest.Changeset.not_applied`)::

    2014/10/02/21/000003.removed.nt.gz      (DBpedia Live: year, month, day, hour, number within the hour)
    2014/10/02/21/000003.added.nt.gz
    changes/000003.added.nt                 (one folder: the numbers are the sequence)

In one folder numbers must be consecutive: a changeset after a gap is not read yet. DBpedia Live restarts the
numbers each hour, so a gap is only visible within an hour. A replica remembers a changeset's *position*, its
path without the words; its sequence number counts from the first file present.

Blank nodes are refused, because a label has no meaning in a later file. If labels are stable in all files of a
dataset, ``blank_scope`` names this scope, and they become IRIs of it (:func:`p2prdf.rdf.terms.skolem`).
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.interest import Changeset, NotApplied, Triple
from p2prdf.rdf.lines import decompressed
from p2prdf.rdf.ntriples import detect, read_triples

__all__ = [
    "CHANGESET_TRIPLES_MAX", "FILE_NAME", "ChangesetFiles", "ChangesetFolder", "Scanned", "checked_position",
    "position_order", "read_changeset", "read_file",
]  # fmt: skip

CHANGESET_TRIPLES_MAX: Final = 10_000_000
"""Bound on the triples in one file of a changeset (about 500 bytes of memory each when applied)."""

FILE_NAME: Final = re.compile(r"([0-9]{1,18})\.(added|removed|reinserted|clear)\.nt(?:\.gz)?")
"""Number and word of a changeset file."""
_POSITION: Final = re.compile(r"[0-9]{1,18}(?:/[0-9]{1,18}){0,7}")
_REFUSED_SCOPE: Final = "refused"


@dataclass(frozen=True, slots=True)
class ChangesetFiles:
    """The files of one changeset.

    ``position``: its path in the folder, without words; ``number``: the digits of its name.
    """

    position: str
    number: int
    removed: Path | None
    added: Path | None
    reinserted: Path | None = None
    """Unchanged triples, inserted again to repair a target that lacks them."""
    clear: Path | None = None
    """Triples of subjects to clear; only counted, since removing them needs look-ups by subject."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The content of a folder: changesets in order, up to the first missing one."""

    ready: tuple[ChangesetFiles, ...]
    gap: str | None
    """The missing position, if later changesets are present."""


class ChangesetFolder:
    """A folder of changesets, which may grow."""

    def __init__(self, folder: Path):
        """Raises DataRefused if there is no such folder."""
        if not folder.is_dir():
            raise DataRefused("there is no such folder", source=str(folder))
        self.folder = folder

    def scan(self, after: str | None = None, *, growing: bool = False) -> Scanned:
        """Return the changesets after a position, up to the first missing one.

        ``growing``: skip the last one if only one of its files is present, since the other may follow. Files
        still being written have another ending and are ignored. Raises DataRefused for a file that is present
        both compressed and not.
        """
        found: dict[tuple[str, ...], dict[str, Path]] = {}
        for path in self.folder.rglob("*.nt*"):
            match = FILE_NAME.fullmatch(path.name)
            if match is None or not path.is_file():
                continue
            parts = (*path.relative_to(self.folder).parent.parts, match[1])
            words = found.setdefault(parts, {})
            if match[2] in words:
                raise DataRefused(f"there is {words[match[2]].name}, too: remove one of them", source=str(path))
            words[match[2]] = path
        ready: list[ChangesetFiles] = []
        last = () if after is None else position_order(after)
        before = None if after is None else _place(tuple(after.split("/")))
        for parts in sorted(found, key=_order):
            if _order(parts) <= last:
                continue
            here = _place(parts)
            assert here is not None, "its name has a number"
            if before is not None and before[0] == here[0] and here[1] != before[1] + 1:
                missing = str(before[1] + 1).zfill(len(parts[-1]))
                return Scanned(tuple(ready), "/".join((*parts[:-1], missing)))
            before = here
            words = found[parts]
            files = (words.get(word) for word in ("removed", "added", "reinserted", "clear"))
            ready.append(ChangesetFiles("/".join(parts), here[1], *files))
        if growing and ready and (ready[-1].removed is None or ready[-1].added is None):
            ready.pop()
        return Scanned(tuple(ready), None)


def checked_position(position: str) -> str:
    """Return a position from user input.  Raises LocalProtocolError if its parts are not numbers."""
    if _POSITION.fullmatch(position) is None:
        raise LocalProtocolError(f"not a position, as 2014/10/02/21/000004 or 000004: {position[:100]!r}")
    return position


def position_order(position: str) -> tuple[tuple[int, int, str], ...]:
    """Return the sort key of a position: numbers by value, before names."""
    return _order(tuple(position.split("/")))


def _order(parts: tuple[str, ...]) -> tuple[tuple[int, int, str], ...]:
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts)


def _place(parts: tuple[str, ...]) -> tuple[tuple[str, ...], int] | None:
    """Return a changeset's folder and number, None for other positions."""
    return (parts[:-1], int(parts[-1])) if parts[-1].isdecimal() else None


def read_changeset(files: ChangesetFiles, *, sequence: int = 0, blank_scope: str | None = None) -> Changeset:
    """Return a changeset from its files, with the number of triples to clear, which it leaves out.

    Raises DataRefused with file and line for damaged compression, an invalid triple, a blank node without a
    ``blank_scope``, and more than CHANGESET_TRIPLES_MAX triples in a file.
    """
    removed = () if files.removed is None else read_file(files.removed, blank_scope=blank_scope)
    added = () if files.added is None else read_file(files.added, blank_scope=blank_scope)
    again = () if files.reinserted is None else read_file(files.reinserted, blank_scope=blank_scope)
    changeset = Changeset.of(removed, itertools.chain(added, again), sequence)
    if files.clear is None:
        return changeset
    count = sum(1 for _ in read_file(files.clear, blank_scope=blank_scope or "clear"))
    return replace(changeset, not_applied=NotApplied(str(files.clear), count)) if count else changeset


def read_file(
    path: Path, *, blank_scope: str | None = None, triples_max: int | None = CHANGESET_TRIPLES_MAX
) -> Iterator[Triple]:
    """Yield the triples of a file of N-Triples (or another format, by its name), strictly.

    Raises DataRefused as :func:`read_changeset` does.
    """
    syntax, compressed = detect(path.name)
    scope = _REFUSED_SCOPE if blank_scope is None else blank_scope
    prefix = f"<urn:bnode:{scope}:"
    count = line = 0
    try:
        stream = path.open("rb")
    except OSError as error:
        raise DataRefused(f"cannot be read: {error.strerror}", source=str(path)) from None
    with stream:
        for batch in read_triples(
            stream, publication_id=scope, syntax=syntax, compressed=compressed, source=str(path), strict=True
        ):
            count += len(batch.s)
            if triples_max is not None and count > triples_max:
                raise DataRefused(f"more than {triples_max:,} triples in one file", source=str(path))
            if batch.g:
                raise DataRefused("a changeset has triples, without graphs", source=str(path), line=line + 1)
            for triple in zip(batch.s, batch.p, batch.o, strict=True):
                if blank_scope is None and (triple[0].startswith(prefix) or triple[2].startswith(prefix)):
                    label = next(term for term in triple if term.startswith(prefix))[len(prefix) : -1]
                    reason = f"blank node _:{label}: its label has no meaning in other files; set blank_scope"
                    raise DataRefused(reason, source=str(path), line=_line_of(path, label, compressed=compressed))
                yield triple
            line = batch.line


def _line_of(path: Path, label: str, *, compressed: bool) -> int | None:
    """Return the first line that contains a blank node of a label."""
    pattern = re.compile(rb"_:" + re.escape(label.encode()) + rb"(?![\w.:-])")
    with path.open("rb") as file:
        lines = io.BufferedReader(decompressed(file)) if compressed else file
        return next((number for number, line in enumerate(lines, 1) if pattern.search(line)), None)
