"""``p2prdf node``: run one node of the overlay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from p2prdf.errors import LocalProtocolError
from p2prdf_cli.connecting import tls_files
from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode, complain, run_plain

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(node)


def node(
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="TCP and UDP address; port 0: a free one. (default: 127.0.0.1:7400)"),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Health checks over HTTP, without access control. (default: none)"),
    ] = None,
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT[,...]", help="Seed nodes; repeatable. Without: a new cluster."),
    ] = None,
    first: Annotated[
        bool, typer.Option("--first", help="Begin a cluster if no seed node answers and --data remembers no member.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory for the identity and state of the node. (default: memory only)"),
    ] = None,
    durability: Annotated[
        str | None,
        typer.Option(
            metavar="fsync|async|memory",
            help="When writes count as safe. (default: fsync with --data)",
        ),
    ] = None,
    replicas: Annotated[int | None, typer.Option(min=1, max=16, help="Copies of all data. (default: 3)")] = None,
    copies_min: Annotated[
        int | None, typer.Option(min=1, max=16, help="Copies that an acknowledgement waits for. (default: 2)")
    ] = None,
    ordinal: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Even place on the ring, unique per node. (default: by the identifier)"),
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST[:PORT]", help="Address for other nodes. (default: --listen)")
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Cluster secret, or P2PRDF_SECRET; required beyond loopback."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use TLS with this certificate (p2prdf ca issue --node).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of that certificate.")] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificates of the trusted authorities.")
    ] = None,
    tls_crl: Annotated[Path | None, typer.Option(metavar="FILE", help="Revocation lists of these authorities.")] = None,
    seal_keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keys of datagrams, the current one first. (default: the secret)"),
    ] = None,
    permissions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Permissions of clients. (default: everything)")
    ] = None,
    overlay: Annotated[
        str | None,
        typer.Option(metavar="kademlia|chord", help="Routing; equal at all nodes. (default: kademlia)"),
    ] = None,
    membership: Annotated[
        str | None,
        typer.Option(metavar="view|overlay", help="Full or partial membership; equal at all nodes. (default: view)"),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Failure domain; copies go to different zones."),
    ] = None,
    indexes: Annotated[
        str | None,
        typer.Option(
            metavar="all|on-demand", help="Index for all queries, or for standing queries only. (default: all)"
        ),
    ] = None,
    roles: Annotated[str | None, typer.Option(hidden=True, help="Refused: it is --indexes now.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="P2PRDF_CONFIG", help="TOML file of settings."),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="auto|json|console", help="Format of log lines. (default: auto)")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="debug|info|warning|error", help="Lowest level that is logged. (default: info)"),
    ] = None,
) -> None:
    """Run one node of a cluster until SIGTERM or Ctrl-C.

    A serving node writes one line to standard output: ready HOST:PORT KEY. With
    seed nodes it serves when it has reached one of them. Logs go to standard error.
    Options override the environment (P2PRDF_LISTEN, ...), which overrides the file.
    All settings: docs/reference/settings.md.

    \b
    Examples:
      p2prdf node    # the first node, for this machine only
      p2prdf node --listen 127.0.0.1:7401 --bootstrap 127.0.0.1:7400
      p2prdf node --listen 0.0.0.0:7400 --secret-file cluster.key \\
                  --advertise db1.example.org --data /var/lib/p2prdf
    """
    files = tls_files()
    options: dict[str, object] = {
        "listen": listen,
        "health": health,
        "bootstrap": ",".join(bootstrap) if bootstrap else None,
        "first": first or None,
        "data": data,
        "durability": durability,
        "replicas": replicas,
        "copies_min": copies_min,
        "ordinal": ordinal,
        "advertise": advertise,
        "secret_file": secret_file,
        "tls_cert": tls_cert or files.get("cert"),
        "tls_key": tls_key or files.get("key"),
        "tls_ca": tls_ca or files.get("ca"),
        "tls_crl": tls_crl,
        "permissions": permissions,
        "seal_keys": seal_keys,
        "overlay": overlay,
        "membership": membership,
        "zone": zone,
        "indexes": indexes,
        "roles": roles,
        "log_format": log_format,
        "log_level": log_level,
    }
    run_plain(lambda: _serve(options, config))


def _serve(options: dict[str, object], file: Path | None) -> ExitCode:
    from p2prdf_node.config import load_config
    from p2prdf_node.daemon import run

    try:
        config = load_config(options, file=file, environment=os.environ)
    except LocalProtocolError as error:
        complain(error)
        return ExitCode.USAGE
    return ExitCode.OK if run(config) == 0 else ExitCode.FAILURE
