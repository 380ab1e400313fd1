"""``p2prdf simulate``: files in, SPARQL results and counts out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from p2prdf_cli.app import app

DATA = """<urn:a> <urn:knows> <urn:b> .
<urn:b> <urn:name> "Bea" .
<urn:a> <urn:knows> <urn:c> .
<urn:c> <urn:name> "Cy" .
"""
PATH = "SELECT ?who ?name WHERE { ?who <urn:knows> ?x . ?x <urn:name> ?name }"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "data.nt").write_text(DATA)
    (tmp_path / "path.rq").write_text(PATH)
    (tmp_path / "names.rq").write_text("SELECT ?name WHERE { ?x <urn:name> ?name }")
    (tmp_path / "events.tsv").write_text(
        "".join(f"{time}\tA\t{line}\n" for time, line in enumerate(DATA.splitlines(), 10))
    )
    return tmp_path


def _simulate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)], terminal_width=120)


def _names(document: dict) -> list[str]:
    return sorted(row["name"]["value"] for row in document["results"]["bindings"])


@pytest.mark.parametrize("algorithm", ["csbv", "cqc"])
@pytest.mark.parametrize("peers", [1, 7, 64])
def test_one_query_gives_a_sparql_results_document(files: Path, algorithm: str, peers: int) -> None:
    outcome = _simulate(
        "--file", files / "path.rq", "--data", files / "data.nt", "--algorithm", algorithm, "--peers", peers, "--json"
    )
    assert outcome.exit_code == 0, outcome.output
    document = json.loads(outcome.stdout)
    assert document["head"] == {"vars": ["who", "name"]}
    assert _names(document) == ["Bea", "Cy"]
    assert document["simulation"]["events"] == 4
    assert document["simulation"]["queries"][0]["answers"] == 2
    assert {"hops", "messages"} <= document["simulation"]["network"].keys()
    assert document["simulation"]["load"]["storage_load"]["total"] > 0
    assert (document["simulation"]["network"]["hops"] == 0) == (peers == 1)


def test_several_queries_answer_in_one_run(files: Path) -> None:
    outcome = _simulate("-f", files / "path.rq", "-f", files / "names.rq", "--data", files / "data.nt", "--json")
    document = json.loads(outcome.stdout)
    assert [_names(each) for each in document["queries"]] == [["Bea", "Cy"], ["Bea", "Cy"]]
    assert [each["answers"] for each in document["simulation"]["queries"]] == [2, 2]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["Bea", "Cy"]),
        (("--subscribe-at", 11), ["Cy"]),
        (("--until", 12), ["Bea"]),
        (("--subscribe-at", 11.5, "--until", 12), []),
    ],
)
def test_events_count_between_subscription_and_end(files: Path, options: tuple, expected: list[str]) -> None:
    outcome = _simulate("-f", files / "path.rq", "--events", files / "events.tsv", *options, "--json")
    assert outcome.exit_code == 0, outcome.output
    assert _names(json.loads(outcome.stdout)) == expected


def test_equal_seeds_give_equal_output(files: Path) -> None:
    arguments = ("-f", files / "path.rq", "--data", files / "data.nt", "--seed", 5, "--peers", 20, "--json")
    assert _simulate(*arguments).stdout == _simulate(*arguments).stdout


def test_people_get_tables(files: Path) -> None:
    outcome = _simulate("-f", files / "path.rq", "--data", files / "data.nt")
    assert outcome.exit_code == 0
    for word in ("?name", "Bea", "hops", "QPL", "SL"):
        assert word in outcome.stdout


@pytest.mark.parametrize(
    ("name", "content", "option", "code", "named"),
    [
        ("bad.rq", "SELECT nonsense", "--file", 4, "query-refused"),
        ("bad.nt", "<urn:a> nonsense\n", "--data", 4, "bad.nt:1: "),
        ("bad.tsv", "1\tA\t<urn:a> <urn:p> <urn:b> .\n2\tD\t<urn:a> <urn:p> <urn:b> .\n", "--events", 4, "bad.tsv:2: "),
        ("bad.xls", "", "--data", 4, "bad.xls"),
    ],
)
def test_bad_input_is_refused_by_name(
    files: Path, name: str, content: str, option: str, code: int, named: str
) -> None:
    (files / name).write_text(content)
    given = {"--file": files / "path.rq", "--data": files / "data.nt"} | {option: files / name}
    if option == "--events":
        del given["--data"]
    outcome = _simulate(*(part for pair in given.items() for part in pair))
    assert outcome.exit_code == code
    assert named in outcome.stderr
    assert outcome.stdout == ""
