"""Where changesets are read from: a folder of numbered files, or one RDF Patch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from p2prdf.interest import Changeset
from p2prdf.replica.changeset_files import ChangesetFolder, read_changeset
from p2prdf.replica.rdf_patch import read_patch

__all__ = ["changesets_of"]


def changesets_of(
    source: Path, after: str | None, *, blank_scope: str | None = None, growing: bool = False
) -> Iterator[tuple[str, Changeset | None]]:
    """Yield positions and changesets behind a position, in order; None for one that others wait behind.

    ``source``: a folder as :class:`~p2prdf.replica.changeset_files.ChangesetFolder` reads it, or a file, whose
    transactions are numbered from 000000001 on.  ``growing``: files that are still written are left for later.

    Raises DataRefused for damaged files by name and line.
    """
    if source.is_file():
        with source.open(encoding="utf-8", newline="\n") as lines:
            for changeset in read_patch(lines, source=str(source), sequence=1):
                position = f"{changeset.sequence:09}"
                if after is None or position > after:
                    yield position, changeset
        return
    scanned = ChangesetFolder(source).scan(after, growing=growing)
    for files in scanned.ready:
        yield files.position, read_changeset(files, blank_scope=blank_scope)
    if scanned.gap is not None:
        yield scanned.gap, None
