"""Results as Arrow tables, Parquet files and data frames: types of columns, exact values, missing packages."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from p2prdf.client import Result
from p2prdf.client.tables import TableFormat, encoded
from p2prdf.errors import LocalProtocolError
from p2prdf.rdf import terms
from p2prdf.rdf.python_values import python_value

pa = pytest.importorskip("pyarrow", reason="pyarrow (extra arrow) is not installed")
pytest.importorskip("pandas", reason="pandas (extra arrow) is not installed")

XSD = terms.XSD
SKOLEM = "<urn:bnode:0123456789abcdef0123456789abcdef>"


def typed(name, *lexicals):
    return [None if each is None else terms.literal(each, XSD + name) for each in lexicals]


def result(*columns):
    return Result(tuple(f"c{n}" for n in range(len(columns))), list(zip(*columns, strict=True)), 0.0)


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (typed("integer", "1", None, "-9223372036854775808"), "int64", [1, None, -(1 << 63)]),
        (typed("unsignedByte", "1", "255"), "int64", [1, 255]),
        (typed("decimal", "1.5", "-22.25", "3"), "decimal128(4, 2)", [Decimal("1.50"), Decimal("-22.25"), 3]),
        (typed("decimal", "0.001"), "decimal128(3, 3)", [Decimal("0.001")]),
        (typed("double", "1.5E0", "INF", "-0.0E0"), "double", [1.5, math.inf, 0.0]),
        (typed("float", "0.1"), "float", [0.10000000149011612]),
        (typed("boolean", "true", "0", None), "bool", [True, False, None]),
        (typed("dateTime", "2024-02-29T12:00:00.5Z", "2024-01-01T01:00:00+01:00"), "timestamp[us, tz=UTC]",
         [datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC), datetime(2024, 1, 1, tzinfo=UTC)]),
        (typed("dateTime", "2024-02-29T12:00:00"), "timestamp[us]", [datetime(2024, 2, 29, 12)]),
        (typed("dateTimeStamp", "2024-02-29T12:00:00Z"), "timestamp[us, tz=UTC]",
         [datetime(2024, 2, 29, 12, tzinfo=UTC)]),
        (typed("date", "2024-02-29", None), "date32[day]", [date(2024, 2, 29), None]),
        (['"a"', '"two\\nlines"', '""'], "string", ["a", "two\nlines", ""]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_literals_of_one_datatype_have_its_arrow_type(column, kind, values):
    table = result(column).to_arrow()
    assert str(table.schema.field("c0").type) == kind
    assert table["c0"].to_pylist() == values
    datatype = terms.literal_parts(next(filter(None, column)))[1] or XSD + "string"
    assert table.schema.field("c0").metadata == {b"datatype": datatype.encode()}


@pytest.mark.parametrize(
    "column",
    [
        ["<urn:a>", '"a"'], typed("integer", "1") + typed("decimal", "1.5"), typed("integer", "1", "three"),
        typed("integer", "9223372036854775808"), typed("decimal", "1" + "0" * 38, "1.5"), ['"a"@en', '"b"@en'],
        typed("dateTime", "2024-02-29T12:00:00", "2024-02-29T12:00:00Z"), typed("dateTime", "-0005-01-01T00:00:00Z"),
        typed("dateTime", "2024-02-29T12:00:00.1234567Z"), typed("date", "2024-02-29Z"), typed("time", "12:00:00"),
        typed("dayTimeDuration", "PT1H"), ['"x"^^<urn:type>'], [None, None], ["<urn:a>"], ['"a"', '"a"@en'], [],
    ],
    ids=str,
)  # fmt: skip
def test_every_other_column_is_text_in_n_triples_form(column):
    table = result(column).to_arrow()
    assert (table.schema.field("c0").type, table.schema.field("c0").metadata) == (pa.string(), None)
    assert table["c0"].to_pylist() == column


def test_blank_node_has_the_label_of_the_other_formats():
    assert result([SKOLEM]).to_arrow()["c0"].to_pylist() == [terms.spelled(SKOLEM)]


def test_all_columns_are_text_if_native_types_are_off():
    found = result(typed("integer", "1"), ['"a"']).to_arrow(native=False)
    assert found.to_pydict() == {"c0": typed("integer", "1"), "c1": ['"a"']}
    assert result(typed("integer", "1")).to_pandas(native=False)["c0"][0] == typed("integer", "1")[0]


LEXICAL = some.one_of(
    some.integers(-(1 << 65), 1 << 65).map(str),
    some.decimals(allow_nan=False, allow_infinity=False).map("{:f}".format),
    some.floats().map(repr), some.sampled_from(["INF", "NaN", "true", "1", "x", "2024-01-01", "2024-01-01T00:00:00Z"]),
    some.text(some.characters(exclude_categories=["Cs"]), max_size=5),
)  # fmt: skip
NAMES = some.sampled_from(["integer", "int", "decimal", "double", "float", "boolean", "date", "dateTime", "string"])


@given(NAMES, some.lists(some.none() | LEXICAL, max_size=8))
def test_values_of_any_column_are_exact(name, lexicals):
    column = typed(name, *lexicals)
    table = result(column).to_arrow()
    datatype = (table.schema.field("c0").metadata or {}).get(b"datatype")
    for term, found in zip(column, table["c0"].to_pylist(), strict=True):
        wanted = None if term is None else python_value(term) if datatype else term
        assert found == wanted or (found != found and wanted != wanted)
    assert pa.ipc.open_stream(encoded(table, TableFormat.ARROW)).read_all().schema.equals(table.schema)


def test_data_frame_has_the_types_of_pandas():
    frame = result(
        typed("integer", "1", "2"), typed("integer", "1", None), typed("boolean", "true", None),
        typed("dateTime", "2024-01-01T00:00:00Z", None), typed("double", "1.5E0", None), ["<urn:a>", None],
    ).to_pandas()  # fmt: skip
    kinds = ["int64", "Int64", "boolean", "datetime64[us, UTC]", "float64"]
    assert [str(kind) for kind in frame.dtypes][:5] == kinds
    assert frame["c1"][0] == 1
    assert frame.isna().sum().tolist() == [0, 1, 1, 1, 1, 1]
    assert result([]).to_pandas().shape == (0, 1)


def test_binary_formats_read_back_with_types_and_metadata():
    parquet = pytest.importorskip("pyarrow.parquet")
    table = result(typed("integer", "1", None), ["<urn:a>", "<urn:b>"]).to_arrow()
    assert pa.ipc.open_stream(encoded(table, TableFormat.ARROW)).read_all().equals(table, check_metadata=True)
    back = parquet.read_table(pa.BufferReader(encoded(table, TableFormat.PARQUET)))
    assert back.equals(table)
    assert back.schema.field("c0").metadata[b"datatype"] == (XSD + "integer").encode()


def test_result_of_ask_is_no_table():
    with pytest.raises(LocalProtocolError, match="bool"):
        Result((), [()], 0.0).to_arrow()


ABSENT = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == PACKAGE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from p2prdf.client import Result
from p2prdf.errors import LocalProtocolError
try: Result(("s",), [("<urn:a>",)], 0.0).METHOD()
except LocalProtocolError as error: print(error)
"""


@pytest.mark.parametrize(
    ("package", "method"), [("pyarrow", "to_arrow"), ("pyarrow", "to_pandas"), ("pandas", "to_pandas")]
)
def test_missing_package_is_named_with_the_command_that_installs_it(package, method):
    code = ABSENT.replace("PACKAGE", repr(package)).replace("METHOD", method)
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout == f"{package} is not installed: pip install 'p2prdf[arrow]'\n"
