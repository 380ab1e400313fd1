"""Files of standing queries: one text, several texts, or a JSON list.

A file is SPARQL text; lines of ``----`` alone separate several queries.  A file with the suffix
``.json`` is a list of query texts, or of objects with a member ``query`` (and perhaps ``name``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p2prdf.errors import QueryRefused

if TYPE_CHECKING:
    from p2prdf_lab.capacity.plan import NamedQuery

__all__ = ["read_queries"]

FILE_BYTES_MAX: Final = 64 << 20
_SEPARATOR: Final = re.compile(r"^----[ \t]*\r?\n?", re.MULTILINE)


def read_queries(files: list[Path]) -> list[NamedQuery]:
    """Return the queries of some files, in order.

    Raises QueryRefused, with file, number and line, for an unreadable or unsupported query, and OSError.
    """
    from p2prdf.rdf.standing.conjunctive import parse_select
    from p2prdf_lab.capacity.plan import NamedQuery

    found = []
    for file in files:
        for name, line, text in _texts(file):
            try:
                found.append(NamedQuery(name, parse_select(text)))
            except QueryRefused as error:
                place = None if error.line is None else error.line + line
                raise QueryRefused(
                    f"{name}: {error.reason}", construct=error.construct, line=place, column=error.column
                ) from None
    return found


def _texts(file: Path) -> Iterator[tuple[str, int, str]]:
    """Yield name, lines before it and text of each query of a file."""
    with file.open("rb") as stream:
        raw = stream.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        raise QueryRefused(f"{file} has more than {FILE_BYTES_MAX >> 20} MiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise QueryRefused(f"{file} is not UTF-8 (byte {error.start + 1}: {error.reason})") from None
    yield from _listed(file, text) if file.suffix.lower() == ".json" else _separated(file, text)


def _separated(file: Path, text: str) -> Iterator[tuple[str, int, str]]:
    ends = [*(found.span() for found in _SEPARATOR.finditer(text)), (len(text), len(text))]
    start, number = 0, 0
    for end, after in ends:
        part = text[start:end]
        if part.strip():
            number += 1
            name = str(file) if len(ends) == 1 else f"{file}, query {number}"
            yield name, text.count("\n", 0, start), part
        start = after
    if not number:
        raise QueryRefused(f"{file} has no query")


def _listed(file: Path, text: str) -> Iterator[tuple[str, int, str]]:
    try:
        items: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise QueryRefused(f"{file}: not JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    if not isinstance(items, list) or not items:
        raise QueryRefused(f"{file}: not a JSON list of queries")
    for number, item in enumerate(items, 1):
        query = item.get("query") if isinstance(item, dict) else item
        if not isinstance(query, str):
            raise QueryRefused(f'{file}, item {number}: neither a query text nor an object with a member "query"')
        name = item.get("name") if isinstance(item, dict) else None
        yield f"{file}, query {name if isinstance(name, str) else number}", 0, query
