"""``p2prdf derive``: a named graph kept equal to the result of a CONSTRUCT query or of rules."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.options import (
    PEER_DEFAULT,
    TIMEOUT_DEFAULT,
    Algorithm,
    AlgorithmName,
    Json,
    Peer,
    PrefixFile,
    QueryFile,
    Timeout,
    with_options,
)
from p2prdf_cli.rule_files import Ontologies, Profile, ProfileName, RuleFiles, read_rules

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from p2prdf.client import Client, Derived

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(derive)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    graph: Annotated[str, typer.Option(metavar="IRI", help="The derived graph; p2prdf alone writes to it.")]
    query: Annotated[str | None, typer.Argument(metavar="QUERY", help="A SPARQL query: CONSTRUCT.")] = None
    peer: Peer = field(default_factory=PEER_DEFAULT.copy)
    file: QueryFile = None
    prefix_file: PrefixFile = None
    rules: RuleFiles = None
    ontology: Ontologies = None
    profile: ProfileName = Profile.owl_rl
    in_network: Annotated[bool, typer.Option("--in-network", help="Let the nodes evaluate the rules.")] = False
    settled: Annotated[
        bool | None,
        typer.Option(
            "--settled/--immediate",
            help="Let the graph hold only results that were true together, or follow at once.", show_default=False,
        ),
    ] = None
    once: Annotated[bool, typer.Option("--once", help="Stop when the graph is up to date.")] = False
    remove: Annotated[bool, typer.Option("--remove", help="Empty and unregister the derived graph.")] = False
    algorithm: Algorithm = AlgorithmName.csbv
    timeout: Timeout = TIMEOUT_DEFAULT
    as_json: Json = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        by_rules, by_query = bool(self.rules or self.ontology), self.query is not None or self.file is not None
        if self.remove and (by_query or by_rules or self.once):
            raise typer.BadParameter("--remove goes without a query, rules and --once")
        if self.in_network and (not by_rules or self.once):
            raise typer.BadParameter("--in-network goes with rules, and without --once")
        if self.settled is not None and (self.in_network or self.remove):
            raise typer.BadParameter("--settled and --immediate go with a query or rules that this process evaluates")
        if by_rules and (by_query or self.prefix_file is not None):
            raise typer.BadParameter("give either a query or --rules and --ontology")


@with_options(_Options)
def derive(options: _Options) -> None:
    """Keep a named graph equal to the result of a CONSTRUCT query or of rules.

    Runs until stopped; a restart compares the graph with the result first. A query
    that reads its own graph, directly or by other derived graphs, is refused.
    With rules the graph holds the derived facts that are not in the default graph.
    With --in-network the nodes evaluate the rules: the graph then holds all facts of
    the derived predicates, and is emptied when the last user of the rules ends.

    \b
    Examples:
      p2prdf derive --graph urn:near 'CONSTRUCT { ?a <urn:near> ?c } { ?a <urn:next>/<urn:next> ?c }'
      p2prdf subscribe 'SELECT * WHERE { GRAPH <urn:near> { ?a ?p ?c } }'
      p2prdf derive --graph urn:inferred --rules places.rules --ontology places.owl
      p2prdf derive --graph urn:places --rules places.rules --in-network
      p2prdf derive --graph urn:near --remove
    """
    run(_conclude(options) if options.in_network else _derive(options))


async def _derive(options: _Options) -> None:
    from p2prdf.rdf import terms
    from p2prdf_cli.render import reconnections_reported

    graph = terms.iri(options.graph)
    begin = None if options.remove else _derivation(options, graph)
    with reconnections_reported():
        async with connect(options.peer) as client:
            if begin is None:
                count = await client.drop_derived(graph, timeout_seconds=options.timeout)
                _report({"removed": count}, f"{count:,} deleted", as_json=options.as_json)
            else:
                await _keep(begin(client), options)


async def _conclude(options: _Options) -> None:
    from p2prdf.rdf import terms
    from p2prdf_cli.render import reconnections_reported

    graph = terms.iri(options.graph)
    rules, facts, _ = read_rules(options.rules or [], options.ontology or [], options.profile.value)
    if facts:
        reason = f"the ontology has {len(facts)} statements about individuals: publish them separately"
        raise typer.BadParameter(reason)
    with reconnections_reported():
        async with (
            connect(options.peer) as client,
            client.conclude(rules, graph, timeout_seconds=options.timeout) as concluding,
        ):
            _report({"rules": concluding.rules}, f"{concluding.rules:,} rules in use", as_json=options.as_json)
            await concluding.watch()


def _derivation(options: _Options, graph: str) -> Callable[[Client], AsyncGenerator[Derived, None]]:
    """Return a function that begins the derivation, after all inputs have been read and validated."""
    from p2prdf_cli.query_text import prefixes_of, read_query, with_prefixes

    algorithm, timeout = options.algorithm.value, options.timeout
    if options.rules or options.ontology:
        rules, facts, unsaid = read_rules(options.rules or [], options.ontology or [], options.profile.value)
        return lambda client: client.derive_by_rules(
            rules, graph, facts=facts, unsaid=unsaid, algorithm=algorithm, timeout_seconds=timeout,
            settled=options.settled,
        )  # fmt: skip
    query = with_prefixes(read_query(options.query, options.file), prefixes_of(options.prefix_file))
    return lambda client: client.derive(
        query, graph, algorithm=algorithm, timeout_seconds=timeout, settled=options.settled
    )


async def _keep(derivation: AsyncGenerator[Derived, None], options: _Options) -> None:
    first = True
    async with contextlib.aclosing(derivation) as steps:
        async for step in steps:
            if first or step.added or step.removed:
                _report_step(step, as_json=options.as_json)
            first = False
            if options.once:
                return


def _report_step(step: Derived, *, as_json: bool) -> None:
    told = {"added": step.added, "removed": step.removed, "as_of": step.as_of}
    _report(told, f"{step.added:,} published, {step.removed:,} deleted", as_json=as_json)


def _report(told: dict[str, float], text: str, *, as_json: bool) -> None:
    from p2prdf_cli.render import write_json

    if as_json:
        write_json(told, line=True)
    else:
        print(text, flush=True)
