"""Lucene's Monitor beside the index: equal queries for both, and refusals of queries that it cannot express."""

from __future__ import annotations

from pathlib import Path

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.fulltext import parse_condition
from p2prdf.text import FullTextIndex, Publication, TextPattern, TextQuery
from p2prdf_lab.competitors import lucene
from p2prdf_lab.competitors.lucene import WEIGHTS, LuceneFiles, LuceneRun, document_row, query_row
from p2prdf_lab.experiments import full_text_lucene
from p2prdf_lab.experiments.full_text_lucene import beside_lucene
from p2prdf_lab.workloads.texts import TextShape, TextWorkload

PASSAGES = [[f"w{(at * at + row) % 60}" for at in range(200)] for row in range(5)]


def _query(*patterns: tuple[str, ...]) -> TextQuery:
    return TextQuery(
        tuple(TextPattern(*parts[:3], *(parse_condition(each) for each in parts[3:])) for parts in patterns)
    )


def test_a_query_is_the_terms_that_a_document_needs() -> None:
    query = _query(("?x", "<p>", "<o>"), ("?x", "<t>", "?t", '"b" ftAND "a"'), ("?x", "<q>", "?q"))
    assert query_row(7, query).split("\t") == [
        "7", "object", "<p><o>", "<t>", "b", "<t>", "a", "predicate", "<q>",
    ]  # fmt: skip


def test_a_publication_is_its_predicates_objects_and_words() -> None:
    row = document_row([("<s>", "<p>", "<o>"), ("<s>", "<t>", '"A b, a"')])
    assert row.split("\t") == ["predicate", "<p> <t>", "object", "<p><o>", "<t>", "a b a"]


@pytest.mark.parametrize(
    ("patterns", "named"),
    [
        ([("?x", "<p>", "<o>"), ("?y", "<p>", "<o>")], "one subject"),
        ([("<s>", "<p>", "<o>")], "one subject"),
        ([("?x", "<p>", "?x")], "equal objects"),
        ([("?x", "<p>", "?o"), ("?x", "<q>", "?o")], "equal objects"),
        ([("?x", "?p", "<o>")], "a predicate is not given"),
        ([("?x", "<p>", '"text"')], "a literal"),
        ([("?x", "<p>", "?o", '"a b"')], "more than words"),
        ([("?x", "<p>", "?o", '"a" ftOR "b"')], "more than words"),
        ([("?x", "<p>", "?o", '"a" ftAND ftNOT "b"')], "more than words"),
        ([("?x", "<p>", "?o", '"a*"')], "more than words"),
        ([("?x", "<p>", "?o", '"games", "en"')], "more than words"),
        ([("?x", "<p>", "?o", '"games" using stemming, "en"')], "more than words"),
    ],
)
def test_a_query_that_lucene_cannot_express_is_refused_by_name(patterns: list, named: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"query 3: .*{named}"):
        query_row(3, _query(*patterns))


@pytest.mark.parametrize("triples", [[("<s>", "<p>", "<o>"), ("<t>", "<q>", "<o>")],
                                     [("<s>", "<p>", "<o>"), ("<s>", "<p>", "<q>")]])  # fmt: skip
def test_publications_with_distinguishable_triples_are_refused(triples: list) -> None:
    with pytest.raises(LocalProtocolError, match="several subjects, or a predicate twice: <s>"):
        document_row(triples)


def _program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_without_java_or_maven_the_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalProtocolError, match="there is no java on the PATH, which a JDK"):
        lucene.class_path()
    _program(tmp_path, "java", "exit 0")
    with pytest.raises(LocalProtocolError, match="there is no mvn on the PATH, which Apache Maven"):
        lucene.class_path()
    _program(tmp_path, "mvn", "echo noise; echo '[ERROR] nothing can be resolved'; exit 1")
    with pytest.raises(LocalProtocolError, match=r"mvn failed: .ERROR. nothing can be resolved"):
        lucene.class_path()


def test_differences_and_slow_runs_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Java finds the index's matches, except for one query in its second way, and takes its time."""
    workload = TextWorkload(TextShape(classes=3), PASSAGES)

    class StandIn(LuceneFiles):
        def write(self, queries, publications, sample) -> None:
            self.index = FullTextIndex()
            for key, query in queries:
                self.index.add(key, query)
            self.publications = publications
            assert not {item[0][0] for item in sample} & {item[0][0] for item in publications}, "none is measured"

        def run(self, passes: int, weights: str, rounds: int) -> LuceneRun:
            found = [tuple(self.index.match(Publication(each))) for each in self.publications]
            if weights == WEIGHTS[1] and passes == 1:
                found[0] = (*found[0], 10_000)
            spent = (900.0,) * 3 + (90.0 + passes,) * 4
            return LuceneRun(passes, weights, len(self.index), 1.0, spent, 1, 1, tuple(found))

    monkeypatch.setattr(full_text_lucene, "LuceneFiles", StandIn)
    monkeypatch.setattr(full_text_lucene, "_WARM", 1)
    compared = beside_lucene(workload, 300, 10, "")
    same, faster = compared.claims
    assert (same.holds, same.measured) == (False, "1 differences in 40 runs")
    assert faster.holds
    assert [row[0] for row in compared.table.rows[1:]] == [
        "Monitor: one term, by length", "Monitor: one term, by rarity", "Monitor: 2 terms, by rarity",
        "Monitor: one term, by length, equal queries once",
    ]  # fmt: skip
    assert compared.table.rows[1][1] == pytest.approx(1000 * 91 / 10), "the first rounds do not count"


@pytest.mark.long
def test_the_monitor_itself_finds_the_matches_of_the_index(tmp_path: Path) -> None:
    """Needs a JDK, Maven, and Maven Central or Maven's local copy of it."""
    try:
        libraries = lucene.class_path()
    except LocalProtocolError as error:
        pytest.skip(f"Lucene cannot be run here: {error}")
    workload = TextWorkload(TextShape(classes=3), PASSAGES)
    queries, publications = list(workload.queries(300)), list(workload.publications(40))
    index = FullTextIndex()
    for key, query in enumerate(queries):
        index.add(key, query)
    files = LuceneFiles(tmp_path, libraries)
    files.write(enumerate(queries), publications, publications)
    run = files.run(2, "rarity", 3)
    assert run.found == tuple(tuple(index.match(Publication(each))) for each in publications)
    assert sum(map(len, run.found)) > 100
    assert run.queries == 300
    assert len(run.rounds) == 3
    assert min(run.rounds) > 0
    assert run.candidates >= sum(map(len, run.found))
