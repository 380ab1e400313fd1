"""``p2prdf ca``: a cluster's certificate authority, kept in a folder."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Final

import typer

from p2prdf_cli.commands import Commands
from p2prdf_cli.exits import EXIT_CODES_HELP, run_plain
from p2prdf_cli.options import Json

__all__ = ["register"]

_HELP: Final = """Issue and revoke certificates for the nodes and clients of a cluster.

\b
Examples:
  p2prdf ca init ca
  p2prdf ca issue ca --node --output node1
  p2prdf ca issue ca --client alice --output alice
  p2prdf ca revoke ca alice/tls.crt
"""

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the authority; keep it off the nodes.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("init", epilog=EXIT_CODES_HELP)(init)
    commands.command("issue", epilog=EXIT_CODES_HELP)(issue)
    commands.command("revoke", epilog=EXIT_CODES_HELP)(revoke)
    commands.command("list", epilog=EXIT_CODES_HELP)(list_)
    app.add_typer(commands, name="ca")


def init(
    folder: Folder,
    name: Annotated[str, typer.Option(metavar="TEXT", help="Name of the authority in certificates.")] = "",
    days: Annotated[float, typer.Option(metavar="N", help="Validity in days.")] = 3650.0,
) -> None:
    """Create an authority: key and certificate in a folder that only you can read.

    \b
    Examples:
      p2prdf ca init ca
    """

    def action() -> None:
        from p2prdf_node.authority import AuthorityFolder

        AuthorityFolder(folder).create(name or f"p2prdf {secrets.token_hex(4)}", days=days)
        print(f"{folder}: authority created; the holder of {folder / 'ca.key'} can act as any node or client")

    run_plain(action)


def issue(
    folder: Folder,
    out: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for tls.crt, tls.key, ca.crt and crl.pem.")
    ],
    node: Annotated[bool, typer.Option("--node", help="Certificate of a node, also valid as a client.")] = False,
    client: Annotated[str | None, typer.Option(metavar="NAME", help="Certificate of a client with this name.")] = None,
    ordinal: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Even place of the node on the ring. (default: from its key pair)"),
    ] = None,
    place: Annotated[
        str | None, typer.Option(metavar="KEY", help="Ring position of a node that already has state.")
    ] = None,
    days: Annotated[float, typer.Option(metavar="N", help="Validity in days.")] = 365.0,
    as_json: Json = False,
) -> None:
    """Issue a certificate with its key, the authority and its revocation list.

    In a folder with a certificate, a new one is issued for the same key pair and
    name; running nodes load it without a restart.

    \b
    Examples:
      p2prdf ca issue ca --node --ordinal 0 --output node0
      p2prdf ca issue ca --client gateway --days 90 --output gateway
    """
    if node == (client is not None):
        raise typer.BadParameter("either --node or --client NAME")
    if client is not None and (ordinal is not None or place is not None):
        raise typer.BadParameter("--ordinal and --place are of nodes")
    if ordinal is not None and place is not None:
        raise typer.BadParameter("either --ordinal or --place")
    if place is not None and (len(place) != 16 or not set(place.lower()) <= set("0123456789abcdef")):
        raise typer.BadParameter(f"--place {place}: not 16 hexadecimal digits")

    def action() -> None:
        from p2prdf_node.authority import AuthorityFolder

        position = None if place is None else int(place, 16)
        issued = AuthorityFolder(folder).issue(out, client=client, ordinal=ordinal, place=position, days=days)
        if as_json:
            _write_json({"serial": issued.serial, "uri": issued.uri, "expires": issued.expires, "out": str(out)})
        else:
            print(f"{out}: {issued.uri}, serial {issued.serial}, until {issued.expires}")

    run_plain(action)


def revoke(
    folder: Folder,
    certificate: Annotated[
        str, typer.Argument(metavar="CERT|SERIAL", help="File or serial number of the certificate.")
    ],
) -> None:
    """Revoke a certificate: write a new crl.pem, to be copied to all nodes.

    \b
    Examples:
      p2prdf ca revoke ca alice/tls.crt
    """

    def action() -> None:
        from p2prdf_node.authority import AuthorityFolder

        gone, others = AuthorityFolder(folder).revoke(certificate)
        print(f"{gone.uri}, serial {gone.serial}: revoked; give {folder / 'crl.pem'} to all nodes (tls_crl)")
        for each in others:
            print(f"still valid for {each.uri}: serial {each.serial}, until {each.expires}")

    run_plain(action)


def list_(folder: Folder, as_json: Json = False) -> None:
    """List the issued certificates and their state.

    \b
    Examples:
      p2prdf ca list ca
    """

    def action() -> None:
        from datetime import UTC, datetime

        from p2prdf_node.authority import AuthorityFolder

        for each in AuthorityFolder(folder).entries():
            state = "revoked" if each.revoked else "valid" if each.valid(datetime.now(UTC)) else "expired"
            if as_json:
                _write_json({
                    "serial": each.serial, "uri": each.uri, "issued": each.issued, "expires": each.expires,
                    "revoked": each.revoked or None, "state": state,
                })  # fmt: skip
            else:
                print(f"{each.serial}  {state:7}  until {each.expires}  {each.uri}")

    run_plain(action)


def _write_json(value: dict[str, object]) -> None:
    from p2prdf_cli.render import write_json

    write_json(value, line=True)
