"""``p2prdf interest``: interests registered in the overlay, kept up to date by any sync worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p2prdf_cli.commands import Commands
from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode
from p2prdf_cli.options import PEER_DEFAULT, TIMEOUT_DEFAULT, Json, Peer, QueryFile, Timeout
from p2prdf_cli.query_text import read_query
from p2prdf_cli.registered import report_result, with_client

if TYPE_CHECKING:
    from p2prdf.client import Client

__all__ = ["register"]

_HELP: Final = """Register interests: parts of datasets that workers keep at SPARQL endpoints.

\b
Examples:
  p2prdf interest add --dataset http://dbpedia.org -f football.rq --name football \\
      --target http://db1.example.org:3030/ds/update
  p2prdf interest status
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the interest.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("add", epilog=EXIT_CODES_HELP)(add)
    commands.command("list", epilog=EXIT_CODES_HELP)(list_)
    commands.command("status", epilog=EXIT_CODES_HELP)(status)
    commands.command("pause", epilog=EXIT_CODES_HELP)(pause)
    commands.command("resume", epilog=EXIT_CODES_HELP)(resume)
    commands.command("remove", epilog=EXIT_CODES_HELP)(remove)
    commands.command("verify", epilog=EXIT_CODES_HELP)(verify)
    commands.command("repair", epilog=EXIT_CODES_HELP)(repair)
    app.add_typer(commands, name="interest", help=_HELP)


def add(
    dataset: Annotated[str, typer.Option("--dataset", metavar="IRI", help="Graph of the dataset in the cluster.")],
    target: Annotated[str, typer.Option("--target", metavar="URL", help="SPARQL 1.1 update endpoint.")],
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="Interest: a SPARQL query.")] = None,
    file: QueryFile = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the interest. (default: a generated one)")
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option("--graph", metavar="IRI", help="Target graph. (default: the default graph)"),
    ] = None,
    query_url: Annotated[
        str | None,
        typer.Option("--query-url", metavar="URL", help="Query endpoint. (default: .../query for .../update)"),
    ] = None,
    peer: Peer = PEER_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: Json = False,
) -> None:
    """Register an interest in a dataset of the cluster.

    The workers (p2prdf serve interests) keep its target up to date. They hold the
    credentials, and their operators permit the hosts of targets.

    \b
    Examples:
      p2prdf interest add --dataset http://dbpedia.org -f football.rq \\
          --target http://db1.example.org:3030/ds/update --graph urn:example:football
    """

    async def action(client: Client) -> None:
        from p2prdf.rdf import terms

        made = await client.interests.add(
            terms.iri(dataset), target, read_query(query, file), name=name, query_url=query_url,
            graph=None if graph is None else terms.iri(graph), timeout_seconds=timeout,
        )  # fmt: skip
        report_result({"name": made}, f"registered as {made}", as_json=as_json)

    with_client(peer, action)


def list_(peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """List the registered interests.

    \b
    Examples:
      p2prdf interest list
      p2prdf interest list --json | jq -r .name
    """

    async def action(client: Client) -> None:
        for each in await client.interests.registered(timeout_seconds=timeout):
            told: dict[str, Any] = {"name": each.name, "paused": each.paused}
            if each.registration is not None:
                made = each.registration
                graph = None if made.graph is None else made.graph[1:-1]
                told |= {"dataset": made.dataset[1:-1], "target": made.target, "graph": graph, "query": made.query}
            if each.error is not None:
                told["error"] = each.error
            place = f"{told.get('dataset', '')}\t{told.get('target', '')}\t{told.get('graph') or ''}"
            state = each.error or ("paused" if each.paused else "")
            report_result(told, f"{each.name}\t{place}\t{state}".rstrip(), as_json=as_json)

    with_client(peer, action)


def status(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name. (default: all)")] = None,
    peer: Peer = PEER_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the state of targets: position, lag, sizes, last error.

    Exit code 1 if an interest is refused, failing, or without a worker.

    \b
    Examples:
      p2prdf interest status
      p2prdf interest status football --json | jq .lag_seconds
    """

    async def action(client: Client) -> ExitCode:
        told = await client.interests.status(name, timeout_seconds=timeout)
        for each in told:
            lag = f"{each['lag_seconds']:.1f} s behind" if "lag_seconds" in each else ""
            size = f"{each['target_triples']:,} triples" if "target_triples" in each else ""
            given_up = f"incomplete: {each['evicted_triples']:,} evicted" if "evicted_triples" in each else ""
            cells = (
                each["name"], each["state"], str(each.get("position", "")), lag, size, each.get("error") or given_up,
            )  # fmt: skip
            report_result(each, "\t".join(cells).rstrip(), as_json=as_json)
        well = all(each["state"] in ("current", "behind", "reading", "paused") for each in told)
        return ExitCode.OK if well else ExitCode.FAILURE

    with_client(peer, action)


def pause(name: Name, peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """Pause an interest: its target stays as it is.

    \b
    Examples:
      p2prdf interest pause football
    """

    async def action(client: Client) -> None:
        await client.interests.pause(name, timeout_seconds=timeout)
        report_result({"paused": name}, f"{name} is paused", as_json=as_json)

    with_client(peer, action)


def resume(name: Name, peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """Resume a paused interest: its target catches up.

    \b
    Examples:
      p2prdf interest resume football
    """

    async def action(client: Client) -> None:
        await client.interests.resume(name, timeout_seconds=timeout)
        report_result({"resumed": name}, f"{name} is resumed", as_json=as_json)

    with_client(peer, action)


def remove(name: Name, peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """Remove an interest; its target stays as it is.

    \b
    Examples:
      p2prdf interest remove football
    """

    async def action(client: Client) -> None:
        count = await client.interests.remove(name, timeout_seconds=timeout)
        report_result({"removed": count}, f"{count} removed", as_json=as_json)

    with_client(peer, action)


def verify(name: Name, peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """Compare a target with its dataset; exit code 1 if they differ or it fails.

    \b
    Examples:
      p2prdf interest verify football
    """

    async def action(client: Client) -> ExitCode:
        found = await client.interests.verify(name, timeout_seconds=timeout)
        return _report_comparison(found, repaired=False, as_json=as_json)

    with_client(peer, action)


def repair(name: Name, peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """Repair a target: insert missing triples and delete wrong ones.

    After evictions (--potential-max) the worker first reads the dataset again.

    \b
    Examples:
      p2prdf interest repair football
    """

    async def action(client: Client) -> ExitCode:
        found = await client.interests.repair(name, timeout_seconds=timeout)
        return _report_comparison(found, repaired=True, as_json=as_json)

    with_client(peer, action)


def _report_comparison(found: dict[str, Any], *, repaired: bool, as_json: bool) -> ExitCode:
    if found.get("error") is not None:
        report_result(found, f"the comparison failed: {found['error']}", as_json=as_json)
        return ExitCode.FAILURE
    if repaired:
        text = f"{found['lacking']:,} triples inserted, {found['foreign']:,} deleted"
        if "evicted_triples" in found:
            text = f"the dataset was read again for {found['evicted_triples']:,} evicted triples; then {text}"
    else:
        what = "the target is correct" if found["equal"] else "the target differs"
        text = f"{what}: {found['found']:,} triples, {found['expected']:,} expected"
    report_result(found, text, as_json=as_json)
    return ExitCode.OK if repaired or found["equal"] else ExitCode.FAILURE
