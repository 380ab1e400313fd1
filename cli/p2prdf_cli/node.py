"""``p2prdf node``: run one peer of the overlay."""

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
        typer.Option(metavar="HOST:PORT", help="TCP and UDP address; port 0 takes a free one. [127.0.0.1:7400]"),
    ] = None,
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT[,...]", help="Nodes to join by; may be repeated. None: a new overlay."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keeps the node's identity and state over restarts.")
    ] = None,
    durability: Annotated[
        str | None,
        typer.Option(
            metavar="fsync|async|memory",
            help="Acknowledge what is on the disk, do not wait for it, or keep nothing. [fsync if --data is given]",
        ),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=16, help="Nodes that keep a copy of everything under a key. [3]")
    ] = None,
    copies_min: Annotated[
        int | None, typer.Option(min=1, max=16, help="Copies that are safe before anything is acknowledged. [2]")
    ] = None,
    ordinal: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Even place on the ring; give each node another. [by the identifier]"),
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST[:PORT]", help="How others reach this node, if not as it listens.")
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Cluster secret; needed beyond loopback. P2PRDF_SECRET also gives it."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This node's certificate (p2prdf ca issue --node): use TLS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's private key.")] = None,
    tls_ca: Annotated[Path | None, typer.Option(metavar="FILE", help="Authorities that are trusted.")] = None,
    tls_crl: Annotated[Path | None, typer.Option(metavar="FILE", help="Their lists of revoked certificates.")] = None,
    seal_keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keys of datagrams, the one in use first; without it the secret is the key."),
    ] = None,
    rights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What clients may do, by name; without it all may everything.")
    ] = None,
    overlay: Annotated[
        str | None,
        typer.Option(metavar="kademlia|chord", help="Who owns a key, and how nodes meet; the same at all nodes."),
    ] = None,
    membership: Annotated[
        str | None,
        typer.Option(metavar="view|overlay", help="All nodes know all, or each knows some; the same at all. [view]"),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Nodes of one zone may fail together; copies go to different ones."),
    ] = None,
    indexes: Annotated[
        str | None,
        typer.Option(
            metavar="all|on-demand", help="Index everything for every query, or only for standing ones. [all]"
        ),
    ] = None,
    roles: Annotated[str | None, typer.Option(hidden=True, help="Refused: it is --indexes now.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="P2PRDF_CONFIG", help="TOML file of settings, named like these options."),
    ] = None,
    log_format: Annotated[str | None, typer.Option(metavar="auto|json|console", help="Form of log lines.")] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="debug|info|warning|error", help="Least level that is logged.")
    ] = None,
) -> None:
    """Run one node: an equal peer of the overlay, until SIGTERM or Ctrl-C.

    When it serves, it writes one line to standard output: ready HOST:PORT KEY.
    Logs go to standard error. Every setting can also come from the environment
    (P2PRDF_LISTEN, P2PRDF_BOOTSTRAP, ...) or from a file; options win over the
    environment, that over the file. Further settings: docs/reference/settings.md.

    \b
    Examples:
      p2prdf node                a first node, for this machine only
      p2prdf node --listen 127.0.0.1:7401 --bootstrap 127.0.0.1:7400
      p2prdf node --listen 0.0.0.0:7400 --secret-file cluster.key \\
                  --advertise db1.example.org --data /var/lib/p2prdf
    """
    files = tls_files()
    options: dict[str, object] = {
        "listen": listen,
        "bootstrap": ",".join(bootstrap) if bootstrap else None,
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
        "rights": rights,
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
