"""``p2prdf corpus``: files in, conditions out."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from p2prdf.rdf.fulltext import Corpus, Similar, Using, parse_call
from p2prdf_cli.app import app

DATA = """<urn:a> <urn:body> "The games of Rio"@en .
<urn:b> <urn:body> "A game"@en-gb .
<urn:c> <urn:body> "jeux"@fr .
<urn:d> <urn:title> "games"@en .
<urn:e> <urn:body> <urn:games> .
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "data.nt").write_text(DATA)
    (tmp_path / "more.ttl").write_text('<urn:f> <urn:body> "Rio!"@en , "Rio?"@en , "tea"@en .')
    return tmp_path / "some.corpus"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["corpus", *map(str, arguments)], terminal_width=120)


def said(corpus: Path, *arguments: object) -> Similar:
    outcome = run("similar", corpus, *arguments)
    assert outcome.exit_code == 0, outcome.output
    expression = parse_call(outcome.stdout).condition.expression
    assert isinstance(expression, Similar)
    return expression


def test_counted_words_stand_in_the_condition_and_the_window_goes_on(corpus: Path) -> None:
    kind = ("--texts", 4, "--language", "EN", "--stemming", "--stop-words")
    outcome = run("count", corpus.with_name("data.nt"), "--onto", corpus, *kind, "--predicate", "urn:body")
    assert (outcome.exit_code, outcome.stdout) == (0, "2 texts read, 2 counted\n"), outcome.output
    first = said(corpus, "gaming in rio", "0.4")
    assert first == Similar(
        ("gaming", "in", "rio"), 4000, Using(True, True), Corpus(2, (("gaming", 2), ("rio", 1)))
    )  # fmt: skip
    for again in ((), kind):
        outcome = run("count", corpus.with_name("more.ttl"), "--onto", corpus, *again)
        assert outcome.stdout == "3 texts read, 4 counted\n", outcome.output
    assert said(corpus, "gaming in rio", 1).corpus == Corpus(4, (("rio", 2),))
    assert run("similar", corpus, "rio", 0.5, "--variable", "?body").stdout.startswith('ftsimilar(?body, "rio" using')


def test_texts_of_all_languages_are_counted_if_none_is_said(corpus: Path) -> None:
    assert run("count", corpus.with_name("data.nt"), "--onto", corpus).stdout == "4 texts read, 4 counted\n"
    assert said(corpus, "Games", 0.5) == Similar(("games",), 5000, corpus=Corpus(4, (("games", 2),)))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("count", "data.nt", "--onto", "x", "--stemming"), "using stemming needs the language"),
        (("count", "data.nt", "--onto", "x", "--texts", 0), "1 to 1,000,000 texts"),
        (("count", "none.nt", "--onto", "x"), "none.nt"),
        (("count", "data.nt", "--onto", "begun", "--texts", 7), "begun with other options: 10000 texts, language any"),
        (("count", "data.nt", "--onto", "data.nt"), "line 1"),
        (("similar", "data.nt", "a", 0.4), "does not begin a corpus"),
        (("similar", "begun", "a", 1.4), "'1.4' is no valid threshold"),
        (("similar", "begun", "--", "-", 0.4), "'-' contains no word"),
        (("similar", "latin", "a", 0.4), "latin: "),
    ],
)
def test_senseless_arguments_are_refused_and_change_no_file(corpus: Path, monkeypatch, arguments, named) -> None:
    monkeypatch.chdir(corpus.parent)
    assert run("count", "data.nt", "--onto", "begun").exit_code == 0
    Path("latin").write_bytes(b"\xe9\n")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    outcome = run(*arguments)
    assert outcome.exit_code in (1, 4)
    assert named in " ".join(outcome.stderr.split())
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
