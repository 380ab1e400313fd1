"""The address and the access control of commands that listen for HTTP requests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2prdf.gateway.access import Access

__all__ = ["Tokens", "listening"]

Tokens = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File with lines of TOKEN read|write|read,write [CLIENT]."),
]


def listening(listen: str, tokens: Path | None, *, origins: Iterable[str] = ()) -> tuple[Access, str, int]:
    """Return the access control, and the host and port to listen at.

    Raises LocalProtocolError for a malformed address, and for one beyond loopback without ``tokens``.
    """
    from p2prdf.errors import LocalProtocolError
    from p2prdf.gateway.access import Access, is_loopback, read_tokens
    from p2prdf_node.addresses import split_address

    try:
        host, port = split_address(listen)
    except ValueError as error:
        raise LocalProtocolError(f"--listen: {error}") from None
    known = None if tokens is None else read_tokens(tokens)
    if known is None and not is_loopback(host):
        raise LocalProtocolError(f"--listen {listen}: everybody could publish there: give --tokens")
    return Access(known, origins, loopback=is_loopback(host)), host, port
