"""Arrow columns into statements: terms as they are, ordinary columns by a mapping; errors are reported row by row."""

from __future__ import annotations

import datetime
import decimal
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from p2prdf.errors import DataRefused, LocalProtocolError  # noqa: E402
from p2prdf.publish.arrow_terms import check_terms, literals  # noqa: E402
from p2prdf.publish.options import writing_options  # noqa: E402
from p2prdf.publish.statements import Statements  # noqa: E402
from p2prdf.rdf import terms  # noqa: E402

A, P, G = "<urn:a>", "<urn:p>", "<urn:g>"


def taken(columns, mapping=None, batches=1):
    """Return the signed statements and the errors of columns cut into batches."""
    batch = columns if isinstance(columns, pa.RecordBatch) else pa.RecordBatch.from_pydict(columns)
    statements, found, bad = Statements(batch.schema, mapping), [], []
    count = batch.num_rows
    for part in range(batches):
        start, stop = count * part // batches, count * (part + 1) // batches
        for rows in statements.of(batch.slice(start, stop - start)):
            numbered = [column for column in (rows.s, rows.p, rows.o, rows.g) if column is not None]
            named = {int(number) for column in numbered for number in column}
            assert named == set(range(len(rows.texts))), "texts are those that are named, each once"
            assert len(set(rows.texts)) == len(rows.texts)
            graphs = [""] * len(rows) if rows.g is None else [rows.texts[at] for at in rows.g]
            for s, p, o, graph in zip(rows.s, rows.p, rows.o, graphs, strict=True):
                found.append(("-" if rows.removed else "+", *(rows.texts[at] for at in (s, p, o)), graph))
        bad += statements.bad
    assert statements.rows == count
    return found, bad


def mapped(options, columns, **more):
    mapping = writing_options({"peers": "a:1", **options}).mapping
    found, bad = taken(columns, mapping, **more)
    assert not bad
    return [row[1:4] for row in found]


# --- terms ---------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from([
        "<urn:a>", "<a>", "<urn:a b>", "<http://e.org/%20>", "<http://e.org/%2>", "<urn:é>", "<urn:\x80>", "_:b", "",
        '"', '"a"', '"a"@en', '"a"@EN-gb', '"a"@e n', '"a\\n"', '"a\n"', '"a"^^<urn:t>', '"a"^^<t>', '"\\u00e9"',
        '"\\u0001"', '"\\x"',
        f'"a"^^<{terms.XSD}string>', f'"a"^^<{terms.LANG_STRING}>', '"a"^^<urn:p2prdf:in>', '"urn:p2prdf:in"',
        "<urn:a> ", '"a"@toolongforatag', "<http://[::1]/>", "<http://[x/>", '"a""b"', "<urn:a><urn:b>", '"\x7f"',
        '"\t"',
    ]),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)), max_size=30, unique=True))
def test_texts_are_taken_by_the_column_as_they_are_parsed_one_by_one(texts):
    checked = check_terms(pa.array(texts, pa.string()))
    for at, text in enumerate(texts):
        try:
            wanted = terms.parse_term(text)
        except DataRefused:
            wanted = None
        if wanted is not None and '"^^<urn:p2prdf:' in wanted:
            wanted = None
        if wanted is None:
            assert checked.kinds[at] == 0, text
            assert checked.reasons[at]
        else:
            assert checked.texts[checked.place[at]] == wanted
            assert checked.kinds[at] == (2 if wanted[0] == '"' else 1)
    assert len(set(checked.texts)) == len(checked.texts)


def test_terms_in_other_spellings_are_the_same_terms():
    found, bad = taken({"s": [A] * 3, "p": [P] * 3, "o": ['"é"@EN', '"\\u00E9"@en', f'"x"^^<{terms.XSD}string>']})
    assert found == [("+", A, P, '"é"@en', ""), ("+", A, P, '"é"@en', ""), ("+", A, P, '"x"', "")]
    assert not bad


def test_graphs_may_be_null_and_are_iris():
    found, bad = taken({"s": [A] * 4, "p": [P] * 4, "o": [A] * 4, "graph": [G, None, "", '"g"']})
    assert [row[4] for row in found] == [G, "", ""]
    assert [(each.row, each.reason) for each in bad] == [(3, "graph is a literal")]


def test_a_bad_row_is_reported_with_its_place_and_content_and_its_neighbours_are_taken():
    columns = {
        "S": [A, None, '"x"', A, A, A], "p": [P, P, P, '"p"', P, P], "o": [A, A, A, A, "nothing", "_:b"],
        "sign": pa.array([1, 1, 1, 1, 1, 1], pa.int8()),
    }  # fmt: skip
    found, bad = taken(columns, batches=3)
    assert found == [("+", A, P, A, "")]
    assert [each.row for each in bad] == [1, 2, 3, 4, 5]
    assert [each.reason.split(":")[0] for each in bad] == [
        "subject is null", "subject is a literal", "predicate is a literal",
        "object is not an IRI or literal in N-Triples syntax", "object is a blank node has no meaning outside its file",
    ]  # fmt: skip
    assert bad[3].content == {"S": A, "p": P, "o": "nothing", "sign": 1}
    assert "'nothing'" in str(bad[3])


def test_signs_are_one_and_minus_one():
    _, bad = taken({"s": [A] * 3, "p": [P] * 3, "o": [A] * 3, "sign": [0, None, 2]})
    assert [each.reason for each in bad] == [f"sign is {sign}, but must be 1 or -1" for sign in (0, None, 2)]


@pytest.mark.parametrize("seed", range(10))
def test_each_triple_is_added_and_removed_in_the_order_of_its_rows(seed):
    rng = random.Random(seed)
    rows = [(f"<urn:{rng.randrange(1 + seed)}>", rng.choice((1, -1))) for _ in range(30)]
    subjects, signs = map(list, zip(*rows, strict=True))
    found, _ = taken({"s": subjects, "p": [P] * 30, "o": [A] * 30, "sign": signs}, batches=2)
    for subject in subjects:
        wanted = ["+" if sign > 0 else "-" for s, sign in rows if s == subject]
        assert [row[0] for row in found if row[1] == subject] == wanted


def test_where_no_triple_is_both_removals_go_first_and_in_one_piece():
    subjects = [f"<urn:{n}>" for n in range(6)]
    found, _ = taken({"s": subjects, "p": [P] * 6, "o": [A] * 6, "sign": [1, -1] * 3})
    assert [(row[0], row[1]) for row in found] == [
        *(("-", subjects[n]) for n in (1, 3, 5)), *(("+", subjects[n]) for n in (0, 2, 4)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"s": [A], "p": [P]}, "column o is missing among s, p"),
        ({"s": [A], "p": [P], "o": [A], "x": [A]}, "column x is none of s, p, o, graph, sign"),
        ({"s": [A], "p": [P], "o": [5]}, "column o is int64, but must be a string"),
        ({"s": [A], "p": [P], "o": [A], "sign": ["+"]}, "column sign is string"),
        ({"s": [A], "p": [P], "o": [A], "graph": [1]}, "column graph is int64"),
        ({"s": [A], "p": [P], "o": [A], "S": [A]}, "column S: there are two columns of this name"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name(columns, told):
    with pytest.raises(LocalProtocolError) as refusal:
        taken(columns)
    assert told in str(refusal.value)


# --- mappings ------------------------------------------------------------------------------------

VALUE = {"subject": "urn:{id}", "predicate.v": "urn:v"}


def objects(values, **options):
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(values))), values], ["id", "v"])
    return [o for _, _, o in mapped({**VALUE, **options}, batch)]


@pytest.mark.parametrize(
    ("values", "spelled"),
    [
        (pa.array([1, -2, None], pa.int16()), ['"1"^^<xsd:integer>', '"-2"^^<xsd:integer>']),
        (pa.array([1.5, float("nan"), float("inf"), -float("inf")]), [
            '"1.5"^^<xsd:double>', '"NaN"^^<xsd:double>', '"INF"^^<xsd:double>', '"-INF"^^<xsd:double>']),
        (pa.array([0.1], pa.float32()), ['"0.1"^^<xsd:float>']),
        (pa.array([True, False]), ['"true"^^<xsd:boolean>', '"false"^^<xsd:boolean>']),
        (pa.array([decimal.Decimal("1.50"), decimal.Decimal("0.0000001")], pa.decimal128(20, 10)), [
            '"1.5000000000"^^<xsd:decimal>', '"0.0000001000"^^<xsd:decimal>']),
        (pa.array([datetime.date(2026, 2, 3)]), ['"2026-02-03"^^<xsd:date>']),
        (pa.array([datetime.datetime(2026, 2, 3, 4, 5, 6, 120_000)], pa.timestamp("us")), [
            '"2026-02-03T04:05:06.12"^^<xsd:dateTime>']),
        (pa.array([datetime.datetime(2026, 2, 3, 4, 5, 6)], pa.timestamp("us")), [
            '"2026-02-03T04:05:06"^^<xsd:dateTime>']),
        (pa.array([datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)], pa.timestamp("us", "Europe/Berlin")), [
            '"2026-02-03T04:05:06Z"^^<xsd:dateTime>']),
        (pa.array(["plain", 'quo"te', "new\nline", "", "é\\"]), [
            '"plain"', '"quo\\"te"', '"new\\nline"', '""', '"é\\\\"']),
        (pa.array([b"\x00\xff"]), ['"00FF"^^<xsd:hexBinary>']),
        (pa.array([["a", "b"], [], None, ["c", None]]), ['"a"', '"b"', '"c"']),
        (pa.array([[1], [2, 3]]), ['"1"^^<xsd:integer>', '"2"^^<xsd:integer>', '"3"^^<xsd:integer>']),
    ],
)  # fmt: skip
def test_datatypes_follow_from_the_schema_and_null_is_nothing(values, spelled):
    assert objects(values) == [each.replace("<xsd:", f"<{terms.XSD}") for each in spelled]


def test_columns_may_have_a_datatype_or_language_or_be_iris():
    assert objects(pa.array(["1", "x"]), **{"datatype.v": f"{terms.XSD}integer"}) == [
        f'"1"^^<{terms.XSD}integer>', f'"x"^^<{terms.XSD}integer>',
    ]  # fmt: skip
    assert objects(pa.array(['a"b']), **{"language.v": "EN-gb"}) == ['"a\\"b"@en-gb']
    assert objects(pa.array(["a/b", None, "c"]), **{"object.v": "urn:room:{V}:x"}) == [
        "<urn:room:a%2Fb:x>", "<urn:room:c:x>",
    ]  # fmt: skip
    assert objects(pa.array([5]), **{"datatype.v": f"{terms.XSD}string"}) == ['"5"']


def test_triples_come_row_by_row_however_the_rows_are_cut_into_batches():
    rows = 20
    columns = {
        "id": list(range(rows)), "other": [None if n % 5 == 0 else f"o {n}" for n in range(rows)],
        "many": [list(range(n % 4)) for n in range(rows)],
    }  # fmt: skip
    options = {"subject": "urn:{ID}", "class": "urn:C", "predicate.other": "urn:o", "predicate.many": "urn:m"}
    whole = mapped(options, columns)
    assert [s for s, _, _ in whole] == sorted((s for s, _, _ in whole), key=lambda s: int(s[5:-1]))
    assert len(whole) == rows + 16 + 30
    for batches in (2, 7, 20):
        assert mapped(options, columns, batches=batches) == whole


def test_a_row_without_its_subject_is_nothing():
    assert mapped({**VALUE, "class": "urn:C"}, {"id": [None, 1], "v": ["a", "b"]}) == [
        ("<urn:1>", f"<{terms.RDF}type>", "<urn:C>"), ("<urn:1>", "<urn:v>", '"b"'),
    ]  # fmt: skip


def test_mapped_rows_have_signs_and_graphs_too():
    mapping = writing_options({"peers": "a:1", **VALUE}).mapping
    columns = {"id": [1, 2, 3], "v": [["a", "b"], ["c"], ["d"]], "sign": [1, -1, 5], "Graph": [G, None, None]}
    found, bad = taken(columns, mapping)
    assert sorted(found) == [
        ("+", "<urn:1>", "<urn:v>", '"a"', G), ("+", "<urn:1>", "<urn:v>", '"b"', G),
        ("-", "<urn:2>", "<urn:v>", '"c"', ""),
    ]  # fmt: skip
    assert [each.row for each in bad] == [2]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({**VALUE, "predicate.w": "urn:w"}, "there is no column w; there are id, v, m, l"),
        ({**VALUE, "subject": "urn:{no}"}, "there is no column no"),
        ({"subject": "urn:{id}", "predicate.m": "urn:m"}, "values of type map<string, int64> have no datatype"),
        ({"subject": "urn:{l}", "predicate.v": "urn:v"}, "a template takes one value, not a list"),
    ],
)
def test_mappings_that_do_not_fit_the_columns_are_refused_by_name(options, told):
    schema = pa.schema(
        {"id": pa.int64(), "v": pa.string(), "m": pa.map_(pa.string(), pa.int64()), "l": pa.list_(pa.int64())}
    )
    with pytest.raises(LocalProtocolError) as refusal:
        Statements(schema, writing_options({"peers": "a:1", **options}).mapping)
    assert told in str(refusal.value)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=8).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)), min_size=1))
def test_any_text_becomes_the_literal_that_it_is_one_by_one(texts):
    assert literals(pa.array(texts, pa.string())).to_pylist() == [terms.literal(text) for text in texts]


# --- texts as Spark sends them --------------------------------------------------------------------


def raw(*values):
    return pa.array(values, pa.binary()).view(pa.string())


def test_bytes_that_are_no_text_are_bad_rows_of_their_own():
    columns = [raw(b"<urn:a>", b"<urn:\xff>"), raw(b"<urn:p>", b"<urn:p>")] * 2
    batch = pa.RecordBatch.from_arrays(columns, ["s", "p", "o", "graph"])
    found, bad = taken(batch)
    assert found == [("+", A, P, A, P)]
    assert [(each.row, each.content["s"]) for each in bad] == [(1, "<urn:?>")]


def test_bytes_that_are_no_text_are_no_literals_and_are_encoded_in_iris():
    batch = pa.RecordBatch.from_arrays([raw(b"a\xff", b"b"), raw(b"x", b'"\xff')], ["id", "v"])
    found, bad = taken(batch, writing_options({"peers": "a:1", **VALUE}).mapping)
    assert found == [("+", "<urn:a%FF>", "<urn:v>", '"x"', "")]
    assert [each.row for each in bad] == [1]
