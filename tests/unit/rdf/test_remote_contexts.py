"""Contexts of JSON-LD at other addresses: their effect is that of the contexts themselves, within bounds."""

from __future__ import annotations

import io
import json
import time

import pytest

from p2prdf.errors import DataRefused, P2PRDFError, TargetRefused, Unavailable
from p2prdf.rdf import json_ld, remote_contexts
from p2prdf.rdf.ntriples import Syntax, read_triples
from p2prdf.rdf.remote_contexts import Fetched

LARGE = {"v": "http://v.org/", **{f"term{number}": {"@id": f"v:t{number}", "@type": "@id"} for number in range(4000)}}
DOCUMENTS: dict[str, object] = {
    "http://c.org/a": {"@context": {"name": "http://v.org/name", "@base": "http://other.org/"}},
    "http://c.org/list": {"@context": [{"n": "http://v.org/"}, {"name": "n:name"}]},
    "http://c.org/next/b": {"@context": ["../a", {"age": "http://v.org/age"}]},
    "http://c.org/self": {"@context": ["self"]},
    "http://c.org/scoped": {"@context": {"p": {"@id": "http://v.org/p", "@context": "a"}}},
    "http://c.org/recursive": {"@context": {"p": {"@id": "http://v.org/p", "@context": "recursive"}}},
    "http://c.org/imported": {"@context": {"@import": "a"}},
    "http://c.org/propagate": {"@context": {"@propagate": False, "name": "http://v.org/name"}},
    "http://c.org/large": {"@context": LARGE},
    "http://c.org/chain": {"@context": {"t0": "http://v.org/", **{f"t{n}": f"t{n - 1}:" for n in range(1, 6000)}}},
    "http://c.org/data": {"name": "x"}, "http://c.org/number": {"@context": 3}, "http://c.org/json": {
        "@context": {"j": {"@id": "http://v.org/j", "@type": "@json"}},
    },
    **{f"http://c.org/n{number}": {"@context": {}} for number in range(20)},
    **{f"http://c.org/wide{number}": {"@context": [f"wide{number + 1}"] * 40} for number in range(8)},
    "http://c.org/wide8": {"@context": LARGE},
    **{f"http://c.org/deep{n}": {"@context": json.loads(f'{"[" * 200}"deep{n + 1}"{"]" * 200}')} for n in range(7)},
    "http://c.org/deep7": {"@context": {}}, "http://c.org/without-effect": {"@context": [[]] * 50_000},
}  # fmt: skip


class Known:
    """Has the documents; counts the requests."""

    def __init__(self, error: P2PRDFError | None = None):
        self.asked: list[str] = []
        self.error = error

    def fetch(self, url: str) -> Fetched:
        self.asked.append(url)
        if self.error is not None:
            raise self.error
        if url not in DOCUMENTS:
            raise TargetRefused("c.com:80 is not on the list of permitted hosts")
        return Fetched(DOCUMENTS[url], len(json.dumps(DOCUMENTS[url])))


def quads(text: str, contexts: Known | None = None, base: str | None = None) -> list[tuple[str, str, str]]:
    batches = read_triples(
        io.BytesIO(text.encode()), publication_id="x", syntax=Syntax.JSON_LD, source="s", strict=True, base=base,
        contexts=contexts or Known(),
    )  # fmt: skip
    return [row for batch in batches for row in zip(batch.s, batch.p, batch.o, strict=True)]


NAMED = [("<urn:a>", "<http://v.org/name>", '"x"')]


@pytest.mark.parametrize("context", [
    '"http://c.org/a"', '"http:\\/\\/c.org\\/a#part"', '["http://c.org/a"]', '[null, "http://c.org/list"]',
    '"http://c.org/next/b"', '{"@import": "http://c.org/a"}', '[{"@import": "http://c.org/a", "other": "urn:o"}]',
    '[["http://c.org/a"]]', '[{"@propagate": false}, "http://c.org/a"]', '"http://c.org/imported"', '"http://c.org/propagate"',
])  # fmt: skip
@pytest.mark.parametrize("spelled", ["@context", "\\u0040context"])
def test_a_context_at_another_address_has_the_effect_of_its_content(context: str, spelled: str) -> None:
    assert quads(f'{{"@id": "urn:a", "name": "x",\n "{spelled}" : {context}}}') == NAMED


def test_relative_addresses_are_those_of_the_document_or_the_context() -> None:
    text = '{"@context": "../a", "@id": "b", "name": "@context"}'
    assert quads(text, base="http://c.org/next/d") == [
        ("<http://c.org/next/b>", "<http://v.org/name>", '"@context"')
    ]
    with pytest.raises(DataRefused, match=r"s:1: the context http://\[c: Invalid IPv6 URL"):
        quads(text.replace("../a", "http://[c"), base="http://c.org/next/d")
    with pytest.raises(DataRefused, match=r"the context \.\./a: not the URL"):
        quads(text, Known(TargetRefused("not the URL of a web server")))


def test_own_terms_hide_imported_ones_and_terms_have_contexts_of_their_own() -> None:
    own = '{"@context": {"@import": "http://c.org/a", "name": "urn:name"}, "@id": "urn:a", "name": "x"}'
    assert quads(own) == [("<urn:a>", "<urn:name>", '"x"')]
    scoped = '{"@context": "http://c.org/scoped", "@id": "urn:b", "name": "y", "p": {"@id": "urn:a", "name": "x"}}'
    assert sorted(quads(scoped)) == [*NAMED, ("<urn:b>", "<http://v.org/p>", "<urn:a>")]


def test_each_address_is_asked_once_and_text_without_one_is_left_alone() -> None:
    known = Known()
    item = '{"@context": "http://c.org/a", "@id": "urn:a", "name": "x"}'
    assert quads(f"[{item}, {item}, {item.replace('c.org', 'c.org')}]", known) == NAMED * 3
    assert known.asked == ["http://c.org/a"]
    plain = '{"@context": {"@base": "http://b/", "p": "urn:p"}, "@id": "a", "p": ["@context", "http://c.org/b"]}'
    assert quads(plain, known)[0] == ("<http://b/a>", "<urn:p>", '"@context"')
    assert known.asked == ["http://c.org/a"]


def test_long_contexts_are_read() -> None:
    assert quads('{"@context": "http://c.org/large", "@id": "urn:a", "term3999": "urn:b"}') == [
        ("<urn:a>", "<http://v.org/t3999>", "<urn:b>")
    ]


@pytest.mark.parametrize(("context", "reason"), [
    ('"http://c.com/a"', r"s:2: the context http://c\.com/a: .* permit its host \(--context-from\), or write"),
    ('"http://c.org/self"', "more than 8 contexts name each other"),
    ('"http://c.org/recursive"', "more than 8 contexts name each other"),
    ('"http://c.org/wide0"', "more than 8 contexts name each other"),
    ('"http://c.org/wide1"', "more than 1,048,576 bytes of contexts"),
    ('"http://c.org/deep0"', "nests too deeply"),
    ('"http://c.org/data"', "the document has no @context"), ('"http://c.org/number"', "s"),
    ('"http://c.org/chain"', "more than 8 of them a chain"),
    ('{"@import": "http://c.org/list"}', "one that is imported is an object"),
    ('{"@import": "http://c.org/imported"}', "without @import"),
    ('[{}, "http://c.org/propagate"]', "http://c.org/propagate: @propagate in a list"),
    ("[" + ", ".join(f'"http://c.org/n{number}"' for number in range(17)) + "]", "more than 16 contexts"),
    ('"http://c.org/json"', "JSON literals"),
])  # fmt: skip
def test_other_contexts_are_refused_with_the_reason(context: str, reason: str) -> None:
    with pytest.raises(DataRefused, match=reason):
        quads(f'{{"@id": "urn:a",\n"@context": {context}, "name": "x"}}')


def test_the_failure_of_a_server_is_no_fault_of_the_document() -> None:
    text = '{"@context": "http://c.org/a", "@id": "urn:a", "name": "x"}'
    with pytest.raises(Unavailable, match=r"the context http://c.org/a: the server answers 503"):
        quads(text, Known(Unavailable("http://c.org/a: the server answers 503")))
    with pytest.raises(DataRefused, match=r"the context http://c.org/a: the server answers 404; write the context"):
        quads(text, Known(DataRefused("the server answers 404", source="http://c.org/a")))


def test_the_text_is_bounded_before_and_with_its_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    item = '{"@context": "http://c.org/large", "@id": "urn:a"}'
    monkeypatch.setattr(remote_contexts, "JSON_LD_BYTES_MAX", 300_000)
    with pytest.raises(DataRefused, match="more than 300,000 bytes with the contexts"):
        quads(f"[{', '.join([item] * 3)}]")
    without_effect = '{"@context": "http://c.org/without-effect%s"}'
    assert quads(f"[{without_effect % ''}, {without_effect % ''}]") == []
    with pytest.raises(DataRefused, match="more than 300,000 bytes with the contexts"):
        quads(f"[{without_effect % ''}, {without_effect % '#again'}]")
    with pytest.raises(DataRefused, match="more than 300,000 bytes of JSON-LD"):
        quads(" " * 300_001)


def test_many_contexts_within_one_with_many_terms_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_ld, "STRINGS_IN_FORCE_MAX", 1000)
    terms = ", ".join(f'"t{number}": "urn:{number}"' for number in range(100))
    inner = '{"@context": {}, "@id": "urn:a"}'
    text = '{{"@context": {{{}}}, "@graph": [{}]}}'
    with pytest.raises(DataRefused, match="too many contexts"):
        quads(text.format(terms, ", ".join([inner] * 5)))
    assert quads(text.format(terms, ", ".join([inner] * 3))) == []


@pytest.mark.parametrize("text", [
    '{"@context": "http://c.org/a', '{"@context": "', '{"@context": ', '{"@context": [', '{"@context": {"a": "b"',
    '{"@context": "http://c.org/a"', '{"@context": ' + "[" * 30_000, '{"@context": "a\\', '"' + '\\"' * 99_999,
    '{"@context": "' + '\\"' * 60_000,
])  # fmt: skip
def test_text_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(DataRefused):
        quads(text)


def test_contexts_without_an_end_and_the_lines_of_contexts_are_read_once() -> None:
    nested = '{"@context":' * 100_000
    distinct = ",\n".join(f'{{"@context": {{"a": "urn:{number}"}}}}' for number in range(50_000))
    began = time.process_time()
    for text, reason in (
        (nested, "s:1: a context without an end, or of more than"),
        (f'[{distinct},\n{{"@context": "http://c.com/"}}]', "s:50001: the context http://c.com/"),
    ):
        with pytest.raises(DataRefused, match=reason):
            quads(text)
    assert time.process_time() - began < 5
