"""``p2prdf query``: answer a query once, and write the result in a standard format."""

from __future__ import annotations

import enum
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p2prdf_cli.connecting import connect
from p2prdf_cli.exits import EXIT_CODES_HELP, run
from p2prdf_cli.loading import endpoints_of
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
from p2prdf_cli.rule_files import RulesWanted, rules_wanted

if TYPE_CHECKING:
    from p2prdf.client import Result
    from p2prdf.rdf.algebra import Form
    from p2prdf.rdf.result_formats import Format

__all__ = ["register", "write_result"]


class FormatName(enum.StrEnum):
    """Output formats, of p2prdf.rdf (``result_formats``, ``graph_formats``) and ``p2prdf.client.tables``."""

    table = "table"
    json = "json"
    csv = "csv"
    tsv = "tsv"
    xml = "xml"
    nt = "nt"
    rdf = "rdf"
    jsonld = "jsonld"
    jelly = "jelly"
    arrow = "arrow"
    parquet = "parquet"


_WHOLE: Final = (FormatName.rdf, FormatName.jsonld, FormatName.jelly)
"""Formats of graphs that are written as a whole."""
_GRAPHS: Final = (FormatName.nt, *_WHOLE)
"""Formats for CONSTRUCT only."""
_BINARY: Final = (FormatName.arrow, FormatName.parquet)
"""Formats of tables, not of ASK."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXIT_CODES_HELP)(query)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="A SPARQL query: SELECT, ASK, CONSTRUCT or DESCRIBE.")
    ] = None
    peer: Peer = field(default_factory=PEER_DEFAULT.copy)
    file: QueryFile = None
    prefix_file: PrefixFile = None
    rules: RulesWanted = None
    format: Annotated[
        FormatName | None,
        typer.Option(
            "--format",
            help="Output format; nt, rdf, jsonld and jelly are for graphs. (default: table, in a pipe tsv or nt)",
        ),
    ] = None
    symmetric: Annotated[
        bool, typer.Option("--symmetric", help="DESCRIBE writes triples with the resource as object, too.")
    ] = False
    algorithm: Algorithm = AlgorithmName.csbv
    service_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:PORT]", help="Permitted hosts of SERVICE; repeatable. (default: none)"),
    ] = None
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Permit private and loopback addresses of these hosts.")
    ] = False
    timeout: Timeout = TIMEOUT_DEFAULT
    stamp: Annotated[
        bool, typer.Option("--stamp", help="Report the stamp of the result, for update --if-unchanged.")
    ] = False
    as_json: Json = False


@with_options(_Options)
def query(options: _Options) -> None:
    """Answer a query once, over all triples that are published and not deleted.

    All publications count that were acknowledged before, at any node. Nodes with
    --indexes on-demand refuse queries. ASK writes true or false, with exit code 0.

    \b
    Examples:
      p2prdf query 'SELECT ?s ?o WHERE { ?s <urn:p> ?o }'
      p2prdf query -f query.rq --prefix-file prefixes.ttl --format csv > result.csv
      p2prdf query -f federated.rq --service-from sparql.example.org
      p2prdf query 'CONSTRUCT { ?a <urn:near> ?b } WHERE { ?a <urn:next>+ ?b }' > near.nt
      p2prdf query --symmetric 'DESCRIBE <urn:a>'
      p2prdf query -f query.rq --format parquet > result.parquet
    """
    if options.as_json and options.format not in (None, FormatName.json):
        raise typer.BadParameter(f"--json is --format json, not {options.format}")
    if options.format in _BINARY and sys.stdout.isatty():
        raise typer.BadParameter(f"--format {options.format} is binary: redirect the output, > result.{options.format}")
    run(_query(options))


async def _query(options: _Options) -> None:
    from p2prdf.client.tables import TableFormat, check_available, encoded
    from p2prdf.errors import QueryRefused
    from p2prdf.rdf.algebra import Form
    from p2prdf.rdf.federation import without_services
    from p2prdf.rdf.result_formats import Format
    from p2prdf.reasoning.ruled_query import result_form
    from p2prdf_cli.query_text import declared_prefixes, prefixes_of, read_query, with_prefixes
    from p2prdf_cli.render import reconnections_reported, remark

    given, rules = prefixes_of(options.prefix_file), rules_wanted(options.rules)
    text = with_prefixes(read_query(options.query, options.file), given)
    endpoints = endpoints_of(options.service_from or (), private=options.allow_private)
    form = result_form(text if endpoints is None else without_services(text))
    named = FormatName.json if options.as_json else options.format
    if named in _GRAPHS and form is not Form.CONSTRUCT:
        reason = f"format {named} is for CONSTRUCT and DESCRIBE; choose another --format"
        raise QueryRefused(reason, construct=form.name)
    if named in _BINARY:
        if form is Form.ASK:
            raise QueryRefused(f"format {named} is for tables; choose another --format", construct=form.name)
        check_available()
    with reconnections_reported():
        async with connect(options.peer) as client:
            result = await client.query(
                text, algorithm=options.algorithm.value, timeout_seconds=options.timeout, rules=rules,
                symmetric=options.symmetric, endpoints=endpoints,
            )  # fmt: skip
    if options.stamp:
        remark(f"as of stamp {result.stamp}")
    if named in _WHOLE:
        _write_whole(result, named.value)
        return
    if named in _BINARY:
        sys.stdout.buffer.write(encoded(result.to_arrow(), TableFormat(named.value)))
        return
    chosen = _default_format(form) if named is None else Format(named.value)
    write_result(result, form, chosen, _prepared(chosen), given | declared_prefixes(text))


def _default_format(form: Form) -> Format:
    from p2prdf.rdf.algebra import Form
    from p2prdf.rdf.result_formats import Format

    if sys.stdout.isatty():
        return Format.TABLE
    return Format.N_TRIPLES if form is Form.CONSTRUCT else Format.TSV


def _write_whole(result: Result, wanted: str) -> None:
    """Write a graph as bytes to standard output.  Raises DataRefused for a term that the format cannot hold."""
    from p2prdf.rdf.graph_formats import GraphFormat, respelled
    from p2prdf.rdf.result_formats import Format, writer

    lines = io.StringIO()
    writer(Format.N_TRIPLES, result.names, lines.write).rows(result.rows)
    sys.stdout.buffer.write(respelled(lines.getvalue(), GraphFormat(wanted)))
    sys.stdout.buffer.flush()


def _prepared(chosen: Format) -> Callable[[str], object]:
    """Prepare standard output and return its write method: unchanged line ends; UTF-8 except for tables."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        if chosen.value == "table":
            stream.reconfigure(newline="", errors="backslashreplace")
        else:
            stream.reconfigure(newline="", encoding="utf-8")
    return stream.write


def write_result(
    result: Result, form: Form, chosen: Format, write: Callable[[str], object], prefixes: dict[str, str]
) -> None:
    """Write a whole result; ``prefixes`` shorten IRIs in tables.

    Raises LocalProtocolError for a query form that the format lacks, DataRefused for a term that it cannot hold.
    """
    from p2prdf.rdf.algebra import Form
    from p2prdf.rdf.result_formats import boolean, writer
    from p2prdf_cli.render import short_term

    if form is Form.ASK:
        write(boolean(chosen, bool(result)))
        return
    out = writer(chosen, result.names, write, show=lambda term: short_term(term, prefixes))
    out.rows(result.rows)
    out.end()
