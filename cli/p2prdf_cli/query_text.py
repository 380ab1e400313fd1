"""Query text from the command line or a file, with prefixes from another file.

Prefix files hold declarations in the syntax of Turtle or SPARQL; other content is ignored, so any Turtle file serves.
Only prefixes that the query uses and does not declare are added, on its first line, so that line numbers in errors
stay correct.
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
"""Most bytes of a query or update file; the much lower bound of queries has an error of its own."""


def read_query(text: str | None, file: Path | None, what: str = "query") -> str:
    """Return the text of an argument or a file (``-``: standard input); exactly one must be given.

    The last argument names the text in errors.  Raises QueryRefused for a file that is too long or not UTF-8.
    """
    if (text is None) == (file is None):
        raise typer.BadParameter(f"give the {what} either as an argument or with --file")
    if file is None:
        assert text is not None
        return text
    name = "standard input" if str(file) == "-" else str(file)
    raw = _read(file)
    if len(raw) > QUERY_FILE_BYTES_MAX:  # a truncated text could be well-formed with another meaning
        raise QueryRefused(f"{name} has more than {QUERY_FILE_BYTES_MAX} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise QueryRefused(f"{name} is not UTF-8 (byte {error.start + 1}: {error.reason})") from None


def _read(file: Path) -> bytes:
    """Return the content of a file; of a longer one QUERY_FILE_BYTES_MAX + 1 bytes."""
    if str(file) == "-":
        return sys.stdin.buffer.read(QUERY_FILE_BYTES_MAX + 1)
    with file.open("rb") as stream:
        return stream.read(QUERY_FILE_BYTES_MAX + 1)


def declared_prefixes(text: str) -> dict[str, str]:
    """Return the prefixes declared in a query or a Turtle document."""
    return dict(_DECLARATION.findall(text))


def prefixes_of(file: Path | None) -> dict[str, str]:
    """Return the prefixes declared in a file (``-``: standard input); none for None.

    Prefixes stand at the beginning of a file, so only QUERY_FILE_BYTES_MAX bytes of a large one are read.
    """
    return {} if file is None else declared_prefixes(_read(file).decode("utf-8", "replace"))


def with_prefixes(query: str, prefixes: dict[str, str]) -> str:
    """Return the query with declarations of the prefixes that it uses and does not declare."""
    if not prefixes:  # avoids scanning an update of a megabyte
        return query
    own = declared_prefixes(query)
    used = set(_USED.findall(_SKIPPED.sub(" ", query)))
    missing = {name: iri for name, iri in sorted(prefixes.items()) if name in used and name not in own}
    return "".join(f"PREFIX {name}: <{iri}> " for name, iri in missing.items()) + query
