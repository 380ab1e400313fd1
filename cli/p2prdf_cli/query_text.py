"""Query text as people give it: on the command line or in a file, with prefixes from elsewhere.

Prefix files hold declarations in Turtle's or SPARQL's spelling; whatever else is in such a file is
passed over, so that any Turtle file serves.  Only prefixes that the query uses and does not declare
itself are added, on the query's first line: the line numbers of its errors stay true.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import typer

from p2prdf.errors import QueryRefused

__all__ = ["QUERY_FILE_BYTES_MAX", "declared_prefixes", "prefixes_of", "read_query", "with_prefixes"]

_DECLARATION: Final = re.compile(r"(?i)(?<![\w:])@?prefix\s+([^\s:<>\"]*):\s*<([^<>\"{}|^`\\\s]*)>")
_SKIPPED: Final = re.compile(r"<[^<>\s]*>|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|#[^\n]*")
_USED: Final = re.compile(r"(?<![\w?$:\-])([^\W\d_][\w.\-]*|):")

QUERY_FILE_BYTES_MAX: Final = 1 << 20
"""A file beyond this is neither a query nor an update; a query's own bound is far below and named in its refusal."""


def read_query(text: str | None, file: Path | None, what: str = "query") -> str:
    """Return the text given as an argument or in a file (``-``: standard input); usage errors for else.

    ``what`` it is, for people.  Raises QueryRefused for a file that is too long or not UTF-8.
    """
    if (text is None) == (file is None):
        raise typer.BadParameter(f"give the {what} either as an argument or with --file")
    if file is None:
        assert text is not None
        return text
    name = "standard input" if str(file) == "-" else str(file)
    raw = _read(file)
    if len(raw) > QUERY_FILE_BYTES_MAX:  # a part of it may be well-formed, and mean something else
        raise QueryRefused(f"{name} has more than {QUERY_FILE_BYTES_MAX} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise QueryRefused(f"{name} is not UTF-8 (byte {error.start + 1}: {error.reason})") from None


def _read(file: Path) -> bytes:
    """Return what is in a file, and of one that is too long a byte too much."""
    if str(file) == "-":
        return sys.stdin.buffer.read(QUERY_FILE_BYTES_MAX + 1)
    with file.open("rb") as stream:
        return stream.read(QUERY_FILE_BYTES_MAX + 1)


def declared_prefixes(text: str) -> dict[str, str]:
    """Return the prefixes declared in a query or a Turtle document."""
    return dict(_DECLARATION.findall(text))


def prefixes_of(file: Path | None) -> dict[str, str]:
    """Return the prefixes declared in a file (``-``: standard input), of no file none.

    They stand at the beginning: of a file of data of any size QUERY_FILE_BYTES_MAX bytes are read.
    """
    return {} if file is None else declared_prefixes(_read(file).decode("utf-8", "replace"))


def with_prefixes(query: str, prefixes: dict[str, str]) -> str:
    """Return the query with declarations of those prefixes that it uses and lacks."""
    if not prefixes:  # spares looking through an update of a megabyte
        return query
    own = declared_prefixes(query)
    used = set(_USED.findall(_SKIPPED.sub(" ", query)))
    missing = {name: iri for name, iri in sorted(prefixes.items()) if name in used and name not in own}
    return "".join(f"PREFIX {name}: <{iri}> " for name, iri in missing.items()) + query
