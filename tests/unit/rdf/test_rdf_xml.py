"""RDF/XML: languages taken away, XML literals, entities, and errors by line."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from field_cases import field_case

from p2prdf.errors import DataRefused
from p2prdf.rdf import rdf_xml, terms
from p2prdf.rdf.ntriples import Syntax, read_triples

RDF = terms.RDF
XML_LITERAL = f"^^<{RDF}XMLLiteral>"


def objects(data: bytes) -> list[str]:
    """Return the objects that are literals; each has to be a term that may be published again."""
    batches = read_triples(io.BytesIO(data), publication_id="x", syntax=Syntax.RDF_XML, strict=True, source="a.rdf")
    found = [term for batch in batches for term in batch.o if term.startswith('"')]
    assert [terms.parse_term(term) for term in found] == found
    return found


def document(body: str, attributes: str = "") -> bytes:
    return f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:e="urn:e:" {attributes}>{body}</rdf:RDF>'.encode()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('<e:C><e:p>a</e:p><e:q xml:lang="">b</e:q></e:C>', ['"a"@en', '"b"']),
        ('<e:C xml:lang=""><e:p>a</e:p><e:q xml:lang="de">b</e:q><e:r>c</e:r></e:C>', ['"a"', '"b"@de', '"c"']),
        ('<e:C xml:lang="" e:p="a &quot;"><e:q xml:lang="fr">b</e:q></e:C>', ['"a \\""', '"b"@fr']),
        ('<e:C><e:p rdf:parseType="Resource" xml:lang=""><e:q>a</e:q></e:p><e:r>b</e:r></e:C>', ['"a"', '"b"@en']),
        ('<e:C><e:p xml:lang=""><e:D><e:q>a</e:q></e:D></e:p></e:C>', ['"a"']),
        ('<e:C xml:lang=""><e:p rdf:datatype="urn:t">a</e:p><e:q rdf:resource="urn:b"/></e:C>', ['"a"^^<urn:t>']),
        ('<e:C><e:p xml:lang=""/></e:C>', ['""']),
        ('<e:C><e:p>a<!-- no text -->b&#13;c</e:p></e:C>', ['"ab\\rc"@en']),
        (f'<e:C><e:p rdf:datatype="{RDF}langString">a</e:p></e:C>', ['"a"@en']),
    ],
)
def test_language_of_a_literal_is_that_of_the_nearest_element(body: str, found: list[str]) -> None:
    assert objects(document(body, 'xml:lang="en"')) == found


@pytest.mark.parametrize(
    ("inner", "canonical"),
    [
        ('<p xmlns="urn:h" xml:lang="en"></p>', '<p xmlns="urn:h" xml:lang="en"></p>'),
        ("a &lt; <e:b c='1' a='&gt;'/>", 'a &lt; <e:b xmlns:e="urn:e:" a=">" c="1"></e:b>'),
        ('<q xmlns="urn:q"><r xmlns=""/><s/></q>', '<q xmlns="urn:q"><r xmlns=""></r><s></s></q>'),
        ('<x:a xmlns:x="urn:1" xmlns:y="urn:2"><x:b y:c=""/></x:a>',
         '<x:a xmlns:x="urn:1"><x:b xmlns:y="urn:2" y:c=""></x:b></x:a>'),
        ("", ""),
    ],
)  # fmt: skip
def test_xml_literal_is_in_exclusive_canonical_form(inner: str, canonical: str) -> None:
    body = f'<e:C><e:p rdf:parseType="Literal">{inner}</e:p><e:q>z</e:q></e:C>'
    assert objects(document(body)) == [terms.literal(canonical, f"{RDF}XMLLiteral"), '"z"']


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<a>", r"a.rdf:1: malformed XML: no element found"),
        (document("") + b"\njunk", r"a.rdf:2: malformed XML: junk after document element"),
        (b'<!DOCTYPE r SYSTEM "http://x/y">' + document("<e:C><e:p>a&b;</e:p></e:C>"), "&b; is not declared"),
        (document("<e:C>" + "<e:p><e:C>" * 600), "elements nest deeper than 1000"),
        (document('<e:C><e:p xml:lang="" e:q="a"/></e:C>', 'xml:lang="en"'), "write the node as an element of its own"),
        (document(f'<e:C><e:p rdf:datatype="{RDF}langString">a</e:p></e:C>'), "needs a language tag"),
        (document('<e:C><e:p xml:lang="no tag">a</e:p></e:C>'), "language tag"),
    ],
)  # fmt: skip
def test_faults_are_refused_with_their_reason(data: bytes, reason: str) -> None:
    with pytest.raises(DataRefused, match=reason):
        objects(data)


def test_entities_that_grow_without_bound_are_refused() -> None:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 20}">' for n in range(1, 8))
    data = f'<!DOCTYPE r [<!ENTITY a0 "{"x" * 1000}">{entities}]>'.encode()
    for body, reason in (
        ("<e:C><e:p>&a7;</e:p></e:C>", "a literal of more than 4194304 bytes"),
        ('<e:C><e:p rdf:parseType="Literal">&a7;</e:p></e:C>', "an XML literal of more than"),
        ('<e:C e:p="&a7;"/>', "amplification|exceeds"),
    ):  # fmt: skip
        with pytest.raises(DataRefused, match=reason):
            objects(data + document(body))


def test_refused_external_entity_is_named() -> None:
    data = b'<!DOCTYPE r [<!ENTITY secret SYSTEM "file:///etc/passwd">]>'
    with pytest.raises(DataRefused, match="the entity secret is declared outside"):
        objects(data + document("<e:C><e:p>&secret;</e:p></e:C>"))


def test_xml_literal_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf_xml, "XML_LITERAL_CHARACTERS_MAX", 100)
    with pytest.raises(DataRefused, match="an XML literal of more than 100 characters"):
        objects(document(f'<e:C><e:p rdf:parseType="Literal">{"a" * 101}</e:p></e:C>'))


def test_many_prefixes_in_a_deep_xml_literal_are_written_once() -> None:
    prefixes = "".join(f' xmlns:p{number}="u{number}:" p{number}:a=""' for number in range(15_000))
    inner = f"<b{prefixes}>" + '<x:c xmlns:x="v:">' * 900 + "</x:c>" * 900 + "</b>"
    tracemalloc.start()
    (found,) = objects(document(f'<e:C><e:p rdf:parseType="Literal">{inner}</e:p></e:C>'))
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.count("xmlns:p14999"), found.count("xmlns:x"), found.count("<x:c")) == (1, 1, 900)
    assert used < 200 << 20


def test_statements_before_a_fault_are_given() -> None:
    data = document("<e:C><e:p>a</e:p></e:C><e:C><e:q>b</e:C>")
    batches = read_triples(io.BytesIO(data), publication_id="x", syntax=Syntax.RDF_XML, strict=True)
    assert '"a"' in next(batches).o
    with pytest.raises(DataRefused, match="mismatched tag"):
        next(batches)


def test_entities_encodings_and_namespaces_without_a_prefix_are_read() -> None:
    head = '<?xml version="1.0" encoding="ISO-8859-1"?><!DOCTYPE r [<!ENTITY e "urn:e:">]>'
    head += f'<RDF xmlns="{RDF}" xml:lang="de">'
    body = '<Description><p xmlns="&e;" xml:lang="">\xe9</p></Description></RDF>'
    assert objects((head + body).encode("latin-1")) == ['"é"']


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("xl.rdf", ['"yes"@en', '"no"']),
        ("xmlliteral.rdf", [f'"<p xmlns=\\"http://www.w3.org/1999/xhtml\\" xml:lang=\\"en\\"></p>"{XML_LITERAL}']),
        ("langstring.rdf", ['"Void"@en']),
    ],
)
def test_field_case_of_rdf_xml_is_right(name: str, found: list[str]) -> None:
    assert objects((field_case("07-rdfxml-empty-lang") / name).read_bytes()) == found
