"""Connections of commands to nodes; the only module that knows the options of TLS."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p2prdf.errors import LocalProtocolError

if TYPE_CHECKING:
    import p2prdf

__all__ = ["TlsCa", "TlsCert", "TlsKey", "connect", "keep_tls", "tls_files", "tls_in_use"]

TlsCa = Annotated[
    Path | None,
    typer.Option(metavar="FILE", envvar="P2PRDF_TLS_CA", help="Use TLS; trust these authorities."),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(metavar="FILE", envvar="P2PRDF_TLS_CERT", help="Certificate of this client."),
]
TlsKey = Annotated[
    Path | None, typer.Option(metavar="FILE", envvar="P2PRDF_TLS_KEY", help="Private key of this client.")
]


_FILES: Final[ContextVar[dict[str, Path] | None]] = ContextVar("tls_files", default=None)


def keep_tls(**files: Path | None) -> None:
    """Store the TLS options that stand before the command."""
    _FILES.set({name: path for name, path in files.items() if path is not None})


def tls_files() -> dict[str, Path]:
    """Return the files from the TLS options or the environment, by name: ca, cert, key."""
    return _FILES.get() or {}


def tls_in_use() -> p2prdf.Tls | None:
    """Return the TLS to connect with, or None.  Raises LocalProtocolError if one of the three files is missing."""
    from p2prdf.tls import Tls

    files = tls_files()
    if not files:
        return None
    if missing := [name for name in ("ca", "cert", "key") if name not in files]:
        raise LocalProtocolError(
            f"--tls-{missing[0]} (or P2PRDF_TLS_{missing[0].upper()}) is not given, and TLS takes all of --tls-ca,"
            " --tls-cert and --tls-key"
        )
    return Tls(**files)


def connect(peer: list[str], **how: Any) -> p2prdf.connect:
    """Connect to the first node that answers, with TLS if the command line or the environment selects it."""
    import p2prdf

    return p2prdf.connect(",".join(peer), tls=tls_in_use(), **how)
