"""Read RDF files for publishing: streaming, in bounded memory, resumable, with the bad lines named.

A reader turns a binary stream into batches of about a thousand triples as columns of canonical
terms.  N-Triples and N-Quads are cut at line ends into chunks of 128 KiB.  A chunk that parses as a
whole costs little more than the parser; only a chunk with a fault is read again line by line, so
that a bad line costs that line alone and is reported with its number.  Chunks are filled to the
same size whatever the stream's reads return, so equal files give equal batches.  (Larger chunks are
slower: their statements fall out of the processor's caches before they are turned into strings.)

Turtle, TriG and RDF/XML cannot be cut at line ends: they stream through the parser, and a syntax error ends it after
everything before the error has been delivered.

Statements are counted as delivered, from the start of the file, so ``statements_done`` of the last
acknowledged batch is where to resume: the reader parses, but does not build, what it skips.  That
asks for labels that are the same in each run.  Labelled blank nodes keep theirs.  Turtle's unnamed
ones (``[]`` and lists) get random names from the parser and are numbered here in order of
appearance, which takes memory: at most ``UNNAMED_MAX`` of them in one file.
"""

from __future__ import annotations

import dataclasses
import enum
import gzip
import re
import zlib
from itertools import islice
from typing import IO, TYPE_CHECKING, Final, cast

import pyoxigraph as ox

from p2prdf.errors import DataRefused
from p2prdf.rdf import rdf_xml, terms
from p2prdf.rdf.lines import CHUNK_BYTES, LINE_BYTES_MAX, BadLine, Faults, Overlong, line_chunks, opened
from p2prdf.rdf.quads import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "BATCH_TRIPLES", "CHUNK_BYTES", "LINE_BYTES_MAX", "UNNAMED_MAX", "BadLine", "Syntax", "TripleBatch",
    "detect", "read_triples",
]  # fmt: skip

BATCH_TRIPLES: Final = 1000

UNNAMED_MAX: Final = 1_000_000
"""Unnamed blank nodes of one Turtle file (about 150 bytes of memory each)."""

_UNNAMED: Final = re.compile(r"_:([0-9a-f]{20,32})")
"""How pyoxigraph names an unnamed node: 128 random bits.  A label that looks alike is numbered too."""

_DIRECTIONS: Final = ("--ltr", "--rtl")
_ERROR_PLACE: Final = re.compile(r"Parser error [^:]*: ")


class Syntax(enum.Enum):
    """A format of RDF files."""

    N_TRIPLES = "nt"
    N_QUADS = "nq"
    TURTLE = "ttl"
    TRIG = "trig"
    RDF_XML = "rdf"

    @property
    def by_lines(self) -> bool:
        """Whether each line is a statement."""
        return self in (Syntax.N_TRIPLES, Syntax.N_QUADS)


_BY_SUFFIX: Final = {
    ".nt": Syntax.N_TRIPLES, ".nq": Syntax.N_QUADS, ".ttl": Syntax.TURTLE, ".trig": Syntax.TRIG,
    ".rdf": Syntax.RDF_XML, ".owl": Syntax.RDF_XML,
}  # fmt: skip
_PARSERS: Final = {
    Syntax.N_TRIPLES: ox.RdfFormat.N_TRIPLES,
    Syntax.N_QUADS: ox.RdfFormat.N_QUADS,
    Syntax.TURTLE: ox.RdfFormat.TURTLE,
    Syntax.TRIG: ox.RdfFormat.TRIG,
    Syntax.RDF_XML: ox.RdfFormat.RDF_XML,
}


@dataclasses.dataclass(frozen=True, slots=True)
class TripleBatch:
    """Consecutive triples of a file as three columns of canonical terms.

    ``statements_done``: statements of the file delivered or skipped, this batch included.
    ``line``: the last line read (others than N-Triples and N-Quads: 0, their parser does not tell).
    ``g``: the graph of each, ``DEFAULT`` for the default graph; none at all if that is the graph of all.
    ``times``: of elements of a stream their event times, milliseconds since 1970.
    """

    s: list[str]
    p: list[str]
    o: list[str]
    statements_done: int
    line: int
    g: list[str] = dataclasses.field(default_factory=list)
    times: list[int] = dataclasses.field(default_factory=list)


def detect(name: str) -> tuple[Syntax, bool]:
    """Return the format a file's name tells and whether it is compressed (``.gz``).

    Raises DataRefused for a name that tells no known format.
    """
    plain = name.lower()
    compressed = plain.endswith(".gz")
    plain = plain.removesuffix(".gz")
    for suffix, syntax in _BY_SUFFIX.items():
        if plain.endswith(suffix):
            return syntax, compressed
    known = ", ".join(_BY_SUFFIX)
    raise DataRefused(f"the name tells no known format ({known}, each also .gz)", source=name)


def read_triples(
    stream: IO[bytes],
    *,
    publication_id: str,
    syntax: Syntax = Syntax.N_TRIPLES,
    compressed: bool = False,
    source: str = "",
    strict: bool = False,
    skip: int = 0,
    on_bad_line: Callable[[BadLine], None] | None = None,
    base: str | None = None,
    batch_triples: int = BATCH_TRIPLES,
    live: bool = False,
) -> Iterator[TripleBatch]:
    """Yield the triples of a binary stream as batches, with their graphs if the format names any.

    ``publication_id`` goes into the IRIs that stand for the file's blank nodes.  ``skip``: leave out
    this many statements.  A bad line is told to ``on_bad_line`` and skipped, or, if ``strict``,
    raises DataRefused; so does an error in Turtle, TriG, RDF/XML or the compression, each after everything
    before it was delivered.  ``base`` resolves relative IRIs of Turtle, TriG and RDF/XML.  ``live``: the stream is a
    raw one that may wait for data (a pipe, a request's body); lines of N-Triples and N-Quads are yielded as they come.
    """
    prefix = terms.skolem_prefix(publication_id)
    if skip < 0 or batch_triples < 1:
        raise ValueError("skip must not be negative, batch_triples must be positive")
    faults = Faults(source, strict, on_bad_line)
    data = opened(stream, compressed=compressed)
    if syntax.by_lines:
        pieces = _line_pieces(data, _PARSERS[syntax], faults, live=live)
        names = _Names(prefix, unnamed_max=0)
    else:
        pieces = _turtle_pieces(data, _PARSERS[syntax], faults, base)
        names = _Names(prefix, unnamed_max=UNNAMED_MAX)
    graphs = syntax in (Syntax.N_QUADS, Syntax.TRIG)
    return _batches(pieces, _Columns(names, faults, graphs=graphs), skip, batch_triples)


# --- from statements to batches of strings -------------------------------------------------------


def _batches(
    pieces: Iterator[tuple[list[ox.Quad], int]], columns: _Columns, skip: int, size: int
) -> Iterator[TripleBatch]:
    done = 0
    for quads, line in pieces:
        start = min(len(quads), max(0, skip - done))
        if start and columns.numbering:  # what is skipped still counts for the numbering
            columns.of(quads[:start])
        done += start
        for part in _even_parts(quads[start:], size):
            done += len(part)
            s, p, o, g = columns.of(part)
            yield TripleBatch(s, p, o, done, line, g)


def _even_parts(quads: list[ox.Quad], size: int) -> Iterator[list[ox.Quad]]:
    """Cut into parts of at most ``size``, all about as large: no crumbs."""
    count = -(-len(quads) // size)
    for number in range(count):
        yield quads[len(quads) * number // count : len(quads) * (number + 1) // count]


class _Columns:
    """Turns statements into columns of terms; ``graphs``: whether they may name graphs."""

    def __init__(self, names: _Names, faults: Faults, *, graphs: bool):
        self.numbering = names.numbering
        self._names = names
        self._faults = faults
        self._graphs = graphs

    def of(self, quads: list[ox.Quad]) -> tuple[list[str], list[str], list[str], list[str]]:
        """Return subjects, predicates, objects and, if there are any, graphs."""
        # One string a statement and one cut is twice as fast as three strings: no space is in an IRI
        # or a blank node, so the first two part subject, predicate and object.
        rows = [str(quad).split(" ", 2) for quad in quads]
        name = self._names.name
        g = self._take_graphs(quads, rows) if self._graphs else []
        try:
            for row in rows:
                if row[0][0] == "_":
                    row[0] = name(row[0])
                if row[2][0] == "_":
                    row[2] = name(row[2])
                if g and row[3][:1] == "_":  # in the order of the file, as all that is unnamed
                    row[3] = name(row[3])
        except DataRefused as error:
            raise self._faults.refuse(error.reason) from None
        s, p, o = ([row[at] for row in rows] for at in range(3))
        return s, p, o, [row[3] for row in rows if g]

    @staticmethod
    def _take_graphs(quads: list[ox.Quad], rows: list[list[str]]) -> list[str]:
        """Return the graphs, which stand in one text with the objects, and part them; nothing if there are none."""
        found = [DEFAULT if isinstance(name := quad.graph_name, ox.DefaultGraph) else str(name) for quad in quads]
        if not any(found):
            return []
        for row, graph in zip(rows, found, strict=True):
            row[2:] = [row[2][: -len(graph) - 1] if graph else row[2], graph]
        return found


class _Names:
    """Gives the blank nodes of one file their IRIs."""

    def __init__(self, prefix: str, unnamed_max: int):
        self._prefix = prefix
        self._publication = prefix.removeprefix("<" + terms.BNODE_PREFIX)[:-1]
        self._unnamed_max = unnamed_max
        self._unnamed: dict[int, int] = {}
        self.numbering = unnamed_max > 0

    def name(self, text: str) -> str:
        """Return the IRI for a blank node as the parser spells it."""
        match = _UNNAMED.fullmatch(text) if self.numbering else None
        if match is None:
            return terms.skolem(self._publication, text[2:])
        key = int(match[1], 16)
        number = self._unnamed.get(key)
        if number is None:
            number = self._unnamed[key] = len(self._unnamed)
            if number >= self._unnamed_max:
                raise DataRefused(
                    f"more than {self._unnamed_max} unnamed blank nodes in one Turtle file: "
                    "convert it to N-Triples"
                )
        return f"{self._prefix}~{number}>"  # "~" is in no label


# --- N-Triples and N-Quads: by lines -------------------------------------------------------------


def _line_pieces(
    data: IO[bytes], parser: ox.RdfFormat, faults: Faults, *, live: bool
) -> Iterator[tuple[list[ox.Quad], int]]:
    line = 0
    for chunk in line_chunks(data, faults, live=live):
        if isinstance(chunk, Overlong):
            line += 1
            faults.bad_line(line, f"longer than {LINE_BYTES_MAX} bytes")
            continue
        first = line + 1
        line += chunk.count(b"\n") + (not chunk.endswith(b"\n"))
        quads = _whole(chunk, parser)
        if quads is not None:
            yield quads, line
        else:
            yield from _each_line(chunk, parser, first, faults)


def _whole(chunk: bytes, parser: ox.RdfFormat) -> list[ox.Quad] | None:
    """Parse a chunk at once; None when a line of it needs a closer look."""
    if len(chunk) > terms.TERM_BYTES_MAX:
        return None
    try:
        quads = list(ox.parse(chunk, format=parser))
    except SyntaxError:
        return None
    if (b"<<(" in chunk or b"--" in chunk) and any(map(_beyond, quads)):
        return None
    return quads


def _each_line(
    chunk: bytes, parser: ox.RdfFormat, first: int, faults: Faults
) -> Iterator[tuple[list[ox.Quad], int]]:
    """Parse line by line, deliver what is before a fault before the fault is told."""
    good: list[ox.Quad] = []
    number = first
    for number, text in enumerate(chunk.split(b"\n"), first):
        try:
            good += _line(text, parser)
        except SyntaxError as error:
            reason = _ERROR_PLACE.sub("", error.msg, count=1)
        except DataRefused as error:
            reason = error.reason
        else:
            if len(good) < BATCH_TRIPLES:
                continue
            reason = ""
        if good:
            yield good, number
            good = []
        if reason:
            faults.bad_line(number, reason)
    if good:
        yield good, number


def _line(text: bytes, parser: ox.RdfFormat) -> list[ox.Quad]:
    quads = list(ox.parse(text, format=parser))
    for quad in quads:
        if _beyond(quad):
            raise DataRefused("terms of RDF 1.2 (triple terms, base directions) are not supported")
        if len(text) > terms.TERM_BYTES_MAX and _too_long(quad):
            raise DataRefused(f"a term exceeds {terms.TERM_BYTES_MAX} bytes")
    return quads


def _beyond(quad: ox.Quad) -> bool:
    """Tell whether a statement holds a term that only RDF 1.2 knows."""
    found = quad.object
    return isinstance(found, ox.Triple) or (isinstance(found, ox.Literal) and found.direction is not None)


def _too_long(quad: ox.Quad) -> bool:
    texts = (str(quad.subject), str(quad.predicate), str(quad.object), str(quad.graph_name))
    return any(len(text.encode()) > terms.TERM_BYTES_MAX for text in texts)


# --- Turtle and TriG: by statements --------------------------------------------------------------


def _turtle_pieces(
    data: IO[bytes], parser: ox.RdfFormat, faults: Faults, base: str | None
) -> Iterator[tuple[list[ox.Quad], int]]:
    prepared = rdf_xml.prepared(data, faults.refuse) if parser == ox.RdfFormat.RDF_XML else None
    statements = iter(ox.parse(data if prepared is None else cast("IO[bytes]", prepared), format=parser, base_iri=base))
    while True:
        quads, error = _take(statements, faults)
        if prepared is not None and prepared.error is not None and (error is not None or not quads):
            error = prepared.error  # the parser only hears that its input ends
        if quads:
            yield quads, 0
        if error is not None:
            raise error
        if not quads:
            return


def _take(statements: Iterator[ox.Quad], faults: Faults) -> tuple[list[ox.Quad], DataRefused | None]:
    """Take a batch of statements, and the error that ended it early."""
    quads: list[ox.Quad] = []
    try:
        for quad in islice(statements, BATCH_TRIPLES):
            if _beyond(quad):
                return quads, faults.refuse("terms of RDF 1.2 are not supported")
            found = quad.object
            if isinstance(found, ox.Literal) and found.datatype.value == terms.LANG_STRING and not found.language:
                return quads, faults.refuse("a literal of datatype rdf:langString needs a language tag")
            quads.append(quad)
    except SyntaxError as error:
        return quads, faults.refuse(_ERROR_PLACE.sub("", error.msg, count=1), error.lineno)
    except (EOFError, gzip.BadGzipFile, zlib.error, OSError) as error:
        return quads, faults.refuse(f"the data cannot be read: {error}")
    return quads, None
