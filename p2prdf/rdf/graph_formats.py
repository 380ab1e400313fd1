"""Triples that a query constructs, in the formats that readers of graphs ask for beyond N-Triples.

Turtle is written as the N-Triples that it includes; RDF/XML and JSON-LD by the library that reads them elsewhere here.
Both are written as a whole, so what is too large for that is refused.
"""

from __future__ import annotations

import enum
import re
from typing import Final, TypeVar

import pyoxigraph as ox

from p2prdf.errors import DataRefused
from p2prdf.rdf.result_formats import xml_text_of

__all__ = ["WHOLE_CHARACTERS_MAX", "GraphFormat", "respelled"]

WHOLE_CHARACTERS_MAX: Final = 64 << 20
"""Of N-Triples, the most that are written in a format that needs all of them at once."""


class GraphFormat(enum.StrEnum):
    """A format of graphs."""

    N_TRIPLES = "nt"
    TURTLE = "ttl"
    RDF_XML = "rdf"
    JSON_LD = "jsonld"

    @property
    def by_lines(self) -> bool:
        """Whether N-Triples are what is written."""
        return self in (GraphFormat.N_TRIPLES, GraphFormat.TURTLE)


_OTHERWISE: Final = "ask for N-Triples or Turtle (Accept: text/turtle)"
_T = TypeVar("_T")
_NAME_AT_END: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
"""What a predicate is to end with so that the end is a name in XML; others of its names are not looked at."""
_WRITERS: Final = {GraphFormat.RDF_XML: ox.RdfFormat.RDF_XML, GraphFormat.JSON_LD: ox.RdfFormat.JSON_LD}


def respelled(lines: str, wanted: GraphFormat) -> bytes:
    """Return N-Triples in RDF/XML or JSON-LD.

    Raises DataRefused if there are too many, or for a term that the format cannot hold.
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
        made = ox.serialize(triples, format=_WRITERS[wanted])
    except (SyntaxError, ValueError, OSError) as error:  # rdf:li as a predicate; <rel>, published before it was refused
        raise DataRefused(f"{_not_rdf(lines)} cannot be written as {wanted.name}: {error}; {_OTHERWISE}") from None
    assert made is not None, "there is no file to write to"
    return made


def _not_rdf(lines: str) -> str:
    """Return the first of some N-Triples statements that is none."""
    for line in lines.splitlines():
        try:
            for _ in ox.parse(line, format=ox.RdfFormat.N_TRIPLES):
                pass
        except (SyntaxError, ValueError):
            return line[:200]
    return "a triple"


def _named(term: _T) -> _T | ox.BlankNode:
    """Return a term; a blank node with a label that XML takes, which begins with a letter."""
    return ox.BlankNode(f"b{term.value}") if isinstance(term, ox.BlankNode) else term


def _checked(triple: ox.Triple) -> ox.Triple:
    """Return a triple that XML can hold: the library would write what no parser reads."""
    if _NAME_AT_END.search(triple.predicate.value) is None:
        raise DataRefused(f"{triple.predicate}: RDF/XML cannot write a predicate that ends so; {_OTHERWISE}")
    if isinstance(triple.object, ox.Literal):
        xml_text_of(triple.object.value)
    return triple
