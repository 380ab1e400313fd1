"""Constructed triples in the graph formats that clients request beyond N-Triples.

Turtle output is N-Triples, a subset of Turtle.  pyoxigraph writes RDF/XML and JSON-LD, pyjelly writes Jelly.  These
are written as a whole, so larger graphs are refused.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import Final, TypeVar

import pyoxigraph as ox

from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import JELLY_MISSING
from p2prdf.rdf.result_formats import xml_text_of

__all__ = ["WHOLE_CHARACTERS_MAX", "GraphFormat", "respelled"]

WHOLE_CHARACTERS_MAX: Final = 64 << 20
"""Most characters of N-Triples for a format that needs the whole graph at once."""


class GraphFormat(enum.StrEnum):
    """A format of graphs."""

    N_TRIPLES = "nt"
    TURTLE = "ttl"
    RDF_XML = "rdf"
    JSON_LD = "jsonld"
    JELLY = "jelly"

    @property
    def by_lines(self) -> bool:
        """Whether the output is N-Triples, statement by statement."""
        return self in (GraphFormat.N_TRIPLES, GraphFormat.TURTLE)


_OTHERWISE: Final = "ask for N-Triples or Turtle (Accept: text/turtle)"
_T = TypeVar("_T")
_NAME_AT_END: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
"""The local name at the end of a predicate, which becomes an XML name; ASCII characters only."""
_WRITERS: Final = {GraphFormat.RDF_XML: ox.RdfFormat.RDF_XML, GraphFormat.JSON_LD: ox.RdfFormat.JSON_LD}


def respelled(lines: str, wanted: GraphFormat) -> bytes:
    """Return N-Triples in RDF/XML, JSON-LD or Jelly.

    Raises DataRefused if there are more than ``WHOLE_CHARACTERS_MAX`` characters, if the format cannot hold a term, or
    for Jelly without the package that writes it.
    """
    if len(lines) > WHOLE_CHARACTERS_MAX:
        raise DataRefused(f"{len(lines):,} characters are too many for {wanted.name}: ask for N-Triples or Turtle")
    triples = (
        ox.Triple(_named(each.subject), each.predicate, _named(each.object))
        for each in ox.parse(lines, format=ox.RdfFormat.N_TRIPLES)
    )
    if wanted is GraphFormat.RDF_XML:
        triples = (_checked(each) for each in triples)
    try:
        if wanted is GraphFormat.JELLY:
            return _jelly(triples)
        made = ox.serialize(triples, format=_WRITERS[wanted])
    except (SyntaxError, ValueError, OSError) as error:  # rdf:li as a predicate; <rel>, published before it was refused
        raise DataRefused(f"{_not_rdf(lines)} cannot be written as {wanted.name}: {error}; {_OTHERWISE}") from None
    assert made is not None, "there is no file to write to"
    return made


def _jelly(triples: Iterator[ox.Triple]) -> bytes:
    try:
        from p2prdf.rdf import jelly
    except ImportError:
        raise DataRefused(JELLY_MISSING) from None
    return jelly.written(triples)


def _not_rdf(lines: str) -> str:
    """Return the first line that is not a valid N-Triples statement, cut to 200 characters."""
    for line in lines.splitlines():
        try:
            for _ in ox.parse(line, format=ox.RdfFormat.N_TRIPLES):
                pass
        except (SyntaxError, ValueError):
            return line[:200]
    return "a triple"


def _named(term: _T) -> _T | ox.BlankNode:
    """Return the term; the label of a blank node gets a leading letter, as XML requires."""
    return ox.BlankNode(f"b{term.value}") if isinstance(term, ox.BlankNode) else term


def _checked(triple: ox.Triple) -> ox.Triple:
    """Return a triple that XML can hold.

    Raises DataRefused for other triples, of which pyoxigraph would write XML that no parser reads.
    """
    if _NAME_AT_END.search(triple.predicate.value) is None:
        raise DataRefused(f"{triple.predicate}: RDF/XML cannot represent a predicate with this ending; {_OTHERWISE}")
    if isinstance(triple.object, ox.Literal):
        xml_text_of(triple.object.value)
    return triple
