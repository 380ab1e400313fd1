"""``p2prdf unsubscribe`` and ``p2prdf status``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from p2prdf.errors import P2PRDFError, Unavailable
from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode, complain, run
from p2prdf_cli.options import PEER_DEFAULT, Json, Peer, StateFolder, subscription_name, subscription_number

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=EXIT_CODES_HELP)(unsubscribe)
    app.command(epilog=EXIT_CODES_HELP)(status)


def unsubscribe(
    subscription: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", callback=subscription_number, help="Identifier that subscribe has written."),
    ] = None,
    peer: Peer = PEER_DEFAULT,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", callback=subscription_name, help="Name of a durable subscription."),
    ] = None,
    state: StateFolder = None,
) -> None:
    """End a subscription, at any node.

    \b
    Examples:
      p2prdf unsubscribe 00c0ffee00c0ffee
      p2prdf unsubscribe --name athletes
    """
    if (subscription is None) == (name is None):
        raise typer.BadParameter("give either the number of the subscription or its --name")
    if name is not None:
        run(_end_named(name, state, peer))
    else:
        assert subscription is not None
        run(_unsubscribe(int(subscription, 16), peer))


async def _unsubscribe(subscription: int, peer: list[str]) -> None:

    async with connect(peer) as client:
        await client.unsubscribe(subscription)


async def _end_named(name: str, folder: Path | None, peer: list[str]) -> None:
    from p2prdf_cli.named import end_named
    from p2prdf_cli.subscribe_state import NamedState, default_folder

    with NamedState(folder or default_folder(), name) as state:
        async with connect(peer) as client:
            await end_named(client, state)


def status(
    peer: Peer = PEER_DEFAULT,
    everyone: Annotated[bool, typer.Option("--all", help="Ask all nodes of the cluster.")] = False,
    in_sync: Annotated[
        bool,
        typer.Option(
            "--in-sync",
            help="Exit code 3 unless all of them are in sync and not fenced.",
        ),
    ] = False,
    ready: Annotated[
        bool, typer.Option("--ready", help="Exit code 3 unless all of them are members of a cluster.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the state of nodes: peers, share of keys, table sizes, loads.

    \b
    Examples:
      p2prdf status
      p2prdf status --peer 127.0.0.1:7401 --all
      p2prdf status --json | jq .peer.triples
      until p2prdf status --peer node2:7400 --in-sync; do sleep 1; done
    """
    run(_status(peer, everyone=everyone, in_sync=in_sync, ready=ready, as_json=as_json))


async def _status(peer: list[str], *, everyone: bool, in_sync: bool, ready: bool, as_json: bool) -> ExitCode:
    from p2prdf_cli.render import write_json
    from p2prdf_cli.reports import report_table, status_table
    from p2prdf_cli.terminal import output

    reports = [await fetch(",".join(peer))]
    outcome = ExitCode.OK
    if everyone:
        own = reports[0]["key"]
        addresses = [known["address"] for known in reports[0]["peers"] if known["key"] != own]
        for found in await asyncio.gather(*map(fetch, addresses), return_exceptions=True):
            if isinstance(found, dict):
                reports.append(found)
            elif isinstance(found, P2PRDFError):
                outcome = complain(found)
            else:
                raise found
    if as_json:
        for report in reports:
            write_json(report, line=True)
    else:
        output().print(status_table(reports) if everyone else report_table(reports[0]))
    problem = _out_of_sync if in_sync else _unready if ready else lambda _: None
    for each in filter(problem, reports):
        outcome = complain(Unavailable(f"node {each['key']} at {each['address']} {problem(each)}"))
    return outcome


def _unready(report: dict[str, Any]) -> str | None:
    """Return the reason why a node is not a member of a cluster yet, or None."""
    from p2prdf_node.health import unready

    return unready(report["discovery"].get("joining"))


def _out_of_sync(report: dict[str, Any]) -> str | None:
    """Return the reason why a node does not do all of its work yet, or None."""
    from p2prdf_node.health import out_of_sync

    found, peer = report["discovery"], report["peer"]
    return out_of_sync(found.get("joining"), found.get("fenced"), settled=peer["settled"], in_sync=peer["in_sync"])


async def fetch(address: str) -> dict[str, Any]:
    """Return the report of the node at an address."""

    async with connect([address], reconnect_seconds=0) as client:
        return await client.status()
