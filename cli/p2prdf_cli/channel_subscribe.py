"""``p2prdf channel subscribe``: notifications of a channel, by a standing query (:mod:`p2prdf_cli.subscribe`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import run
from p2prdf_cli.options import TIMEOUT_DEFAULT, Timeout, with_options
from p2prdf_cli.subscribe import SubscriptionOptions, Wanted, subscribed

if TYPE_CHECKING:
    from p2prdf.client import Gap, Solution
    from p2prdf_cli.render import SolutionWriter

__all__ = ["subscribe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options(SubscriptionOptions):
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of the channel.")]
    withdrawn: Annotated[
        bool, typer.Option("--withdrawn", help="Also write bindings that a deletion retracts.")
    ] = False
    timeout: Timeout = TIMEOUT_DEFAULT


@with_options(_Options)
def subscribe(options: _Options) -> None:
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

    async def action() -> None:
        async with connect(options.peer, reconnect_seconds=options.reconnect) as client:
            query, names = await client.channels.query_of(options.channel, timeout_seconds=options.timeout)
        shared = {each.name: getattr(options, each.name) for each in fields(SubscriptionOptions)}
        shared["since"] = options.since or "beginning"
        await subscribed(Wanted(**shared, query=query, shown=_Channel(names, removed=options.withdrawn)))

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
