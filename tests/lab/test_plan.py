"""``p2prdf experiment plan``: query files and a sample in, a plan as tables, document and figure out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from p2prdf.errors import QueryRefused
from p2prdf_cli.app import app
from p2prdf_lab.commands.queries import read_queries

KNOWS = "SELECT ?who ?name WHERE { ?who <urn:knows> ?x . ?x <urn:name> ?name }"
NAMES = "SELECT ?name WHERE { ?x <urn:name> ?name }"
DATA = "".join(
    f'<urn:a{at % 40}> <urn:knows> <urn:a{at * 7 % 40}> .\n<urn:a{at}> <urn:name> "{at}" .\n' for at in range(200)
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "data.nt").write_text(DATA)
    (tmp_path / "data.nt.gz").write_bytes(gzip.compress(DATA.encode()))
    (tmp_path / "both.rq").write_text(f"{KNOWS}\n----\n{NAMES}\n")
    (tmp_path / "both.json").write_text(json.dumps([KNOWS, {"name": "names", "query": NAMES}]))
    return tmp_path


def _plan(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["experiment", "plan", *map(str, arguments)], terminal_width=100)


def _words(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_people_get_loads_messages_memory_keys_growth_and_a_verdict(files: Path) -> None:
    outcome = _plan("--peers", 7, "--file", files / "both.rq", "--data", files / "data.nt", "--batch", 20)
    assert outcome.exit_code == 0, outcome.output
    text = _words(outcome.stdout)
    for words in (
        "Capacity of 7 peers", "2 queries, CSBV, indexed under", "all 400 triples of", "Load per peer",
        "Messages between peers", "real frames", "Memory of the fullest and of the median peer", "Busiest keys",
        "p <urn:name> 200", "Growth with", "This overlay carries the stream", "More peers",
    ):  # fmt: skip
        assert words in text
    assert max(map(len, outcome.stdout.splitlines())) <= 100


def test_eighty_columns_are_enough_for_every_number(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ("--peers", 7, "--file", files / "both.rq", "--data", files / "data.nt", "--rate", 123_456_789)
    shown, document = _plan(*arguments), json.loads(_plan(*arguments, "--json", "-").stdout)
    words = set(shown.stdout.split())
    for each in document["traffic"]:
        assert {f"{each['messages_per_triple']:.4f}", f"{each['bytes_per_triple']:,.1f}"} <= words
        assert f"{each['messages_per_triple'] * 123_456_789:,.0f}" in words
    for held in document["memory"].values():
        assert {f"{held['terms']:,}", f"{held['triples']:,}"} <= words
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_the_document_and_the_figure_are_of_the_same_plan(files: Path) -> None:
    outcome = _plan(
        "--peers", 7, "--file", files / "both.json", "--data", files / "data.nt.gz", "--batch", 20, "--rate", 100,
        "--hours", 0.005, "--algorithm", "cqc", "--json", "-", "--plot", files / "plan.svg",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    document = json.loads(outcome.stdout)
    assert document["options"]["peers"] == 7
    assert document["sample"]["triples"] == 400
    assert document["verdict"].startswith("This overlay")
    assert document["after_hours"]["times_the_sample"] == 4.5
    assert {each["kind"] for each in document["traffic"]} >= {"index", "forward", "answers"}
    assert document["busiest_with_csbv"] > 0
    assert document["memory"]["fullest"]["bytes"] > document["memory"]["median"]["bytes"] > 0
    assert (files / "plan.svg").read_text().startswith("<?xml")


def test_a_cut_sample_is_reported(files: Path) -> None:
    outcome = _plan("--peers", 3, "--file", files / "both.rq", "--data", files / "data.nt", "--triples-max", 100)
    assert "the first 100 triples of" in _words(outcome.stdout)
    outcome = _plan(
        "--peers", 3, "--file", files / "both.rq", "--data", files / "data.nt", "--hours", 0.0001, "--rate", 500
    )
    assert "at this rate no more come in 0.0001 hours" in _words(outcome.stdout)


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        (("--rate", 0), 2, "rate: 0.0"),
        (("--publishers", 8), 2, "publishers: 8"),
        (("--node-memory", 0), 2, "memory"),
        (("--peers", 0), 2, "--peers"),
        (("--plot", "plan.bmp"), 2, "plan.bmp"),
        (("--json", "nowhere/plan.json"), 1, "nowhere/plan.json: there is no such folder"),
        (("--file", "none.rq"), 1, "none.rq: No such file"),
        (("--data", "none.nt"), 1, "none.nt: No such file"),
        (("--data", "data.xls"), 4, "data.xls: the name has no known suffix"),
        (("--data", "bad.nt"), 4, "bad.nt:2: "),
        (("--data", "empty.nt"), 4, "empty.nt: there is no triple in it"),
        (("--file", "wild.rq"), 4, "pattern ?v0 ?v1 ?v2: wild.rq: the planner cannot reckon with"),
    ],
)
def test_bad_input_is_refused_by_name(
    files: Path, options: tuple, code: int, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    (files / "bad.nt").write_text("<urn:a> <urn:b> <urn:c> .\n<urn:a> nonsense\n")
    (files / "empty.nt").write_text("# nothing\n")
    (files / "data.xls").write_text("")
    (files / "wild.rq").write_text("SELECT * WHERE { ?s ?p ?o }")
    given = {"--peers": 7, "--file": "both.rq", "--data": "data.nt"} | {options[0]: options[1]}
    outcome = _plan(*(part for pair in given.items() for part in pair))
    assert outcome.exit_code == code, outcome.output
    assert named in _words(outcome.stderr)
    assert outcome.stdout == ""


# --- query files ---------------------------------------------------------------------------------


def test_one_file_holds_one_query_or_several(files: Path) -> None:
    (files / "one.rq").write_text(KNOWS)
    names = [each.name for each in read_queries([files / "one.rq", files / "both.rq", files / "both.json"])]
    assert names == [
        f"{files}/one.rq", f"{files}/both.rq, query 1", f"{files}/both.rq, query 2", f"{files}/both.json, query 1",
        f"{files}/both.json, query names",
    ]  # fmt: skip
    queries = [each.query for each in read_queries([files / "both.rq"])]
    assert queries == [each.query for each in read_queries([files / "both.json"])]


def test_a_separator_is_a_line_of_its_own(files: Path) -> None:
    (files / "dashes.rq").write_text(f'SELECT ?s WHERE {{ ?s <urn:p> "a ---- b" }} # ----\n----  \n\n{NAMES}\n----\n')
    assert len(read_queries([files / "dashes.rq"])) == 2


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("two.rq", f"{NAMES}\n----\n\nSELECT ?s WHERE {{ OPTIONAL {{ ?s ?p 1 }} }}", "two.rq, query 2.* at line 4"),
        ("no.rq", " \n----\n", "no.rq has no query"),
        ("raw.rq", b"\xff", "raw.rq is not UTF-8"),
        ("no.json", "[1", "no.json: not JSON.* at line 1"),
        ("object.json", "{}", "object.json: not a JSON list of queries"),
        ("empty.json", "[]", "empty.json: not a JSON list of queries"),
        ("item.json", f'["{NAMES}", 1]', "item.json, item 2: neither a query text"),
        ("bad.json", '["SELECT"]', "bad.json, query 1"),
    ],
)
def test_query_files_are_refused_with_their_name_and_line(
    tmp_path: Path, name: str, content: str | bytes, named: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(QueryRefused, match=named):
        read_queries([tmp_path / name])
