"""Parses lines of N-Triples and N-Quads into columns of terms, column-wise where possible.

A line of three plain terms separated by single spaces is split and checked column-wise
(:func:`p2prdf.publish.arrow_terms.check_terms`), several times faster than any parser. All other lines (blank
nodes, graphs, trailing comments, tabs, errors) go through the project's parser, in runs of neighbours, so both
ways accept and refuse the same lines.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from p2prdf.errors import DataRefused
from p2prdf.publish import arrow_terms
from p2prdf.rdf.ntriples import BadLine, Syntax, TripleBatch, read_triples

__all__ = ["Fault", "lists_of", "parse_file", "parse_lines", "publication_of"]

_NAMES: Final = ("s", "p", "o", "graph")

Fault = Callable[[int, str], None]
"""Called with a bad line: its index among the given lines, from 0, and the reason."""

_SIMPLE: Final = r"\A<[^ \t]*> <[^ \t]*> [<\"].*[^ \t\\] ?\.\z"
_NOTHING: Final = r"\A[ \t\r]*(#.*)?\z"

I64 = npt.NDArray[np.int64]


def publication_of(salt: str, path: str, size: int, modified: int) -> str:
    """Return the scope of a file's blank nodes: the same at each reading, another if the file changed."""
    text = "\0".join((salt, path, str(size), str(modified))).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def parse_lines(lines: Any, syntax: Syntax, publications: list[tuple[int, str]], fault: Fault) -> Any:
    """Return the statements of lines (an Arrow array of strings): a list of structs for each line.

    Statements are in order; a few may be in the list of a slightly earlier line. ``publications``: the first
    line of each file, and the scope of its blank nodes.
    """
    count = len(lines)
    if lines.type != pa.string():
        lines = lines.cast(pa.string())
    fast = arrow_terms.flags(pc.match_substring_regex(lines, _SIMPLE))
    nothing = arrow_terms.flags(pc.match_substring_regex(lines, _NOTHING))
    rows = np.flatnonzero(fast)
    s, p, o, fine = _cut(lines.take(pa.array(rows)))
    fast[rows[~fine]] = False
    taken = pa.array(fine)
    parts = [(rows[fine], [column.filter(taken) for column in (s, p, o)], pa.nulls(int(fine.sum()), pa.string()))]
    slow = ~fast & ~nothing
    for start, stop in _runs(slow, [at for at, _ in publications], count):
        publication = next(name for at, name in reversed(publications) if at <= start)
        s, p, o, g = _parsed(lines.slice(start, stop - start), syntax, start, publication, fault)
        parts.append((np.full(len(s), start), [s, p, o], g))
    keys = np.concatenate([rows for rows, _, _ in parts])
    order = np.argsort(keys, kind="stable")
    taken = pa.array(order)
    columns = [pa.concat_arrays([texts[at] for _, texts, _ in parts]).take(taken) for at in range(3)]
    graph = pa.concat_arrays([graph for _, _, graph in parts]).take(taken)
    return lists_of((*columns, graph), np.searchsorted(keys[order], np.arange(count + 1)))


def _cut(lines: Any) -> tuple[Any, Any, Any, npt.NDArray[np.bool_]]:
    """Split simple lines into terms; return which are triples of canonical terms after respelling."""
    count = len(lines)
    if not count:
        empty = pa.array([], pa.string())
        return empty, empty, empty, np.zeros(0, np.bool_)
    split = pc.split_pattern(lines, " ", max_splits=2)
    s, p, rest = (pc.list_element(split, at) for at in range(3))
    o = pc.replace_substring_regex(rest, r" ?\.\z", "")
    coded = pa.concat_arrays([s, p, o]).dictionary_encode()
    code = coded.indices.to_numpy(zero_copy_only=False).reshape(3, count)
    checked = arrow_terms.check_terms(coded.dictionary)
    fine = arrow_terms.are_triples(checked.kinds[code])
    texts = pa.array(checked.texts, pa.string()) if checked.respelled else coded.dictionary
    place = checked.place[code]
    s, p, o = (texts.take(pa.array(column)) for column in place)
    return s, p, o, fine


def _runs(flags: npt.NDArray[np.bool_], cuts: list[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of set flags, also split at the given cuts."""
    changes = np.flatnonzero(flags[1:] != flags[:-1]) + 1
    bounds = sorted({0, count, *changes.tolist(), *(cut for cut in cuts if 0 < cut < count)})
    for start, stop in pairwise(bounds):
        if flags[start]:
            yield start, stop


def _parsed(lines: Any, syntax: Syntax, first: int, publication: str, fault: Fault) -> tuple[Any, Any, Any, Any]:
    text = b"\n".join(lines.cast(pa.binary()).to_pylist())

    def bad(line: BadLine) -> None:
        fault(first + line.line - 1, line.reason)

    return _columns(read_triples(io.BytesIO(text), publication_id=publication, syntax=syntax, on_bad_line=bad))


def parse_file(batches: Iterator[TripleBatch], fault: Callable[[DataRefused], None]) -> tuple[Any, Any, Any, Any]:
    """Return the statements of a whole file as columns; ``fault`` is called with an error that ends it."""

    def until_refused() -> Iterator[TripleBatch]:
        try:
            yield from batches
        except DataRefused as error:
            fault(error)

    return _columns(until_refused())


def lists_of(columns: tuple[Any, Any, Any, Any], offsets: I64) -> Any:
    """Return statements as lists of structs, one list from each offset to the next."""
    structs = pa.StructArray.from_arrays(list(columns), list(_NAMES))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), structs)


def _columns(batches: Iterator[TripleBatch]) -> tuple[Any, Any, Any, Any]:
    """Return the triples of a parser's batches as Arrow columns; null for the default graph."""
    texts: list[list[str]] = [[], [], []]
    graphs: list[str | None] = []
    for batch in batches:
        for column, found in zip(texts, (batch.s, batch.p, batch.o), strict=True):
            column += found
        graphs += [name or None for name in batch.g] if batch.g else [None] * len(batch.s)
    s, p, o = (pa.array(column, pa.string()) for column in texts)
    return s, p, o, pa.array(graphs, pa.string())
