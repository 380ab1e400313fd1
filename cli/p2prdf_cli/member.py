"""``p2prdf member``: expel a member that lies, find the statements that it introduced, and undo them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p2prdf.errors import LocalProtocolError, P2PRDFError, Unavailable
from p2prdf_cli.commands import Commands
from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, ExitCode, complain, run
from p2prdf_cli.options import PEER_DEFAULT, Json, Peer

if TYPE_CHECKING:
    import p2prdf

__all__ = ["register"]

_HELP: Final = """Expel a member that lies, list the statements that it introduced, and undo them.

\b
Examples:
  p2prdf member expel 8d2f0c61b7a94e35
  p2prdf member introduced 8d2f0c61b7a94e35
  p2prdf member clean-up 8d2f0c61b7a94e35 --apply
"""
_AT_ONCE: Final = 500
"""Most statements in one request for histories."""

Statement = tuple[str, str, str, str, str]
"""Subject, predicate, object, graph, and the stored term that combines predicate and graph."""


def _member(text: str) -> str:
    if re.fullmatch("[0-9a-fA-F]{16}", text) is None:
        raise typer.BadParameter(f"{text!r} is not the key of a node (16 hexadecimal digits)")
    return text.lower()


Member = Annotated[str, typer.Argument(metavar="KEY", callback=_member, help="Key of the node, as status shows it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("expel", epilog=EXIT_CODES_HELP)(expel)
    commands.command("readmit", epilog=EXIT_CODES_HELP)(readmit)
    commands.command("list", epilog=EXIT_CODES_HELP)(list_)
    commands.command("introduced", epilog=EXIT_CODES_HELP)(introduced)
    commands.command("clean-up", epilog=EXIT_CODES_HELP)(clean_up)
    app.add_typer(commands, name="member")


def expel(member: Member, peer: Peer = PEER_DEFAULT) -> None:
    """Expel a member: all nodes close its connections and take over its share.

    The nodes keep the decision on their disks and tell it to nodes that come
    later. With certificates, also revoke the member's: p2prdf ca revoke. Without
    certificates a node can come back under another key. Exit code 3 if a node did
    not take it: repeat the command when that node is back.

    \b
    Examples:
      p2prdf member expel 8d2f0c61b7a94e35
    """
    run(_decide(member, peer, expelled=True))


def readmit(member: Member, peer: Peer = PEER_DEFAULT) -> None:
    """Undo an expulsion: the nodes deal with the member again.

    \b
    Examples:
      p2prdf member readmit 8d2f0c61b7a94e35
    """
    run(_decide(member, peer, expelled=False))


def list_(peer: Peer = PEER_DEFAULT, as_json: Json = False) -> None:
    """List the expulsions and readmissions that a node knows.

    Behind them stand those that fewer than two members have reported so far.

    \b
    Examples:
      p2prdf member list
    """
    run(_list(peer, as_json=as_json))


def introduced(member: Member, peer: Peer = PEER_DEFAULT, as_json: Json = False) -> None:
    """List the statements that a member introduced, as the other nodes recorded it.

    A plus marks a published statement, a minus a deletion. Behind them stand the
    subscriptions that the member ended.

    \b
    Examples:
      p2prdf member introduced 8d2f0c61b7a94e35
    """
    run(_introduced(member, peer, as_json=as_json))


def clean_up(
    member: Member,
    peer: Peer = PEER_DEFAULT,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without this option only list it.")] = False,
    uncertain: Annotated[
        bool,
        typer.Option("--uncertain", help="Also delete statements older than the records of some node."),
    ] = False,
    subscriptions: Annotated[
        bool,
        typer.Option("--subscriptions", help="Also end all subscriptions: they may hold invented solutions."),
    ] = False,
) -> None:
    """Undo the publications and deletions of an expelled member.

    Deletes the statements that only this member published, and publishes again
    those that it deleted. A statement stays as another member published or deleted
    it. Clients that publish through the expelled member alone lose their statements:
    look at the list first. Rules publish their conclusions again.

    \b
    Examples:
      p2prdf member clean-up 8d2f0c61b7a94e35
      p2prdf member clean-up 8d2f0c61b7a94e35 --apply --subscriptions
    """
    run(_clean_up(member, peer, apply=apply, uncertain=uncertain, subscriptions=subscriptions))


# --- all nodes -----------------------------------------------------------------------------------


async def _addresses(peer: list[str], without: str) -> list[str]:
    """Return the addresses of all nodes except ``without``, which must not be the node that answers."""
    async with connect(peer, reconnect_seconds=0) as client:
        report = await client.status()
    known = {report["key"]: report["address"], **{each["key"]: each["address"] for each in report["peers"]}}
    if report["key"] == without:
        raise LocalProtocolError(f"{report['address']} is node {without} itself: name another node by --peer")
    return [address for key, address in known.items() if key != without]


async def _at_each(addresses: list[str], work: Callable[[p2prdf.Client], Awaitable[Any]]) -> tuple[list[Any], ExitCode]:
    """Run a request at each node; return the results, and the exit code for the nodes that failed."""

    async def at(address: str) -> Any:
        async with connect([address], reconnect_seconds=0) as client:
            return await work(client)

    results, outcome = [], ExitCode.OK
    for address, found in zip(
        addresses, await asyncio.gather(*map(at, addresses), return_exceptions=True), strict=True
    ):
        if isinstance(found, P2PRDFError):
            complain(type(found)(f"{address}: {found}") if type(found) is Unavailable else found)
            outcome = ExitCode.UNAVAILABLE
        elif isinstance(found, BaseException):
            raise found
        else:
            results.append(found)
    return results, outcome


async def _decide(member: str, peer: list[str], *, expelled: bool) -> ExitCode:
    addresses = await _addresses(peer, member)
    results, outcome = await _at_each(addresses, lambda client: client.expel(int(member, 16), expelled=expelled))
    print(f"{'expelled' if expelled else 'readmitted'} {member} at {len(results)} of {len(addresses)} nodes")
    return outcome


async def _list(peer: list[str], *, as_json: bool) -> None:
    from p2prdf_cli.render import write_json
    from p2prdf_cli.terminal import output, table

    async with connect(peer) as client:
        decisions = await client.expel(0)
    if as_json:
        for each in decisions:
            write_json(each, line=True)
        return
    rows = []
    for each in decisions:
        state = "expelled" if each["expelled"] else "readmitted"
        by = "in force" if each["reporters"] is None else f"only reported by {', '.join(each['reporters'])}"
        rows.append((each["member"], state, each["since"], by))
    output().print(table("Expulsions and readmissions", ("Node", "State", "Since", "Known by"), rows))


# --- statements ----------------------------------------------------------------------------------


async def _record(client: p2prdf.Client, member: str) -> tuple[int, list[dict[str, Any]], list[str]]:
    """Return the stamp from which a node's record is complete, and a member's statements and ended subscriptions."""
    found: list[dict[str, Any]] = []
    after: int | None = 0
    since = 0
    while after is not None:
        page = await client.introduced(int(member, 16), after=after)
        found += page["statements"]
        since, after = page["since"], page["next"]
    return since, found, page["ended"]


async def _introduced(member: str, peer: list[str], *, as_json: bool) -> ExitCode:
    from p2prdf_cli.render import write_json

    addresses = await _addresses(peer, member)
    records, outcome = await _at_each(addresses, lambda client: _record(client, member))
    unique = {
        (each["stamp"], each["subject"], each["term"], each["object"], each["deleted"]): each
        for _, record, _ in records
        for each in record
    }
    for key in sorted(unique):
        each = unique[key]
        if as_json:
            write_json({name: value for name, value in each.items() if name != "term"}, line=True)
        else:
            print("-" if each["deleted"] else "+", _spelled(_statement(each)))
    for number in sorted({number for *_, ended in records for number in ended}):
        if as_json:
            write_json({"subscription": number, "ended": True}, line=True)
        else:
            print("ended subscription", number)
    return outcome


def _statement(each: dict[str, Any]) -> Statement:
    return each["subject"], each["predicate"], each["object"], each["graph"], each["term"]


def _spelled(statement: Statement) -> str:
    subject, predicate, object_, graph, _ = statement
    return " ".join(part for part in (subject, predicate, object_, graph, ".") if part)


async def _repairs(addresses: list[str], member: str) -> tuple[list[tuple[Statement, Any]], ExitCode]:
    """Return the repair of each statement that a member introduced at any node."""
    from p2prdf_cli.clean_up import NOTHING, Event, decide

    records, outcome = await _at_each(addresses, lambda client: _record(client, member))
    since = max((begun for begun, *_ in records), default=0)
    statements = sorted({_statement(each) for _, record, _ in records for each in record})
    repairs = []
    for start in range(0, len(statements), _AT_ONCE):
        some = statements[start : start + _AT_ONCE]
        asked = [(each[0], each[4], each[2]) for each in some]
        histories, failed = await _at_each(addresses, lambda client, asked=asked: client.histories(asked))  # type: ignore[misc]
        outcome = outcome or failed
        for place, statement in enumerate(some):
            events = {Event.of(each) for history in histories for each in history[place]}
            repair = decide(events, member, since)
            if repair.action != NOTHING:
                repairs.append((statement, repair))
    return repairs, outcome


async def _clean_up(
    member: str, peer: list[str], *, apply: bool, uncertain: bool, subscriptions: bool
) -> ExitCode:
    from p2prdf_cli.clean_up import DELETE, PUBLISH

    async with connect(peer, reconnect_seconds=0) as client:
        decisions = {each["member"]: each for each in await client.expel(0) if each["reporters"] is None}
    if apply and not decisions.get(member, {}).get("expelled"):
        raise LocalProtocolError(f"node {member} is not expelled: p2prdf member expel {member} comes first")
    addresses = await _addresses(peer, member)
    repairs, outcome = await _repairs(addresses, member)
    if apply and outcome:
        raise Unavailable("nothing was changed: the record of each node counts, and not all nodes answered")
    counts = {DELETE: 0, PUBLISH: 0}
    chosen: dict[str, list[tuple[str, str, str, str | None]]] = {DELETE: [], PUBLISH: []}
    for statement, repair in repairs:
        if repair.uncertain and not uncertain:
            print("uncertain", _spelled(statement))
            continue
        counts[repair.action] += 1
        if not apply:
            print(repair.action, _spelled(statement))
        chosen[repair.action].append((*statement[:3], statement[3] or None))
    ended = 0
    if apply:
        async with connect(peer) as client:
            if chosen[DELETE]:
                await client.retract(chosen[DELETE])
            if chosen[PUBLISH]:
                await client.publish(chosen[PUBLISH])
        if subscriptions:
            found, outcome = await _at_each(addresses, _end_all)
            ended = sum(found)
    done = "" if apply else "to be "
    told = f"{counts[DELETE]} statements {done}deleted, {counts[PUBLISH]} {done}published again"
    print(f"{told}, {ended} subscriptions ended")
    return outcome


async def _end_all(client: p2prdf.Client) -> int:
    """End all subscriptions that a node coordinates."""
    ended = 0
    async for number in _numbers(client):
        await client.unsubscribe(number)
        ended += 1
    return ended


async def _numbers(client: p2prdf.Client) -> AsyncIterator[int]:
    after, more = 0, True
    while more:
        page = await client.subscriptions(after=after)
        for each in page["subscriptions"]:
            after = int(each["number"], 16)
            yield after
        more = bool(page["more"]) and bool(page["subscriptions"])
