"""Results of one-time queries as text, and refusals before any node is asked."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p2prdf.client import Result
from p2prdf.rdf.algebra import Form
from p2prdf.rdf.graph_formats import GraphFormat
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.result_formats import Format
from p2prdf_cli.app import app
from p2prdf_cli.query import _write_whole, write_result

ROWS: list[tuple[str | None, ...]] = [("<urn:e:a>", '"two\\nlines"'), ("<urn:e:b>", None)]


def _written(form: Form, chosen: Format, names: Sequence[str], rows: list[tuple[str | None, ...]]) -> str:
    out = io.StringIO(newline="")
    write_result(Result(tuple(names), rows, 0.0), form, chosen, out.write, {"e": "urn:e:"})
    return out.getvalue()


def test_machines_get_text_that_reads_back_and_people_short_names() -> None:
    written = {each: _written(Form.SELECT, each, ("s", "o"), ROWS) for each in Format if each is not Format.N_TRIPLES}
    assert [*csv.reader(io.StringIO(written[Format.CSV], newline=""))] == [
        ["s", "o"], ["urn:e:a", "two\nlines"], ["urn:e:b", ""],
    ]  # fmt: skip
    assert written[Format.TSV] == '?s\t?o\n<urn:e:a>\t"two\\nlines"\n<urn:e:b>\t\n'
    assert json.loads(written[Format.JSON])["results"]["bindings"][1] == {"s": {"type": "uri", "value": "urn:e:b"}}
    assert "two\nlines</literal>" in written[Format.XML]
    assert written[Format.TABLE].splitlines()[2:] == ["e:a  two\\nlines", "e:b", "(2 rows)"]


@pytest.mark.parametrize(("rows", "told"), [([()], "true"), ([], "false")])
def test_an_ask_query_is_answered_true_or_false(rows: list[tuple[str | None, ...]], told: str) -> None:
    for chosen in (Format.TABLE, Format.TSV, Format.CSV):
        assert _written(Form.ASK, chosen, (), rows).strip() == told
    assert json.loads(_written(Form.ASK, Format.JSON, (), rows))["boolean"] is (told == "true")


def test_a_select_without_columns_is_no_ask() -> None:
    assert json.loads(_written(Form.SELECT, Format.JSON, (), [()])) == {
        "head": {"vars": []}, "results": {"bindings": [{}]},
    }  # fmt: skip


def test_constructed_triples_are_n_triples_in_a_pipe() -> None:
    names = ("subject", "predicate", "object")
    rows: list[tuple[str | None, ...]] = [("<urn:a>", "<urn:p>", '"x"@en')]
    assert _written(Form.CONSTRUCT, Format.N_TRIPLES, names, rows) == '<urn:a> <urn:p> "x"@en .\n'


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((), 2, "either as an argument or with --file"),
        (("ASK { ?s ?p <urn:o> }", "--format", "csv", "--json"), 2, "--json is --format json"),
        (("ASK { ?s ?p <urn:o> }", "--timeout", "0"), 2, "--timeout"),
        (("ASK { ?s ?p <urn:o> }", "--format", "arrow"), 4, "error [query-refused]: ASK: format arrow is for tables"),
        (("ASK { ?s ?p <urn:o> }", "--format", "nt"), 4, "ASK: format nt is for CONSTRUCT and DESCRIBE"),
        (("SELECT ?s\nWHERE { ?s <urn:p> ?o", "--json"), 4, "line 2, column 7"),
        (("ASK { ?s none:such ?o }",), 4, "none:"),
        (("-f", "none.rq"), 1, "none.rq"),
        (("ASK { ?s ?p <urn:o> }",), 3, "error [unavailable]: 127.0.0.1:1: "),
    ],
)
def test_an_unanswerable_query_ends_with_the_reason(
    arguments: tuple[str, ...], code: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, ["query", *arguments], env={"P2PRDF_PEER": "127.0.0.1:1", "COLUMNS": "200"})
    assert (outcome.exit_code, outcome.stdout) == (code, "")
    assert told in outcome.stderr


@pytest.mark.parametrize("wanted", [GraphFormat.RDF_XML, GraphFormat.JSON_LD, GraphFormat.JELLY])
def test_a_graph_is_written_as_bytes(wanted: GraphFormat, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    if wanted is GraphFormat.JELLY:
        pytest.importorskip("pyjelly", reason="pyjelly is not installed (extra jelly)")
    _write_whole(Result(("subject", "predicate", "object"), [("<urn:a>", "<urn:p>", '"x"@en')], 0.0), wanted.value)
    written = capfdbinary.readouterr().out
    batches = list(read_triples(io.BytesIO(written), publication_id="p", syntax=Syntax(wanted.value), strict=True))
    assert [(each.s, each.p, each.o) for each in batches] == [(["<urn:a>"], ["<urn:p>"], ['"x"@en'])]
