"""``p2prdf experiment semantic-channels`` on a made-up university."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p2prdf.errors import DataRefused
from p2prdf_cli.app import app
from p2prdf_lab.workloads.universities import find_universities, read_universities

HERE = "http://www.uni1.edu"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
ONTOLOGY = f"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
  <rdf:Description rdf:about="{HERE}/onto#Student">
    <rdfs:subClassOf rdf:resource="{HERE}/onto#Person"/>
  </rdf:Description>
</rdf:RDF>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as the benchmark's, with 80 students; one description is of a single statement."""
    groups = [
        f'<{HERE}/Student{n}> {TYPE} <{HERE}/onto#Student> .\n<{HERE}/Student{n}> <{HERE}/onto#name> "S{n}" .'
        for n in range(80)
    ]
    groups.append(f"<{HERE}/Student7> <{HERE}/onto#knows> <{HERE}/Student8> .")
    (tmp_path / "lubm1-seed0.nt.xz").write_bytes(lzma.compress("\n\n".join(groups).encode()))
    (tmp_path / "univ-bench.owl").write_text(ONTOLOGY)
    (tmp_path / "queries").mkdir()
    for at in range(1, 15):
        query = "?x a o:Person" if at in (5, 6, 8, 14) else "?x o:knows ?y . ?y a o:Person"
        (tmp_path / "queries" / f"q{at}.rq").write_text(f"PREFIX o: <{HERE}/onto#> SELECT ?x {{ {query} }}")
    return tmp_path


def test_a_single_statement_belongs_to_the_description_of_its_subject(folder: Path) -> None:
    data = read_universities(folder, 1)
    assert [len(graph) for graph in data.graphs if len(graph) != 2] == [3]
    assert len(data.graphs) == 80
    assert len(data.ontology) == 1
    assert list(data.queries) == [f"Q{at}" for at in range(1, 15)]


def test_runs_are_shown_by_channel_and_claims_fail_if_they_do_not_hold(folder: Path, tmp_path: Path) -> None:
    arguments = ["experiment", "semantic-channels", "--data", str(folder), "--graphs", "40", "--json", "-"]
    outcome = CliRunner().invoke(app, [*arguments, "--plot", str(tmp_path / "f.svg")])
    assert outcome.exit_code == 5, outcome.output
    result = json.loads(outcome.output[outcome.output.index("{") :])
    claims = {claim["text"]: (claim["measured"], claim["holds"]) for claim in result["claims"]}
    assert claims["all runs have the same notifications, one for each binding"][1]
    published = claims["the channels end with the benchmark's published answers"]
    assert published == ("1 1 1 1 80 80 1 80 1 1 1 1 1 80", False)
    told = {row[0]: row[1] for row in result["tables"][0]["rows"]}  # how much is early depends on times
    assert told["Q6"] == told["Q14"] == 40
    assert [row[0] for row in result["tables"][1]["rows"]] == [*(f"Q{at}" for at in range(1, 15)), "all 14"]
    assert [panel["title"] for panel in result["panels"]][1:3] == [
        "Q5: of the last ten (Figure 4)", "Q6: of the last ten (Figure 5)",
    ]  # fmt: skip
    assert (tmp_path / "f.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--universities", "3"), "3 universities: there is data of 1 and of 10"),
        (("--graphs", "5"), "5 graphs measured"), (("--data", "nowhere"), "data of the university benchmark is needed"),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(arguments: tuple[str, ...], reason: str) -> None:
    outcome = CliRunner().invoke(app, ["experiment", "semantic-channels", *arguments], terminal_width=200)
    assert outcome.exit_code == 2
    assert reason in " ".join(outcome.output.replace("│", " ").split())


def test_files_that_cannot_be_read_are_named(folder: Path) -> None:
    (folder / "univ-bench.owl").unlink()
    with pytest.raises(DataRefused, match=r"univ-bench\.owl"):
        read_universities(folder, 1)
    assert find_universities(1, folder) == folder
