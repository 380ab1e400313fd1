"""``p2prdf update``: SPARQL Update, executed as publications and deletions."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.loading import contexts_of, endpoints_of, loader_of
from p2prdf_cli.options import PEER_DEFAULT, TIMEOUT_DEFAULT, Json, Peer, PrefixFile, Timeout, with_options

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(update)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    update: Annotated[
        str | None,
        typer.Argument(metavar="UPDATE", help="SPARQL 1.1 Update: operations, several with ;"),
    ] = None
    peer: Peer = field(default_factory=PEER_DEFAULT.copy)
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="U.ru", help="File with the update; - is standard input."),
    ] = None
    prefix_file: PrefixFile = None
    load_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted hosts of LOAD; repeatable. (default: none)"),
    ] = None
    service_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted hosts of SERVICE; repeatable. (default: none)"),
    ] = None
    context_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted hosts of JSON-LD contexts; repeatable. (default: none)"),
    ] = None
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Permit private and loopback addresses of these hosts.")
    ] = False
    timeout: Timeout = TIMEOUT_DEFAULT
    if_unchanged: Annotated[
        str | None,
        typer.Option(metavar="STAMP|read", help="Only if the changed subjects are unchanged since then (read: WHERE)."),
    ] = None
    as_json: Json = False


@with_options(_Options)
def update(options: _Options) -> None:
    """Change data by SPARQL 1.1 Update; done when all changes are acknowledged.

    Operations run in order; a WHERE sees the effects of earlier ones. Concurrent
    updates do not lock each other. See docs/how-to/update-data.md.

    \b
    Examples:
      p2prdf update 'INSERT DATA { <urn:a> <urn:p> "1", "2" }'
      p2prdf update 'DELETE { ?s <urn:p> ?o } INSERT { ?s <urn:q> ?o } WHERE { ?s <urn:p> ?o }'
      p2prdf update -f changes.ru --prefix-file prefixes.ttl
      p2prdf update -f increment.ru --if-unchanged read
      p2prdf update 'LOAD <https://example.org/d.ttl>' --load-from example.org
    """
    run(_update(options))


async def _update(options: _Options) -> None:
    from p2prdf_cli.query_text import prefixes_of, read_query, with_prefixes
    from p2prdf_cli.render import reconnections_reported, write_json

    text = with_prefixes(read_query(options.update, options.file, "update"), prefixes_of(options.prefix_file))
    contexts = contexts_of(options.context_from or (), private=options.allow_private)
    loader = loader_of(options.load_from or (), private=options.allow_private, contexts=contexts)
    endpoints = endpoints_of(options.service_from or (), private=options.allow_private)
    version = _version(options.if_unchanged)
    with reconnections_reported():
        async with connect(options.peer) as client:
            done = await client.update(
                text, timeout_seconds=options.timeout, loader=loader, endpoints=endpoints, if_unchanged=version
            )  # fmt: skip
    if options.as_json:
        write_json({"inserted": done.inserted, "deleted": done.deleted}, line=True)
    else:
        print(f"{_triples(done.inserted)} published, {_triples(done.deleted)} deleted")


def _version(given: str | None) -> int | str | None:
    """Return the option's stamp, or the word.  Raises BadParameter."""
    if given is None or given == "read":
        return given
    if not given.isdecimal():
        raise typer.BadParameter(f"--if-unchanged {given}: neither a stamp (query --stamp) nor read")
    return int(given)


def _triples(count: int) -> str:
    return f"{count:,} triple{'' if count == 1 else 's'}"
