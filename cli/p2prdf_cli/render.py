"""Output for people and for machines.

Results go to standard output, and progress, remarks and errors to standard error, so that a pipe carries results
only.  A terminal gets aligned columns with IRIs shortened by the given prefixes, a pipe SPARQL's tab-separated
values, and ``--json`` JSON.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

if TYPE_CHECKING:
    from p2prdf.client import Gap, Solution

__all__ = [
    "TRUE", "JsonLines", "SolutionWriter", "SolutionsAlone", "TabSeparated", "fit", "human_bytes", "printable",
    "reconnections_reported", "remark", "short_term", "solution_writer", "time_text", "write_json",
]  # fmt: skip

TRUE: Final = "true"
"""Cell of a solution without columns: ASK has one such solution while it is true."""

_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
_BARE_DATATYPES: Final = tuple(f"^^<{_XSD}{name}>" for name in ("decimal", "double", "integer", "boolean"))


def remark(text: str) -> None:
    """Print a remark for people, beside the results."""
    print(f"p2prdf: {text}", file=sys.stderr)


@contextlib.contextmanager
def reconnections_reported(say: Callable[[str], None] = remark) -> Iterator[None]:
    """Report when the client loses its node, and when it has found another."""
    handler, logger = _Remarks(say), logging.getLogger("p2prdf.client")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _Remarks(logging.Handler):
    def __init__(self, say: Callable[[str], None]):
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())


def write_json(value: Any, *, line: bool = False, stream: TextIO | None = None) -> None:
    """Write one JSON value, as one line or indented; standard output is flushed at once."""
    print(json.dumps(value, ensure_ascii=False, indent=None if line else 2), file=stream, flush=stream is None)


# --- terms ---------------------------------------------------------------------------------------


def short_term(canonical: str, prefixes: Mapping[str, str]) -> str:
    """Return a canonical N-Triples term in short form: ``dbo:City``, ``Zürich``, ``4.5``, ``_:b0``."""
    if canonical.startswith("<urn:bnode:"):
        from p2prdf.rdf.terms import spelled

        return spelled(canonical)
    if canonical.startswith("<<"):
        from p2prdf.rdf.terms import renamed

        return renamed(canonical, lambda part: part if part.startswith("_:") else short_term(part, prefixes))
    if canonical.startswith("<"):
        return _short_iri(canonical, prefixes)
    if canonical.startswith('"'):
        if canonical.endswith('"'):
            return _unescaped(canonical[1:-1])
        if canonical.endswith(_BARE_DATATYPES):
            return canonical[1 : canonical.rindex('"')]
    return canonical


def _short_iri(canonical: str, prefixes: Mapping[str, str]) -> str:
    iri = canonical[1:-1]
    best = max((p for p in prefixes.items() if p[1] and iri.startswith(p[1])), key=lambda p: len(p[1]), default=None)
    return canonical if best is None else f"{best[0]}:{iri[len(best[1]) :]}"


def _unescaped(text: str) -> str:
    """Undo escapes, except those of control characters: a literal must not steer a terminal."""
    return text.replace('\\"', '"').replace("\\\\", "\\") if "\\" in text else text


def printable(text: str) -> str:
    """Return text with control characters escaped, so that it cannot steer a terminal."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04X}" for c in text)


def fit(text: str, width: int) -> str:
    """Cut text to a width in characters, with an ellipsis."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


# --- solutions -----------------------------------------------------------------------------------


class SolutionWriter(Protocol):
    """Writes the solutions of one query as they arrive."""

    def solution(self, solution: Solution) -> None:
        """Write one solution."""
        ...

    def gap(self, gap: Gap) -> None:
        """Report dropped solutions, if the format can."""
        ...

    def bookmark(self, bookmark: float) -> None:
        """Write a bookmark, if the format can."""
        ...


class SolutionsAlone:
    """A format that only holds solutions."""

    def gap(self, gap: Gap) -> None:
        """Do nothing: a remark reports the gap."""

    def bookmark(self, bookmark: float) -> None:
        """Do nothing."""


class JsonLines:
    """One JSON object per line: a solution, a gap or a bookmark.

    A solution has sequence, identity, born, and bindings as in SPARQL JSON results.

    A retracted solution has ``"removed": true``, and the time of its retraction as ``born``.  Unbound variables are
    omitted; ASK has no bindings.

    ``stream``: the output; None is standard output, which is flushed after each line.
    ``query``: the number of the query in its cohort, which precedes the other members of a solution; 0: none.
    """

    def __init__(self, stream: TextIO | None = None, *, query: int = 0):
        self._stream = stream
        self._query = query

    def solution(self, solution: Solution) -> None:
        """Write one solution."""
        from p2prdf.rdf.terms import to_json

        write_json(
            {
                **({"query": self._query} if self._query else {}),
                "sequence": solution.sequence,
                "identity": f"{solution.identity:016x}",
                "born": time_text(solution.born),
                **({"removed": True} if solution.removed else {}),
                "bindings": {
                    name: to_json(term)
                    for name, term in zip(solution.names, solution.terms, strict=True)
                    if term is not None
                },
            },
            line=True,
            stream=self._stream,
        )

    def gap(self, gap: Gap) -> None:
        """Write the numbers of the first and last dropped solutions."""
        write_json({"gap": {"first": gap.first, "last": gap.last}}, line=True, stream=self._stream)

    def bookmark(self, bookmark: float) -> None:
        """Write a bookmark: the time up to which all solutions have been written."""
        write_json({"bookmark": time_text(bookmark)}, line=True, stream=self._stream)


class TabSeparated(SolutionsAlone):
    """SPARQL 1.1 tab-separated values; the header is written before the first solution.

    The line of a retracted solution begins with a cell ``-``, which is not a term.  The cell of an unbound variable
    is empty.  Without columns (ASK) there is no header, and a solution is a cell ``true``.

    ``stream``: as in :class:`JsonLines`.  ``header``: whether a header is needed.
    """

    def __init__(self, names: Sequence[str], stream: TextIO | None = None, *, header: bool = True):
        self._stream = stream
        if header and names:
            self._line(f"?{name}" for name in names)

    def solution(self, solution: Solution) -> None:
        """Write one solution, after a cell ``-`` if it is retracted; terms are spelled as by ``query``."""
        from p2prdf.rdf.result_formats import tsv_cell

        cells = [tsv_cell(term) for term in solution.terms] or [TRUE]
        self._line(["-", *cells] if solution.removed else cells)

    def _line(self, cells: Iterable[str]) -> None:
        print("\t".join(cells), file=self._stream, flush=self._stream is None)


def solution_writer(
    names: Sequence[str], prefixes: Mapping[str, str], *, as_json: bool, stream: TextIO | None = None,
    header: bool = True,
) -> SolutionWriter:  # fmt: skip
    """Return the suitable writer: JSON if requested, columns on a terminal, else TSV."""
    if as_json:
        return JsonLines(stream)
    if stream is None and sys.stdout.isatty():
        from p2prdf_cli.terminal import TerminalColumns  # slow to load

        return TerminalColumns(names, prefixes)
    return TabSeparated(names, stream, header=header)


# --- numbers --------------------------------------------------------------------------


def human_bytes(value: float) -> str:
    """Spell a size: ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def time_text(seconds: float) -> str:
    """Spell a time in seconds since 1970 as ISO 8601 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
