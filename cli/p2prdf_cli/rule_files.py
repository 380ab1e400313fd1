"""Rules from files and from ontologies."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from p2prdf.client.pieces import Triple
    from p2prdf.reasoning import Rule

__all__ = ["Ontologies", "Profile", "ProfileName", "Read", "RuleFiles", "RulesWanted", "read_rules", "rules_wanted"]


class Profile(enum.StrEnum):
    """Semantics of the ontology."""

    owl_rl = "owl-rl"
    rdfs = "rdfs"


RuleFiles = Annotated[list[Path] | None, typer.Option("--rules", metavar="FILE", help="File of rules; repeatable.")]
Ontologies = Annotated[
    list[str] | None,
    typer.Option("--ontology", metavar="FILE", help="Ontology (.ttl .rdf .owl .nt); repeatable."),
]
ProfileName = Annotated[Profile, typer.Option(help="Semantics of the ontology.")]
RulesWanted = Annotated[
    str | None,
    typer.Option("--rules", metavar="FILE|IRI", help="Infer with these rules: a file or a name (p2prdf rules)."),
]


class Read(NamedTuple):
    """Rules, statements of ontologies about individuals, and the blank nodes in them."""

    rules: list[Rule]
    facts: tuple[Triple, ...]
    blank: set[str]


def read_rules(files: Sequence[Path], ontologies: Sequence[str], profile: str) -> Read:
    """Read rules from files and ontologies; report ignored axioms on standard error.

    Raises QueryRefused, DataRefused.
    """
    from p2prdf.rdf.terms import skolem_prefix
    from p2prdf.reasoning import instantiate, owl_rl, parse_rules, rdfs
    from p2prdf_cli.query_text import read_query

    rules = [rule for file in files for rule in parse_rules(read_query(None, file, "rules"))]
    schema = [triple for number, name in enumerate(ontologies) for triple in _triples(name, f"ontology{number}")]
    if not schema:
        return Read(rules, (), set())
    rule_set = rdfs() if profile == Profile.rdfs.value else owl_rl(equality=False)
    ignored = rule_set.unsupported(schema)
    if ignored:
        print(f"p2prdf: ignored axioms: {', '.join(ignored)}", file=sys.stderr)
    found = instantiate(rule_set, schema)
    own = tuple(skolem_prefix(f"ontology{number}") for number in range(len(ontologies)))
    blank = {term for triple in schema for term in triple if term.startswith(own)}
    return Read([*rules, *found.rules], found.facts, blank)


def _triples(name: str, scope: str) -> Iterator[Triple]:
    """Yield the triples of a file; ``scope`` names its blank nodes.  Raises DataRefused."""
    from p2prdf.rdf.ntriples import read_triples
    from p2prdf_cli.sources import choose_input

    source = choose_input(name, None)
    base = Path(name).absolute().as_uri()
    with Path(name).open("rb") as stream:
        for batch in read_triples(
            stream, publication_id=scope, syntax=source.syntax, compressed=source.compressed, source=name,
            strict=True, base=base,
        ):  # fmt: skip
            yield from zip(batch.s, batch.p, batch.o, strict=True)


def rules_wanted(given: str | None) -> str | list[Rule]:
    """Return the rules of a file, or the IRI of rules registered in the overlay; empty for None."""
    from p2prdf.rdf import terms

    if given is None:
        return []
    return read_rules([Path(given)], [], "").rules if Path(given).is_file() else terms.iri(given)
