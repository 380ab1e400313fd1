"""Queries from arguments and files, and prefixes from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from p2prdf.errors import QueryRefused
from p2prdf_cli.query_text import QUERY_FILE_BYTES_MAX, declared_prefixes, prefixes_of, read_query, with_prefixes

TURTLE = """# prefixes of the test
@prefix dbo: <http://dbpedia.org/ontology/> .
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
  @prefix : <http://example.org/> .
dbo:City a :Class .
"""


def test_prefixes_are_read_in_both_spellings_and_data_is_passed_over() -> None:
    assert declared_prefixes(TURTLE) == {
        "dbo": "http://dbpedia.org/ontology/",
        "foaf": "http://xmlns.com/foaf/0.1/",
        "": "http://example.org/",
    }


def test_only_prefixes_that_are_used_and_missing_are_added() -> None:
    query = "PREFIX foaf: <urn:mine:>\nSELECT ?x WHERE { ?x a dbo:City ; foaf:name ?n }"
    added = with_prefixes(query, declared_prefixes(TURTLE))
    assert added == "PREFIX dbo: <http://dbpedia.org/ontology/> " + query


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?x WHERE { ?x <http://dbo:80/> 'dbo:City' }",
        'SELECT ?x WHERE { ?x ?p "dbo:City" } # dbo:City',
        "SELECT ?dbo WHERE { ?dbo ?p ?o }",
    ],
)
def test_a_text_that_only_looks_like_a_prefixed_name_adds_nothing(query: str) -> None:
    assert with_prefixes(query, {"dbo": "urn:dbo:", "http": "urn:http:"}) == query


def test_the_empty_prefix_is_found() -> None:
    assert with_prefixes("SELECT * { ?s :p ?o }", {"": "urn:e:"}) == "PREFIX : <urn:e:> SELECT * { ?s :p ?o }"


def test_lines_of_the_query_keep_their_numbers() -> None:
    query = "SELECT ?x\nWHERE { ?x a dbo:City }"
    assert with_prefixes(query, {"dbo": "urn:dbo:"}).splitlines()[1] == query.splitlines()[1]


def test_a_query_comes_from_exactly_one_place(tmp_path: Path) -> None:
    for text, file in ((None, None), ("SELECT * {}", tmp_path / "q.rq")):
        with pytest.raises(typer.BadParameter, match="either"):
            read_query(text, file)


def test_a_query_file_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "latin.rq"
    file.write_bytes(b"SELECT ?x { ?x ?p 'caf\xe9' }")
    with pytest.raises(QueryRefused, match=r"latin\.rq is not UTF-8 \(byte 23"):
        read_query(None, file)


def test_a_file_that_is_too_long_is_refused_and_not_cut(tmp_path: Path) -> None:
    """The text before the cut may be well-formed, and mean something else."""
    file = tmp_path / "long.ru"
    beginning = b"INSERT DATA { <urn:a> <urn:b> <urn:c> } ; "
    file.write_bytes(beginning.ljust(QUERY_FILE_BYTES_MAX))
    assert len(read_query(None, file)) == QUERY_FILE_BYTES_MAX
    file.write_bytes(beginning.ljust(QUERY_FILE_BYTES_MAX) + b"DELETE DATA { <urn:a> <urn:b> <urn:c> }")
    with pytest.raises(QueryRefused, match=r"long\.ru has more than 1048576 bytes"):
        read_query(None, file)


def test_prefixes_are_taken_from_the_beginning_of_any_data(tmp_path: Path) -> None:
    file = tmp_path / "data.ttl"
    file.write_bytes(b"@prefix e: <urn:e:> .\n" + "é".encode() * QUERY_FILE_BYTES_MAX)
    assert prefixes_of(file) == {"e": "urn:e:"}
    assert prefixes_of(None) == {}
