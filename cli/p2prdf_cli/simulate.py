"""``p2prdf simulate``: the same node code, any number of peers, in virtual time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from p2prdf.errors import QueryRefused
from p2prdf_cli.exits import EXIT_CODES_HELP, run_plain
from p2prdf_cli.options import AlgorithmName, Json

if TYPE_CHECKING:
    from p2prdf.rdf.algebra import StandingQuery
    from p2prdf.rdf.query import ConjunctiveQuery
    from p2prdf.sim.events import Event, Run

__all__ = ["register"]

ROWS_SHOWN_MAX: Final = 20
"""Rows of one query that people are shown; ``--json`` writes them all."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(simulate)


def simulate(
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="A SPARQL query: SELECT.")] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", metavar="FILE", help="File with a query; repeatable."),
    ] = None,
    peers: Annotated[int, typer.Option(min=1, max=100_000, help="Number of simulated peers.")] = 7,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal runs.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(metavar="D.nt", help="RDF file (.nt, .nq, .ttl, .trig, .rdf, also .gz): statement n at time n."),
    ] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="E.tsv", help="Lines of: time TAB A or D TAB N-Quads statement.")
    ] = None,
    subscribe_at: Annotated[
        float | None, typer.Option(metavar="TIME", help="Time of the subscription; earlier events do not count.")
    ] = None,
    until: Annotated[float | None, typer.Option(metavar="TIME", help="Last time of events.")] = None,
    algorithm: Annotated[AlgorithmName, typer.Option(help="Join algorithm.")] = AlgorithmName.csbv,
    per_event: Annotated[
        bool, typer.Option("--per-event", help="Answer events: a repeated triple gives a new solution.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run queries over data in a simulated cluster; print their solutions.

    The peers run the code of real nodes; time and network are simulated. Windows
    over streams and rules are refused. With --json one query gives a SPARQL 1.1 JSON
    results document with a member "simulation"; several give {"queries": [...],
    "simulation": {...}}.

    \b
    Examples:
      p2prdf simulate -f q.rq --data airports.nt --peers 200 --algorithm cqc
      p2prdf simulate -f a.rq -f b.rq --events e.tsv --subscribe-at 10 --json
    """
    if (data is None) == (events is None):
        raise typer.BadParameter("give the data either with --data or with --events")
    source = data or events
    assert source is not None

    def action() -> None:
        from p2prdf.rdf.query import Algorithm
        from p2prdf.sim.events import parse_events, run_events

        given = _given(query, file)
        parsed = [_parsed(name, text) for name, text in given]
        with source.open("rb") as stream:
            timed = list(_from_data(source, stream)) if events is None else parse_events(stream, source=str(source))
        run = run_events(
            peers, seed, parsed, timed, subscribe_at, until, Algorithm(algorithm.value), per_event
        )  # fmt: skip
        _write_json(run, given) if as_json else _write(run, given)

    run_plain(action)


def _given(query: str | None, files: list[Path] | None) -> list[tuple[str, str]]:
    """Return name and text of each query."""
    from p2prdf_cli.query_text import read_query

    if files is None or query is not None:
        return [("query", read_query(query, files[0] if files else None))]
    return [(str(file), read_query(None, file)) for file in files]


def _parsed(name: str, text: str) -> ConjunctiveQuery | StandingQuery:
    from p2prdf.rdf import algebra
    from p2prdf.rdf.standing.query import parse_query

    try:
        standing = None if _RULES.match(text) else parse_query(text)
    except QueryRefused as error:
        raise QueryRefused(
            f"{name}: {error.reason}", construct=error.construct, line=error.line, column=error.column
        ) from None
    if standing is None:
        raise QueryRefused(f"{name}: simulate takes queries, and no rules", construct="rules")
    if any(isinstance(each, algebra.Report) for each in standing.operators):
        reason = f"{name}: simulate publishes triples at rest, and no elements of streams: ask without windows"
        raise QueryRefused(reason, construct="window")
    conjunctive = standing.conjunctive
    return standing if conjunctive is None or conjunctive.distinct else conjunctive


_RULES: Final = re.compile(r"(?i)(?:\s|#[^\n]*\n|(?:prefix\s+\S+|base)\s+<[^>]*>)*+(?:rules|insert)\b")
"""Rules before a query, and a rule itself."""


def _from_data(file: Path, stream: IO[bytes]) -> Iterator[Event]:
    from p2prdf.rdf.ntriples import detect, read_triples
    from p2prdf.sim.events import Event, quads_of

    syntax, compressed = detect(file.name)
    number = 0
    for batch in read_triples(
        stream, publication_id="data", syntax=syntax, compressed=compressed, source=str(file), strict=True
    ):
        for s, p, o, graph in quads_of(batch):
            number += 1
            yield Event(float(number), (s, p, o), graph)


# --- output --------------------------------------------------------------------------------------


def _write_json(run: Run, queries: list[tuple[str, str]]) -> None:
    from p2prdf_cli.render import write_json

    documents = [result.document() for result in run.results]
    summary = run.as_dict()
    del summary["results"]
    summary["queries"] = [
        {"query": name, "answers": len(result.rows), "order": list(result.order)}
        for (name, _), result in zip(queries, run.results, strict=True)
    ]
    if len(documents) == 1:
        write_json({**documents[0], "simulation": summary})
    else:
        write_json({"queries": documents, "simulation": summary})


def _write(run: Run, queries: list[tuple[str, str]]) -> None:
    from p2prdf_cli.query_text import declared_prefixes
    from p2prdf_cli.render import printable, short_term
    from p2prdf_cli.terminal import output, table

    console = output()
    for (name, text), result in zip(queries, run.results, strict=True):
        prefixes = declared_prefixes(text)
        rows = [
            [printable(short_term(term, prefixes)) if term else "" for term in row]
            for row in sorted(result.rows)[:ROWS_SHOWN_MAX]
        ]
        if result.asks:
            console.print(f"{name}: {'yes' if result.rows else 'no'}")
            continue
        console.print(table(f"{name}: {len(result.rows):,} answers", [f"?{n}" for n in result.names], rows))
        if len(result.rows) > ROWS_SHOWN_MAX:
            console.print(f"... and {len(result.rows) - ROWS_SHOWN_MAX:,} more (--json writes all)")
    counts, load = run.counts, run.load
    totals: list[tuple[str, object]] = [
        ("events published", run.events),
        ("hops", counts.hops),
        ("hops per event", counts.hops / max(1, run.events)),
        ("hops without acknowledgements and lookup replies", counts.hops_without_replies),
        ("query processing load (QPL), sum", sum(load.processing_load)),
        ("query processing load (QPL), busiest peer", max(load.processing_load)),
        ("storage load (SL), sum", sum(load.storage_load)),
        ("storage load (SL), fullest peer", max(load.storage_load)),
    ]
    console.print(table("Simulation", ["", "count"], totals))
    console.print(table("Messages between peers", ["message", "transfers"], counts.messages.most_common()))
