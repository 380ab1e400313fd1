"""Short documents that stand for long terms: refused in bounded memory, after the statements before."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from p2prdf.errors import DataRefused
from p2prdf.rdf import terms
from p2prdf.rdf.ntriples import Syntax, read_triples

LONG = "a" * 400_000
NEST = "a" * 100_000
RDF = f'xmlns:rdf="{terms.RDF}"'
LD = '{"@id":"a:","a:p":1}'
MALICIOUS = {
    "prefix": (Syntax.TURTLE, f"@prefix : <u:{LONG}>. : : " + ":,::," * 50_000 + ":.", "200 times"),
    "list": (Syntax.TURTLE, f"@prefix : <u:{LONG}>. : : (" + ": " * 100_000 + ").", "200 times"),
    "base": (Syntax.TRIG, f"BASE <u:{LONG}> <> {{" + "<><><>." * 50_000 + "}", "200 times"),
    "nested nodes": (Syntax.TURTLE, f"PREFIX : <u:{NEST}>" + "[:" * 100_000, "brackets beside a prefix of"),
    "told levels": (Syntax.TURTLE, f'PREFIX : <u:{NEST}>' + '[:"]";:' * 100_000, "200 times|brackets beside"),
    "late prefix": (Syntax.TURTLE, f"@prefix :\n#\n<u:{NEST}>." + "<<::" * 100_000, "brackets beside a prefix of"),
    "triple terms": (Syntax.TRIG, f"@base<u:{NEST}>.<><>" + "<<(<><>" * 1_500, "brackets beside a prefix of"),
    "namespaces": (
        Syntax.RDF_XML, f'<rdf:RDF {RDF} xmlns:e="u:{LONG}">' + "<e:a/>" * 50_000, "65536 bytes expand to more than",
    ),
    "entity": (
        Syntax.RDF_XML, f'<!DOCTYPE r [<!ENTITY e "u:{LONG}">]><rdf:RDF {RDF} xmlns:e="v:">'
        + '<e:a rdf:about="&e;"/>' * 20_000, "200 times|65536 bytes expand|amplification",
    ),
    "xml:base": (
        Syntax.RDF_XML, f'<rdf:RDF {RDF} xmlns:e="v:" xml:base="http://h/{LONG}/">' + '<e:a rdf:about="b"/>' * 50_000,
        "200 times",
    ),
    "open elements": (
        Syntax.RDF_XML, f'<rdf:RDF {RDF} xmlns:e="u:{NEST}">' + "<e:a>" * 900, "names and bases of open elements",
    ),
    "context": (
        Syntax.JSON_LD, f'{{"@context":{{"a":"u:{LONG[:60_000]}/"}},"@graph":[' + f"{LD}," * 50_000 + f"{LD}]}}",
        "strings beside",
    ),
    "vocabulary": (
        Syntax.JSON_LD, f'{{"@context":{{"@vocab":"u:{LONG[:60_000]}"}},"@id":"a:b","@graph":['
        + '{"p":1},' * 50_000 + '{"p":1}]}', "strings beside",
    ),
    "context at the end": (
        Syntax.JSON_LD, '{"@graph":[' + f"{LD}," * 50_000 + f'{LD}],"@context":{{"a":"u:{LONG[:60_000]}/"}}}}',
        "strings beside",
    ),
    "chain": (
        Syntax.JSON_LD, '{"@context":{"t0":"u:/",'
        + ",".join(f'"t{n}":"t{n - 1}:{LONG[:100]}/"' for n in range(1, 500))
        + '},"@id":"t499:","@graph":[' + '{"t499:":1},' * 50_000 + '{"t499:":1}]}', "strings beside",
    ),
    "base in a context": (
        Syntax.JSON_LD, f'{{"@context":{{"@base":"u:{LONG[:60_000]}"}},"@id":"","u:p":['
        + '{"@id":""},' * 50_000 + '{"@id":""}]}', "strings beside",
    ),
    "token": (Syntax.TURTLE, f'<a:b> <a:p> "{LONG * 45}".', "more than 16 MiB"),
    "literal": (Syntax.TURTLE, f'<a:b> <a:p> 1, "{LONG * 11}".', "exceeds 4194304 bytes"),
}  # fmt: skip
BOUNDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (900 << 20,) * 2)
from p2prdf.rdf.ntriples import Syntax, read_triples
for batch in read_triples(sys.stdin.buffer, publication_id="x", syntax=Syntax[sys.argv[1]], strict=True, source="s"):
    size = max(sum(map(len, column)) for column in (batch.s, batch.p, batch.o))
    assert size < 6 << 20, size
"""


@pytest.mark.parametrize("name", MALICIOUS)
def test_expansion_is_refused_in_bounded_memory(name: str) -> None:
    syntax, text, reason = MALICIOUS[name]
    ran = subprocess.run(
        [sys.executable, "-c", BOUNDED, syntax.name], input=text.encode(), capture_output=True, timeout=100, check=False
    )
    told = ran.stderr.decode().strip().rpartition("\n")[2][:400]
    assert told.startswith("p2prdf.errors.DataRefused: s"), told
    assert any(each in told for each in reason.split("|")), told


@pytest.mark.parametrize(("syntax", "text", "count"), [
    (Syntax.TURTLE, "<urn:s> <urn:p> (" + "1 " * 30_000 + ").", 60_001),
    (Syntax.TURTLE, f'<urn:s> <urn:p> <data:{LONG}>, ' + "[]," * 1_000 + "[<urn:q> 1].", 1_003),
    (Syntax.TURTLE, f'<urn:s> <urn:p> "{LONG}"; <urn:q> ' + "[<urn:q>" * 500 + "[]" + "]" * 500 + ".", 502),
    (Syntax.RDF_XML, f'<rdf:RDF {RDF} xmlns:e="u:">' + "<e:a/>" * 30_000 + "</rdf:RDF>", 30_000),
    (Syntax.JSON_LD, '{"@id":"urn:a","urn:p":[' + "1,2," * 10_000 + "3]}", 20_001),
])  # fmt: skip
def test_documents_that_expand_much_are_read(syntax: Syntax, text: str, count: int) -> None:
    batches = read_triples(io.BytesIO(text.encode()), publication_id="x", syntax=syntax, strict=True)
    assert sum(len(batch.s) for batch in batches) == count


def test_statements_before_an_expansion_are_delivered() -> None:
    text = f"<u:s> <u:p> 1 . PREFIX : <u:{LONG}> " + ": : 1,2,3,4 ." * 100
    batches = read_triples(io.BytesIO(text.encode()), publication_id="x", syntax=Syntax.TURTLE)
    found = next(batches).s
    with pytest.raises(DataRefused, match="write shorter prefixes and bases, or N-Triples"):
        found += [subject for batch in batches for subject in batch.s]
    assert found[0] == "<u:s>"
    assert len(found) > 1


def test_large_contexts_of_real_documents_are_read() -> None:
    terms_of_it = ",".join(f'"t{n}":{{"@id":"s:{LONG[:40]}{n}","@type":"s:T"}}' for n in range(400))
    text = f'{{"@context":{{"s":"http://schema.example.org/","@vocab":"http://e/",{terms_of_it}}},"@graph":['
    text += ",".join(f'{{"@id":"s:{n}","t5":"v","t6":{{"@id":"s:x"}}}}' for n in range(30_000)) + "]}"
    batches = read_triples(io.BytesIO(text.encode()), publication_id="x", syntax=Syntax.JSON_LD, strict=True)
    assert sum(len(batch.s) for batch in batches) == 60_000
