"""``p2prdf explain``: evaluation of a query, waiting partial results, and the step that blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.options import PEER_DEFAULT, AlgorithmName, Json, Peer, QueryFile, subscription_number

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(explain)


def explain(
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="A SPARQL query: SELECT, ASK or CONSTRUCT.")
    ] = None,
    peer: Peer = PEER_DEFAULT,
    file: QueryFile = None,
    prefix_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Turtle or SPARQL file with prefixes for the query.")
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option(metavar="ID", callback=subscription_number, help="Identifier of a subscription to explain."),
    ] = None,
    algorithm: Annotated[
        AlgorithmName, typer.Option(help="Join algorithm: spread by values (csbv) or a fixed chain (cqc).")
    ] = AlgorithmName.csbv,
    per_event: Annotated[bool, typer.Option("--per-event", help="Explain the query with event semantics.")] = False,
    as_json: Json = False,
) -> None:
    """Explain how a query is evaluated: plan, places, rates, and the blocking step.

    A query is explained as it would be evaluated now; no subscription is created.
    For a subscription, the waiting partial results show why no solution comes.

    \b
    Examples:
      p2prdf explain 'SELECT ?s ?o WHERE { ?s <urn:p> ?m . ?m <urn:q> ?o }'
      p2prdf explain -f query.rq --prefix-file prefixes.ttl --algorithm cqc
      p2prdf explain --subscription 00c0ffee00c0ffee
      p2prdf explain --subscription 00c0ffee00c0ffee --json | jq .findings
    """
    if subscription is not None and (query is not None or file is not None):
        raise typer.BadParameter("--subscription explains the query it has: give no other")
    if subscription is not None:
        run(_explain(int(subscription, 16), {}, peer, as_json=as_json))
    else:
        how = {"algorithm": algorithm.value, "per_event": per_event}
        run(_explain_query(query, file, prefix_file, peer, as_json=as_json, **how))


async def _explain_query(
    query: str | None, file: Path | None, prefix_file: Path | None, peer: list[str], *, as_json: bool, **how: Any
) -> None:
    from p2prdf_cli.query_text import declared_prefixes, read_query, with_prefixes

    text = read_query(query, file)
    prefixes = declared_prefixes(prefix_file.read_text("utf-8-sig")) if prefix_file is not None else {}
    text = with_prefixes(text, prefixes)
    await _explain(text, prefixes | declared_prefixes(text), peer, as_json=as_json, **how)


async def _explain(what: str | int, prefixes: dict[str, str], peer: list[str], *, as_json: bool, **how: Any) -> None:
    from p2prdf_cli.explanation import show
    from p2prdf_cli.render import write_json
    from p2prdf_cli.terminal import output

    async with connect(peer, reconnect_seconds=0) as client:
        explanation = await client.explain(what, **how)
    if as_json:
        write_json(explanation)
    else:
        show(explanation, prefixes, output())
