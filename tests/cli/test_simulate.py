"""``p2prdf simulate``: files in, SPARQL results and counts out."""

from __future__ import annotations

import json
from pathlib import Path

import pyoxigraph as ox
import pytest
from field_cases import field_case
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


WINDOW = (
    "SELECT ?s FROM NAMED WINDOW <urn:w> ON <urn:st> [RANGE PT10S STEP PT5S] { WINDOW <urn:w> { ?s <urn:p> ?o } }"
)
GRAPHS = """<urn:a> <urn:knows> <urn:b> .
<urn:b> <urn:knows> <urn:c> .
<urn:b> <urn:name> "Bea"@en .
<urn:a> <urn:name> "A" <urn:g> .
<urn:c> <urn:n> "3"^^<http://www.w3.org/2001/XMLSchema#integer> .
<urn:c> <urn:name> "C" <urn:h> .
"""
QUERIES = [
    "SELECT ?x { <urn:a> <urn:knows>+ ?x }",
    "SELECT ?x ?n { ?x <urn:knows> ?y OPTIONAL { ?x <urn:name> ?n } }",
    "SELECT (COUNT(*) AS ?n) { ?x <urn:knows> ?y }",
    "SELECT ?x (SUM(?n) AS ?m) { ?x <urn:n> ?n } GROUP BY ?x",
    "SELECT ?x ?g { GRAPH ?g { ?x <urn:name> ?y } }",
    "SELECT ?x { GRAPH <urn:g> { ?x <urn:name> ?y } }",
    "SELECT ?x { ?x <urn:name> ?y }",
    "SELECT ?x { ?x <urn:knows> ?y FILTER NOT EXISTS { ?y <urn:knows> ?z } }",
    "SELECT ?x { ?x <urn:knows> ?y FILTER EXISTS { ?y <urn:knows> ?z } }",
    "SELECT ?s ?p ?o { ?s ?p ?o }",
    "SELECT DISTINCT ?p { ?s ?p ?o . ?s <urn:name> ?n }",
    "SELECT ?s { { ?s <urn:knows> ?n } UNION { ?n <urn:knows> ?s } }",
    "SELECT ?s { ?s <urn:knows> ?n } ORDER BY DESC(?s) LIMIT 1",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("kind", ["--data", "--events"])
def test_queries_of_every_form_answer_as_another_engine_does(tmp_path: Path, query: str, kind: str) -> None:
    (tmp_path / "q.rq").write_text(query)
    lines = GRAPHS.splitlines(keepends=True)
    if kind == "--data":
        (tmp_path / "d.nq").write_text(GRAPHS)
        data = lines
    else:  # a triple and a quad are deleted, one that was never there, and one that is published again
        events = [*(("A", line) for line in lines), ("D", lines[1]), ("D", lines[3]), ("D", '<urn:x> <urn:y> "z" .\n')]
        events += [("D", lines[0]), ("A", lines[0])]
        (tmp_path / "d.nq").write_text("".join(f"{at}\t{sign}\t{line}" for at, (sign, line) in enumerate(events)))
        data = [*lines[:1], lines[2], *lines[4:]]
    outcome = _simulate("-f", tmp_path / "q.rq", kind, tmp_path / "d.nq", "--json")
    assert outcome.exit_code == 0, outcome.output
    document = json.loads(outcome.stdout)
    store = ox.Store()
    store.load("".join(data).encode(), format=ox.RdfFormat.N_QUADS)
    found = store.query(query)
    assert isinstance(found, ox.QuerySolutions)
    names = document["head"]["vars"]
    values = [[row[name] for name in names] for row in found]
    expected = sorted([getattr(value, "value", None) for value in row] for row in values)
    rows = document["results"]["bindings"]
    assert sorted([row[name]["value"] if name in row else None for name in names] for row in rows) == expected


def test_ask_is_a_boolean_and_construct_gives_triples(tmp_path: Path) -> None:
    (tmp_path / "d.nq").write_text(GRAPHS)
    found = []
    for query in ("ASK { ?x <urn:n> 3 }", "ASK { ?x <urn:n> 4 }",
                  "CONSTRUCT { ?n <urn:of> ?x } WHERE { ?x <urn:n> ?n }",
                  "CONSTRUCT { ?y <urn:of> ?x } WHERE { ?x <urn:knows> ?y FILTER(?x = <urn:a>) }"):  # fmt: skip
        (tmp_path / "q.rq").write_text(query)
        outcome = _simulate("-f", tmp_path / "q.rq", "--data", tmp_path / "d.nq", "--json")
        document = json.loads(outcome.stdout)
        found.append(document.get("boolean", document.get("results", {}).get("bindings")))
    assert found[:3] == [True, False, []]
    assert [{name: term["value"] for name, term in row.items()} for row in found[3]] == [
        {"subject": "urn:b", "predicate": "urn:of", "object": "urn:a"}
    ]
    people = _simulate("-f", tmp_path / "q.rq", "--data", tmp_path / "d.nq")
    assert people.exit_code == 0


@pytest.mark.parametrize("name", ["t.nq", "t.trig"])
def test_field_case_of_a_query_of_the_default_graph_is_right(name: str) -> None:
    folder = field_case("02-simulate-named-graph")
    outcome = _simulate("-f", folder / "t.rq", "--data", folder / name, "--json")
    rows = json.loads(outcome.stdout)["results"]["bindings"]
    assert [row["s"]["value"] for row in rows] == ["urn:tr:b"]


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
        ("bad.tsv", "1\tA\t<urn:a> <urn:p> <urn:b> .\n2\tX\t<urn:a> <urn:p> <urn:b> .\n", "--events", 4, "bad.tsv:2: "),
        ("window.rq", WINDOW, "--file", 4, "window.rq: simulate publishes triples at rest"),
        ("rule.rq",
         "PREFIX : <urn:x:> INSERT { GRAPH :g { ?x :q ?y } } WHERE { ?x :p ?y }", "--file", 4, "no rules"),
        ("rules.rq",
         "# rules\nRULES { ?x <urn:q> ?y :- ?x <urn:p> ?y . } SELECT ?x { ?x <urn:q> ?y }", "--file", 4,
         "no rules"),
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
