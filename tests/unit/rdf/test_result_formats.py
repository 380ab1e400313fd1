"""Result formats: the parsers of rdflib and pyoxigraph read back the rows written."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Sequence

import pyoxigraph as ox
import pytest
from rdflib import BNode, URIRef
from rdflib.query import Result
from rdflib.term import Identifier, Literal

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.rdf import terms
from p2prdf.rdf.result_formats import Format, boolean, writer
from p2prdf.rdf.result_table import CELL_WIDTH_MAX, ROWS_HELD

Row = tuple[str | None, ...]

SOLUTIONS = [Format.JSON, Format.CSV, Format.TSV, Format.XML]
OX = {
    Format.JSON: ox.QueryResultsFormat.JSON,
    Format.TSV: ox.QueryResultsFormat.TSV,
    Format.XML: ox.QueryResultsFormat.XML,
}
XSD = terms.XSD


def written(wanted: Format, names: Sequence[str], rows: Sequence[Row]) -> str:
    pieces: list[str] = []
    into = writer(wanted, names, pieces.append)
    into.rows(rows[:2])
    into.rows(iter(rows[2:]))
    into.end()
    return "".join(pieces)


# --- random rows ---------------------------------------------------------------------------------

PIECES = [
    '"', "'", "\n", "\r", "\r\n", "\t", ",", ";", " ", "  ", "\\", "\\n", "\\u0041", "é", "日本", "𝄞", "a\u0301",
    "\u200d", "\x7f", "\x85", "\u2028", "\u2029", "&", "<", ">", "]]>", "&amp;", "&#65;", "<!--", "?", "_:b", "{", "}",
    "null", "true", "1", "http://x/", "@en", "^^", "#", "\ufeff", "=1+1", "x", "word",
]  # fmt: skip
NOT_XML = ["\0", "\x01", "\b", "\v", "\f", "\x1b", "\x1c", "\x1d", "\x1e", "\ufffe", "\uffff"]
TAGS = ["en", "EN-gb", "zh-hant-tw"]
TYPES = ["http://x/t?a=1&b='2'", "http://x/é", XSD + "string", XSD + "integer", XSD + "hexBinary", XSD + "date"]
PLACES = ["http://x/a", "http://x/é?q=1&r='2'#f", "urn:x:\u2028", "http://x/(1),2;_~!$*+", "a:b"]


class Maker:
    def __init__(self, seed: int, *, pieces: Sequence[str] = PIECES):
        self.rng = random.Random(seed)
        self._pieces = pieces

    def table(self) -> tuple[list[str], list[Row]]:
        names = self.rng.sample(["x", "y", "_1", "0", "été", "Größe", "head", "a_long_name"], self.rng.randint(1, 5))
        return names, [tuple(self.term() for _ in names) for _ in range(self.rng.choice([0, 1, 2, 3, 20]))]

    def term(self) -> str | None:
        match self.rng.randrange(7):
            case 0:
                return None
            case 1:
                return terms.iri(self.rng.choice(PLACES))
            case 2:
                label = self.rng.choice(["b", "b1", "a.b", "_", "é", "a:b", "-"])
                return terms.skolem(self.rng.choice(["p", "00c0ffee", "a-b.c_d", "-x"]), label)
            case 3:
                return f"<urn:bnode:p:~{self.rng.randrange(99)}>"
            case 4:
                return terms.literal(self.text(), self.rng.choice(TYPES))
            case 5:
                return terms.literal(self.text(), language=self.rng.choice(TAGS))
        return terms.literal(self.text())

    def text(self) -> str:
        return "".join(self.rng.choice(self._pieces) for _ in range(self.rng.choice([0, 1, 1, 2, 3, 6])))


def as_ox(term: str | None) -> object:
    if term is None:
        return None
    if term.startswith("<"):
        return ox.BlankNode(terms.blank_label(term)) if terms.is_skolem(term) else ox.NamedNode(term[1:-1])
    lexical, datatype, tag = terms.literal_parts(term)
    if tag is not None:
        return ox.Literal(lexical, language=tag)
    return ox.Literal(lexical, datatype=ox.NamedNode(datatype or XSD + "string"))


def as_rdflib(term: str | None) -> Identifier | None:
    if term is None:
        return None
    if term.startswith("<"):
        return BNode(terms.blank_label(term)) if terms.is_skolem(term) else URIRef(term[1:-1])
    lexical, datatype, tag = terms.literal_parts(term)
    return Literal(lexical, datatype=None if datatype is None else URIRef(datatype), lang=tag, normalize=False)


def read_by_ox(wanted: Format, text: str) -> tuple[list[str], list[tuple[object, ...]]]:
    found = ox.parse_query_results(text.encode(), format=OX[wanted])
    assert isinstance(found, ox.QuerySolutions)
    return [variable.value for variable in found.variables], [tuple(solution) for solution in found]


def read_by_rdflib(wanted: Format, text: str) -> tuple[list[str], list[Row]]:
    found = Result.parse(io.BytesIO(text.encode()), format=wanted.value)
    assert found.vars is not None
    rows = [tuple(binding.get(name) for name in found.vars) for binding in found.bindings]
    return [str(name) for name in found.vars], rows


@pytest.mark.parametrize("wanted", OX)
@pytest.mark.parametrize("seed", range(60))
def test_pyoxigraph_reads_back_the_rows_written(wanted: Format, seed: int) -> None:
    pieces = PIECES if wanted is Format.XML else PIECES + NOT_XML
    names, rows = Maker(seed, pieces=pieces).table()
    expected = [tuple(map(as_ox, row)) for row in rows]
    assert read_by_ox(wanted, written(wanted, names, rows)) == (names, expected)


def lexical(term: str | None) -> str:
    if term is None:
        return ""
    return "_:" + terms.blank_label(term) if terms.is_skolem(term) else terms.lexical(term)


AS_CODES = re.compile("[\x7f\x85\u2028\u2029]")
"""In TSV ``\\u`` and a number, which rdflib's reader does not know there; nor does it see a row in an empty line."""


@pytest.mark.parametrize("wanted", OX)
@pytest.mark.parametrize("seed", range(60))
def test_rdflib_reads_back_the_rows_written(wanted: Format, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rdflib.NORMALIZE_LITERALS", False)  # "01" keeps its spelling
    names, rows = Maker(seed, pieces=PIECES + NOT_XML if wanted is Format.JSON else PIECES).table()
    if wanted is Format.TSV:
        rows = [row for row in rows if row != (None,) and not any(AS_CODES.search(lexical(term)) for term in row)]
    expected = [tuple(map(as_rdflib, row)) for row in rows]
    assert read_by_rdflib(wanted, written(wanted, names, rows)) == (names, expected)


@pytest.mark.parametrize("seed", range(100))
def test_comma_separated_values_are_the_lexical_forms(seed: int) -> None:
    names, rows = Maker(seed, pieces=PIECES + NOT_XML).table()
    text = written(Format.CSV, names, rows)
    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert found == [names, *([lexical(term) for term in row] for row in rows)]
    heads, read = read_by_rdflib(Format.CSV, text)
    assert heads == names
    bare = [["" if term is None else str(term).removeprefix("_:") for term in row] for row in read]
    assert bare == [[lexical(term).removeprefix("_:") for term in row] for row in rows]


@pytest.mark.parametrize("seed", range(50))
def test_triples_come_back(seed: int) -> None:
    maker = Maker(seed, pieces=PIECES + NOT_XML)
    places = [term for _ in range(60) if (term := maker.term()) is not None and term.startswith("<")]
    values = [term for _ in range(60) if (term := maker.term()) is not None]
    rows = [
        (maker.rng.choice(places), terms.iri(maker.rng.choice(PLACES)), maker.rng.choice(values)) for _ in range(30)
    ]
    found = ox.parse(written(Format.N_TRIPLES, ["s", "p", "o"], rows).encode(), format=ox.RdfFormat.N_TRIPLES)
    assert [(q.subject, q.predicate, q.object) for q in found] == [tuple(map(as_ox, row)) for row in rows]


# --- forms ---------------------------------------------------------------------------------------

INTEGER = f'"01"^^<{XSD}integer>'
ROWS: list[Row] = [
    ("<http://x/a>", '"say \\"hi\\", \\n"@en', None),
    (terms.skolem("p", "b"), '""', INTEGER),
    (None, None, None),
]


def test_how_each_format_looks() -> None:
    names = ["a", "b", "c"]
    assert written(Format.JSON, names, ROWS) == (
        '{"head":{"vars":["a","b","c"]},"results":{"bindings":[\n'
        '{"a":{"type":"uri","value":"http://x/a"},'
        '"b":{"type":"literal","value":"say \\"hi\\", \\n","xml:lang":"en"}},\n'
        '{"a":{"type":"bnode","value":"p_3Ab"},"b":{"type":"literal","value":""},'
        f'"c":{{"type":"literal","value":"01","datatype":"{XSD}integer"}}}},\n'
        "{}\n]}}\n"
    )
    assert written(Format.CSV, names, ROWS) == (
        'a,b,c\r\nhttp://x/a,"say ""hi"", \n",\r\n_:p_3Ab,"",01\r\n,,\r\n'
    )
    assert written(Format.TSV, names, ROWS) == (
        '?a\t?b\t?c\n<http://x/a>\t"say \\"hi\\", \\n"@en\t\n'
        f'_:p_3Ab\t""\t{INTEGER}\n\t\t\n'
    )
    assert written(Format.XML, names, ROWS) == (
        '<?xml version="1.0" encoding="UTF-8"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">\n'
        '<head><variable name="a"/><variable name="b"/><variable name="c"/></head>\n<results>\n'
        '<result><binding name="a"><uri>http://x/a</uri></binding>'
        '<binding name="b"><literal xml:lang="en">say "hi",&#x20;&#xA;</literal></binding></result>\n'
        '<result><binding name="a"><bnode>p_3Ab</bnode></binding><binding name="b"><literal></literal></binding>'
        f'<binding name="c"><literal datatype="{XSD}integer">01</literal></binding></result>\n'
        "<result></result>\n</results>\n</sparql>\n"
    )
    assert written(Format.TABLE, names, ROWS) == (
        "a             b                    c\n"
        f"------------  -------------------  {'-' * len(INTEGER)}\n"
        '<http://x/a>  "say \\"hi\\", \\n"@en\n'
        f'_:p_3Ab       ""                   {INTEGER}\n'
        "\n(3 rows)\n"
    )
    assert written(Format.N_TRIPLES, names, [("<a:s>", "<a:p>", terms.skolem("p", "o"))]) == "<a:s> <a:p> _:p_3Ao .\n"


@pytest.mark.parametrize("wanted", SOLUTIONS)
def test_a_result_may_be_empty(wanted: Format) -> None:
    text = written(wanted, ["x", "y"], [])
    assert read_by_rdflib(wanted, text) == (["x", "y"], [])
    if wanted in OX:
        assert read_by_ox(wanted, text) == (["x", "y"], [])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_result_may_have_no_columns(count: int) -> None:
    """Formats of lines have an empty line for each solution, which some parsers do not accept."""
    rows: list[Row] = [()] * count
    for wanted in OX:
        assert read_by_ox(wanted, written(wanted, [], rows)) == ([], rows)
    for wanted in (Format.JSON, Format.XML, Format.CSV):
        assert read_by_rdflib(wanted, written(wanted, [], rows)) == ([], rows)
    assert written(Format.TSV, [], rows) == "\n" * (count + 1)
    assert written(Format.CSV, [], rows) == "\r\n" * (count + 1)
    assert written(Format.TABLE, [], rows) == f"({count} row{'' if count == 1 else 's'})\n"


def test_an_unbound_value_alone_in_its_row_is_a_row() -> None:
    rows: list[Row] = [(None,), ('""',), (None,)]
    for wanted in OX:
        assert read_by_ox(wanted, written(wanted, ["x"], rows)) == (["x"], [tuple(map(as_ox, row)) for row in rows])
    assert list(csv.reader(io.StringIO(written(Format.CSV, ["x"], rows)))) == [["x"], [""], [""], [""]]


@pytest.mark.parametrize("value", [True, False])
def test_booleans(value: bool) -> None:
    for wanted, theirs in OX.items():
        text = boolean(wanted, value)
        assert bool(ox.parse_query_results(text.encode(), format=theirs)) is value
        if wanted is not Format.TSV:
            assert Result.parse(io.BytesIO(text.encode()), format=wanted.value).askAnswer is value
    assert json.loads(boolean(Format.JSON, value)) == {"head": {}, "boolean": value}
    assert boolean(Format.CSV, value).strip() == boolean(Format.TABLE, value).strip() == str(value).lower()
    with pytest.raises(LocalProtocolError, match="not that of ASK"):
        boolean(Format.N_TRIPLES, value)


# --- blank nodes ---------------------------------------------------------------------------------


def test_labels_are_valid_in_turtle_and_distinguish_nodes() -> None:
    nodes = [terms.skolem(p, label) for p in ("p", "p_3Aq", "-", "p-") for label in ("a", "-a", "_a", "5Fa", "a.", "é")]
    nodes += [f"<urn:bnode:{rest}>" for rest in ("", "p", "_", "~1", "p:q:a", "p/q?x#y", "日")]
    labels = [terms.blank_label(node) for node in nodes]
    assert len(set(labels)) == len(nodes)
    data = "".join(f"_:{label} <a:p> _:{label} .\n" for label in labels)
    found = [quad.subject.value for quad in ox.parse(data.encode(), format=ox.RdfFormat.TURTLE)]  # type: ignore[union-attr]
    assert found == labels


# --- unwritable terms -----------------------------------------------------------------------------


@pytest.mark.parametrize("character", NOT_XML)
def test_a_character_outside_of_xml_is_refused_by_name_after_the_rows_before(character: str) -> None:
    for bad in (terms.literal(f"a{character}"), terms.literal(character, language="en")):
        pieces: list[str] = []
        into = writer(Format.XML, ["x"], pieces.append)
        with pytest.raises(DataRefused, match=f"cannot hold the character U\\+{ord(character):04X}"):
            into.rows([('"good"',), (bad,), ('"never"',)])
        assert "".join(pieces).endswith("<result><binding name=\"x\"><literal>good</literal></binding></result>\n")
        into.end()
        assert read_by_ox(Format.XML, "".join(pieces)) == (["x"], [(ox.Literal("good"),)])


def test_an_iri_that_xml_cannot_hold_is_refused() -> None:
    with pytest.raises(DataRefused, match=r"U\+FFFE"):
        written(Format.XML, ["x"], [("<urn:x:\ufffe>",)])
    with pytest.raises(DataRefused, match=r"U\+FFFE"):
        written(Format.XML, ["x"], [('"a"^^<urn:x:\ufffe>',)])


def test_triples_are_three_bound_terms() -> None:
    with pytest.raises(LocalProtocolError, match="three columns of CONSTRUCT, not"):
        writer(Format.N_TRIPLES, ["s", "p"], str)
    with pytest.raises(DataRefused, match="unbound"):
        written(Format.N_TRIPLES, ["s", "p", "o"], [("<a:s>", None, "<a:o>")])


@pytest.mark.parametrize("wanted", Format)
def test_a_row_of_another_length_is_a_mistake_of_the_caller(wanted: Format) -> None:
    into = writer(wanted, ["s", "p", "o"], str)
    for row in (("<a:b>",), ("<a:b>",) * 4):
        with pytest.raises(ValueError):
            into.rows([row])


# --- tables --------------------------------------------------------------------------------------


def test_a_table_is_aligned_by_the_width_on_a_terminal() -> None:
    rows: list[Row] = [(terms.literal(text), "<a:o>") for text in ("日本", "e\u0301", "abcdef", "")]
    lines = written(Format.TABLE, ["x", "y"], rows).splitlines()
    assert lines[1] == "--------  -----"
    assert lines[2] == '"日本"    <a:o>'
    assert lines[3] == '"e\u0301"       <a:o>'
    assert lines[4] == '"abcdef"  <a:o>'


def test_terms_in_a_table_are_spelled_as_the_caller_likes_and_steer_no_terminal() -> None:
    pieces: list[str] = []
    shown: list[str] = []

    def show(term: str) -> str:
        shown.append(term)
        return "a\x1b[2J\n\u202e\U000e0001b"

    into = writer(Format.TABLE, ["x"], pieces.append, show=show)
    into.rows([(terms.skolem("p", "b"),), (None,)])
    into.end()
    assert shown == ["_:p_3Ab"]
    assert "a\\u001B[2J\\u000A\\u202E\\U000E0001b\n" in "".join(pieces)


@pytest.mark.parametrize(
    ("text", "cell", "width"),
    [
        ("a" * 70, '"' + "a" * 70 + '"', CELL_WIDTH_MAX),
        ("a" * 71, '"' + "a" * 70 + "…", CELL_WIDTH_MAX),
        ("a" * 10_000, '"' + "a" * 70 + "…", CELL_WIDTH_MAX),
        ("日" * 35, '"' + "日" * 35 + '"', CELL_WIDTH_MAX),
        ("a" + "日" * 40, '"a' + "日" * 34 + "…", CELL_WIDTH_MAX - 1),
        ("\u0301" * 10_000, '"' + "\u0301" * (4 * CELL_WIDTH_MAX - 1) + "…", 2),
    ],
    ids=range(6),
)
def test_a_long_cell_is_cut(text: str, cell: str, width: int) -> None:
    lines = written(Format.TABLE, ["x", "y"], [(terms.literal(text), "<a:o>")]).splitlines()
    assert lines[1:3] == ["-" * width + "  -----", cell + "  <a:o>"]


def test_a_long_result_is_not_held_back() -> None:
    pieces: list[str] = []
    into = writer(Format.TABLE, ["x", "y"], pieces.append)
    into.rows([("<a:b>", "<a:c>")] * (ROWS_HELD - 1))
    assert not pieces
    into.rows([("<a:b>", "<a:c>"), ("<a:longer>", "<a:c>")])
    assert len(pieces) == 2 + ROWS_HELD + 1
    assert pieces[-2:] == ["<a:b>  <a:c>\n", "<a:longer>  <a:c>\n"]
    into.end()
    assert pieces[-1] == "(1,001 rows)\n"
