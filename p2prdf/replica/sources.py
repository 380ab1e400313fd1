"""Sources of changesets: folders of numbered files, and RDF Patches, on disk or at a URL.

Several sources follow one another, for example an archive and the server that continues it: each is read from
the position at which the one before it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import tempfile
import zlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.interest import Changeset
from p2prdf.replica.changeset_files import ChangesetFolder, read_changeset
from p2prdf.replica.rdf_patch import PATCH_LINE_MAX, read_patch

if TYPE_CHECKING:
    from p2prdf.replica.changeset_server import ChangesetServer
    from p2prdf.replica.downloads import Saved

__all__ = ["Source", "open_source", "open_sources"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PATCHES: Final = (".rdfp", ".rdfpatch", ".patch")
"""Name endings of an RDF Patch at a URL, optionally followed by .gz."""


class Source(Protocol):
    """Changesets in order, after a position."""

    is_patch: bool
    """Whether it numbers its changesets itself, from 000000001."""

    def changesets(self, after: str | None, *, growing: bool) -> AsyncGenerator[tuple[str, Changeset | None]]:
        """Yield positions and changesets after a position; None for a missing one before others, at the end.

        ``growing``: the caller asks again, so incomplete changesets are left for later. Raises DataRefused with
        name and line for damaged data, and Unavailable for a server that does not answer.
        """
        ...

    async def aclose(self) -> None:
        """Release files and connections."""
        ...


def open_source(name: str, *, blank_scope: str | None = None) -> Source:
    """Return the source of a name: a URL, a folder, or a file of RDF Patch.

    URLs begin with ``http://`` or ``https://``. A URL ending in .rdfp, .rdfpatch or .patch, optionally with
    .gz, is an RDF Patch, any other a folder. Raises DataRefused for a forbidden URL.
    """
    if _SCHEME.match(name) is not None:
        from p2prdf.replica.downloads import checked_source  # HTTP is loaded on demand

        url = checked_source(name)
        if urlsplit(url).path.removesuffix(".gz").endswith(_PATCHES):
            return _PatchAtUrl(url)
        return _FolderAtUrl(url, blank_scope)
    path = Path(name)
    return _PatchFile(path) if path.is_file() else _Folder(path, blank_scope)


def open_sources(names: Sequence[str], *, blank_scope: str | None = None) -> Source:
    """Return one source of several names, read one after the other.

    Raises LocalProtocolError if an RDF Patch is one of several: it has its own numbers.
    """
    sources = [open_source(name, blank_scope=blank_scope) for name in names]
    if len(sources) == 1:
        return sources[0]
    for name, source in zip(names, sources, strict=True):
        if source.is_patch:
            raise LocalProtocolError(f"{name}: an RDF Patch must be the only source: it has its own numbers")
    return _InOrder(sources)


class _InOrder:
    is_patch = False

    def __init__(self, sources: list[Source]):
        self._sources = sources

    async def changesets(self, after: str | None, *, growing: bool) -> AsyncGenerator[tuple[str, Changeset | None]]:
        while True:
            source = self._sources[0]
            async for position, changeset in source.changesets(after, growing=growing and len(self._sources) == 1):
                yield position, changeset
                if changeset is None:
                    return
                after = position
            if len(self._sources) == 1:
                return
            del self._sources[0]  # only the last source grows
            await source.aclose()

    async def aclose(self) -> None:
        for source in self._sources:
            await source.aclose()


class _Folder:
    is_patch = False

    def __init__(self, folder: Path, blank_scope: str | None):
        self._folder = folder
        self._blank_scope = blank_scope

    async def changesets(self, after: str | None, *, growing: bool) -> AsyncGenerator[tuple[str, Changeset | None]]:
        scanned = await asyncio.to_thread(ChangesetFolder(self._folder).scan, after, growing=growing)
        for files in scanned.ready:
            yield files.position, await asyncio.to_thread(read_changeset, files, blank_scope=self._blank_scope)
        if scanned.gap is not None:
            yield scanned.gap, None

    async def aclose(self) -> None:
        pass


class _PatchFile:
    is_patch = True

    def __init__(self, path: Path):
        self._path = path

    async def changesets(self, after: str | None, *, growing: bool) -> AsyncGenerator[tuple[str, Changeset | None]]:
        opened = gzip.open if self._path.name.endswith(".gz") else open
        with opened(self._path, "rt", encoding="utf-8-sig", newline="\n") as lines:
            async for each in _transactions(lines, str(self._path), after, growing=growing):
                yield each

    async def aclose(self) -> None:
        pass


class _AtUrl:
    """Downloads with a temporary folder, which is made on demand."""

    def __init__(self, url: str):
        from p2prdf.replica.downloads import Downloads

        self.url = url
        self.downloads = Downloads(url)
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def scratch(self) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="p2prdf-changesets-")
        return Path(self._scratch.name)

    async def aclose(self) -> None:
        await self.downloads.close()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None


class _FolderAtUrl(_AtUrl):
    is_patch = False

    def __init__(self, url: str, blank_scope: str | None):
        super().__init__(url)
        self._blank_scope = blank_scope
        self._server: ChangesetServer | None = None

    async def changesets(self, after: str | None, *, growing: bool) -> AsyncGenerator[tuple[str, Changeset | None]]:
        from p2prdf.replica.changeset_server import ChangesetServer

        if self._server is None:
            self._server = ChangesetServer(self.url, self.downloads, self.scratch(), blank_scope=self._blank_scope)
        async with contextlib.aclosing(self._server.changesets(after, growing=growing)) as given:
            async for each in given:
                yield each


class _PatchAtUrl(_AtUrl):
    is_patch = True

    def __init__(self, url: str):
        super().__init__(url)
        self._known: tuple[Saved, str | None] | None = None
        """The file when all of it was read, and the position of its end."""

    async def changesets(self, after: str | None, *, growing: bool) -> AsyncGenerator[tuple[str, Changeset | None]]:
        path, compressed = self.scratch() / "patch", self.url.endswith(".gz")
        known = self._known[0] if self._known is not None and self._known[1] == after else None
        saved = await self.downloads.file(self.url, path, compressed=compressed, known=known)
        if saved is None:
            raise DataRefused("there is no such file", source=self.url)
        if saved is known:
            return
        self._known = None
        opened = gzip.open if saved.compressed else open
        with opened(path, "rt", encoding="utf-8-sig", newline="\n") as lines:
            async for each in _transactions(lines, self.url, after, growing=growing):
                yield each
                after = each[0]
        self._known = saved, after


async def _transactions(
    stream: IO[str], source: str, after: str | None, *, growing: bool
) -> AsyncGenerator[tuple[str, Changeset | None]]:
    """Yield an RDF Patch's transactions after a position.

    Raises DataRefused if there are fewer: it is another patch, or was restarted.
    """
    if after is not None and not after.isdecimal():
        raise DataRefused(f"{after[:100]} is not the number of a transaction", source=source)
    last = 0 if after is None else int(after)
    given = read_patch(_lines(stream, source), source=source, sequence=1, growing=growing)
    count = 0
    while (changeset := await asyncio.to_thread(next, given, None)) is not None:
        count += 1
        if count > last:
            yield f"{count:09}", changeset
    if count < last:
        raise DataRefused(f"{count:,} transactions, but {last:,} were read before: was it replaced?", source=source)


def _lines(stream: IO[str], source: str) -> Iterator[str]:
    """Yield lines, each in bounded memory."""
    try:
        while line := stream.readline(PATCH_LINE_MAX + 1):
            yield line
    except UnicodeDecodeError as error:
        raise DataRefused(f"not UTF-8: {error.reason}", source=source) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataRefused(f"damaged compression: {error}", source=source) from None
