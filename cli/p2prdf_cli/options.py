"""Options that several commands share, so that they read and behave alike."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import Annotated, Final

import typer

__all__ = [
    "PEER_DEFAULT", "RECONNECT_DEFAULT", "AlgorithmName", "Json", "Peer", "Reconnect", "StateFolder",
    "address", "subscription_name", "subscription_number",
]  # fmt: skip

PEER_DEFAULT: Final = "127.0.0.1:7400"


class AlgorithmName(enum.StrEnum):
    """How joins travel."""

    csbv = "csbv"
    cqc = "cqc"


def address(text: str) -> str:
    """Check that an option is ``host:port``, or several separated by commas, and return it."""
    from p2prdf_node.config import split_address

    try:
        for part in text.split(","):
            split_address(part, port_min=1)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def subscription_name(text: str | None) -> str | None:
    """Check that an option is a name that a subscription can have."""
    from p2prdf_cli.subscribe_state import check_name

    try:
        return None if text is None else check_name(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def subscription_number(text: str | None) -> str | None:
    """Check that an option is a subscription's number: 16 hexadecimal digits."""
    if text is not None and re.fullmatch("[0-9a-fA-F]{1,16}", text) is None:
        raise typer.BadParameter(f"{text!r} is not the number of a subscription (16 hexadecimal digits)")
    return text


Peer = Annotated[
    str,
    typer.Option(
        "--peer", "-p", metavar="HOST:PORT", envvar="P2PRDF_PEER", callback=address,
        help="Any node; of several, separated by commas, the first that answers.",

    ),
]

Reconnect = Annotated[
    float,
    typer.Option(
        min=0, metavar="SECONDS", help="How long to look for another node when this one goes away; 0: give up at once."
    ),
]
RECONNECT_DEFAULT: Final = 60.0

StateFolder = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="Where named subscriptions are kept. [~/.local/state/p2prdf/subscriptions]"
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Write for machines: JSON, one value per line for streams.")]
