"""``p2prdf rules``: named rules stored in the overlay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from p2prdf_cli.commands import Commands
from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.options import PEER_DEFAULT, TIMEOUT_DEFAULT, Json, Peer, Timeout
from p2prdf_cli.rule_files import Ontologies, Profile, ProfileName, RuleFiles, read_rules

__all__ = ["register"]

_HELP: Final = """Keep named rules in the cluster, for queries with inference.

\b
Examples:
  p2prdf rules add urn:places --rules places.rules
  p2prdf rules list
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="IRI of the rules.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands = Commands(help=_HELP)
    commands.command("add", epilog=EXIT_CODES_HELP)(add)
    commands.command("list", epilog=EXIT_CODES_HELP)(list_)
    commands.command("remove", epilog=EXIT_CODES_HELP)(remove)
    app.add_typer(commands, name="rules")


def add(
    name: Name,
    files: RuleFiles = None,
    ontology: Ontologies = None,
    profile: ProfileName = Profile.owl_rl,
    peer: Peer = PEER_DEFAULT,
    as_json: Json = False,
) -> None:
    """Add rules to a name.

    Queries use them with --rules NAME. Rules are triples of the graph
    <urn:p2prdf:rules>. Statements of an ontology about individuals are no rules:
    publish the file as well.

    \b
    Examples:
      p2prdf rules add urn:places --rules places.rules
      p2prdf rules add urn:univ-bench --ontology univ-bench.owl
      p2prdf subscribe --rules urn:places 'SELECT ?x { ?x <urn:isIn> <urn:Rome> }'
    """
    if not files and not ontology:
        raise typer.BadParameter("give rules, by --rules or --ontology")
    run(_add(name, files or [], ontology or [], profile.value, peer, as_json=as_json))


async def _add(
    name: str, files: list[Path], ontologies: list[str], profile: str, peer: list[str], *, as_json: bool
) -> None:  # fmt: skip
    from p2prdf.rdf import terms
    from p2prdf_cli.render import reconnections_reported

    read = read_rules(files, ontologies, profile)
    if read.facts:
        print(f"p2prdf: {len(read.facts)} triples are no rules: publish the ontology as well", file=sys.stderr)
    with reconnections_reported():
        async with connect(peer) as client:
            count = await client.add_rules(terms.iri(name), read.rules)
    _report({"added": count}, f"{count:,} rules stored as {name}", as_json=as_json)


def list_(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="IRI of the rules. (default: all)")] = None,
    peer: Peer = PEER_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT,
    as_json: Json = False,
) -> None:
    """Write the rules, by name.

    \b
    Examples:
      p2prdf rules list
      p2prdf rules list urn:places > places.rules
    """
    run(_list(name, peer, timeout, as_json=as_json))


async def _list(name: str | None, peer: list[str], timeout: float, *, as_json: bool) -> None:
    from p2prdf.rdf import terms
    from p2prdf.reasoning import write_rules
    from p2prdf_cli.render import reconnections_reported, write_json

    with reconnections_reported():
        async with connect(peer) as client:
            kept = await client.rules(timeout_seconds=timeout)
    if name is not None:
        kept = {terms.iri(name): kept.get(terms.iri(name), ())}
    if as_json:
        write_json({each[1:-1]: list(map(str, rules)) for each, rules in kept.items()}, line=True)
        return
    for each, rules in kept.items():
        print(f"# {each}\n{write_rules(rules)}", end="", flush=True)


def remove(name: Name, peer: Peer = PEER_DEFAULT, timeout: Timeout = TIMEOUT_DEFAULT, as_json: Json = False) -> None:
    """Remove the rules of a name; present subscriptions keep them.

    \b
    Examples:
      p2prdf rules remove urn:places
    """
    run(_remove(name, peer, timeout, as_json=as_json))


async def _remove(name: str, peer: list[str], timeout: float, *, as_json: bool) -> None:
    from p2prdf.rdf import terms
    from p2prdf_cli.render import reconnections_reported

    with reconnections_reported():
        async with connect(peer) as client:
            count = await client.remove_rules(terms.iri(name), timeout_seconds=timeout)
    _report({"removed": count}, f"{count:,} rules removed", as_json=as_json)


def _report(told: dict[str, int], text: str, *, as_json: bool) -> None:
    from p2prdf_cli.render import write_json

    if as_json:
        write_json(told, line=True)
    else:
        print(text, flush=True)
