"""``p2prdf channel``: semantic channels of the overlay, evaluated by any channel worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p2prdf.errors import LocalProtocolError
from p2prdf_cli.channel_subscribe import subscribe
from p2prdf_cli.commands import Commands
from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode
from p2prdf_cli.options import PEER_DEFAULT, TIMEOUT_DEFAULT, Json, Peer, QueryFile, Timeout
from p2prdf_cli.query_text import read_query
from p2prdf_cli.registered import report_result, with_client

if TYPE_CHECKING:
    from p2prdf.client import Client

__all__ = ["register"]

_HELP: Final = """Semantic channels: named queries over knowledge bases, with inference.

\b
Examples:
  p2prdf serve channels &
  p2prdf channel add people --base urn:campus -f people.rq
  p2prdf channel subscribe people
  p2prdf channel publish --base urn:campus bob.ttl
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the channel.")]
Base = Annotated[str, typer.Option("--base", metavar="IRI", help="IRI of the knowledge base.")]
Publisher = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Publisher; a repeated publication of the same publisher has no effect."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("add", epilog=EXIT_CODES_HELP)(add)
    commands.command("list", epilog=EXIT_CODES_HELP)(list_)
    commands.command("remove", epilog=EXIT_CODES_HELP)(remove)
    commands.command("subscribe", epilog=EXIT_CODES_HELP)(subscribe)
    commands.command("publish", epilog=EXIT_CODES_HELP)(publish)
    commands.command("delete", epilog=EXIT_CODES_HELP)(delete)
    commands.command("status", epilog=EXIT_CODES_HELP)(status)
    app.add_typer(commands, name="channel", help=_HELP)


def add(
    name: Name,
    base: Base,
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="SELECT query over one graph pattern.")] = None,
    file: QueryFile = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", metavar="NAME=VALUE", help="Setting with its value as JSON or text; repeatable."),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How long to wait until a worker evaluates the channel.")
    ] = 10.0,
    peer: Peer = PEER_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: Json = False,
) -> None:
    """Register a channel over a knowledge base.

    A worker (p2prdf serve channels) evaluates it. The rules of the knowledge base
    are those that p2prdf rules add keeps under its IRI. Bindings that hold at the
    start of the evaluation are not new.

    \b
    Examples:
      p2prdf channel add people --base urn:campus -f people.rq
      p2prdf channel add late --base urn:campus -f late.rq --setting 'heuristics=["shape"]'
    """

    async def action(client: Client) -> None:
        from p2prdf.rdf import terms

        begun = await client.channels.create(
            name, terms.iri(base), read_query(query, file), settings=dict(map(_setting, setting or [])),
            begin_seconds=wait, timeout_seconds=timeout,
        )  # fmt: skip
        text = f"channel {name} is evaluated" if begun else f"channel {name} is registered; no worker evaluates it yet"
        report_result({"name": name, "begun": begun}, text, as_json=as_json)

    with_client(peer, action)


def list_(peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """List the registered channels and their workers.

    \b
    Examples:
      p2prdf channel list
      p2prdf channel list --json | jq -r .worker
    """

    async def action(client: Client) -> None:
        for each in await client.channels.list(timeout_seconds=timeout):
            cells = (each["name"], each["state"], each.get("base", ""), each.get("worker", ""), each.get("error", ""))
            report_result(each, "\t".join(cells).rstrip(), as_json=as_json)

    with_client(peer, action)


def remove(name: Name, peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """Remove a channel and its bindings; publications stay.

    \b
    Examples:
      p2prdf channel remove people
    """

    async def action(client: Client) -> None:
        count = await client.channels.drop(name, timeout_seconds=timeout)
        report_result({"dropped": count}, f"{count} dropped", as_json=as_json)

    with_client(peer, action)


def publish(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="RDF files; each is one graph.")],
    base: Base,
    publisher: Publisher = None,
    peer: Peer = PEER_DEFAULT,
    as_json: Json = False,
) -> None:
    """Publish graphs into a knowledge base, one per file.

    A graph is safe when its line is written, also without a worker. With --publisher
    the command may be repeated after an interruption.

    \b
    Examples:
      p2prdf channel publish --base urn:campus bob.ttl
      p2prdf channel publish --base urn:campus --publisher registry graphs/1.nt graphs/2.nt
    """

    async def action(client: Client) -> None:
        from p2prdf.rdf import terms

        for path in files:
            graph = _read_graph(path)
            made = await client.channels.publish(terms.iri(base), graph, publisher=publisher)
            told = {"file": str(path), "graph": made, "statements": len(graph)}
            report_result(told, f"{path}\t{made}\t{len(graph):,} statements", as_json=as_json)

    with_client(peer, action)


def delete(
    subject: Annotated[str, typer.Argument(metavar="S", help="Term of N-Triples, or a variable (?x).")],
    predicate: Annotated[str, typer.Argument(metavar="P", help="Term or variable.")],
    object_: Annotated[str, typer.Argument(metavar="O", help="Term or variable.")],
    base: Base,
    publisher: Publisher = None,
    peer: Peer = PEER_DEFAULT,
    as_json: Json = False,
) -> None:
    """Delete matches of a pattern from the graphs published so far.

    Facts that follow from them alone are deleted, too. Later publications stay.

    \b
    Examples:
      p2prdf channel delete --base urn:campus '<urn:bob>' '?p' '?o'
    """

    async def action(client: Client) -> None:
        from p2prdf.rdf import terms

        s, p, o = (each if each.startswith("?") else terms.parse_term(each) for each in (subject, predicate, object_))
        made = await client.channels.delete(terms.iri(base), (s, p, o), publisher=publisher)
        report_result({"deletion": made}, f"deletion {made}", as_json=as_json)

    with_client(peer, action)


def status(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name. (default: all)")] = None,
    peer: Peer = PEER_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the state of channels: bindings, predictions, evaluations, refusals.

    Exit code 1 if a channel is refused, failing, or without a worker.

    \b
    Examples:
      p2prdf channel status
      p2prdf channel status people --json | jq .foreseen
    """

    async def action(client: Client) -> ExitCode:
        told = await client.channels.stats(name, timeout_seconds=timeout)
        for each in told:
            report_result(each, _line(each), as_json=as_json)
        return ExitCode.OK if all(each["state"] in ("evaluated", "reading") for each in told) else ExitCode.FAILURE

    with_client(peer, action)


def _line(each: dict[str, Any]) -> str:
    cells = [each["name"], each["state"]]
    if "told" in each:
        cells += [
            f"{each['bindings']:,} bindings, {each['told']:,} notified, {each['foreseen']:,} of them predicted",
            f"{each['graphs']:,} graphs, {each['facts']:,} facts",
        ]
    if each.get("refused_publications"):
        cells.append(f"{each['refused_publications']:,} publications refused: {each['refused'][-1]['reason']}")
    if each.get("error"):
        cells.append(each["error"])
    return "\t".join(cells)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise LocalProtocolError(f"a setting is NAME=VALUE, not {text[:120]!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _read_graph(path: Path) -> list[tuple[str, str, str]]:
    """Return a file's statements; its blank nodes keep their names each time the same content is read."""
    import hashlib

    from p2prdf.replica.changeset_files import read_file

    scope = hashlib.sha256(path.read_bytes()).hexdigest()[:32] if path.is_file() else "none"
    return list(read_file(path, blank_scope=scope))
