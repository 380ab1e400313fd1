"""The tokenizer: every kind of token, the bounds, linear time, IRIs resolved as RFC 3986 says."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2prdf.errors import QueryRefused
from p2prdf.rdf import tokens
from p2prdf.rdf.tokens import resolve, scan, symbols

XSD = "http://www.w3.org/2001/XMLSchema#"


def meanings(text: str) -> list[str]:
    return [symbol.value for symbol in symbols(text, scan(text))[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?x $y ?1é", ["x", "y", "1é"]),
        ("<http://a/#b> # <c>\n?x", ["<http://a/#b>", "x"]),
        ("<http://a/\\u00E9>", ["<http://a/é>"]),
        ("'a' \"b\" '''c'd\n''' \"\"\"e\"\"f\"\"\" ''", ['"a"', '"b"', '"c\'d\\n"', '"e\\"\\"f"', '""']),
        ("'\\t\\\\\\'\\u0041\\U0001F600'", ['"\\t\\\\\'A😀"']),
        ("'a'@EN-us 'b'^^<x:t>", ['"a"@en-us', '"b"^^<x:t>']),
        ("1 01 1.50 .5 1e0 1.e5 -2 +3.0", [
            f'"{n}"^^<{XSD}{kind}>' for n, kind in (
                ("1", "integer"), ("01", "integer"), ("1.50", "decimal"), (".5", "decimal"), ("1e0", "double"),
                ("1.e5", "double"), ("-2", "integer"), ("+3.0", "decimal"),
            )
        ]),
        ("- 2", ["-", f'"2"^^<{XSD}integer>']),
        ("_:b.c _:1", ["b.c", "1"]),
        ("?a<?b && ?c>?d", ["a", "<", "b", "&&", "c", ">", "d"]),
        ("?a||?b!=1", ["a", "||", "b", "!=", f'"1"^^<{XSD}integer>']),
        ("a b.c", ["a", "b", ".", "c"]),
        ("PREFIX : <x:> PREFIX p.q: <x:q/> :a p.q:b.c :d. p.q: :\\~%41", [
            "<x:a>", "<x:q/b.c>", "<x:d>", ".", "<x:q/>", "<x:~%41>",
        ]),
        ("BASE <http://a/b/c> PREFIX p: <d#> <e> p:f", ["<http://a/b/e>", "<http://a/b/d#f>"]),
        ("BASE <http://a/> BASE <b/> <c>", ["<http://a/b/c>"]),
        ("prefix a: <x:> Base <y:z> a:b", ["<x:b>"]),
    ],
)  # fmt: skip
def test_tokens_and_their_meaning(text: str, expected: list[str]) -> None:
    assert meanings(text) == expected


@pytest.mark.parametrize(
    ("text", "construct", "line", "column"),
    [
        ("?x\n  'open", "syntax error", 2, 3),
        ("?x \0", "syntax error", 1, 4),
        ("\\", "syntax error", 1, 1),
        ("é:a `", "syntax error", 1, 5),
        ("\ud800", "syntax error", 1, 1),
        ("p:a", "prefix", 1, 1),
        ("<a>", "IRI", 1, 1),
        ("PREFIX p: <http://[> p:a", "IRI", 1, 11),
        ("PREFIX p <x:>", "syntax error", 1, 8),
        ("PREFIX p:q <x:>", "syntax error", 1, 8),
        ("PREFIX", "syntax error", 1, 1),
        ("BASE p:q", "syntax error", 1, 6),
        ("?x @en", "syntax error", 1, 4),
        ("'a'^^ ?x", "syntax error", 1, 4),
        ("'a'^^<b>", "IRI", 1, 6),
        ("'a'@notalanguagetag", "literal", 1, 1),
        ("'\\uD800'", "literal", 1, 1),
        ("'\\U00110000'", "literal", 1, 1),
        ("?x (\n[ )", "syntax error", 2, 3),
        ("( [ ] ", "syntax error", 1, 1),
        ("}", "syntax error", 1, 1),
        ("?x " + "(" * 65, "nesting", 1, 68),
        ("[(" * 40, "nesting", 1, 65),
        ("?x " + "!" * 10_000, "!", 1, 12),
    ],
)
def test_a_text_without_tokens_is_refused_with_its_place(
    text: str, construct: str, line: int, column: int
) -> None:
    with pytest.raises(QueryRefused) as refused:
        meanings(text)
    assert (refused.value.construct, refused.value.line, refused.value.column) == (construct, line, column)


def test_a_query_is_bounded_in_bytes_and_nesting() -> None:
    assert len(scan("?" + "a" * (tokens.QUERY_BYTES_MAX - 1))) == 1
    for text in ("?" + "a" * tokens.QUERY_BYTES_MAX, "?" + "é" * (tokens.QUERY_BYTES_MAX // 2)):
        with pytest.raises(QueryRefused, match=f"more than {tokens.QUERY_BYTES_MAX}") as refused:
            scan(text)
        assert refused.value.construct == "query length"
    assert len(scan("(" * 64 + ")" * 64)) == 128


@pytest.mark.parametrize(
    "piece",
    ["a.", "a.b-", '"', "'", "<", "<a", "\\", "'''", '"\\"', "a", ":", ":a.", "_:", "?", "@", "1e", "1.", "%41",
     "a" * 255, "a...", "-", "!", "#", "^", '""', "''", "_:a.", "<a#", "\\u0041", "é", "𝄞"],
)  # fmt: skip
def test_no_text_makes_the_tokenizer_slow(piece: str) -> None:
    """Sixteen KiB of anything become tokens or a refusal; quadratic work would be seen here at once."""
    text = (piece * tokens.QUERY_BYTES_MAX)[: tokens.QUERY_BYTES_MAX // len(piece[0].encode())]
    with contextlib.suppress(QueryRefused):
        assert len(scan(text)) <= len(text)


@given(st.text(st.sampled_from(list("ab:<>\"'\\.?_@^!{}[]()#\n -+1e%é")), max_size=60))
def test_tokens_cover_the_text_or_it_is_refused(text: str) -> None:
    try:
        found = scan(text)
    except QueryRefused:
        return
    for token in found:
        assert text[token.at : token.at + len(token.text)] == token.text
    between = list(text)
    for token in found:
        between[token.at : token.at + len(token.text)] = [""] * len(token.text)
    rest = "".join(between)
    assert all(line.lstrip().startswith("#") or not line.strip() for line in rest.split("\n"))


RFC_3986 = {
    "g:h": "g:h", "g": "http://a/b/c/g", "./g": "http://a/b/c/g", "g/": "http://a/b/c/g/", "/g": "http://a/g",
    "//g": "http://g", "?y": "http://a/b/c/d;p?y", "g?y": "http://a/b/c/g?y", "#s": "http://a/b/c/d;p?q#s",
    "g#s": "http://a/b/c/g#s", "g?y#s": "http://a/b/c/g?y#s", ";x": "http://a/b/c/;x", "g;x": "http://a/b/c/g;x",
    "g;x?y#s": "http://a/b/c/g;x?y#s", "": "http://a/b/c/d;p?q", ".": "http://a/b/c/", "./": "http://a/b/c/",
    "..": "http://a/b/", "../": "http://a/b/", "../g": "http://a/b/g", "../..": "http://a/", "../../": "http://a/",
    "../../g": "http://a/g", "../../../g": "http://a/g", "../../../../g": "http://a/g", "/./g": "http://a/g",
    "/../g": "http://a/g", "g.": "http://a/b/c/g.", ".g": "http://a/b/c/.g", "g..": "http://a/b/c/g..",
    "..g": "http://a/b/c/..g", "./../g": "http://a/b/g", "./g/.": "http://a/b/c/g/", "g/./h": "http://a/b/c/g/h",
    "g/../h": "http://a/b/c/h", "g;x=1/./y": "http://a/b/c/g;x=1/y", "g;x=1/../y": "http://a/b/c/y",
    "g?y/./x": "http://a/b/c/g?y/./x", "g?y/../x": "http://a/b/c/g?y/../x", "g#s/./x": "http://a/b/c/g#s/./x",
    "g#s/../x": "http://a/b/c/g#s/../x", "http:g": "http:g",
}  # fmt: skip


@pytest.mark.parametrize("reference", RFC_3986)
def test_references_resolve_as_in_rfc_3986_section_5_4(reference: str) -> None:
    assert resolve("http://a/b/c/d;p?q", reference) == RFC_3986[reference]


def test_bases_without_authority_or_path() -> None:
    assert resolve("http://a", "b") == "http://a/b"
    assert resolve("urn:a:b", "c") == "urn:c"
    assert resolve("file:///a/b", "c") == "file:///a/c"
