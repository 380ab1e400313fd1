"""What a web server's index page of a folder names: numbered files of changesets, and folders with a number."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

from p2prdf.errors import DataRefused
from p2prdf.replica.changeset_files import FILE_NAME

__all__ = ["INDEX_BYTES_MAX", "Listing", "read_index"]

INDEX_BYTES_MAX: Final = 64 << 20
"""Largest index page: about 300,000 files."""

_HREF: Final = re.compile(
    rb"<a\s[^<>]{0,400}?href\s{0,9}=\s{0,9}(?:\"([^\"<>]{1,4000})\"|'([^'<>]{1,4000})')", re.IGNORECASE
)
_TITLE: Final = re.compile(rb"<title>\s{0,99}(?:Index of|Directory listing for)\b", re.IGNORECASE)
_FOLDER: Final = re.compile(r"([0-9]{1,18})/")


@dataclass(frozen=True, slots=True)
class Listing:
    """Folders and changesets of a folder, by their numbers, each with its digits as they are written."""

    folders: dict[int, str]
    changesets: dict[int, str]


def read_index(body: bytes, url: str) -> Listing | None:
    """Return what an index page of a folder names; None for a page that is no index.

    A page is one if it names something with a number in the folder itself, or says so in its title, as those of Apache,
    nginx and Python's server do.  Links that lead elsewhere count for nothing.  Raises DataRefused for a part of a
    changeset that is there twice, compressed and not, and for a number that is written in two ways.
    """
    base = urlsplit(url)
    folders: dict[int, str] = {}
    changesets: dict[int, str] = {}
    words: dict[tuple[int, str], str] = {}
    for match in _HREF.finditer(body):
        name = (match[1] or match[2]).decode("utf-8", "replace")
        if FILE_NAME.fullmatch(name) is None:  # else it is in the folder itself: mostly so, and there may be many
            try:
                parts = urlsplit(urljoin(url, html.unescape(name)))
            except ValueError:
                continue
            if parts.netloc.lower() != base.netloc.lower() or not parts.path.startswith(base.path) or parts.query:
                continue
            name = unquote(parts.path[len(base.path) :])
        if (folder := _FOLDER.fullmatch(name)) is not None:
            _one(folders, folder[1], url)
        elif (file := FILE_NAME.fullmatch(name)) is not None:
            _one(changesets, file[1], url)
            other = words.setdefault((int(file[1]), file[2]), name)
            if other != name:
                raise DataRefused(f"there are {name} and {other}: which one counts?", source=url)
    if not folders and not changesets and _TITLE.search(body[:2000]) is None:
        return None
    return Listing(folders, changesets)


def _one(known: dict[int, str], digits: str, url: str) -> None:
    other = known.setdefault(int(digits), digits)
    if other != digits:
        raise DataRefused(f"there are {digits} and {other}: which one counts?", source=url)
