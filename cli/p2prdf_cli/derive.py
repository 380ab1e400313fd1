"""``p2prdf derive``: what a CONSTRUCT answers, published back as a named graph, and kept so."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.options import (
    PEER_DEFAULT,
    TIMEOUT_DEFAULT,
    Algorithm,
    AlgorithmName,
    Json,
    Peer,
    PrefixFile,
    Timeout,
)

if TYPE_CHECKING:
    from p2prdf.client import Client, Derived

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(derive)


def derive(
    graph: Annotated[str, typer.Option(metavar="IRI", help="The graph to be derived; its own, and nobody else's.")],
    query: Annotated[str | None, typer.Argument(metavar="QUERY", help="A SPARQL query: CONSTRUCT.")] = None,
    peer: Peer = PEER_DEFAULT,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="Q.rq", help="Read the query from a file; - is standard input."),
    ] = None,
    prefix_file: PrefixFile = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when the graph holds what the query answers.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Empty the graph instead, and forget that it is one.")] = False,
    algorithm: Algorithm = AlgorithmName.csbv,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: Json = False,
) -> None:
    """Publish what a CONSTRUCT answers back as a named graph, and keep that so.

    Runs until it is stopped, and may be stopped or killed at any moment: begun
    again, by anybody, it compares the graph with what the query answers. A
    query that reads the graph, itself or by way of other derived graphs, is
    refused. Nodes must be run with --roles all.

    \b
    Examples:
      p2prdf derive --graph urn:near 'CONSTRUCT { ?a <urn:near> ?c }
                                      WHERE { ?a <urn:next>/<urn:next> ?c }'
      p2prdf subscribe 'SELECT * WHERE { GRAPH <urn:near> { ?a ?p ?c } }'
      p2prdf derive --graph urn:near --drop
    """
    if drop and (query is not None or file is not None or once):
        raise typer.BadParameter("--drop goes without a query and without --once")
    run(_derive(_Wanted(graph, query, file, prefix_file, once, drop, algorithm.value, timeout, as_json), peer))


@dataclass(frozen=True, slots=True)
class _Wanted:
    graph: str
    query: str | None
    file: Path | None
    prefix_file: Path | None
    once: bool
    drop: bool
    algorithm: str
    timeout: float
    as_json: bool


async def _derive(wanted: _Wanted, peer: str) -> None:
    import p2prdf
    from p2prdf.rdf import terms
    from p2prdf_cli.query_text import prefixes_of, read_query, with_prefixes
    from p2prdf_cli.render import reconnections_told

    graph = terms.iri(wanted.graph)
    text = ""
    if not wanted.drop:
        text = with_prefixes(read_query(wanted.query, wanted.file), prefixes_of(wanted.prefix_file))
    with reconnections_told():
        async with p2prdf.connect(peer) as client:
            if wanted.drop:
                count = await client.drop_derived(graph, timeout_seconds=wanted.timeout)
                _tell({"removed": count}, f"{count:,} removed", as_json=wanted.as_json)
            else:
                await _keep(client, text, graph, wanted)


async def _keep(client: Client, query: str, graph: str, wanted: _Wanted) -> None:
    first = True
    derivation = client.derive(query, graph, algorithm=wanted.algorithm, timeout_seconds=wanted.timeout)
    async with contextlib.aclosing(derivation) as steps:
        async for step in steps:
            if first or step.added or step.removed:
                _tell_step(step, as_json=wanted.as_json)
            first = False
            if wanted.once:
                return


def _tell_step(step: Derived, *, as_json: bool) -> None:
    told = {"added": step.added, "removed": step.removed, "as_of": step.as_of}
    _tell(told, f"{step.added:,} published, {step.removed:,} removed", as_json=as_json)


def _tell(told: dict[str, float], text: str, *, as_json: bool) -> None:
    from p2prdf_cli.render import write_json

    if as_json:
        write_json(told, line=True)
    else:
        print(text, flush=True)
