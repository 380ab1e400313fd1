"""The content of a web server's index page: numbered changeset files, and folders with a number."""

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
    """Folders and changesets of a folder: the digits as written, by number."""

    folders: dict[int, str]
    changesets: dict[int, str]


def read_index(body: bytes, url: str) -> Listing | None:
    """Return the content of an index page; None for other pages.

    An index page links to an entry with a number in the folder itself, or has the title of an index of Apache,
    nginx or Python's server. Links to other places are ignored. Raises DataRefused for a changeset file that is
    present both compressed and not, and for a number in two spellings.
    """
    base = urlsplit(url)
    folders: dict[int, str] = {}
    changesets: dict[int, str] = {}
    words: dict[tuple[int, str], str] = {}
    for match in _HREF.finditer(body):
        name = (match[1] or match[2]).decode("utf-8", "replace")
        if FILE_NAME.fullmatch(name) is None:  # file names of the folder itself are the rule, and there may be many
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
                raise DataRefused(f"{name} and {other} are the same part of a changeset", source=url)
    if not folders and not changesets and _TITLE.search(body[:2000]) is None:
        return None
    return Listing(folders, changesets)


def _one(known: dict[int, str], digits: str, url: str) -> None:
    other = known.setdefault(int(digits), digits)
    if other != digits:
        raise DataRefused(f"{digits} and {other} are the same number", source=url)
