"""Shared parts of commands for registrations in the overlay: interests, channels, and their workers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import ExitCode, run

if TYPE_CHECKING:
    from p2prdf.client import Client
    from p2prdf.workers.worker import Worker

    Tell = Callable[[str, Mapping[str, object]], None]

__all__ = ["Alive", "Metrics", "Wait", "event_reporter", "monitored", "report_result", "sign_of_life", "with_client"]


def with_client(peer: list[str], action: Callable[[Client], Awaitable[ExitCode | None]]) -> None:
    """Run a command with a client, and leave the process with its exit code."""

    async def connected() -> ExitCode | None:
        from p2prdf_cli.render import reconnections_reported

        with reconnections_reported():
            async with connect(peer) as client:
                return await action(client)

    run(connected())


def report_result(told: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Write one result, as a line of JSON or as text."""
    from p2prdf_cli.render import write_json

    if as_json:
        write_json(told, line=True)
    else:
        print(text, flush=True)


def event_reporter(*, as_json: bool) -> Tell:
    """Return a function that writes the events of a worker, one per line."""

    def tell(event: str, what: Mapping[str, object]) -> None:
        if as_json:
            print(json.dumps({"event": event, **what}), flush=True)
        else:
            print(event, *what.values(), flush=True)

    return tell


Alive = Annotated[
    Path | None,
    typer.Option("--alive", metavar="FILE", help="File to touch every 5 s, as a sign of life."),
]
ALIVE_SECONDS: Final = 5.0


@contextlib.asynccontextmanager
async def sign_of_life(file: Path | None) -> AsyncIterator[None]:
    """Touch a file while the event loop runs, as a sign of life for a monitor without a port; None: no file.

    Raises OSError if the file cannot be written at the start.
    """
    if file is None:
        yield
        return
    file.touch()

    async def touch() -> None:
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            with contextlib.suppress(OSError):  # a monitor will see that the file is old
                file.touch()

    task = asyncio.create_task(touch())
    try:
        yield
    finally:
        task.cancel()


Wait = Annotated[
    bool, typer.Option("--wait", help="Wait for a node at the start instead of ending with exit code 3.")
]

Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="HOST:PORT",
        help="Address for /metrics, /healthz and /readyz over HTTP, without access control.",
    ),
]  # fmt: skip


@contextlib.asynccontextmanager
async def monitored(
    listen: str | None, member: Worker, exposition: Callable[[], Awaitable[str]], tell: Tell
) -> AsyncIterator[None]:
    """Serve metrics and health of a worker over HTTP, and report the address as an event; None: no server.

    Raises LocalProtocolError for a malformed address, OSError for one that cannot be bound.
    """
    if listen is None:
        yield
        return
    from p2prdf.errors import LocalProtocolError
    from p2prdf.monitoring.serving import watched_at
    from p2prdf.workers.worker_metrics import not_ready_reason
    from p2prdf_node.addresses import split_address

    try:
        address = split_address(listen)
    except ValueError as error:
        raise LocalProtocolError(f"--metrics: {error}") from None
    async with watched_at(address, exposition, lambda: not_ready_reason(member)) as url:
        tell("metrics", {"url": f"{url}/metrics"})
        yield
