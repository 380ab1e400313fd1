"""JSON-LD is read with its graphs, and a document that would exhaust the parser is refused."""

from __future__ import annotations

import io

import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf import json_ld
from p2prdf.rdf.json_ld import JSON_LD_DEPTH_MAX
from p2prdf.rdf.ntriples import Syntax, read_triples


class Slowly(io.BytesIO):
    """Returns a byte at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(1)


def quads(text: str, base: str | None = None, kind: type[io.BytesIO] = io.BytesIO) -> list[tuple[str, ...]]:
    batches = read_triples(
        kind(text.encode()), publication_id="x", syntax=Syntax.JSON_LD, source="s", strict=True, base=base
    )
    return [
        row for batch in batches for row in zip(batch.s, batch.p, batch.o, batch.g or [""] * len(batch.s), strict=True)
    ]


def test_contexts_graphs_lists_and_blank_nodes() -> None:
    text = """{"@context": {"@vocab": "urn:v:", "name": {"@language": "en"}}, "@id": "urn:g", "name": "A [{\\" \\\\",
               "@graph": [{"@id": "urn:a", "knows": {"name": "B"}, "list": {"@list": [1, true]}}]}"""
    for kind in (io.BytesIO, Slowly):
        found = quads(text, kind=kind)
        assert ("<urn:g>", "<urn:v:name>", '"A [{\\" \\\\"@en', "") in found
        assert ("<urn:a>", "<urn:v:knows>", "<urn:bnode:x:~0>", "<urn:g>") in found
        assert len(found) == 8
    assert quads('{"@id": "a", "urn:p": 1}', base="http://x/")[0][0] == "<http://x/a>"


@pytest.mark.parametrize("context", [
    '"http://example.org/c"', '["http://example.org/c", {}]', '{"@import": "http://example.org/c"}',
    '{"a": {"@id": "urn:a", "@context": "http://example.org/c"}}',
])  # fmt: skip
def test_contexts_at_other_addresses_are_refused(context: str) -> None:
    with pytest.raises(DataRefused, match="not fetched: write the context itself"):
        quads(f'{{"@context": {context}, "@id": "urn:b", "urn:p": 1, "a": {{"urn:p": 1}}}}')


@pytest.mark.parametrize(("before", "inner", "after"), [
    ('{"urn:a":', "[", "]"), ('{"urn:a":', '{"@list":[', "]}"),
    ('{"@context":', '{"a":{"@id":"urn:a","@context":', "}}"),
    ('{"urn:a":', '{"urn:a":', "}"),
])  # fmt: skip
@pytest.mark.parametrize("kind", [io.BytesIO, Slowly])
def test_deep_documents_are_refused_before_they_exhaust_the_stack(
    before: str, inner: str, after: str, kind: type[io.BytesIO]
) -> None:
    deep = JSON_LD_DEPTH_MAX if kind is Slowly else 100_000
    with pytest.raises(DataRefused, match=r"^s:3: objects and arrays nest deeper than 64"):
        quads("\n\n" + before + inner * deep + "1" + after * deep + "}", kind=kind)


def chain(terms: int, suffix: str = "") -> str:
    """Return a context in which each term is defined by the one before."""
    defined = ", ".join(f'"t{number}": "t{number - 1}:{suffix}"' for number in range(1, terms))
    return f'{{"t0": "http://example.org/", {defined}}}'


@pytest.mark.parametrize("text", [
    '{"@context": ' + chain(20_000) + ', "t19999:a": 1}',
    '{"urn:p": 1, "@c\\u006fntext": ' + chain(20_000) + "}",
    '{"@context": [null, ' + chain(20_000) + "]}",
    '{"@context": ' + chain(1200, "x" * 60) + "}",
    ('{"@context": ' + chain(600) + ', "urn:p": ') * 3 + "1}}}",
    '{"@context": {"a": {"@id": "urn:a", "@context": ' + chain(1500) + "}}}",
])  # fmt: skip
@pytest.mark.parametrize("kind", [io.BytesIO, Slowly])
def test_terms_defined_by_terms_are_refused_before_they_exhaust_the_stack(text: str, kind: type[io.BytesIO]) -> None:
    with pytest.raises(DataRefused, match=r"contexts of more than 65,536 bytes or 3,000 strings"):
        quads(text, kind=kind)


def test_only_the_contexts_in_force_are_bounded() -> None:
    item = '{"@context": ' + chain(1000) + ', "t999:a": "@context"}'
    found = quads(f"[{', '.join([item] * 5)}]")
    assert [row[1:] for row in found] == [("<http://example.org/a>", '"@context"', "")] * 5
    wide = ", ".join(f'"urn:p{number}": "@context"' for number in range(4000))
    assert len(quads(f'{{"urn:a": ["@context"], "urn:b": "@context", "urn:c": {{{wide}}}}}')) == 4003


def test_wide_documents_are_read() -> None:
    assert len(quads('{"@id": "urn:a", "urn:p": [' + ", ".join('{"urn:q": []}' for _ in range(5000)) + "]}")) == 5000


def test_long_documents_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_ld, "JSON_LD_BYTES_MAX", 1000)
    text = '{"@id": "urn:a", "urn:p": ["' + "x" * 2000 + '"]}'
    with pytest.raises(DataRefused, match="more than 1,000 bytes"):
        quads(text)


@pytest.mark.parametrize("text", ["{", "x", '{"@id": 1}', '{"a": "\\', '"', '{"@value": 1, "@type": 3}', "\0"])
def test_malformed_documents_are_refused(text: str) -> None:
    with pytest.raises(DataRefused, match=r"^s"):
        quads(text)


BOTH = '"@language": "ar", "@direction": "rtl"'


@pytest.mark.parametrize("text", [
    '{"@id": "urn:a", "urn:p": {"@value": "x", ' + BOTH + "}}",
    '{"@id": "urn:a", "urn:p": {"@value": "x", "@l\\u0061nguage" : "ar", "\\u0040direction" : "rtl"}}',
    '{"@context": {' + BOTH + '}, "@id": "urn:a", "urn:p": "x"}',
    '{"@context": {"p": {"@id": "urn:p", ' + BOTH + '}}, "@id": "urn:a", "p": "x"}',
    '{"@context": {' + BOTH + '}, "@id": "urn:a", "urn:p": "x", "urn:q": {"@context": {"@direction": null}}}',
])  # fmt: skip
@pytest.mark.parametrize("kind", [io.BytesIO, Slowly])
def test_a_direction_beside_a_language_is_kept(text: str, kind: type[io.BytesIO]) -> None:
    assert ("<urn:a>", "<urn:p>", '"x"@ar--rtl', "") in quads(text, kind=kind)


@pytest.mark.parametrize("text", [
    '{"@id": "urn:a", "urn:p": {"@value": "x", "@direction": "rtl"}}',
    '{"@id": "urn:a", "urn:p": {"@direction": "rtl", "@language" :null, "@value": "x"}}',
    '{"@context": {"@direction": "rtl"}, "@id": "urn:a", "urn:p": "x"}',
    '{"@context": {"p": {"@id": "urn:p", "@direction": "rtl"}}, "@id": "urn:a", "p": "x"}',
    '{"@context": {' + BOTH + '}, "urn:p": {"@context": {"@language": null}, "urn:p": "x"}}',
    '{"urn:p": {"@context": {"@language": null}, "urn:p": "x"}, "@context": {' + BOTH + "}}",
    '{"@context": {"p": {"@id": "urn:p", "@container": "@language", ' + BOTH + '}}, "p": {"@none": "x"}}',
    '{"@context": {"dir": "@direction"}, "urn:p": {"@value": "x", "dir": "rtl"}}',
    '{"@context": {"dir": {"@id": "@direction"}}, "urn:p": {"@value": "x", "dir": "rtl"}}',
])  # fmt: skip
@pytest.mark.parametrize("kind", [io.BytesIO, Slowly])
def test_a_direction_without_a_language_is_refused(text: str, kind: type[io.BytesIO]) -> None:
    """The parser drops such a direction."""
    with pytest.raises(DataRefused, match=r'"@direction" for a text without a language: .* write "@language"'):
        quads(text, kind=kind)


def test_a_text_with_the_name_of_a_keyword_is_no_direction() -> None:
    assert quads('{"@id": "urn:a", "urn:p": ["rtl", "@language"], "urn:@direction": {"@value": "x"}}')[0][2] == '"rtl"'
    assert len(quads('{"@context": {"@language": null}, "@id": "urn:a", "urn:p": "x", "urn:q": {"@id": "urn:b"}}')) == 2
