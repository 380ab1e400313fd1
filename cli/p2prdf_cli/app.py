"""Composition of the command line.

The program loads the module of a command when it is called (``attached``).  Heavy imports (numpy, the SPARQL parser,
the client) happen inside the commands that need them: help texts and shell completion must answer at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from p2prdf_cli.attached import Program
from p2prdf_cli.commands import Commands
from p2prdf_cli.connecting import TlsCa, TlsCert, TlsKey, keep_tls
from p2prdf_cli.exits import EXIT_CODES

__all__ = ["app"]

app = Commands(
    name="p2prdf",
    cls=Program,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"p2prdf {version('p2prdf')}")
        raise typer.Exit


@app.callback()
def main(
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Publish RDF and subscribe to SPARQL queries at any node of a leaderless cluster.

    \b
    Example: p2prdf subscribe 'SELECT ?s ?o WHERE { ?s <urn:p> ?o }'
    """
    keep_tls(ca=tls_ca, cert=tls_cert, key=tls_key)
