"""``p2prdf replica``: a part of a dataset kept up to date at a target, by changesets or from the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf_cli.changesets import BlankScope, Changes, StartAt, warn_of_clear
from p2prdf_cli.commands import Commands
from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode, run
from p2prdf_cli.options import PEER_DEFAULT, Json, Peer, QueryFile, with_options
from p2prdf_cli.query_text import read_query
from p2prdf_cli.replica_target import Reach, WritingReach, matching, open_target, source_of

if TYPE_CHECKING:
    from p2prdf.replica.replica import Replica
    from p2prdf.replica.sources import Source
    from p2prdf.replica.target import Target

__all__ = ["register"]

_HELP: Final = """Keep a part of a dataset up to date at a target, from changesets.

\b
Examples:
  p2prdf replica apply changes -f football.rq --start dump.nt.gz \\
      --target http://localhost:3030/ds/update --state football.state
  p2prdf replica verify --target http://localhost:3030/ds/update --state football.state
  p2prdf replica follow --dataset http://dbpedia.org -f football.rq \\
      --target http://localhost:3030/ds/update
"""


class Potential(enum.StrEnum):
    """Treatment of triples that are in no full match yet."""

    source = "source"
    none = "none"


TargetName = Annotated[
    str,
    typer.Option(
        "--target", metavar="TARGET",
        help="SPARQL update URL, store:DIR (pyoxigraph) or files:DIR.",
    ),
]  # fmt: skip
StateFile = Annotated[Path, typer.Option("--state", metavar="FILE", help="State file of the replica.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("apply", epilog=EXIT_CODES_HELP)(apply)
    commands.command("follow", epilog=EXIT_CODES_HELP)(follow_dataset)
    commands.command("verify", epilog=EXIT_CODES_HELP)(verify)
    commands.command("repair", epilog=EXIT_CODES_HELP)(repair)
    app.add_typer(commands, name="replica", help=_HELP)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Apply(WritingReach):
    changes: Changes
    target: TargetName
    state: StateFile
    interest: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", metavar="FILE", help="File with the interest, for the first run."),
    ] = None
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="FILE|URL", help="Dataset before the changesets: dump or query endpoint."),
    ] = None
    start_at: StartAt = None
    source_graph: Annotated[
        str | None, typer.Option(metavar="IRI", help="Graph of the dataset at the endpoint of --start.")
    ] = None
    potential: Annotated[
        Potential, typer.Option(help="Whether to load potentially interesting triples at the start.")
    ] = Potential.source
    save_every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Changesets between two saves of the state.")
    ] = 100
    follow: Annotated[bool, typer.Option("--follow", help="Continue with new changesets until stopped.")] = False
    interval: Annotated[
        float, typer.Option(min=0.05, metavar="SECONDS", help="Polling interval for new changesets.")
    ] = 5.0
    blank_scope: BlankScope = None
    as_json: Json = False


@with_options(_Apply)
def apply(options: _Apply) -> None:
    """Apply changesets to a target under an interest, after the last applied one.

    Folders have the layout of DBpedia Live (year/month/day/hour/NNNNNN.added.nt.gz
    and .removed.nt.gz) or are flat. Each change takes effect once, also after a kill
    of the command or of the endpoint.

    \b
    Examples:
      p2prdf replica apply changes -f football.rq --start dump.nt.gz \\
          --target http://localhost:3030/ds/update --state football.state
      p2prdf replica apply changes --target store:football.db --state football.state --follow
    """

    async def action() -> ExitCode:
        from p2prdf.replica.changeset_files import checked_position
        from p2prdf.replica.sources import open_sources

        first = None if options.start_at is None else checked_position(options.start_at)
        async with contextlib.aclosing(open_sources(options.changes, blank_scope=options.blank_scope)) as sources:
            replica = await _ready(open_target(options.target, options), options)
            try:
                return await _apply_all(replica, sources, first, options)
            finally:
                await replica.close()

    run(action())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Follow(WritingReach):
    target: TargetName
    dataset: Annotated[str, typer.Option("--dataset", metavar="IRI", help="Graph of the dataset in the cluster.")]
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="Interest: a SPARQL query.")] = None
    file: QueryFile = None
    peer: Peer = field(default_factory=PEER_DEFAULT.copy)
    settled: Annotated[
        bool, typer.Option("--settled", help="Let the target hold only states of the dataset that existed.")
    ] = False
    once: Annotated[bool, typer.Option("--once", help="Stop when the target is up to date.")] = False
    as_json: Json = False


@with_options(_Follow)
def follow_dataset(options: _Follow) -> None:
    """Keep a part of a dataset in the cluster up to date at a target, until stopped.

    The interest is a standing query; the only state is a cursor at the target. A
    restart continues there; after more than a day it compares the whole target.

    \b
    Examples:
      p2prdf replica follow --dataset http://dbpedia.org -f football.rq \\
          --target http://localhost:3030/ds/update
      p2prdf replica follow --dataset urn:example:places -f a.rq --target store:places.db --once
    """

    async def action() -> ExitCode:
        from p2prdf.interest import parse_interest
        from p2prdf.rdf import terms
        from p2prdf.replica.following import follow
        from p2prdf_cli.progress import SliceBar

        wanted = parse_interest(read_query(options.query, options.file))
        opened = open_target(options.target, options)
        try:
            async with contextlib.AsyncExitStack() as stack:
                client = await stack.enter_async_context(connect(options.peer))
                bar = stack.enter_context(SliceBar(f"first slice of {options.dataset}"))
                followed = follow(
                    client, wanted, terms.iri(options.dataset), opened, on_solutions=bar.advance,
                    settled=options.settled,
                )  # fmt: skip
                steps = await stack.enter_async_context(contextlib.aclosing(followed))
                async for step in steps:
                    bar.stop()  # the first slice is complete
                    if step.whole or step.removed or step.added:
                        told: dict[str, object] = {
                            "removed": step.removed, "added": step.added, "as_of": step.as_of,
                        }  # fmt: skip
                        _report(told, f"{step.removed:,} removed, {step.added:,} added", as_json=options.as_json)
                    if options.once:
                        return ExitCode.OK
        finally:
            await opened.close()
        return ExitCode.OK

    run(action())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verify(Reach):
    target: TargetName
    state: StateFile
    as_json: Json = False


@with_options(_Verify)
def verify(options: _Verify) -> None:
    """Compare a target with its dataset; exit code 1 if they differ.

    \b
    Examples:
      p2prdf replica verify --target http://localhost:3030/ds/update --state football.state
    """
    run(_compare(options, mend=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repair(WritingReach):
    target: TargetName
    state: StateFile
    as_json: Json = False


@with_options(_Repair)
def repair(options: _Repair) -> None:
    """Repair a target: insert missing triples and delete wrong ones.

    \b
    Examples:
      p2prdf replica repair --target http://localhost:3030/ds/update --state football.state
    """
    run(_compare(options, mend=True))


async def _compare(options: _Verify | _Repair, *, mend: bool) -> ExitCode:
    from p2prdf.errors import LocalProtocolError
    from p2prdf.replica.replica import Replica

    target, state = open_target(options.target, options), options.state
    try:
        replica = Replica.load(state, target)
        if replica is None:
            raise LocalProtocolError(f"{state}: there is no such state; p2prdf replica apply writes it")
        found = await (replica.repair() if mend else replica.verify())
    finally:
        await target.close()
    told: dict[str, object] = {"expected": found.expected, "found": found.found, "equal": found.equal}
    if mend:
        told |= {"lacking": found.lacking, "foreign": found.foreign}
        _report(told, f"{found.lacking:,} triples inserted, {found.foreign:,} deleted", as_json=options.as_json)
        return ExitCode.OK
    text = "the target is correct" if found.equal else "the target differs"
    _report(told, f"{text}: {found.found:,} triples, {found.expected:,} expected", as_json=options.as_json)
    return ExitCode.OK if found.equal else ExitCode.FAILURE


async def _ready(target: Target, options: _Apply) -> Replica:
    """Return the saved replica, or a new one."""
    from p2prdf.errors import LocalProtocolError
    from p2prdf.interest import Interests, parse_interest
    from p2prdf.replica.changeset_files import read_file
    from p2prdf.replica.replica import START, Replica
    from p2prdf_cli.progress import SliceBar

    state = options.state
    wanted = [parse_interest(path.read_text("utf-8-sig")) for path in options.interest or ()]
    texts = [interest.text for interest in wanted]
    replica = Replica.load(state, target)
    if replica is not None:
        if texts and texts != [replica.interests.interest(name).text for name in replica.interests]:
            raise LocalProtocolError(f"{state}: the replica was begun with another interest; give it another state")
        await replica.resume()
        return replica
    if not texts or options.start is None:
        raise LocalProtocolError(f"{state}: there is no such state yet: begin with --file and --start")
    interests = Interests()
    for number, interest in enumerate(wanted):
        interests.add(str(number), interest)
    replica = Replica(interests, target, state=state)
    position, potential = options.start_at or START, options.potential is Potential.source
    if options.start.startswith(("http://", "https://")):
        source = source_of(options.start, options.source_graph, options)
        try:
            triples = matching(source, interests, matched=not potential)
            with SliceBar(f"first slice from {options.start}") as bar:
                begun = bar.counted(triples)
                count = await replica.begin(begun, potential=potential, position=position)
        finally:
            await source.close()
    else:
        dump = read_file(Path(options.start), blank_scope=options.blank_scope, triples_max=None)
        with SliceBar(f"first slice from {options.start}") as bar:
            count = await replica.begin(bar.counted(dump), potential=potential, position=position)
    print(f"p2prdf: the target begins with {count:,} triples", file=sys.stderr)
    return replica


async def _apply_all(replica: Replica, sources: Source, first: str | None, options: _Apply) -> ExitCode:
    """Apply the present changesets; with ``--follow``, poll for more."""
    since_saved = 0
    while True:
        gap = None
        growing = options.follow
        after = replica.last_changeset or first
        async with contextlib.aclosing(sources.changesets(after, growing=growing)) as given:
            async for position, changeset in given:
                if changeset is None:
                    gap = position
                    break
                applied = await replica.apply(position, changeset)
                told: dict[str, object] = {
                    "position": position, "changeset": len(changeset),
                    "removed": applied.removed, "added": applied.added, **warn_of_clear(changeset),
                }  # fmt: skip
                text = f"{position}: {applied.removed:,} removed, {applied.added:,} added"
                _report(told, text, as_json=options.as_json)
                since_saved += 1
                if since_saved >= options.save_every:
                    await asyncio.to_thread(replica.save)
                    since_saved = 0
        if not options.follow:
            if gap is not None:
                print(f"p2prdf: {gap} is missing: later changesets were not applied", file=sys.stderr)
            return ExitCode.OK if gap is None else ExitCode.FAILURE
        if not replica.is_saved:
            await asyncio.to_thread(replica.save)
        await asyncio.sleep(options.interval)


def _report(told: dict[str, object], text: str, *, as_json: bool) -> None:
    print(json.dumps(told) if as_json else text, flush=True)
