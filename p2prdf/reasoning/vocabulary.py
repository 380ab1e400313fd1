"""The vocabularies of RDFS and OWL: schema triples, and short names of constructs.

A schema describes classes and properties, data describes individuals.  RDF does not separate them, but predicates and
classes do: ``:Student rdfs:subClassOf :Person`` and ``:isIn a owl:TransitiveProperty`` are schema triples, ``:ann a
:Student`` and ``:ann owl:sameAs :anna`` are data.

Auxiliary terms (``aux:``) are internal: rules use them to walk lists, and results do not contain them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from p2prdf.rdf.terms import RDF, XSD

__all__ = [
    "AUXILIARY", "CHAIN", "OWL", "PREFIXES", "RDFS", "TYPE", "Triple", "expanded", "is_auxiliary", "is_schema", "short",
]  # fmt: skip

Triple: TypeAlias = tuple[str, str, str]
"""Canonical terms; in a pattern also variables."""

RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
OWL: Final = "http://www.w3.org/2002/07/owl#"
AUXILIARY: Final = "urn:p2prdf:rules:"
PREFIXES: Final = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD, "aux": AUXILIARY}


def expanded(names: str) -> tuple[str, ...]:
    """Return the IRIs of words like ``owl:Class``, with the prefixes above."""
    pairs = (word.split(":") for word in names.split())
    return tuple(f"<{PREFIXES[prefix]}{local}>" for prefix, local in pairs)


def short(term: str) -> str:
    """Return the short name of an IRI of these vocabularies, such as ``owl:complementOf``."""
    for prefix, namespace in PREFIXES.items():
        if term.startswith(f"<{namespace}"):
            return f"{prefix}:{term[len(namespace) + 1 : -1]}"
    return term


(TYPE,) = expanded("rdf:type")
(CHAIN,) = expanded("aux:Chain")
"""The class of the cells of a property chain: each cell is the predicate for the rest of the chain from there."""

_SCHEMA_PREDICATES: Final = frozenset(
    expanded("rdfs:subClassOf rdfs:subPropertyOf rdfs:domain rdfs:range rdf:first rdf:rest")
)
_SCHEMA_CLASSES: Final = frozenset(
    expanded("rdf:Property rdfs:Class rdfs:Datatype rdfs:ContainerMembershipProperty")
)
_OF_INDIVIDUALS: Final = frozenset(
    expanded("owl:sameAs owl:differentFrom owl:Thing owl:Nothing owl:NamedIndividual aux:ofAll")
)
_OURS: Final = (f"<{OWL}", f"<{AUXILIARY}")


def is_schema(triple: Triple) -> bool:
    """Return whether a triple belongs to a schema, or a pattern takes only such triples."""
    _, p, o = triple
    if p == TYPE:
        return o in _SCHEMA_CLASSES or _is_ours(o)
    return p in _SCHEMA_PREDICATES or _is_ours(p)


def is_auxiliary(triple: Triple) -> bool:
    """Return whether a triple has an auxiliary term as its predicate or class."""
    _, p, o = triple
    return (o if p == TYPE else p).startswith(f"<{AUXILIARY}")


def _is_ours(term: str) -> bool:
    return term.startswith(_OURS) and term not in _OF_INDIVIDUALS
