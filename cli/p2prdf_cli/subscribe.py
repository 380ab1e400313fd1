"""``p2prdf subscribe``: leave a standing query and write its answers as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf.errors import P2PRDFError
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.options import PEER_DEFAULT, AlgorithmName, Json, Peer, subscription_number

if TYPE_CHECKING:
    from p2prdf.client import Batch, Client, Subscription
    from p2prdf_cli.render import SolutionWriter

__all__ = ["register"]

GOODBYE_SECONDS: Final = 3.0
"""How long an interrupted command tries to end its subscription."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(subscribe)


def subscribe(
    query: Annotated[str | None, typer.Argument(metavar="QUERY", help="A SPARQL SELECT query.")] = None,
    peer: Peer = PEER_DEFAULT,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="Q.rq", help="Read the query from a file; - is standard input."),
    ] = None,
    prefix_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Turtle or SPARQL file whose prefixes the query may use.")
    ] = None,
    algorithm: Annotated[
        AlgorithmName, typer.Option(help="Join along a tree of values (csbv) or a fixed chain of nodes (cqc).")
    ] = AlgorithmName.csbv,
    per_event: Annotated[
        bool, typer.Option("--per-event", help="Answer publication events: a triple published again counts again.")
    ] = False,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after N answers.")] = None,
    lease: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="How long it is kept if this command breaks off.")
    ] = 60.0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the subscription for --attach when the command ends.")
    ] = False,
    attach: Annotated[
        str | None,
        typer.Option(metavar="ID", callback=subscription_number, help="Take up an earlier subscription, at any node."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Leave a standing query; its answers are written as they become true.

    What is published from now on counts. On a terminal answers come as
    columns, in a pipe as SPARQL's tab-separated values, with --json as one
    object a line. An answer is acknowledged when it has been written. Ctrl-C
    ends the command and its subscription (not with --keep).

    \b
    Examples:
      p2prdf subscribe 'SELECT ?s ?o WHERE { ?s <urn:p> ?o }'
      p2prdf subscribe -f query.rq --prefix-file prefixes.ttl --algorithm cqc
      p2prdf subscribe 'SELECT * WHERE { ?s ?p ?o }' --json | jq .bindings
      p2prdf subscribe --attach 00c0ffee00c0ffee
    """
    if attach is not None and (query is not None or file is not None):
        raise typer.BadParameter("--attach takes up a subscription with the query it has: give no other")
    wanted = _Wanted(
        query, file, prefix_file, algorithm.value, per_event, count, lease, keep,
        None if attach is None else int(attach, 16), as_json,
    )  # fmt: skip
    run(_subscribe(wanted, peer))


@dataclass(frozen=True, slots=True)
class _Wanted:
    query: str | None
    file: Path | None
    prefix_file: Path | None
    algorithm: str
    per_event: bool
    count: int | None
    lease: float
    keep: bool
    attach: int | None
    as_json: bool


async def _subscribe(wanted: _Wanted, peer: str) -> None:
    import p2prdf
    from p2prdf_cli.query_text import declared_prefixes, read_query, with_prefixes
    from p2prdf_cli.render import remark, solution_writer

    query = "" if wanted.attach is not None else read_query(wanted.query, wanted.file)
    given = {} if wanted.prefix_file is None else declared_prefixes(read_query(None, wanted.prefix_file))
    prefixes = given | declared_prefixes(query)
    async with p2prdf.connect(peer) as client:
        if wanted.attach is not None:
            subscription = await client.attach(wanted.attach, auto_acknowledge=False)
        else:
            subscription = await client.subscribe(
                with_prefixes(query, given),
                algorithm=wanted.algorithm,
                per_event=wanted.per_event,
                lease_seconds=wanted.lease,
                auto_acknowledge=False,
            )
        remark(f"subscription {subscription.id:016x} at {peer}")
        try:
            await _write(subscription, wanted, lambda names: solution_writer(names, prefixes, as_json=wanted.as_json))
        except P2PRDFError:
            _tell_how_to_go_on(subscription)
            raise
        finally:
            await _end(client, subscription, keep=wanted.keep)


async def _write(
    subscription: Subscription, wanted: _Wanted, make_writer: Callable[[Sequence[str]], SolutionWriter]
) -> None:
    left = wanted.count
    writer = make_writer(subscription.names) if subscription.names else None
    async for batch in subscription.batches():
        _tell_lost(batch)
        writer = writer or make_writer(batch.names)
        for solution in batch:
            writer.solution(solution)
            written = solution.sequence
            if left is not None:
                left -= 1
                if left == 0:
                    break
        subscription.acknowledge(written)
        if left == 0:
            return


async def _end(client: Client, subscription: Subscription, *, keep: bool) -> None:
    """End the subscription, also when this command is being interrupted; a broken connection keeps it."""
    if keep:
        _tell_how_to_go_on(subscription)
        return
    with contextlib.suppress(P2PRDFError, TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            await client.unsubscribe(subscription.id)


def _tell_lost(batch: Batch) -> None:
    from p2prdf_cli.render import remark

    if batch.lost:
        remark(f"{batch.lost:,} answers before number {batch.first:,} were dropped: they were not taken in time")


def _tell_how_to_go_on(subscription: Subscription) -> None:
    from p2prdf_cli.render import remark

    remark(f"go on with: p2prdf subscribe --attach {subscription.id:016x}")
