"""``p2prdf subscribe``: subscribe to a query and write its solutions as they arrive.

With ``--name`` the subscription is durable: :mod:`p2prdf_cli.named`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TextIO

import typer

from p2prdf.errors import P2PRDFError, Unavailable
from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.options import (
    PEER_DEFAULT,
    RECONNECT_DEFAULT,
    Algorithm,
    AlgorithmName,
    Json,
    Peer,
    PrefixFile,
    QueryFile,
    Reconnect,
    Since,
    StateFolder,
    point_in_time,
    subscription_name,
    subscription_number,
    with_options,
)
from p2prdf_cli.rule_files import RulesWanted, rules_wanted

if TYPE_CHECKING:
    from p2prdf.client import Batch, Client, Cohort, Subscription
    from p2prdf_cli.render import SolutionWriter
    from p2prdf_cli.subscribe_state import OutputFile

__all__ = ["Shown", "SubscriptionOptions", "Wanted", "register", "subscribed"]

LEASE_SECONDS: Final = 60.0
"""Lease of a subscription without a name."""
GOODBYE_SECONDS: Final = 3.0
"""Time for which an interrupted command tries to end its subscription."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(subscribe)


class Shown(Protocol):
    """Displays solutions in another form."""

    @property
    def names(self) -> Sequence[str]:
        """Columns of the displayed rows."""
        ...

    def writer(self, writer: SolutionWriter) -> SolutionWriter:
        """Return a writer of solutions that writes rows of these columns with ``writer``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """Options of the commands that subscribe."""

    peer: Peer = field(default_factory=PEER_DEFAULT.copy)
    prefix_file: PrefixFile = None
    since: Since = None
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after N solutions.")] = None
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", callback=subscription_name, help="Durable subscription; the same name continues it."
        ),
    ] = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Append the solutions to a file.")
    ] = None
    state: StateFolder = None
    renew: Annotated[bool, typer.Option("--renew", help="With --name: start again from an empty state.")] = False
    lease: Annotated[
        float | None,
        typer.Option(min=1, metavar="SECONDS", help="Lifetime without a subscriber. (default: 60; with --name 86400)"),
    ] = None
    reconnect: Reconnect = RECONNECT_DEFAULT
    as_json: Json = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.name is None and (self.renew or self.state is not None):
            raise typer.BadParameter("--renew and --state go with --name")

    @property
    def start(self) -> float | str | None:
        """The first publication time that counts; None: not given."""
        return None if self.since is None else point_in_time(self.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(SubscriptionOptions):
    """Options of ``p2prdf subscribe``."""

    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="A SPARQL query: SELECT, ASK or CONSTRUCT.")
    ] = None
    file: QueryFile = None
    rules: RulesWanted = None
    algorithm: Algorithm = AlgorithmName.csbv
    per_event: Annotated[
        bool, typer.Option("--per-event", help="Answer events: a repeated triple gives a new solution.")
    ] = False
    keep: Annotated[bool, typer.Option("--keep", help="Keep the subscription for --attach.")] = False
    attach: Annotated[
        str | None,
        typer.Option(metavar="ID", callback=subscription_number, help="Continue a kept subscription, at any node."),
    ] = None
    bookmarks: Annotated[
        bool, typer.Option("--bookmarks", help="With --json: write a completeness bookmark each second.")
    ] = False
    settled: Annotated[
        bool,
        typer.Option("--settled", help="With --json: write states of the graph only, each with a mark behind it."),
    ] = False
    immediate: Annotated[
        bool, typer.Option("--immediate", help="Write solutions at once, also if they may not stay true.")
    ] = False
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="QUERY", help="With --settled: a further query, at the same marks; repeatable."),
    ] = None
    shown: Shown | None = None
    """Alternative display of solutions; None: as they are."""

    @property
    def delivery(self) -> bool | None:
        """Whether delivery is settled; None: the default of the query."""
        return True if self.settled else False if self.immediate else None


@with_options(Wanted)
def subscribe(wanted: Wanted) -> None:
    """Subscribe to a query; write each solution when it becomes true.

    Publications from now on count; with --since also earlier ones. With --name
    the subscription is durable: the same command continues after the last
    solution, and --output then holds each solution exactly once.

    \b
    Examples:
      p2prdf subscribe 'SELECT ?s ?o WHERE { ?s <urn:p> ?o }'
      p2prdf subscribe --since beginning 'SELECT (COUNT(*) AS ?n) { ?s a ?c }'
      p2prdf subscribe --name athletes --output athletes.tsv -f query.rq
      p2prdf subscribe --attach 00c0ffee00c0ffee
      p2prdf subscribe --json --settled 'ASK { ?s ?p ?o }' --also 'SELECT * { ?s ?p ?o }'
    """
    given = wanted.attach is not None
    if wanted.name is not None and (given or wanted.keep):
        raise typer.BadParameter("--name keeps and continues its subscription: use it without --attach and --keep")
    if wanted.bookmarks and (wanted.name is not None or not wanted.as_json):
        raise typer.BadParameter("--bookmarks are lines of --json, and do not go with --name")
    if wanted.settled and (wanted.name is not None or not wanted.as_json):
        raise typer.BadParameter("the marks of --settled are lines of --json, and do not go with --name")
    if wanted.settled and wanted.immediate:
        raise typer.BadParameter("give either --settled or --immediate")
    if wanted.settled and (wanted.per_event or wanted.bookmarks or wanted.since not in (None, "beginning")):
        raise typer.BadParameter("--settled counts all triples: use it without --per-event, --bookmarks and --since")
    if wanted.also and (not wanted.settled or given or wanted.keep or wanted.rules or wanted.output is not None):
        raise typer.BadParameter("--also goes with --settled, and without --attach, --keep, --rules and --output")
    if given and any(each is not None for each in (wanted.query, wanted.file, wanted.since, wanted.rules)):
        raise typer.BadParameter(
            "--attach takes up a subscription with the query, --since and --rules it has: give no other"
        )
    run(subscribed(wanted))


def _shown(wanted: Wanted, names: Sequence[str], make: Callable[[Sequence[str]], SolutionWriter]) -> SolutionWriter:
    return make(names) if wanted.shown is None else wanted.shown.writer(make(wanted.shown.names))


async def subscribed(wanted: Wanted) -> None:
    """Subscribe, under the name if there is one, and write the solutions."""
    if wanted.also:
        await _subscribe_cohort(wanted, wanted.also)
    else:
        await (_subscribe_once(wanted) if wanted.name is None else _subscribe_named(wanted.name, wanted))


async def _subscribe_cohort(wanted: Wanted, also: Sequence[str]) -> None:
    """Subscribe to several queries, and write the solutions of all up to one mark after the other."""
    from p2prdf_cli.query_text import prefixes_of, read_query, with_prefixes
    from p2prdf_cli.render import JsonLines, reconnections_reported, remark

    given, left = prefixes_of(wanted.prefix_file), wanted.count
    queries = [with_prefixes(each, given) for each in (read_query(wanted.query, wanted.file), *also)]
    writers = [JsonLines(query=number) for number in range(1, len(queries) + 1)]
    with reconnections_reported():
        async with connect(wanted.peer, reconnect_seconds=wanted.reconnect) as client:
            cohort = await client.cohort(
                *queries, algorithm=wanted.algorithm.value, lease_seconds=wanted.lease or LEASE_SECONDS
            )
            remark(f"subscription {cohort.id:016x} at {','.join(wanted.peer)}")
            try:
                async for advance in cohort:
                    for writer, changes in zip(writers, advance.changes, strict=True):
                        for solution in changes:
                            writer.solution(solution)
                            left = None if left is None else left - 1
                            if left == 0:
                                return
                    if advance.time is not None:
                        writers[0].bookmark(advance.time)
            finally:
                await _end(client, cohort, keep=False)


async def _subscribe_once(wanted: Wanted) -> None:
    """Subscribe to a query and write its solutions, up to ``count``."""
    from p2prdf_cli.query_text import declared_prefixes, prefixes_of, read_query, with_prefixes
    from p2prdf_cli.render import reconnections_reported, remark, solution_writer
    from p2prdf_cli.subscribe_state import OutputFile

    query = "" if wanted.attach is not None else read_query(wanted.query, wanted.file)
    given, rules = prefixes_of(wanted.prefix_file), rules_wanted(wanted.rules)
    prefixes = given | declared_prefixes(query)
    output = None if wanted.output is None else OutputFile(wanted.output)

    def make_writer(names: Sequence[str]) -> SolutionWriter:
        stream, header = (None, True) if output is None else (output.stream, output.length == 0)
        return _shown(
            wanted, names,
            lambda shown: solution_writer(shown, prefixes, as_json=wanted.as_json, stream=stream, header=header),
        )  # fmt: skip

    connecting = connect(wanted.peer, reconnect_seconds=wanted.reconnect)
    with reconnections_reported(), contextlib.nullcontext() if output is None else contextlib.closing(output):
        async with connecting as client:
            if wanted.attach is not None:
                subscription = await client.attach(
                    int(wanted.attach, 16), auto_acknowledge=False, bookmarks=wanted.bookmarks
                )
            else:
                subscription = await client.subscribe(
                    with_prefixes(query, given),
                    algorithm=wanted.algorithm.value,
                    per_event=wanted.per_event,
                    lease_seconds=wanted.lease or LEASE_SECONDS,
                    auto_acknowledge=False,
                    bookmarks=wanted.bookmarks,
                    since=wanted.start,
                    rules=rules,
                    settled=wanted.delivery,
                )
            remark(f"subscription {subscription.id:016x} at {','.join(wanted.peer)}")
            try:
                await _write(subscription, wanted, make_writer, output)
            except P2PRDFError:
                _report_continuation(subscription)
                raise
            finally:
                await _end(client, subscription, keep=wanted.keep)


async def _write(
    subscription: Subscription,
    wanted: Wanted,
    make_writer: Callable[[Sequence[str]], SolutionWriter],
    output: OutputFile | None,
) -> None:
    left = wanted.count
    writer = make_writer(subscription.names)
    async for batch in subscription.batches():
        _report_lost(batch)
        if batch.gap is not None:
            writer.gap(batch.gap)
        for solution in batch:
            writer.solution(solution)
            written = solution.sequence
            if left is not None:
                left -= 1
                if left == 0:
                    break
        if batch.bookmark is not None and left != 0 and (wanted.bookmarks or wanted.settled):
            writer.bookmark(batch.bookmark)
        if output is not None:
            output.sync()
        if len(batch):
            subscription.acknowledge(written)
        if left == 0:
            return


async def _subscribe_named(name: str, wanted: Wanted) -> None:
    """Open the named subscription, or continue it, and write its solutions."""
    from p2prdf_cli import named
    from p2prdf_cli.query_text import declared_prefixes, prefixes_of, read_query, with_prefixes
    from p2prdf_cli.render import reconnections_reported, remark, solution_writer
    from p2prdf_cli.subscribe_state import NamedState, default_folder

    given = prefixes_of(wanted.prefix_file)
    query = None
    if wanted.query is not None or wanted.file is not None:
        query = with_prefixes(read_query(wanted.query, wanted.file), given)
    rules = rules_wanted(wanted.rules)
    if isinstance(rules, str):
        raise typer.BadParameter("--name needs rules from a file: named rules may change, and the query with them")
    if rules and query is not None:
        from p2prdf.reasoning.ruled_query import with_rules

        query = with_rules(query, rules)
    with NamedState(wanted.state or default_folder(), name) as state, contextlib.closing(
        named.Named(state, wanted, query)
    ) as work, reconnections_reported():  # fmt: skip
        prefixes = given | declared_prefixes(work.wish.query)

        def make_writer(names: Sequence[str], stream: TextIO | None, header: bool) -> SolutionWriter:
            return _shown(
                wanted, names,
                lambda shown: solution_writer(shown, prefixes, as_json=work.wish.as_json, stream=stream, header=header),
            )  # fmt: skip

        def began(subscription: Subscription) -> None:
            after = f", after solution {subscription.acknowledged:,}" if subscription.acknowledged else ""
            remark(f"subscription {subscription.id:016x} at {','.join(wanted.peer)}: {name}{after}")

        async with connect(wanted.peer, reconnect_seconds=wanted.reconnect) as client:
            try:
                await work.run(client, make_writer, began)
            except Unavailable:
                remark(f"continue with: p2prdf subscribe --name {name}")
                raise


async def _end(client: Client, subscription: Subscription | Cohort, *, keep: bool) -> None:
    """End the subscription, even while the command is being interrupted; a broken connection leaves it to its lease."""
    if keep:
        _report_continuation(subscription)
        return
    with contextlib.suppress(P2PRDFError, TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            await client.unsubscribe(subscription.id)


def _report_lost(batch: Batch) -> None:
    from p2prdf_cli.render import remark

    if batch.lost:
        remark(f"{batch.lost:,} solutions before number {batch.first:,} were dropped: output too slow")


def _report_continuation(subscription: Subscription | Cohort) -> None:
    from p2prdf_cli.render import remark

    remark(f"continue with: p2prdf subscribe --attach {subscription.id:016x}")
