"""Terms are spelled exactly as pyoxigraph spells them, and come back unchanged from every other form."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from term_table import BAD_IRIS

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms

characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=40)
iris = st.builds("http://{}.example/{}".format, st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.from_regex(
    r"[A-Za-z0-9._~!$&'()*+,;=:@/?#é𝄞-]{0,20}".replace("#", ""), fullmatch=True,
))  # fmt: skip
languages = st.sampled_from(["en", "EN", "de-AT", "zh-Hant-TW", "x-klingon", "en-GB-oed"])
literals = st.one_of(
    st.builds(terms.literal, texts),
    st.builds(lambda text, iri: terms.literal(text, iri), texts, iris),
    st.builds(lambda text, tag: terms.literal(text, None, tag), texts, languages),
)
anything = st.one_of(literals, st.builds(terms.iri, iris))


def spelled(text: str) -> str:
    """Escape every character, which is legal and far from canonical."""
    return "".join(f"\\U{ord(c):08X}" if ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in text)


@given(texts, iris, languages)
def test_literals_are_spelled_as_pyoxigraph_spells_them(text: str, datatype: str, tag: str) -> None:
    assert terms.literal(text) == str(ox.Literal(text))
    assert terms.literal(text, datatype) == str(ox.Literal(text, datatype=ox.NamedNode(datatype)))
    assert terms.literal(text, None, tag) == str(ox.Literal(text, language=tag))


@given(iris)
def test_iris_are_spelled_as_pyoxigraph_spells_them(value: str) -> None:
    assert terms.iri(value) == str(ox.NamedNode(value)) == f"<{value}>"


@given(texts, iris, languages)
def test_any_spelling_of_a_term_becomes_the_canonical_one(text: str, datatype: str, tag: str) -> None:
    assert terms.parse_term(f'"{spelled(text)}"') == terms.literal(text)
    assert terms.parse_term(f'"{spelled(text)}"^^<{terms.XSD}string>') == terms.literal(text)
    assert terms.parse_term(f'"{spelled(text)}"^^<{spelled(datatype)}>') == terms.literal(text, datatype)
    assert terms.parse_term(f'"{spelled(text)}"@{tag.upper()}') == terms.literal(text, None, tag)
    assert terms.parse_term(f"<{spelled(datatype)}>") == terms.iri(datatype)


@given(anything)
def test_canonical_terms_survive_parsing_and_json(term: str) -> None:
    assert terms.parse_term(term) == term
    assert terms.from_json(terms.to_json(term)) == term


@given(texts, iris)
def test_the_lexical_form_is_the_text_given(text: str, datatype: str) -> None:
    assert terms.lexical(terms.literal(text)) == text
    assert terms.lexical(terms.literal(text, datatype)) == text
    assert terms.lexical(terms.iri(datatype)) == datatype
    assert terms.literal_parts(terms.literal(text, None, "EN")) == (text, None, "en")


@given(st.text("abXY09_.:·ü֏￰", min_size=1, max_size=8), st.text("abXY09_.:·ü֏￰", min_size=1, max_size=8))
def test_skolem_iris_are_valid_and_distinct(a: str, b: str) -> None:
    """Labels may hold letters that IRIs may not; they still get an IRI of their own."""
    assert terms.parse_term(terms.skolem("pub", a)) == terms.skolem("pub", a)
    assert (terms.skolem("pub", a) == terms.skolem("pub", b)) == (a == b)


def test_a_skolem_iri_is_a_blank_node_in_results() -> None:
    term = terms.skolem("file-1", "b0")
    assert term == "<urn:bnode:file-1:b0>"
    assert terms.kind(term) is terms.Kind.BLANK
    assert terms.is_skolem(term)
    assert terms.to_json(term) == {"type": "bnode", "value": "file-1_3Ab0"}
    assert terms.from_json({"type": "bnode", "value": "file-1_3Ab0"}) == term
    assert (terms.spelled(term), terms.spelled("<urn:a>")) == ("_:file-1_3Ab0", "<urn:a>")


def test_label_of_every_blank_node_names_it_again() -> None:
    for publication in ("p", "p_3Aq", "-", "p-", "a.b", "00c0ffee"):
        for label in ("a", "-a", "_a", "5Fa", "a.", "~1", "~1~x", "x:y", "\u00e9", "\u65e5\u672c"):
            node = terms.skolem(publication, label)
            assert terms.unlabelled(terms.blank_label(node)) == node
            assert terms.from_json(terms.to_json(node)) == node


def test_labels_of_other_stores_are_other_nodes_and_stay_apart() -> None:
    labels = ["b0", "b_0", "a_41", "aA", "p_3aq", "p:q", "p_5F", "p_FF", "x y", "<", "_", "p_3Aq_41"]
    assert [terms.unlabelled(label) for label in labels] == [None] * len(labels)
    assert len({terms.from_json({"type": "bnode", "value": label}) for label in labels}) == len(labels)


def test_kinds() -> None:
    assert terms.kind("<http://x/>") is terms.Kind.IRI
    assert terms.kind('"<http://x/>"') is terms.Kind.LITERAL
    assert terms.language('"a"@en') == "en"
    assert terms.language("<http://x/>") is None


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "x", "<", "<>", "<a>", "<http://a b>", "<http://a\\u0020b>", '"a', '"a"b', '"a"@', '"a"@1',
        '"a"^^', '"a"^^b', '"a"^^<b>', '"a" ', ' "a"', '"a" .', '"a" . #', '"a" . <a:b> <a:b> <a:b>', "_:b",
        '"a\nb"', "?x", "<<( <a:a> <a:b> _:c )>>", '"a"@en--up',
        "<<( <a:a> <a:b> <a:c> )>> . <a:a> <a:b> <<( <a:a> <a:b> <a:c> )>>", "<<( <a:a> <a:b> <a:c> )>> . # )>>",
        "<<( <a:a> <a:b> )>>", '<<( "a" <a:b> <a:c> )>>', "<<( <<( <a:a> <a:b> <a:c> )>> <a:b> <a:c> )>>",
        "<<( <a:a> <a:b> " * 17 + "<a:c>" + " )>>" * 17,
        '"\\x"', '"\\uD800"', '"\ud800"',
        "<http://x/\ud800>", '"a"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>', "<http://[x>",
        "<http://x/%zz>", "<a:b> <a:c>", "<a:b>#",
    ],
)  # fmt: skip
def test_a_bad_term_is_refused(text: str) -> None:
    with pytest.raises(DataRefused):
        terms.parse_term(text)


def test_a_refusal_names_the_input_and_the_reason() -> None:
    with pytest.raises(DataRefused, match=r"http://a b.*Invalid IRI code point ' '"):
        terms.iri("http://a b")
    with pytest.raises(DataRefused, match="both language 'en' and datatype"):
        terms.literal("a", "http://x/", "en")
    with pytest.raises(DataRefused, match="needs a language tag"):
        terms.literal("a", terms.LANG_STRING)
    with pytest.raises(DataRefused, match="publication identifier"):
        terms.skolem("a:b", "x")
    for wrong in ({}, {"type": "uri"}, {"type": "triple", "value": "x"}, {"type": "uri", "value": "x"}):
        with pytest.raises(DataRefused):
            terms.from_json(wrong)


def test_a_term_is_bounded_in_bytes_not_characters() -> None:
    assert len(terms.literal("a" * (terms.TERM_BYTES_MAX - 2))) == terms.TERM_BYTES_MAX
    for text in ("a" * (terms.TERM_BYTES_MAX - 1), "é" * (terms.TERM_BYTES_MAX // 2)):
        with pytest.raises(DataRefused, match="exceeds 4194304 bytes"):
            terms.literal(text)
    with pytest.raises(DataRefused, match="exceeds"):
        terms.parse_term('"' + "a" * terms.TERM_BYTES_MAX * 3 + '"')
    assert len(terms.parse_term('"' + "a" * 1_000_000 + '"')) == 1_000_002


@pytest.mark.parametrize("text", ["<urn:\ud800>", '"\ud800"', "_:b", *BAD_IRIS], ids=ascii)
def test_a_text_that_is_no_term_is_refused_by_name_among_many_that_are(text):
    with pytest.raises(DataRefused, match="write an absolute IRI in <>, or a literal in quotation marks"):
        terms.check_all(["<urn:a>", text, '"b"'])


def test_terms_are_checked_by_the_thousand_and_parsed_only_where_that_is_not_enough(monkeypatch):
    parsed = []
    monkeypatch.setattr(terms, "parse_term", lambda text: parsed.append(text) or text)
    plain = [f"<http://example.org/{number}?a#b>" for number in range(9000)]
    plain += ['"a\\nb \\"c\\" \\\\"', '"é"@de-at', f'"1"^^<{terms.XSD}integer>', "<urn:x:%20>", "<urn:é>", ""]
    terms.check_all(plain)
    assert not parsed
    unusual = ["<http://[::1]/>", "<http://u@h/>", "<http://é.org/>"]
    terms.check_all(plain + unusual)
    assert parsed == unusual


TRIPLE = '<<( <urn:bnode:p:b> <a:p> <<( <a:s> <a:p> "x \\" <urn:bnode:p:b> )>>"@ar--rtl )>> )>>'


def test_a_triple_term_keeps_its_parts_in_every_form() -> None:
    spelled = '<<(<urn:bnode:p:b><a:p><<( <a:s> <a:p> "x \\u0022 <urn:bnode:p:b> )>>"@AR--rtl)>>)>>'
    assert terms.parse_term(spelled) == terms.parse_term(TRIPLE) == TRIPLE
    assert list(terms.refusals([TRIPLE, '"x"@en--ltr'])) == []
    s, p, o = terms.triple_parts(TRIPLE)
    assert terms.triple_term(s, p, o) == TRIPLE
    assert terms.kind(TRIPLE) is terms.Kind.TRIPLE
    assert terms.is_object_only(TRIPLE)
    assert terms.lexical(TRIPLE) == TRIPLE
    assert f"<<( {terms.to_pyoxigraph(TRIPLE)} )>>" == TRIPLE
    assert terms.spelled(TRIPLE) == '<<( _:p_3Ab <a:p> <<( <a:s> <a:p> "x \\" <urn:bnode:p:b> )>>"@ar--rtl )>> )>>'
    made = terms.to_json(TRIPLE)
    assert made["value"]["object"]["value"]["object"] == {
        "type": "literal", "value": 'x " <urn:bnode:p:b> )>>', "xml:lang": "ar", "its:dir": "rtl",
    }  # fmt: skip
    assert terms.from_json(made) == TRIPLE
    assert terms.language('"x"@ar--rtl') == "ar"


def test_terms_that_make_no_triple_term_are_refused() -> None:
    for s, p, o in (('"x"', "<a:p>", "<a:o>"), (TRIPLE, "<a:p>", "<a:o>"), ("<a:s>", '"x"', "<a:o>"),
                    ("<a:s>", "<urn:bnode:p:b>", "<a:o>")):  # fmt: skip
        with pytest.raises(DataRefused, match="a triple term has"):
            terms.triple_term(s, p, o)
    deep = "<a:o>"
    for _ in range(terms.TRIPLE_TERM_DEPTH_MAX):
        deep = terms.triple_term("<a:s>", "<a:p>", deep)
    with pytest.raises(DataRefused, match="deeper than 16"):
        terms.triple_term("<a:s>", "<a:p>", deep)
    nested = terms.to_json(deep)
    with pytest.raises(DataRefused, match="deeper than 16"):
        terms.from_json({"type": "triple", "value": {**nested["value"], "object": nested}})
    for bad in ({}, {"subject": 1, "predicate": 1, "object": 1}):
        with pytest.raises(DataRefused):
            terms.from_json({"type": "triple", "value": bad})
