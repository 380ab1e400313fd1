"""Read RDF files for publishing: streaming, in bounded memory, resumable, with bad lines named.

A reader turns a binary stream into batches of about a thousand triples, as columns of canonical terms.  N-Triples and
N-Quads are split at line ends into chunks of 128 KiB.  (Larger chunks are slower: their statements leave the
processor's caches before they are turned into strings.)  A chunk with a fault is parsed again line by line, so one
bad line is skipped alone and reported with its number.  Chunks are filled to the same size however the stream's reads
are cut, so equal files give equal batches.

Turtle, TriG, RDF/XML and JSON-LD stream through the parser, Jelly frame by frame.  A syntax error ends reading, after
all statements before it have been delivered.

To resume, pass ``statements_done`` of the last acknowledged batch as ``skip``: skipped statements are parsed, but no
terms are built.  Resuming requires labels that are the same in each run.  Labelled blank nodes keep their labels.
Turtle's unnamed nodes (``[]`` and lists) are numbered in order of appearance, at most ``UNNAMED_MAX`` in one file.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import re
from itertools import islice
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast

import pyoxigraph as ox

from p2prdf.errors import DataRefused
from p2prdf.rdf import json_ld, rdf_xml, terms, triple_terms
from p2prdf.rdf.expansion import EXPANSION_MAX, Expansion
from p2prdf.rdf.lines import (
    CHUNK_BYTES,
    COMPRESSIONS,
    DAMAGED,
    LINE_BYTES_MAX,
    BadLine,
    Faults,
    Overlong,
    is_compressed,
    line_chunks,
    opened,
)
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.remote_contexts import with_contexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from p2prdf.rdf.remote_contexts import Contexts

__all__ = [
    "BATCH_TRIPLES", "CHUNK_BYTES", "JELLY_MISSING", "LINE_BYTES_MAX", "UNNAMED_MAX", "BadLine", "Split", "Syntax",
    "TripleBatch", "detect", "read_triples",
]  # fmt: skip

BATCH_TRIPLES: Final = 1000

UNNAMED_MAX: Final = 1_000_000
"""Most unnamed blank nodes in one Turtle file (about 150 bytes of memory each)."""

_UNNAMED: Final = re.compile(r"_:([0-9a-f]{20,32})")
"""The name that pyoxigraph gives an unnamed node: 128 random bits.

A label of the same form is numbered too.
"""

JELLY_MISSING: Final = "Jelly needs the package pyjelly: install p2prdf[jelly], or write N-Triples"

Split: TypeAlias = "Callable[[bytes], tuple[int, bytes]]"
"""Divides a line into an event time and a statement.  Raises DataRefused for other lines."""
_EXPANDED_MAX: Final = 6
"""Most bytes of a canonical term from one byte of N-Triples: ``\\u0001`` from a control character."""
_PIECE_CHARACTERS: Final = 4 << 20
"""Characters of statements that end a piece early, in formats that abbreviate terms."""
_TERM_TOO_LONG: Final = f"a term exceeds {terms.TERM_BYTES_MAX} bytes"
_MESSAGE_MAX: Final = 300
_ERROR_PLACE: Final = re.compile(r"Parser error [^:]*: ")


class _Piece(NamedTuple):
    """Statements as N-Quads without their end, their graphs unless the format has none, and the last line read.

    ``times``: the event times if each line has one.
    """

    texts: list[str]
    graphs: list[str]
    line: int = 0
    times: Sequence[int] = ()

    def part(self, start: int, end: int) -> _Piece:
        """Return some of the statements."""
        return _Piece(self.texts[start:end], self.graphs[start:end], self.line, self.times[start:end])


class Syntax(enum.Enum):
    """A format of RDF files."""

    N_TRIPLES = "nt"
    N_QUADS = "nq"
    TURTLE = "ttl"
    TRIG = "trig"
    RDF_XML = "rdf"
    JSON_LD = "jsonld"
    JELLY = "jelly"

    @property
    def by_lines(self) -> bool:
        """Whether each line is a statement."""
        return self in (Syntax.N_TRIPLES, Syntax.N_QUADS)

    @property
    def as_it_arrives(self) -> bool:
        """Whether a part of the data, a line or a frame, gives its statements before the rest has arrived."""
        return self.by_lines or self is Syntax.JELLY


_BY_SUFFIX: Final = {
    ".nt": Syntax.N_TRIPLES, ".nq": Syntax.N_QUADS, ".ttl": Syntax.TURTLE, ".trig": Syntax.TRIG,
    ".rdf": Syntax.RDF_XML, ".owl": Syntax.RDF_XML, ".jsonld": Syntax.JSON_LD,
    ".jelly": Syntax.JELLY,
}  # fmt: skip
_REFUSED: Final = {
    ".n3": "N3 has formulas and rules beyond RDF: write Turtle", ".hdt": "HDT is not read: convert it to N-Triples",
}  # fmt: skip
_PARSERS: Final = {
    Syntax.N_TRIPLES: ox.RdfFormat.N_TRIPLES,
    Syntax.N_QUADS: ox.RdfFormat.N_QUADS,
    Syntax.TURTLE: ox.RdfFormat.TURTLE,
    Syntax.TRIG: ox.RdfFormat.TRIG,
    Syntax.RDF_XML: ox.RdfFormat.RDF_XML,
    Syntax.JSON_LD: ox.RdfFormat.JSON_LD,
}


class _Prepared(Protocol):
    """A readable stream; ``error``: why it ended early."""

    error: DataRefused | None


_PREPARED: Final[dict[Syntax, Callable[[IO[bytes], Callable[[str, int | None], DataRefused]], _Prepared]]] = {
    Syntax.TURTLE: triple_terms.prepared, Syntax.TRIG: triple_terms.prepared,
    Syntax.RDF_XML: rdf_xml.prepared,
}
"""Formats whose text is checked or rewritten before the parser reads it, besides JSON-LD."""


@dataclasses.dataclass(frozen=True, slots=True)
class TripleBatch:
    """Consecutive triples of a file as three columns of canonical terms.

    ``statements_done``: statements of the file delivered or skipped, this batch included.

    ``line``: the last line read; 0 for formats other than N-Triples and N-Quads, as their parser does not report it.

    ``g``: the graph of each triple, ``DEFAULT`` for the default graph; empty if all are in the default graph.

    ``times``: the event times of elements of a stream, in milliseconds since 1970.
    """

    s: list[str]
    p: list[str]
    o: list[str]
    statements_done: int
    line: int
    g: list[str] = dataclasses.field(default_factory=list)
    times: list[int] = dataclasses.field(default_factory=list)


def detect(name: str) -> tuple[Syntax, bool]:
    """Return the format that a file's name indicates, and whether the file is compressed.

    Raises DataRefused for a name without a known suffix.
    """
    plain, compressed = name.lower(), is_compressed(name)
    if compressed:
        plain = plain.rpartition(".")[0]
    for suffix, syntax in _BY_SUFFIX.items():
        if plain.endswith(suffix):
            return syntax, compressed
    for suffix, reason in _REFUSED.items():
        if plain.endswith(suffix):
            raise DataRefused(reason, source=name)
    known = ", ".join(_BY_SUFFIX)
    raise DataRefused(f"the name has no known suffix ({known}, each also {', '.join(COMPRESSIONS)})", source=name)


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
    split: Split | None = None,
    contexts: Contexts | None = None,
) -> Iterator[TripleBatch]:
    """Yield the triples of a binary stream as batches, with their graphs if the format has named graphs.

    ``publication_id`` becomes part of the IRIs that replace the file's blank nodes.  ``skip``: the number of
    statements to leave out.  A bad line is reported to ``on_bad_line`` and skipped; if ``strict``, it raises
    DataRefused.  An error in another format or in the compression always raises DataRefused.  All statements before
    the error are delivered first.  ``base`` resolves relative IRIs of formats other than N-Triples and N-Quads.
    ``live``: the stream is raw and may wait for data (a pipe, a request's body); lines of N-Triples and N-Quads, and
    frames of Jelly, are then yielded as they arrive.  ``split``: takes the event time from a line of N-Triples.
    ``contexts``: fetches the contexts at other addresses that JSON-LD names; without it they are refused.
    """
    prefix = terms.skolem_prefix(publication_id)
    if skip < 0 or batch_triples < 1:
        raise ValueError("skip must not be negative, batch_triples must be positive")
    faults = Faults(source, strict, on_bad_line)
    data = opened(stream, compressed=compressed, binary=syntax is Syntax.JELLY)
    graphs = syntax in (Syntax.N_QUADS, Syntax.TRIG, Syntax.JSON_LD, Syntax.JELLY)
    if syntax.by_lines:
        pieces = _line_pieces(data, _PARSERS[syntax], faults, split, live=live, graphs=graphs)
        names = _Names(prefix, unnamed_max=0)
    elif syntax is Syntax.JELLY:
        pieces = _jelly_pieces(data, publication_id, faults)
        names = _Names(prefix, unnamed_max=0)
    else:
        pieces = _turtle_pieces(data, syntax, faults, base, contexts, graphs=graphs)
        names = _Names(prefix, unnamed_max=UNNAMED_MAX)
    return _batches(pieces, _Columns(names, faults), skip, batch_triples)


# --- from statements to batches of strings -------------------------------------------------------


def _batches(
    pieces: Iterator[_Piece], columns: _Columns, skip: int, size: int
) -> Iterator[TripleBatch]:
    done = 0
    for piece in pieces:
        count = len(piece.texts)
        start = min(count, max(0, skip - done))
        if start and columns.numbering:  # skipped statements count for the numbering of blank nodes
            columns.of(piece.part(0, start))
        done += start
        for part in _even_parts(piece.part(start, count) if start else piece, size):
            done += len(part.texts)
            s, p, o, g = columns.of(part)
            yield TripleBatch(s, p, o, done, part.line, g, list(part.times))


def _even_parts(piece: _Piece, size: int) -> Iterator[_Piece]:
    """Split a piece into parts of nearly equal size, at most ``size`` statements each."""
    length = len(piece.texts)
    count = -(-length // size)
    for number in range(count):
        yield piece.part(length * number // count, length * (number + 1) // count)


def _piece(quads: list[ox.Quad], line: int, times: Sequence[int], *, graphs: bool) -> _Piece:
    return _Piece(list(map(str, quads)), list(map(_graph, quads)) if graphs else [], line, times)


def _graph(quad: ox.Quad) -> str:
    name = quad.graph_name
    return DEFAULT if isinstance(name, ox.DefaultGraph) else str(name)


class _Columns:
    """Turns statements into columns of terms."""

    def __init__(self, names: _Names, faults: Faults):
        self.numbering = names.numbering
        self._names = names
        self._faults = faults

    def of(self, piece: _Piece) -> tuple[list[str], list[str], list[str], list[str]]:
        """Return subjects, predicates and objects, and the graphs unless all triples are in the default graph."""
        # Formatting and splitting one string per statement is twice as fast as formatting three terms.  IRIs and
        # blank nodes contain no space, so the first two spaces separate subject, predicate and object.  (A triple
        # term is an object only.)
        rows = [text.split(" ", 2) for text in piece.texts]
        name = self._names.name
        g = piece.graphs if any(piece.graphs) else []
        for row, graph in zip(rows, g, strict=False):
            row[2:] = [row[2][: -len(graph) - 1] if graph else row[2], graph]
        try:
            for row in rows:
                if row[0][0] == "_":
                    row[0] = name(row[0])
                if row[2][0] == "_":
                    row[2] = name(row[2])
                elif row[2].startswith("<<") and "_:" in row[2]:
                    row[2] = terms.renamed(row[2], self._names.within)
                if g and row[3][:1] == "_":  # numbered in the order of the file, like other unnamed nodes
                    row[3] = name(row[3])
        except DataRefused as error:
            raise self._faults.refuse(error.reason) from None
        s, p, o = ([row[at] for row in rows] for at in range(3))
        return s, p, o, [row[3] for row in rows if g]


class _Names:
    """Assigns IRIs to the blank nodes of one file."""

    def __init__(self, prefix: str, unnamed_max: int):
        self._prefix = prefix
        self._publication = prefix.removeprefix("<" + terms.BNODE_PREFIX)[:-1]
        self._unnamed_max = unnamed_max
        self._unnamed: dict[int, int] = {}
        self.numbering = unnamed_max > 0

    def name(self, text: str) -> str:
        """Return the IRI for a blank node in the parser's spelling."""
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
        return f"{self._prefix}~{number}>"  # "~" does not occur in labels

    def within(self, text: str) -> str:
        """Return a part of a triple term, with an IRI for a blank node."""
        return self.name(text) if text[0] == "_" else text


# --- N-Triples and N-Quads: by lines -------------------------------------------------------------


def _line_pieces(
    data: IO[bytes], parser: ox.RdfFormat, faults: Faults, split: Split | None, *, live: bool, graphs: bool
) -> Iterator[_Piece]:
    line = 0
    for chunk in line_chunks(data, faults, live=live):
        if isinstance(chunk, Overlong):
            line += 1
            faults.bad_line(line, f"longer than {LINE_BYTES_MAX} bytes")
            continue
        first = line + 1
        line += chunk.count(b"\n") + (not chunk.endswith(b"\n"))
        whole = _whole(chunk, parser, split)
        if whole is not None:
            yield _piece(whole[0], line, whole[1], graphs=graphs)
        else:
            for quads, number, times in _each_line(chunk, parser, first, faults, split):
                yield _piece(quads, number, times, graphs=graphs)


def _whole(chunk: bytes, parser: ox.RdfFormat, split: Split | None) -> tuple[list[ox.Quad], list[int]] | None:
    """Parse a chunk at once, without its times; None if it must be parsed line by line."""
    if len(chunk) * _EXPANDED_MAX > terms.TERM_BYTES_MAX or triple_terms.too_many(chunk):
        return None
    times: list[int] = []
    try:
        if split is not None:
            found = [split(line) for line in chunk.removesuffix(b"\n").split(b"\n")]
            times = [time for time, _ in found]
            chunk = b"\n".join(statement for _, statement in found)
        quads = list(ox.parse(chunk, format=parser))
    except (SyntaxError, DataRefused):
        return None
    if (b"<<(" in chunk or b"angString>" in chunk) and any(terms.unusable(quad.object) for quad in quads):
        return None
    assert split is None or len(quads) == len(times), "the parser takes one statement a line"
    return quads, times


def _each_line(
    chunk: bytes, parser: ox.RdfFormat, first: int, faults: Faults, split: Split | None
) -> Iterator[tuple[list[ox.Quad], int, list[int]]]:
    """Parse line by line; deliver the statements, the last line and the times before a fault, then report it."""
    good: list[ox.Quad] = []
    times: list[int] = []
    number = first
    for number, text in enumerate(chunk.removesuffix(b"\n").split(b"\n"), first):
        try:
            if split is None:
                good += _line(text, parser)
            elif text.strip() and not text.lstrip().startswith(b"#"):
                time, statement = split(text)
                found = _line(statement, parser)
                good += found
                times += [time] * len(found)
        except SyntaxError as error:
            reason = _told(error)
        except DataRefused as error:
            reason = error.reason
        else:
            if len(good) < BATCH_TRIPLES:
                continue
            reason = ""
        if good:
            yield good, number, times
            good, times = [], []
        if reason:
            faults.bad_line(number, reason)
    if good:
        yield good, number, times


def _line(text: bytes, parser: ox.RdfFormat) -> list[ox.Quad]:
    if triple_terms.too_many(text):
        raise DataRefused(f"more than {triple_terms.TRIPLE_TERMS_MAX:,} occurrences of <<( in one line")
    quads = list(ox.parse(text, format=parser))
    for quad in quads:
        if reason := terms.unusable(quad.object):
            raise DataRefused(reason)
        if len(text) * _EXPANDED_MAX > terms.TERM_BYTES_MAX and _too_long(quad):
            raise DataRefused(_TERM_TOO_LONG)
    return quads


def _told(error: SyntaxError) -> str:
    """Return the parser's message, which may name a long term, without the place."""
    message = _ERROR_PLACE.sub("", error.msg, count=1)
    half = _MESSAGE_MAX // 2
    return message if len(message) <= _MESSAGE_MAX else f"{message[:half]} ... {message[-half:]}"


def _too_long(quad: ox.Quad) -> bool:
    texts = (str(quad.subject), str(quad.predicate), str(quad.object), str(quad.graph_name))
    # Labels of blank nodes become up to three times as long.
    return any(len(text.encode()) > terms.TERM_BYTES_MAX // (4 if text[:2] == "_:" else 1) for text in texts)


# --- Jelly: by frames ----------------------------------------------------------------------------


def _jelly_pieces(data: IO[bytes], publication_id: str, faults: Faults) -> Iterator[_Piece]:
    try:
        from p2prdf.rdf import jelly
    except ImportError:
        raise faults.refuse(JELLY_MISSING) from None
    expansion = Expansion(data)
    try:
        for quads in jelly.pieces(cast("IO[bytes]", expansion), publication_id, faults.refuse):
            remaining = iter(quads)
            while True:
                piece, error = _take(remaining, faults, expansion, graphs=True)
                if piece.texts:
                    yield piece
                if error is not None:
                    raise error
                if not piece.texts:
                    break
    except DAMAGED as error:
        raise faults.refuse(f"the data cannot be read: {error}") from None


# --- other formats: by statements ----------------------------------------------------------------


def _turtle_pieces(
    data: IO[bytes], syntax: Syntax, faults: Faults, base: str | None, contexts: Contexts | None, *, graphs: bool
) -> Iterator[_Piece]:
    if contexts is not None and syntax is Syntax.JSON_LD:
        try:
            data = io.BytesIO(with_contexts(data, faults.refuse, base or "", contexts))
        except (*DAMAGED, OSError) as damage:
            raise faults.refuse(f"the data cannot be read: {damage}") from None
    expansion = Expansion(data)
    counted = cast("IO[bytes]", expansion)
    prepared: _Prepared
    if syntax is Syntax.JSON_LD:
        prepared = json_ld.prepared(counted, faults.refuse, base or "", fetched=contexts is not None)
    else:
        prepared = _PREPARED[syntax](counted, faults.refuse)
    try:
        statements = iter(ox.parse(cast("IO[bytes]", prepared), format=_PARSERS[syntax], base_iri=base))
    except ValueError as invalid:
        raise faults.refuse(f"the base of relative IRIs is invalid: {invalid}") from None
    while True:
        piece, error = _take(statements, faults, expansion, graphs=graphs)
        if prepared.error is not None and (error is not None or not piece.texts):
            error = prepared.error  # the parser sees only an early end of its input
        if piece.texts:
            yield piece
        if error is not None:
            raise error
        if not piece.texts:
            return


def _take(
    statements: Iterator[ox.Quad], faults: Faults, expansion: Expansion, *, graphs: bool
) -> tuple[_Piece, DataRefused | None]:
    """Take a batch of statements, fewer if they are long, and the error that ends reading after them."""
    piece = _Piece([], [])
    left = _PIECE_CHARACTERS
    try:
        for quad in islice(statements, BATCH_TRIPLES):
            if reason := terms.unusable(quad.object):
                return piece, faults.refuse(reason)
            text = str(quad)
            size = len(text)
            if size * 4 > terms.TERM_BYTES_MAX and _too_long(quad):
                return piece, faults.refuse(_TERM_TOO_LONG)
            piece.texts.append(text)
            if graphs:
                piece.graphs.append(_graph(quad))
            left -= size
            if left < 0:
                break
    except SyntaxError as error:
        return piece, faults.refuse(json_ld.reason_of(_told(error)), error.lineno)
    except MemoryError:  # the parser's own bound
        return piece, faults.refuse("a term of more than 16 MiB, or a comment of that length")
    except (*DAMAGED, OSError) as error:
        return piece, faults.refuse(f"the data cannot be read: {error}")
    if expansion.exceeded(_PIECE_CHARACTERS - left):
        reason = f"the data expands to more than {EXPANSION_MAX} times its size: write shorter prefixes and bases"
        return piece, faults.refuse(f"{reason}, or N-Triples")
    return piece, None
