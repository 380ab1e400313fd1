"""``p2prdf channel subscribe``: notifications of a channel, by a standing query (:mod:`p2prdf_cli.subscribe`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import run
from p2prdf_cli.options import (
    PEER_DEFAULT,
    RECONNECT_DEFAULT,
    TIMEOUT_DEFAULT,
    Json,
    Peer,
    PrefixFile,
    Reconnect,
    Since,
    StateFolder,
    Timeout,
    point_in_time,
    subscription_name,
)
from p2prdf_cli.subscribe import Wanted, subscribe_named, subscribe_once

if TYPE_CHECKING:
    from p2prdf.client import Gap, Solution
    from p2prdf_cli.render import SolutionWriter

__all__ = ["subscribe"]


def subscribe(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of the channel.")],
    peer: Peer = PEER_DEFAULT,
    prefix_file: PrefixFile = None,
    since: Since = None,
    withdrawn: Annotated[
        bool, typer.Option("--withdrawn", help="Also write bindings that a deletion retracts.")
    ] = False,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after N bindings.")] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", callback=subscription_name, help="Durable subscription; the same name continues it."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Append the bindings to a file.")
    ] = None,
    state: StateFolder = None,
    renew: Annotated[bool, typer.Option("--renew", help="With --name: start again from an empty state.")] = False,
    lease: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Lifetime without a subscriber. (default: 60; with --name 86400)",
        ),
    ] = None,
    reconnect: Reconnect = RECONNECT_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: Json = False,
) -> None:
    """Write the bindings of a channel, then new ones as they come.

    Each line begins with a level: initial (held at the start), tentative (predicted,
    and it holds) or confirmed (found by the query). With --since now only new
    bindings are written. --name makes it durable, as for subscribe.

    \b
    Examples:
      p2prdf channel subscribe people
      p2prdf channel subscribe people --since now --withdrawn --json
      p2prdf channel subscribe people --name mine --output people.tsv
    """
    if name is None and (renew or state is not None):
        raise typer.BadParameter("--renew and --state go with --name")

    async def action() -> None:

        async with connect(peer, reconnect_seconds=reconnect) as client:
            query, names = await client.channels.query_of(channel, timeout_seconds=timeout)
        wanted = Wanted(
            query, None, prefix_file, "csbv", False, count, lease, False, None, as_json, name, output, state, renew,
            reconnect, False, "beginning" if since is None else point_in_time(since),
            shown=_Channel(names, removed=withdrawn),
        )  # fmt: skip
        await (subscribe_once(wanted, peer) if name is None else subscribe_named(name, wanted, peer))

    run(action())


class _Channel:
    """Shows the notifications of a channel: the kind, and the terms of the binding."""

    def __init__(self, names: tuple[str, ...], *, removed: bool):
        self._names = names
        self._removed = removed
        kind = "kind"
        while kind in names:
            kind += "_"
        self.names: Sequence[str] = (kind, *names)

    def writer(self, writer: SolutionWriter) -> SolutionWriter:
        """Return a writer that writes notifications as rows."""
        return _Rows(writer, tuple(self.names), removed=self._removed)


class _Rows:
    def __init__(self, writer: SolutionWriter, columns: tuple[str, ...], *, removed: bool):
        from p2prdf.client.channel_store import Notifications

        self._writer = writer
        self._columns = columns
        self._notifications = Notifications(columns[1:], removed=removed)

    def solution(self, solution: Solution) -> None:
        """Write a notification, unless it was not asked for."""
        from p2prdf.client.solutions import Solution
        from p2prdf.rdf import terms

        found = self._notifications.of(solution)
        if found is None:
            return
        self._writer.solution(
            Solution(
                self._columns,
                (terms.literal(found.kind), *found.binding.values()),
                sequence=solution.sequence,
                identity=solution.identity,
                born=solution.born,
                lost=solution.lost,
                removed=solution.removed,
            )
        )

    def gap(self, gap: Gap) -> None:
        """Report dropped notifications."""
        self._writer.gap(gap)

    def bookmark(self, bookmark: float) -> None:
        """Write a bookmark."""
        self._writer.bookmark(bookmark)
