"""Jelly: RDF as frames of Protocol Buffers, read and written by pyjelly.

A stream is a sequence of frames, each with its length; a file of one frame may leave the length out.  IRIs are stored
in tables, and a repeated term takes no bytes, so a short stream can expand enormously.  Frames are therefore bounded,
and the caller bounds the expansion between two pieces (:mod:`p2prdf.rdf.expansion`).  Each frame is delivered as soon
as it is complete: one frame is one publication unless it is large.

pyjelly comes with the extra ``jelly``.  Importing this module without it raises ImportError.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Final

import pyoxigraph as ox
from google.protobuf.message import DecodeError
from pyjelly import jelly
from pyjelly.errors import JellyConformanceError
from pyjelly.options import MAX_VERSION, StreamParameters
from pyjelly.parse.decode import Adapter, Decoder, options_from_frame
from pyjelly.serialize.encode import Slot, TermEncoder
from pyjelly.serialize.ioutils import write_delimited
from pyjelly.serialize.streams import SerializerOptions, TripleStream

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms

__all__ = ["FRAME_BYTES_MAX", "FRAME_ROWS_MAX", "pieces", "written"]

FRAME_BYTES_MAX: Final = 8 << 20
"""Largest frame."""
FRAME_ROWS_MAX: Final = 1_000_000
"""Most rows of a frame: statements and entries of tables."""

_PIECE_STATEMENTS: Final = 1000
_PIECE_CHARACTERS: Final = 4 << 20
_READ_BYTES: Final = 1 << 18
_LENGTH_BYTES_MAX: Final = 5
_ROW: Final = 0x0A
"""The first byte of a row, and of a frame without length."""
_MALFORMED: Final = (
    JellyConformanceError, DecodeError, AssertionError, AttributeError, IndexError, KeyError, NotImplementedError,
    TypeError, ValueError,
)  # fmt: skip
"""Errors of pyjelly, which has none of its own for most malformed rows, and of pyoxigraph for invalid terms."""

_Refuse = Callable[[str], DataRefused]


# --- reading -------------------------------------------------------------------------------------


def pieces(data: IO[bytes], publication_id: str, refuse: _Refuse) -> Iterator[list[ox.Quad]]:
    """Yield the statements of a stream, in pieces of at most one frame; blank nodes are IRIs of the publication.

    ``refuse`` makes the error for malformed data, which is raised after the statements before it were yielded.
    """
    source, statements = _Source(data, refuse), _Statements(publication_id)
    decoder: Decoder | None = None
    while (encoded := source.frame()) is not None:
        try:
            frame = jelly.RdfStreamFrame.FromString(encoded)
            if len(frame.rows) > FRAME_ROWS_MAX:
                raise refuse(f"a frame of more than {FRAME_ROWS_MAX:,} rows: write smaller frames")
            if decoder is None and frame.rows:
                decoder = _decoder(frame, statements, refuse)
            for _ in () if decoder is None else decoder.iter_rows(frame):
                if statements.is_full:
                    yield statements.take()
        except (DataRefused, *_MALFORMED) as error:
            if statements.made:
                yield statements.take()
            if isinstance(error, DataRefused):
                raise
            raise refuse(f"malformed Jelly: {error or type(error).__name__}") from None
        if statements.made:
            yield statements.take()


class _Source:
    """The frames of a stream, still encoded."""

    def __init__(self, data: IO[bytes], refuse: _Refuse):
        self._data = data
        self._refuse = refuse
        self._begun: bytes | None = None
        """The first bytes, which were looked at; None before."""
        self._ended = False

    def frame(self) -> bytes | None:
        """Return the next frame, None at the end.  Raises the error for a frame that is too long or breaks off."""
        if self._begun is None:
            self._begun = head = self._read(3)
            if len(head) == 3 and head[0] == _ROW and (head[1] != _ROW or head[2] == _ROW):  # by the specification
                self._ended = True
                return self._bounded(self._read(FRAME_BYTES_MAX + 1))
        length = b"" if self._ended else self._read(1)
        if not length:
            return None
        while length[-1] & 0x80:
            if len(length) >= _LENGTH_BYTES_MAX:
                raise self._too_long()
            length += self._exactly(1)
        size = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(length))
        if size > FRAME_BYTES_MAX:
            raise self._too_long()
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = self._read(size)
        if len(found) < size:
            raise self._refuse("malformed Jelly: the stream breaks off within a frame")
        return found

    def _read(self, size: int) -> bytes:
        """Read so many bytes, fewer only at the end."""
        begun = (self._begun or b"")[:size]
        if begun:
            self._begun = (self._begun or b"")[size:]
        parts = [begun]
        size -= len(begun)
        while size and (part := self._data.read(min(size, _READ_BYTES))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _bounded(self, frame: bytes) -> bytes:
        if len(frame) > FRAME_BYTES_MAX:
            raise self._too_long()
        return frame

    def _too_long(self) -> DataRefused:
        return self._refuse(f"a frame of more than {FRAME_BYTES_MAX:,} bytes: write smaller frames")


class _Statements:
    """Collects the statements of a piece, and counts their characters."""

    def __init__(self, publication_id: str):
        self.publication_id = publication_id
        self.made: list[ox.Quad] = []
        self._characters = 0

    def add(self, s: Any, p: Any, o: Any, graph: Any) -> None:
        """Add a statement.  Raises TypeError for a literal as a subject, predicate or graph."""
        size = len(s.value) + len(p.value)
        self._characters += size + len(str(o) if isinstance(o, ox.Triple) else o.value)
        self.made.append(ox.Quad(s, p, o, graph))

    @property
    def is_full(self) -> bool:
        """Whether the statements make up a piece."""
        return len(self.made) >= _PIECE_STATEMENTS or self._characters > _PIECE_CHARACTERS

    def take(self) -> list[ox.Quad]:
        """Return the statements collected, and begin anew."""
        found, self.made, self._characters = self.made, [], 0
        return found


class _Adapter(Adapter):  # type: ignore[misc]  # untyped wherever the package is not installed
    """Makes the terms of pyoxigraph for pyjelly's decoder."""

    def __init__(self, options: Any, statements: _Statements):
        super().__init__(options)
        self._statements = statements
        self._graph: ox.NamedNode | ox.DefaultGraph = ox.DefaultGraph()

    def iri(self, iri: str) -> ox.NamedNode:
        return ox.NamedNode(iri)

    def bnode(self, bnode: str) -> ox.NamedNode:
        return ox.NamedNode(terms.skolem(self._statements.publication_id, bnode)[1:-1])

    def literal(self, lex: str, language: str | None = None, datatype: str | None = None) -> ox.Literal:
        if language:
            return ox.Literal(lex, language=language)
        return ox.Literal(lex, datatype=None if datatype is None else ox.NamedNode(datatype))

    def default_graph(self) -> ox.DefaultGraph:
        return ox.DefaultGraph()

    def quoted_triple(self, terms: Iterable[Any]) -> ox.Triple:
        return ox.Triple(*terms)

    def triple(self, terms: Iterable[Any]) -> None:
        s, p, o = terms
        self._statements.add(s, p, o, self._graph)

    def quad(self, terms: Iterable[Any]) -> None:
        s, p, o, graph = terms
        self._statements.add(s, p, o, graph)

    def graph_start(self, graph_id: ox.NamedNode | ox.DefaultGraph) -> None:
        self._graph = graph_id

    def graph_end(self) -> None:
        self._graph = ox.DefaultGraph()

    def namespace_declaration(self, name: str, iri: ox.NamedNode) -> None:
        """Ignore a prefix."""


def _decoder(frame: Any, statements: _Statements, refuse: _Refuse) -> Decoder:
    """Return the decoder of a stream, by its first frame with rows."""
    if frame.rows[0].WhichOneof("row") != "options":
        raise refuse("malformed Jelly: the first row is not the options of the stream")
    version = frame.rows[0].options.version
    if version > MAX_VERSION:
        raise refuse(f"version {version} of Jelly is not read: write version {MAX_VERSION}")
    options = options_from_frame(frame, delimited=True)
    if options.stream_types.physical_type == jelly.PHYSICAL_STREAM_TYPE_UNSPECIFIED:
        raise refuse("malformed Jelly: the options name no type of statements")
    return Decoder(_Adapter(options, statements))


# --- writing -------------------------------------------------------------------------------------


def written(triples: Iterable[ox.Triple]) -> bytes:
    """Return triples as a stream of frames with their lengths."""
    made = io.BytesIO()
    params = StreamParameters(rdf_star=True)
    options = SerializerOptions(logical_type=jelly.LOGICAL_STREAM_TYPE_FLAT_TRIPLES, params=params)
    stream = TripleStream(encoder=_Encoder(lookup_preset=options.lookup_preset), options=options)
    stream.enroll()
    for each in triples:
        if (frame := stream.triple((each.subject, each.predicate, each.object))) is not None:
            write_delimited(frame, made)
    if (frame := stream.flow.to_stream_frame()) is not None:
        write_delimited(frame, made)
    return made.getvalue()


class _Encoder(TermEncoder):  # type: ignore[misc]
    """Encodes the terms of pyoxigraph."""

    def encode_spo(self, term: Any, slot: Slot, statement: Any) -> Any:
        if isinstance(term, ox.NamedNode):
            return self.encode_iri(term.value, self.get_iri_field(statement, slot))
        if isinstance(term, ox.BlankNode):
            self.set_bnode_field(statement, slot, term.value)
            return ()
        if isinstance(term, ox.Triple):
            parts = (term.subject, term.predicate, term.object)
            return self.encode_quoted_triple(parts, self.get_triple_field(statement, slot))
        if term.direction is not None:
            raise DataRefused(f"Jelly cannot hold the base direction of {term}")
        datatype = None if term.language else term.datatype.value
        literal = self.get_literal_field(statement, slot)
        return self.encode_literal(lex=term.value, language=term.language, datatype=datatype, literal=literal)
