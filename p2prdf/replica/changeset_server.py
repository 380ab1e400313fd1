"""Changesets of a web server, in the layouts of folders, without access to the folder.

The reader must distinguish changesets that do not exist from those that do not exist *yet*:

1. ``lastPublishedFile.txt`` (DBpedia Live) is written before the changeset it names, which is therefore often
   absent. All earlier changesets are final, and earlier hours are over.
2. Index pages. A folder's page is read before those of the folders in it, so the content of an earlier folder
   is complete when a later one is seen.
3. Neither. The reader tries numbers, in one folder only, from 0 or 1; otherwise the user must give a position.

Without an index, an absent number ends an hour or the present changesets, unless one of the next LOOK_AHEAD
numbers exists: then a changeset is missing, and reading stops. The last changeset may lack one file for a
while. It is complete if a later one exists or is named. docs/reference/interest-replicas.md lists the limits.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from p2prdf.errors import DataRefused
from p2prdf.interest import Changeset
from p2prdf.replica.changeset_files import ChangesetFiles, read_changeset
from p2prdf.replica.downloads import Damaged, Downloads, Page, Saved
from p2prdf.replica.server_index import INDEX_BYTES_MAX, Listing, read_index

__all__ = ["EMPTY_HOURS_MAX", "LOOK_AHEAD", "ChangesetServer"]

LOOK_AHEAD: Final = 3
"""Number of positions tried after an absent one."""
EMPTY_HOURS_MAX: Final = 366 * 24
"""Bound on consecutive hours without a changeset."""

_POINTER: Final = re.compile(rb"\s*([0-9]{4})-([0-9]{2})-([0-9]{2})-([0-9]{2})-([0-9]{6,18})\s*")
_POINTER_NAME: Final = "lastPublishedFile.txt"
_POINTER_BYTES_MAX: Final = 1 << 16
_DEPTH_MAX: Final = 8
_NUMBER_DIGITS_MAX: Final = 18
_DIGITS: Final = 6
_SUFFIXES: Final = (".nt.gz", ".nt")
_WORDS: Final = ("added", "removed")
_MORE_WORDS: Final = ("reinserted", "clear")
"""Files that few servers have; a changeset is complete without them."""
_HOUR: Final = 4
"""Number of path parts of an hour of DBpedia Live: year, month, day, hour."""

_Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """A changeset that exists, or that is missing.

    ``whole``: no further file of it will appear; ``newest``: the server may still be writing it.
    """

    position: str
    missing: bool = False
    whole: bool = False
    newest: bool = False


class ChangesetServer:
    """The changesets below a URL."""

    def __init__(self, url: str, downloads: Downloads, scratch: Path, *, blank_scope: str | None = None):
        """``url``: from :func:`~p2prdf.replica.downloads.checked_source`; ``scratch``: an empty folder."""
        self.url = url.rstrip("/") + "/"
        self._downloads = downloads
        self._scratch = scratch
        self._blank_scope = blank_scope
        self._pointer: Page | None = None
        self._listings: dict[tuple[str, ...], tuple[Page, Listing | None]] = {}
        self._suffix = _SUFFIXES[0]
        self._seen = False

    async def changesets(self, after: str | None, *, growing: bool) -> AsyncGenerator[tuple[str, Changeset | None]]:
        """Yield positions and changesets after a position, in order; None for a missing one, at the end.

        ``growing``: leave an incomplete changeset at the end for later, also one with a damaged file, which may
        still be written. Raises Unavailable, and DataRefused with URL and reason.
        """
        held: str | None = None
        async for step in self._steps(after):
            if held is not None:  # a later one exists, so no further file of it will appear
                changeset = await self._changeset(held)
                yield held, changeset
                if changeset is None:
                    return
                held = None
            if step.missing:
                yield step.position, None
                return
            if step.whole:
                changeset = await self._changeset(step.position)
                yield step.position, changeset
                if changeset is None:
                    return
                continue
            try:
                found = await self._fetch(step.position)
            except Damaged:
                if not (growing or step.newest):
                    raise
                found = {}
            if all(word in found for word in _WORDS):
                yield step.position, await self._read(step.position, found)
            elif step.newest:
                return
            else:
                held = step.position
        if held is not None and not growing:
            yield held, await self._changeset(held)

    # --- discovery -----------------------------------------------------------------------------------------

    async def _steps(self, after: str | None) -> AsyncIterator[_Step]:
        last = None if after is None else self._place(after)
        pointer = await self._last_published()  # first of all: earlier changesets are final then
        root = await self._index(())
        folders = pointer is not None or (root is not None and bool(root.folders))
        files = pointer is None and (root is None or bool(root.changesets))
        if last is not None and not (files if len(last) == 1 else folders):
            reason = f"{after} is not a position here: {self._layout(pointer, root)}"
            raise DataRefused(reason, source=self.url)
        if root is not None:
            latest: _Place = last or ()
            async for step in self._tree((), root, last, pointer):
                latest = self._place(step.position)
                yield step
            if pointer is not None and latest < pointer[:_HOUR] and pointer[_HOUR] > 1:
                yield _Step(f"{_hour_name(_hour_at(pointer))}/{0:0{_DIGITS}}", missing=True)
        elif pointer is not None:
            if last is None:
                reason = "without index pages the first changeset is unknown: give the position to begin at"
                raise DataRefused(reason, source=self.url)
            async for step in self._hours(last, pointer):
                yield step
        else:
            async for step in self._flat(after):
                yield step

    def _layout(self, pointer: _Place | None, root: Listing | None) -> str:
        if pointer is not None:
            return f"{_POINTER_NAME} names years, months, days and hours"
        if root is None:
            return f"without {_POINTER_NAME} and index pages the end of an hour is unknown"
        return "its folders have another depth"

    async def _tree(
        self, names: tuple[str, ...], listing: Listing, after: _Place | None, pointer: _Place | None
    ) -> AsyncIterator[_Step]:
        """Walk a folder by its index page, which was read before those of the folders in it."""
        place = tuple(map(int, names))
        expected = after[-1] + 1 if after is not None and after[:-1] == place else None
        entries = [(number, digits, False) for number, digits in listing.changesets.items()]
        entries += [(number, digits, True) for number, digits in listing.folders.items()]
        for number, digits, is_folder in sorted(entries):
            here = (*place, number)
            if pointer is not None and here > pointer[: len(here)]:
                continue
            if is_folder:
                if after is None or here >= after[: len(here)]:
                    below = (*names, digits)
                    async for step in self._tree(below, await self._below(below), after, pointer):
                        yield step
                continue
            if after is not None and here <= after:
                continue
            if expected is not None:
                async for step in self._between(names, expected, number, len(digits), pointer):
                    yield step
            yield _step("/".join((*names, digits)), here, pointer)
            expected = number + 1
        if pointer is not None and place == pointer[:_HOUR] and expected is not None:
            async for step in self._between(names, expected, pointer[_HOUR], _DIGITS, pointer):
                yield step

    async def _between(
        self, names: tuple[str, ...], start: int, stop: int, width: int, pointer: _Place | None
    ) -> AsyncIterator[_Step]:
        """Yield numbers that the index page lacks: some files appeared while it was written."""
        for number in range(start, stop):
            position = "/".join((*names, f"{number:0{width}}"))
            if not await self._exists(position):
                yield _Step(position, missing=True)
                return
            yield _step(position, self._place(position), pointer)

    async def _below(self, names: tuple[str, ...]) -> Listing:
        if len(names) > _DEPTH_MAX:
            raise DataRefused(f"folders within folders, deeper than {_DEPTH_MAX}", source=self.url + "/".join(names))
        found = await self._index(names)
        if found is None:
            reason = "it has no index page, but its parent folder has: its content is unknown"
            raise DataRefused(reason, source=f"{self.url}{'/'.join(names)}/")
        return found

    async def _hours(self, after: _Place, pointer: _Place) -> AsyncIterator[_Step]:
        """Try numbers, hour by hour, up to the hour of the last published file."""
        shown = "/".join(f"{each:02}" for each in after)
        if len(after) > len(pointer):
            raise DataRefused(f"{shown} is deeper than an hour's changesets", source=self.url)
        try:
            hour, last = _hour_at(after), _hour_at(pointer)
        except ValueError as error:
            raise DataRefused(f"{shown} is not an hour: {error}", source=self.url) from None
        number = after[_HOUR] + 1 if len(after) > _HOUR else None
        empty = 0
        while hour <= last:
            empty += 1
            folder = f"{_hour_name(hour)}/"
            async for step in self._tried(folder, number, _DIGITS, pointer[_HOUR] if hour == last else None):
                empty = 0
                yield step if step.missing else _step(step.position, self._place(step.position), pointer)
            if empty > EMPTY_HOURS_MAX:
                raise DataRefused(f"there is nothing in {empty:,} hours up to {folder}", source=self.url)
            if hour == last:
                return
            hour += timedelta(hours=1)
            number = None

    async def _flat(self, after: str | None) -> AsyncIterator[_Step]:
        """Try numbers in one folder."""
        found = False
        number = None if after is None else int(after) + 1
        async for step in self._tried("", number, _DIGITS if after is None else len(after), None):
            found = True
            yield step
        if not (found or self._seen or number == 1) and (after is None or not await self._exists(after)):
            what = "000000 or 000001" if after is None else f"{after} or one of the {LOOK_AHEAD + 1} behind it"
            reason = f"neither {_POINTER_NAME} nor an index page nor {what} exists: give the position to begin at"
            raise DataRefused(reason, source=self.url)
        self._seen = True

    async def _tried(self, folder: str, number: int | None, width: int, ceiling: int | None) -> AsyncIterator[_Step]:
        """Try numbers of a folder, from ``number`` (or 0 or 1) up to ``ceiling``, which may be incomplete."""
        if number is None:
            for first in (0, 1):
                if await self._exists(f"{folder}{first:0{width}}"):
                    number = first
                    break
            else:
                if ceiling is not None and ceiling > 1:
                    yield _Step(f"{folder}{0:0{width}}", missing=True)
                return
        while ceiling is None or number <= ceiling:
            position = f"{folder}{number:0{width}}"
            if not await self._exists(position):
                if number == ceiling:
                    return
                if ceiling is None and not await self._is_any_behind(folder, number, width):
                    return
                if not await self._exists(position):  # nor did it appear meanwhile
                    yield _Step(position, missing=True)
                    return
            yield _Step(position)
            number += 1

    async def _is_any_behind(self, folder: str, number: int, width: int) -> bool:
        for each in range(number + 1, number + 1 + LOOK_AHEAD):
            if await self._exists(f"{folder}{each:0{width}}"):
                return True
        return False

    # --- requests ------------------------------------------------------------------------------------------

    async def _last_published(self) -> _Place | None:
        """Return the position in ``lastPublishedFile.txt``, None without that file."""
        url = self.url + _POINTER_NAME
        attempt = 1
        while True:
            page = self._pointer = await self._downloads.page(url, _POINTER_BYTES_MAX, self._pointer)
            if page is None:
                return None
            match = _POINTER.fullmatch(page.body)
            if match is not None:
                break
            if attempt == self._downloads.config.damaged_attempts:
                shown = page.body[:60].decode(errors="replace")
                raise DataRefused(f"not YYYY-MM-DD-HH-NNNNNN but {shown!r}", source=url)
            await self._downloads.rest(attempt)  # it may be written at this moment
            attempt += 1
        found = tuple(map(int, match.groups()))
        try:
            _hour_at(found)
        except ValueError as error:
            raise DataRefused(f"{match[0].decode().strip()}: {error}", source=url) from None
        return found

    async def _index(self, names: tuple[str, ...]) -> Listing | None:
        url = self.url + "".join(f"{name}/" for name in names)
        known, listing = self._listings.pop(names, (None, None))
        page = await self._downloads.page(url, INDEX_BYTES_MAX, known)
        if page is None or not page.is_html:
            return None
        if page is not known:
            listing = await asyncio.to_thread(read_index, page.body, url)
        self._listings[names] = page, listing
        while len(self._listings) > _DEPTH_MAX:
            del self._listings[next(iter(self._listings))]
        return listing

    async def _exists(self, position: str) -> bool:
        for suffix in sorted(_SUFFIXES, key=lambda each: each != self._suffix):
            for word in _WORDS:
                if await self._downloads.exists(f"{self.url}{position}.{word}{suffix}"):
                    self._suffix = suffix
                    return True
        return False

    async def _changeset(self, position: str) -> Changeset | None:
        found = await self._fetch(position)
        return await self._read(position, found) if found else None

    async def _fetch(self, position: str) -> dict[str, Saved]:
        """Download the existing files of a changeset, by word."""
        found: dict[str, Saved] = {}
        for word in (*_WORDS, *_MORE_WORDS):
            # the more common files have shown how names end
            known = [".nt.gz" if saved.url.endswith(".gz") else ".nt" for saved in found.values()]
            for suffix in known[:1] if word in _MORE_WORDS and known else _SUFFIXES:
                url = f"{self.url}{position}.{word}{suffix}"
                saved = await self._downloads.file(url, self._scratch / word, compressed=suffix.endswith(".gz"))
                if saved is not None:
                    found[word] = saved
                    break
        return found

    async def _read(self, position: str, found: dict[str, Saved]) -> Changeset:
        paths = {}
        for word, saved in found.items():
            paths[word] = saved.path.rename(self._scratch / f"{word}.nt{'.gz' if saved.compressed else ''}")
        by_word = (paths.get(word) for word in ("removed", "added", "reinserted", "clear"))
        files = ChangesetFiles(position, self._place(position)[-1], *by_word)
        urls = {str(paths[word]): saved.url for word, saved in found.items()}
        try:
            changeset = await asyncio.to_thread(read_changeset, files, blank_scope=self._blank_scope)
            if (left := changeset.not_applied) is None:
                return changeset
            return replace(changeset, not_applied=left._replace(source=urls[left.source]))
        except DataRefused as refused:
            raise DataRefused(refused.reason, source=urls[refused.source], line=refused.line) from None

    def _place(self, position: str) -> _Place:
        parts = position.split("/")
        if not all(part.isdecimal() and len(part) <= _NUMBER_DIGITS_MAX for part in parts):
            raise DataRefused(f"{position[:100]} is not a position of numbers", source=self.url)
        return tuple(map(int, parts))


def _step(position: str, place: _Place, pointer: _Place | None) -> _Step:
    if pointer is None:
        return _Step(position)
    return _Step(position, whole=place < pointer, newest=place == pointer)


def _hour_at(place: _Place) -> datetime:
    """Return the hour of a position, or the first hour of a day, month or year; else ValueError."""
    year, month, day, hour = (*place[:_HOUR], *(0, 1, 1, 0)[len(place[:_HOUR]) :])
    return datetime(year, month, day, hour)


def _hour_name(hour: datetime) -> str:
    return f"{hour.year:04}/{hour.month:02}/{hour.day:02}/{hour.hour:02}"
