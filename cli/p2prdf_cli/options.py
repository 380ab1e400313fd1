"""Options shared by several commands, so that they have the same names, texts and checks."""

from __future__ import annotations

import enum
import functools
import inspect
import re
import time
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import typer

__all__ = [
    "PEER_DEFAULT", "RECONNECT_DEFAULT", "TIMEOUT_DEFAULT", "Algorithm", "AlgorithmName", "Json", "Peer", "PrefixFile",
    "QueryFile", "Reconnect", "Since", "StateFolder", "Timeout", "addresses", "point_in_time", "subscription_name",
    "subscription_number", "with_options",
]  # fmt: skip

_Options = TypeVar("_Options")

PEER_DEFAULT: Final = ["127.0.0.1:7400"]


class AlgorithmName(enum.StrEnum):
    """Join algorithm."""

    csbv = "csbv"
    cqc = "cqc"


def with_options(kind: type[_Options]) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Turn a function of one object into a command with an option for each annotated field of the object's dataclass.

    A field without an annotation for typer is no option.  Inherited fields follow the others.
    """
    hints = get_type_hints(kind, include_extras=True)
    every = sorted(fields(kind), key=lambda each: each.name not in kind.__annotations__)  # type: ignore[arg-type]
    options = {each.name: each for each in every if hasattr(hints[each.name], "__metadata__")}

    def default(name: str) -> Any:
        field = options[name]
        if field.default_factory is not MISSING:
            return field.default_factory()
        return inspect.Parameter.empty if field.default is MISSING else field.default

    def decorate(command: Callable[[_Options], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**given: Any) -> None:
            command(kind(**given))

        called.__annotations__ = {name: hints[name] for name in options}
        called.__signature__ = inspect.Signature([  # type: ignore[attr-defined]  # typer reads it
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default(name), annotation=hints[name])
            for name in options
        ])  # fmt: skip
        return called

    return decorate


def addresses(given: list[str]) -> list[str]:
    """Parse an option with addresses: ``host:port`` each, repeated or separated by commas."""
    from p2prdf_node.addresses import split_address

    found = [part for text in given for part in text.split(",")]
    try:
        for part in found:
            split_address(part, port_min=1)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return found


def subscription_name(text: str | None) -> str | None:
    """Check that an option is a valid name of a durable subscription."""
    from p2prdf_cli.subscribe_state import check_name

    try:
        return None if text is None else check_name(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def subscription_number(text: str | None) -> str | None:
    """Check that an option is the number of a subscription: 16 hexadecimal digits."""
    if text is not None and re.fullmatch("[0-9a-fA-F]{1,16}", text) is None:
        raise typer.BadParameter(f"{text!r} is not the number of a subscription (16 hexadecimal digits)")
    return text


def point_in_time(text: str) -> float | str:
    """Return ``now`` or ``beginning`` unchanged, and any other time in seconds since 1970.

    Times are ISO 8601 with an offset from UTC, or seconds.  Raises ValueError for other texts, and for a time that is
    not past by this machine's clock.
    """
    if text in ("now", "beginning"):
        return text
    seconds = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text) else _moment(text).timestamp()
    if seconds <= 0:
        raise ValueError(f"{text!r} is before all times that count here; all that was ever published is: beginning")
    if seconds > time.time():
        raise ValueError(f"{text!r} is still to come")
    return seconds


def _moment(text: str) -> datetime:
    example = "2026-11-22T10:00:00Z"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither now, nor beginning, nor a time as {example}, nor seconds") from None
    if moment.tzinfo is None:  # the same command may run on machines in other time zones
        raise ValueError(f"{text!r} does not say its offset from UTC, as {example} does")
    return moment


def _checked_time(text: str | None) -> str | None:
    try:
        if text is not None:
            point_in_time(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


Peer = Annotated[
    list[str],
    typer.Option(
        "--peer", "-p", metavar="HOST:PORT", envvar="P2PRDF_PEER", callback=addresses,
        help="Node to use; repeatable: the first that answers.",
    ),
]  # fmt: skip

QueryFile = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", help="File with the query; - is standard input."),
]

Algorithm = Annotated[
    AlgorithmName, typer.Option(help="Join algorithm: spread by values (csbv) or a fixed chain (cqc).")
]

PrefixFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Turtle or SPARQL file with prefixes for the query.")
]

Timeout = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Deadline of a query.")]
TIMEOUT_DEFAULT: Final = 60.0

Reconnect = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="How long to look for another node after a disconnection."),
]
RECONNECT_DEFAULT: Final = 60.0

Since = Annotated[
    str | None,
    typer.Option(
        metavar="now|beginning|TIME",
        callback=_checked_time,
        help="First publication time that counts: ISO 8601 with zone, or epoch seconds. (default: now)",
    ),
]

StateFolder = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="State of named subscriptions. (default: ~/.local/state/p2prdf/subscriptions)"
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Write JSON, one value per line.")]
