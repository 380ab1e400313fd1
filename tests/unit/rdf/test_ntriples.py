"""Readers: every good statement, every bad line by number, the same batches for any size of reads."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Iterable

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf.errors import DataRefused
from p2prdf.rdf import ntriples, terms
from p2prdf.rdf.ntriples import BadLine, Syntax, TripleBatch, detect, read_triples

Triple = tuple[str, str, str]


def triples_of(batches: Iterable[TripleBatch]) -> list[Triple]:
    return [triple for batch in batches for triple in zip(batch.s, batch.p, batch.o, strict=True)]


def read(data: bytes, **options: object) -> tuple[list[Triple], list[BadLine]]:
    bad: list[BadLine] = []
    batches = read_triples(
        io.BytesIO(data), publication_id="p", on_bad_line=bad.append, **options  # type: ignore[arg-type]
    )
    return triples_of(batches), bad


def lines(count: int) -> list[bytes]:
    return [b'<http://x/%d> <http://x/p> "value %d"@EN .\n' % (n, n) for n in range(count)]


def read_until_refused(data: bytes, **options: object) -> tuple[list[Triple], DataRefused]:
    found: list[Triple] = []
    reader = read_triples(io.BytesIO(data), publication_id="p", **options)  # type: ignore[arg-type]
    try:
        for batch in reader:
            found += triples_of([batch])
    except DataRefused as error:
        return found, error
    pytest.fail("the data was not refused")


class Trickle(io.RawIOBase):
    """A stream that returns a few bytes at a time, as sockets and pipes do."""

    def __init__(self, data: bytes, step: int):
        self._data = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._step) if size >= 0 else self._step)


subjects = st.sampled_from(["<http://x/s>", "_:b", "_:b.1", "<http://x/é>"])
objects = st.one_of(
    subjects,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(terms.literal),
    st.sampled_from(['"1"^^<http://x/t>', '"a"@en-gb', '"\\u0041\\t"', f'"1"^^<{terms.XSD}string>']),
)


@given(st.lists(st.tuples(subjects, objects), max_size=30))
def test_n_triples_equal_pyoxigraphs_term_by_term(pairs: list[tuple[str, str]]) -> None:
    """The fast way (one string a statement, cut at spaces) equals the plain way."""
    data = "".join(f"{s} <http://x/p> {o} .\n" for s, o in pairs).encode()

    def name(term: object) -> str:
        return terms.skolem("p", term.value) if isinstance(term, ox.BlankNode) else str(term)

    plain = [
        (name(quad.subject), str(quad.predicate), name(quad.object))
        for quad in ox.parse(data, format=ox.RdfFormat.N_TRIPLES)
    ]
    assert read(data) == (plain, [])


def test_batches_have_about_a_thousand_triples_and_their_position() -> None:
    data = b"# head\n\n" + b"".join(lines(5000))
    batches = list(read_triples(io.BytesIO(data), publication_id="p"))
    assert all(500 < len(batch.s) <= 1000 for batch in batches)
    done = 0
    for batch in batches:
        done += len(batch.s)
        assert batch.statements_done == done
        assert len(batch.s) == len(batch.p) == len(batch.o)
        assert batch.line >= done + 2
    assert batches[-1].statements_done == 5000
    assert batches[-1].line == 5002


@pytest.mark.parametrize("step", [7, 1000, 1 << 20])
def test_batches_do_not_depend_on_the_size_of_reads(step: int) -> None:
    data = b"".join(lines(3000)) + b"junk\n" + b"".join(lines(10))
    whole = list(read_triples(io.BytesIO(data), publication_id="p"))
    assert list(read_triples(Trickle(data, step), publication_id="p")) == whole  # type: ignore[arg-type]


@pytest.mark.parametrize("skip", [0, 1, 999, 1000, 2500, 2999, 3000, 4000])
def test_reading_resumes_after_any_number_of_statements(skip: int) -> None:
    data = b"".join(lines(1500)) + b"junk\n" + b"".join(lines(1500))
    everything, _ = read(data)
    rest, _ = read(data, skip=skip)
    assert rest == everything[skip:]
    batches = list(read_triples(io.BytesIO(data), publication_id="p", skip=skip))
    if batches:
        assert batches[-1].statements_done == 3000


BAD = {
    b"junk": "subject",
    b"<http://x/a> <http://x/p> .": "object",
    b'<http://x/a> <http://x/p> "open .': "end",
    b"<http://x/a b> <http://x/p> <http://x/o> .": "Invalid IRI code point ' '",
    b"<http://x/a\\u0020b> <http://x/p> <http://x/o> .": "Invalid IRI code point ' '",
    b"<a> <http://x/p> <http://x/o> .": "No scheme",
    b'<http://x/a> <http://x/p> "\xff\xfe" .': "UTF-8",
    b'"literal" <http://x/p> <http://x/o> .': "subject",
    b"<http://x/a> _:p <http://x/o> .": "predicate",
    b"<http://x/a> <http://x/p> <http://x/o>": "dot",
    b'<http://x/a> <http://x/p> <<( <http://x/a> "p" <http://x/o> )>> .': "predicate",
    b'<http://x/a> <http://x/p> "x"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString> .': "base direction",
    b'<http://x/a> <http://x/p> "x"@en--up .': "direction",
}


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("syntax", [Syntax.N_TRIPLES, Syntax.N_QUADS])
def test_a_bad_line_costs_itself_alone_and_is_named(line: bytes, syntax: Syntax) -> None:
    good = lines(40)
    triples, bad = read(b"".join(good[:20]) + line + b"\n" + b"".join(good[20:]), syntax=syntax)
    assert triples == read(b"".join(good))[0]
    assert [fault.line for fault in bad] == [21]
    assert BAD[line] in bad[0].reason


def test_line_numbers_hold_across_chunks_and_for_the_last_line() -> None:
    good = lines(12000)
    for at in (5, 4000, 11999):
        good[at] = b"junk\n"
    _, bad = read(b"".join(good) + b"no end of line")
    assert [fault.line for fault in bad] == [6, 4001, 12000, 12001]


def test_strict_stops_at_the_first_bad_line_with_all_before_it_delivered() -> None:
    data = b"".join(lines(1500)) + b"junk\n" + b"".join(lines(5))
    found, refused = read_until_refused(data, strict=True, source="file.nt")
    assert found == read(b"".join(lines(1500)))[0]
    assert (refused.source, refused.line) == ("file.nt", 1501)
    assert str(refused).startswith("file.nt:1501: ")


QUADS = b'<a:s> <a:p> "x y" <a:g> .\n<a:s> <a:p> _:b _:g .\n<a:s> <a:p> <a:o> .\n_:g <a:p> "<a> <b>"@en <a:g> .\n'


def test_graphs_are_named_beside_triples() -> None:
    trig = b'@prefix : <a:> . :g { :s :p "x y" } _:g { :s :p _:b } { :s :p :o } :g { _:g :p "<a> <b>"@en }'
    for data, syntax in ((QUADS, Syntax.N_QUADS), (trig, Syntax.TRIG)):
        (batch,) = read_triples(io.BytesIO(data), publication_id="p", syntax=syntax)
        assert list(zip(batch.s, batch.p, batch.o, batch.g, strict=True)) == [
            ("<a:s>", "<a:p>", '"x y"', "<a:g>"), ("<a:s>", "<a:p>", "<urn:bnode:p:b>", "<urn:bnode:p:g>"),
            ("<a:s>", "<a:p>", "<a:o>", ""), ("<urn:bnode:p:g>", "<a:p>", '"<a> <b>"@en', "<a:g>"),
        ]  # fmt: skip


def test_batches_that_name_no_graph_have_none_and_each_batch_is_for_itself() -> None:
    data = QUADS + b"<a:s> <a:p> <a:o> .\n" * 6
    batches = [*read_triples(io.BytesIO(data), publication_id="p", syntax=Syntax.N_QUADS, batch_triples=2)]
    assert [batch.g for batch in batches[2:]] == [[]] * 3
    assert [len(batch.g) for batch in batches[:2]] == [2, 2]
    for syntax, text in ((Syntax.N_TRIPLES, b"<a:s> <a:p> <a:o> ."), (Syntax.TRIG, b"<a:s> <a:p> <a:o> .")):
        (batch,) = read_triples(io.BytesIO(text), publication_id="p", syntax=syntax)
        assert batch.g == []


@pytest.mark.parametrize("skip", [0, 1, 3, 4])
def test_unnamed_nodes_and_graphs_have_the_same_labels_wherever_reading_goes_on(skip: int) -> None:
    trig = b"@prefix : <a:> . [] { [] :p [] } :g { [] :p [] } [] { :s :p [], :o }"

    def quads(skip: int, size: int) -> list[tuple[str, ...]]:
        batches = read_triples(
            io.BytesIO(trig), publication_id="p", syntax=Syntax.TRIG, skip=skip, batch_triples=size
        )
        return [row for b in batches for row in zip(b.s, b.p, b.o, b.g, strict=True)]

    assert len({term for row in quads(0, 9) for term in row if term.startswith("<urn:bnode:p:~")}) == 7
    assert quads(skip, 1) == quads(skip, 9) == quads(0, 9)[skip:]


def test_a_bad_line_among_quads_costs_that_line_alone() -> None:
    data = QUADS + b'junk\n<a:s> <a:p> <a:o> "literal" .\n' + QUADS
    bad: list[BadLine] = []
    batches = read_triples(io.BytesIO(data), publication_id="p", syntax=Syntax.N_QUADS, on_bad_line=bad.append)
    assert [graph for batch in batches for graph in batch.g] == ["<a:g>", "<urn:bnode:p:g>", "", "<a:g>"] * 2
    assert [each.line for each in bad] == [5, 6]


def test_odd_but_legal_n_triples() -> None:
    data = b'\r\n<a:s><a:p>"\x00".#c\r<a:s> <a:p> "a\\nb"@EN-us .\n\n# only a comment\n<a:s> <a:p> "--"@en .'
    assert read(data) == ([("<a:s>", "<a:p>", '"\\u0000"'), ("<a:s>", "<a:p>", '"a\\nb"@en-us'),
                           ("<a:s>", "<a:p>", '"--"@en')], [])  # fmt: skip
    assert read(b"") == ([], [])


def test_a_literal_of_a_megabyte_is_taken_and_one_too_long_is_named() -> None:
    fits = b"x" * (terms.TERM_BYTES_MAX - 2)
    data = b"".join(
        b'<a:s> <a:p> "%s" .\n' % text for text in (b"y" * 1_000_000, fits, fits + b"x", b"z" * (13 << 20), b"end")
    )
    triples, bad = read(data)
    assert [len(o) for _, _, o in triples] == [1_000_002, terms.TERM_BYTES_MAX, 5]
    assert [fault.line for fault in bad] == [3, 4]
    assert "exceeds 4194304 bytes" in bad[0].reason
    assert "longer than 12582912 bytes" in bad[1].reason


@pytest.mark.parametrize("terms_of_a_line", [b'<a:s> <a:p> "%s" .', b"_:%s <a:p> <a:o> ."])
def test_terms_that_become_too_long_by_escapes_are_named(terms_of_a_line: bytes) -> None:
    text = b"\x01" if b'"' in terms_of_a_line else "é".encode()
    data = b"".join(terms_of_a_line % (text * count) + b"\n" for count in (300_000, 1, 1_500_000, 1))
    triples, bad = read(data)
    assert [max(map(len, triple)) > 1000 for triple in triples] == [True, False, False]
    assert [fault.line for fault in bad] == [3]
    assert "exceeds 4194304 bytes" in bad[0].reason


def test_memory_stays_constant() -> None:
    """Ten times the data take no more memory."""

    def peak(count: int) -> int:
        data = io.BytesIO(b"".join(lines(count)))
        tracemalloc.start()
        for _ in read_triples(data, publication_id="p"):
            pass
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(30_000) < 1.5 * peak(3_000) + 1_000_000


TURTLE = b"""@prefix : <http://x/> .
:a :p 1, "x"@EN ; :q [ :r (1 [ :s _:named ]) ] .
_:named :p [] .
"""


def test_turtle() -> None:
    triples, _ = read(TURTLE, syntax=Syntax.TURTLE)
    assert ("<http://x/a>", "<http://x/p>", '"x"@en') in triples
    assert ("<urn:bnode:p:named>", "<http://x/p>", "<urn:bnode:p:~4>") in triples
    assert len(triples) == 10
    assert all("_:" not in s + o for s, _, o in triples)


@pytest.mark.parametrize("skip", range(11))
def test_unnamed_nodes_of_turtle_have_the_same_names_in_every_run(skip: int) -> None:
    everything, _ = read(TURTLE, syntax=Syntax.TURTLE)
    assert read(TURTLE, syntax=Syntax.TURTLE, skip=skip)[0] == everything[skip:]


def test_an_error_in_turtle_comes_with_its_line_after_the_triples_before_it() -> None:
    data = b"@prefix : <http://x/> .\n" + b":a :b :c .\n" * 2500 + b":a :b .\n:a :b :d .\n"
    found, refused = read_until_refused(data, syntax=Syntax.TURTLE, source="x.ttl")
    assert len(found) == 2500
    assert (refused.source, refused.line) == ("x.ttl", 2502)


def test_a_base_resolves_relative_iris_of_turtle() -> None:
    with pytest.raises(DataRefused, match="No scheme"):
        read(b"<a> <b> <c> .", syntax=Syntax.TURTLE)
    assert read(b"<a> <b> <c> .", syntax=Syntax.TURTLE, base="http://x/")[0] == [
        ("<http://x/a>", "<http://x/b>", "<http://x/c>")
    ]


@pytest.mark.parametrize("syntax", [Syntax.N_TRIPLES, Syntax.N_QUADS, Syntax.TURTLE, Syntax.TRIG])
def test_terms_of_rdf_1_2_are_read(syntax: Syntax) -> None:
    text = b'<a:a> <a:b> <<( _:n <a:b> <<( <a:a> <a:b> _:n )>> )>> .\n<a:a> <a:b> "_:n"@EN--rtl .\n'
    assert read(text, syntax=syntax)[0] == [
        ("<a:a>", "<a:b>", "<<( <urn:bnode:p:n> <a:b> <<( <a:a> <a:b> <urn:bnode:p:n> )>> )>>"),
        ("<a:a>", "<a:b>", '"_:n"@en--rtl'),
    ]


def test_unnamed_nodes_of_reifiers_are_numbered() -> None:
    found = read(b"<a:a> <a:b> <a:c> {| <a:p> [] |} .", syntax=Syntax.TURTLE)[0]
    reifies = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
    assert ("<urn:bnode:p:~0>", reifies, "<<( <a:a> <a:b> <a:c> )>>") in found
    assert ("<urn:bnode:p:~0>", "<a:p>", "<urn:bnode:p:~1>") in found


def test_too_many_unnamed_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ntriples, "UNNAMED_MAX", 3)
    assert len(read(b"<a:a> <a:b> [], [], [] .", syntax=Syntax.TURTLE)[0]) == 3
    with pytest.raises(DataRefused, match="more than 3 unnamed blank nodes"):
        read(b"<a:a> <a:b> [], [], [], [] .", syntax=Syntax.TURTLE)


def test_rdf_xml_is_read_with_its_unnamed_blank_nodes_numbered() -> None:
    text = b"""<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:u="urn:">
        <r:Description r:about="urn:a">
        <u:p><r:Description><u:q>1</u:q></r:Description></u:p><u:r r:nodeID="x"/></r:Description></r:RDF>"""
    triples, _ = read(text, syntax=Syntax.RDF_XML)
    assert sorted(triples) == sorted(read(text, syntax=Syntax.RDF_XML)[0])
    unnamed, named = (terms.skolem_prefix("p") + each + ">" for each in ("~0", "x"))
    held = [("<urn:a>", "<urn:p>", unnamed), ("<urn:a>", "<urn:r>", named), (unnamed, "<urn:q>", '"1"')]
    assert sorted(triples) == held


@pytest.mark.parametrize("syntax", [Syntax.N_TRIPLES, Syntax.N_QUADS, Syntax.TURTLE, Syntax.TRIG])
def test_compressed_data_and_damage_in_it(syntax: Syntax) -> None:
    packed = gzip.compress(b"".join(lines(20_000)))
    assert len(read(packed, syntax=syntax, compressed=True)[0]) == 20_000
    for damaged in (packed[: len(packed) // 2], b"no gzip at all", packed[:5000] + b"\0\0\0\0" + packed[5004:]):
        with pytest.raises(DataRefused, match=r"^s\.gz:"):
            read(damaged, syntax=syntax, compressed=True, source="s.gz", strict=True)


def test_the_name_determines_the_format() -> None:
    assert detect("a/b.nt") == (Syntax.N_TRIPLES, False)
    assert detect("B.NQ.GZ") == (Syntax.N_QUADS, True)
    assert detect("c.ttl.gz") == (Syntax.TURTLE, True)
    assert detect("d.owl") == detect("d.rdf") == (Syntax.RDF_XML, False)
    assert detect("e.jsonld") == (Syntax.JSON_LD, False)
    assert detect("e.nt.bz2") == detect("e.NT.xz") == detect("e.nt.zst") == (Syntax.N_TRIPLES, True)
    refused = {"x.n3": "write Turtle", "x.n3.gz": "write Turtle", "x.hdt": "N-Triples"}
    for name, reason in refused.items():
        with pytest.raises(DataRefused, match=reason):
            detect(name)
    for name in ("x", "x.xml", "nt", "x.gz"):
        with pytest.raises(DataRefused, match="no known suffix"):
            detect(name)


@settings(max_examples=150)
@given(st.lists(st.one_of(st.sampled_from([*BAD, *lines(3), b"", b"# c"]), st.binary(max_size=20)), max_size=12))
def test_any_bytes_are_either_triples_or_named_lines(chunks: list[bytes]) -> None:
    """Nothing raises but DataRefused, and a bad line in between changes nothing for the others."""
    chunks = [chunk.replace(b"\n", b" ") for chunk in chunks]
    data = b"\n".join(chunks)
    triples, bad = read(data)
    alone = [read(chunk) for chunk in chunks]
    assert triples == [triple for found, _ in alone for triple in found]
    assert len(bad) == sum(len(faults) for _, faults in alone)
    with pytest.raises(ValueError, match="skip"):
        read(data, skip=-1)


@pytest.mark.parametrize("syntax", [Syntax.TURTLE, Syntax.RDF_XML, Syntax.JSON_LD])
def test_invalid_base_is_refused(syntax: Syntax) -> None:
    """A gateway's base for the default graph contains the header Host of the request."""
    with pytest.raises(DataRefused, match="the base of relative IRIs is invalid"):
        read(b"", syntax=syntax, base="http://a b/graphs?default")
