"""Results of other endpoints: both formats, blank nodes, bounds, and triple terms that are refused unread."""

from __future__ import annotations

import json
import time

import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf.query_results import COLUMNS_MAX, RESULT_FORMATS, read_solutions

JSON = "application/sparql-results+json"
XML = "application/sparql-results+xml"
X = {"type": "uri", "value": "urn:x"}
BINDINGS = [
    {"a": X, "b": {"type": "literal", "value": 'say\n"x"', "xml:lang": "EN"}}, {"a": {"type": "bnode", "value": "b0"}},
    {"b": {"type": "literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}},
]  # fmt: skip
ROWS = [
    ("<urn:x>", '"say\\n\\"x\\""@en'), ("<urn:bnode:s:b0>", None),
    (None, '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'),
]  # fmt: skip
IN_XML = """<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="a"/>
<variable name="b"/></head><results><result><binding name="a"><uri>urn:x</uri></binding><binding name="b">
<literal xml:lang="EN">say
"x"</literal></binding></result><result><binding name="a"><bnode>b0</bnode></binding></result><result>
<binding name="b"><literal datatype="http://www.w3.org/2001/XMLSchema#integer">1</literal></binding></result></results>
</sparql>"""


def in_json(bindings, **more):
    return json.dumps({"head": {"vars": ["a", "b"]}, "results": {"bindings": bindings}, **more}).encode()


def read(body, media_type=JSON, rows_max=100):
    return read_solutions(body, media_type, scope="s", source="http://e.org/", rows_max=rows_max)


def test_both_formats_give_canonical_terms():
    for media_type, body in ((JSON, in_json(BINDINGS)), (XML, IN_XML.encode())):
        names, rows = read(body, media_type)
        assert sorted(names) == ["a", "b"]
        assert [(row[names.index("a")], row[names.index("b")]) for row in rows] == ROWS


def test_rows_are_bounded():
    body = in_json([{"a": X}] * 5)
    assert len(read(body, rows_max=5)[1]) == 5
    with pytest.raises(DataRefused, match="more than 4 solutions"):
        read(body, rows_max=4)


def nested(depth):
    """Return a binding of a triple term that nests so deeply, built without recursion."""
    start = '{"type":"triple","value":{"subject":' + json.dumps(X) + ',"predicate":' + json.dumps(X) + ',"object":'
    return (start * depth + json.dumps(X) + "}}" * depth).encode()


@pytest.mark.parametrize("depth", [1, 100_000])
def test_triple_terms_are_refused_before_they_are_read(depth):
    body = b'{"head":{"vars":["a"]},"results":{"bindings":[{"a":' + nested(depth) + b"}]}}"
    for each in (body, body.replace(b'"type":"triple"', b'"ty\\u0070e":"triple"')):
        with pytest.raises(DataRefused):
            read(each)
    inner = "<triple>" * depth + "<uri>urn:x</uri>" + "</triple>" * depth
    with pytest.raises(DataRefused, match="triple terms"):
        read(IN_XML.replace("<uri>urn:x</uri>", inner).encode(), XML)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"", JSON), (b"<html>", JSON), (b"{}", JSON), (b"[" * 100_000, JSON), (b"\xff\xfe", JSON), (b"<html/>", XML),
        (in_json([{"a": {"type": "uri", "value": "no iri"}}]), JSON), (in_json([{"a": {"type": "?"}}]), JSON),
        (json.dumps({"head": {}, "boolean": True}).encode(), JSON), (in_json(BINDINGS)[:-20], JSON),
        (IN_XML.replace(">1<", "> 1<").encode(), XML), (IN_XML.replace('"x"<', '"x"\n<').encode(), XML),
        (IN_XML.encode()[:-40], XML), (IN_XML.replace("urn:x", "&x;").encode(), XML),
        (b'<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + IN_XML[21:].replace("urn:x", "&x;").encode(), XML),
    ],
)  # fmt: skip
def test_other_bodies_are_refused(body, media_type):
    with pytest.raises(DataRefused) as caught:
        read(body, media_type)
    assert "http://e.org/" in str(caught.value)


def within(cell):
    return b'{"head":{"vars":["a"]},"results":{"bindings":[' + cell + b"]}}"


def within_xml(cell, prefix=b""):
    start, end = IN_XML.encode().split(b"<uri>urn:x</uri>", 1)
    return (start.replace(b" xmlns", b" xmlns:" + prefix + b'="a:" xmlns') if prefix else start) + cell + end


def with_variables(count):
    variables = b"".join(b'<variable name="v%d"/>' % number for number in range(count))
    return IN_XML.encode().replace(b"</head>", variables + b"</head>")


LONG = {
    "arrays": (JSON, "triple terms", lambda: within(b'{"a":' + b"[" * 4_000_000)),
    "objects": (JSON, "triple terms", lambda: within(b'{"a":' * 2_000_000)),
    "string without end": (JSON, "triple terms", lambda: within(b'"' + b'\\"' * 2_000_000)),
    "spaces": (JSON, "malformed", lambda: b" " * 12_000_000),
    "spaces in XML": (XML, "malformed", lambda: b" " * 12_000_000),
    "spaces after a type": (JSON, "malformed", lambda: b'"type"' + b" " * 12_000_000),
    "types": (JSON, "malformed", lambda: b'"type"' * 2_000_000),
    "names": (JSON, "1,000 var", lambda: b'{"head":{"vars":["a"' + b',"b"' * 2_000_000 + b"]}}"),
    "literal": (JSON, "4194304", lambda: within(b'{"a":{"type":"literal","value":"' + b"a" * 10_000_000 + b'"}}')),
    "escapes": (JSON, "16 MiB", lambda: within(b'{"a":{"type":"literal","value":"' + b"\\u0041" * 2_790_000 + b'"}}')),
    "rows": (JSON, "more than 100 sol", lambda: within(b"{}" + b",{}" * 4_000_000)),
    "triples": (XML, "triple terms", lambda: within_xml(b"<triple>" * 100_000)),
    "triples with a prefix": (XML, "triple terms", lambda: within_xml(b"<p1:triple>" * 100_000, b"p1")),
    "triples with another": (XML, "triple terms", lambda: within_xml(b"<\xc3\xa9:triple>" * 100_000, b"\xc3\xa9")),
    "literals": (XML, "malformed", lambda: within_xml(b"<literal" * 1_000_000)),
    "spaces in a literal": (XML, "malformed", lambda: within_xml(b"<literal " + b" " * 8_000_000)),
    "angles": (XML, "malformed", lambda: within_xml(b"<" * 8_000_000)),
    "elements": (XML, "malformed", lambda: within_xml(b"<a>" * 2_000_000)),
    "variables": (XML, "1,000 var", lambda: with_variables(400_000)),
    "literal in XML": (XML, "4194304", lambda: within_xml(b"<literal>" + b"a" * 10_000_000 + b"</literal>")),
}


@pytest.mark.parametrize("name", LONG)
def test_long_bodies_are_refused_in_linear_time(name):
    media_type, reason, made = LONG[name]
    body, begun = made(), time.process_time()
    with pytest.raises(DataRefused, match=reason) as caught:
        read(body, media_type)
    assert time.process_time() - begun < 10
    assert "http://e.org/" in str(caught.value)


def test_a_thousand_variables_are_read():
    names = [f"v{number}" for number in range(COLUMNS_MAX)]
    body = json.dumps({"head": {"vars": names}, "results": {"bindings": [{"v7": X}] * 3}}).encode()
    found, rows = read(body)
    assert (set(found), len(rows)) == (set(names), 3)
    assert [value for value in rows[0] if value] == ["<urn:x>"]


def test_media_types_are_those_of_both_formats():
    assert {*map(str, RESULT_FORMATS)} >= {JSON, XML}
