"""Target of a replica: its place, the access to it, and the source of its first slice."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from p2prdf.interest import Interests, Triple
    from p2prdf.replica.endpoint import Endpoint
    from p2prdf.replica.target import Target

__all__ = ["HOSTS_VARIABLE", "Reach", "WritingReach", "matching", "open_target", "source_of"]

HOSTS_VARIABLE: Final = "P2PRDF_ENDPOINT_HOSTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Options of a command about endpoints."""

    dataset: Annotated[
        str, typer.Option("--dataset", metavar="IRI", help="Dataset; names the cursor at the target.")
    ] = "urn:p2prdf:dataset"
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="IRI", help="Target graph. (default: the default graph)")
    ] = None
    query_url: Annotated[
        str | None,
        typer.Option("--query-url", metavar="URL", help="Query endpoint. (default: .../query for .../update)"),
    ] = None
    auth_file: Annotated[
        Path | None,
        typer.Option(
            "--auth-file", metavar="FILE", help="Credentials of the endpoint. (default: P2PRDF_ENDPOINT_AUTH)"
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="HOST[:PORT]",
            help=f"Permitted hosts; repeatable. (default: {HOSTS_VARIABLE}, else the target's)",
        ),
    ] = None  # fmt: skip
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Permit private and loopback addresses.")
    ] = False
    update_triples: int = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingReach(Reach):
    """Options of a command that writes to endpoints."""

    update_triples: Annotated[int, typer.Option(min=1, metavar="N", help="Largest update, in triples.")] = 5000


def open_target(name: str, reach: Reach) -> Target:
    """Open the target of a name."""
    from p2prdf.rdf import terms

    dataset = terms.iri(reach.dataset)
    graph = None if reach.graph is None else terms.iri(reach.graph)
    kind, _, rest = name.partition(":")
    if kind == "store":
        from p2prdf.replica.embedded import EmbeddedStore

        return EmbeddedStore(Path(rest), dataset=dataset, graph=graph, triples_max=reach.update_triples)
    if kind == "files":
        from p2prdf.replica.triple_files import TripleFiles

        return TripleFiles(Path(rest))
    query = reach.query_url or (name.removesuffix("update") + "query" if name.endswith("/update") else name)
    return _endpoint(name, query, dataset, graph, reach)


def source_of(url: str, graph: str | None, reach: Reach) -> Endpoint:
    """Return the endpoint from which the first slice is read."""
    from p2prdf.rdf import terms

    return _endpoint(url, url, "<urn:p2prdf:source>", None if graph is None else terms.iri(graph), reach)


async def matching(source: Endpoint, interests: Interests, *, matched: bool) -> AsyncIterator[Triple]:
    """Yield the triples of a source that match the interests."""
    for name in interests:
        async for triple in source.matching(interests.interest(name), matched=matched):
            yield triple


def _endpoint(update: str, query: str, dataset: str, graph: str | None, reach: Reach) -> Endpoint:
    from p2prdf.replica.credentials import find_credentials
    from p2prdf.replica.endpoint import Endpoint, EndpointConfig
    from p2prdf.replica.hosts import Hosts, checked_url

    listed, private = reach.allow_host or os.environ.get(HOSTS_VARIABLE, "").split(), reach.allow_private
    if not listed:  # the user of the command is the operator
        places = map(checked_url, (update, query))
        listed = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places]
        private = True
    config = EndpointConfig(update, query, graph, triples_max=reach.update_triples)
    credentials = find_credentials(reach.auth_file)
    return Endpoint(config, dataset=dataset, hosts=Hosts(listed, private=private), credentials=credentials)
