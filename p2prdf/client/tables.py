"""Results of queries as Arrow tables, Parquet files and pandas data frames (extra ``arrow``).

A column is text, with each term in N-Triples form and null where a variable is unbound.  If all terms of a column are
literals of one datatype that Arrow has, the column has Arrow's type instead, and its field names the datatype in its
metadata.  Values are never rounded: a column with a value that the type cannot hold remains text.

pyarrow and pandas are imported by the first conversion.
"""

from __future__ import annotations

import enum
import importlib.util
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf import terms
from p2prdf.rdf.python_values import PythonValue, python_value
from p2prdf.rdf.terms import XSD

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = [
    "DataFrame", "Table", "TableFormat", "are_available", "arrow_table", "check_available", "data_frame", "encoded",
]  # fmt: skip

DataFrame: TypeAlias = "pandas.DataFrame"
Table: TypeAlias = "pyarrow.Table"

_INTEGERS: Final = frozenset(
    XSD + name for name in (
        "integer", "nonPositiveInteger", "negativeInteger", "long", "int", "short", "byte", "nonNegativeInteger",
        "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte", "positiveInteger",
    )
)  # fmt: skip
_DIGITS_MAX: Final = 38
"""Digits of Arrow's decimal128."""
_FINER: Final = re.compile(r"\.\d{7}")
"""Fractions of a second that are finer than microseconds."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


class TableFormat(enum.StrEnum):
    """A binary format, by its name on the command line."""

    ARROW = "arrow"
    PARQUET = "parquet"


def are_available() -> bool:
    """Tell whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def check_available() -> None:
    """Raise LocalProtocolError if pyarrow is not installed."""
    _pyarrow()


def arrow_table(names: Sequence[str], rows: Iterable[Sequence[str | None]], *, native: bool = True) -> Table:
    """Return rows of canonical terms as a table; see :meth:`p2prdf.client.Result.to_arrow`."""
    pa = _pyarrow()
    if not names:
        raise LocalProtocolError("a result without columns is no table; the result of ASK is bool(result)")
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    made = [_column(pa, column, native=native) for column in columns]
    fields = [
        pa.field(name, array.type, metadata={"datatype": datatype} if datatype else None)
        for name, (array, datatype) in zip(names, made, strict=True)
    ]
    table: Table = pa.table([array for array, _ in made], schema=pa.schema(fields))
    return table


def data_frame(table: Table) -> DataFrame:
    """Return a table as a data frame: integers and booleans with unbound rows have pandas' nullable types."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    nullable = {_pyarrow().int64(): pandas.Int64Dtype(), _pyarrow().bool_(): pandas.BooleanDtype()}
    return pandas.DataFrame({
        name: column.to_pandas(types_mapper=nullable.get if column.null_count else None)
        for name, column in zip(table.column_names, table.columns, strict=True)
    })  # fmt: skip


def encoded(table: Table, wanted: TableFormat) -> bytes:
    """Return a table as an Arrow IPC stream or as a Parquet file."""
    pa = _pyarrow()
    sink = pa.BufferOutputStream()
    if wanted is TableFormat.ARROW:
        import pyarrow.ipc

        with pyarrow.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    else:
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, sink)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return pyarrow


def _missing(error: ModuleNotFoundError) -> LocalProtocolError:
    return LocalProtocolError(f"{error.name} is not installed: pip install 'p2prdf[arrow]'")


# --- columns -------------------------------------------------------------------------------------


def _column(pa: Any, column: Sequence[str | None], *, native: bool) -> tuple[Any, str]:
    """Return an array, and its datatype if it is not text in N-Triples form."""
    distinct = dict.fromkeys(each for each in column if each is not None)
    datatype = _shared(distinct) if native else ""
    if datatype:
        values = {term: python_value(term) for term in distinct}
        kind = _arrow_type(pa, datatype, values)
        if kind is not None:
            return pa.array([None if each is None else values[each] for each in column], kind), datatype
    return pa.array([None if each is None else terms.spelled(each) for each in column], pa.string()), ""


def _shared(distinct: Iterable[str]) -> str:
    """Return the datatype that all terms have; empty if there is none."""
    found = ""
    for term in distinct:
        _, datatype, tag = terms.literal_parts(term) if term.startswith('"') else ("", "", None)
        datatype = XSD + "string" if datatype is None and tag is None else datatype
        if not datatype or datatype != (found or datatype):
            return ""
        found = datatype
    return found


def _arrow_type(pa: Any, datatype: str, values: dict[str, PythonValue]) -> Any:
    """Return the Arrow type that holds all values of a datatype exactly; None: there is none."""
    found = list(values.values())
    if datatype in _INTEGERS:
        return pa.int64() if _all(found, int, lambda value: -1 << 63 <= value < 1 << 63) else None
    match datatype.removeprefix(XSD):
        case "string":
            return pa.string()
        case "boolean" if _all(found, bool):
            return pa.bool_()
        case "double" if _all(found, float):
            return pa.float64()
        case "float" if _all(found, float):
            return pa.float32()
        case "decimal" if _all(found, Decimal):
            return _decimal(pa, found)
        case "date" if _all(found, date) and all(_DATE.fullmatch(terms.lexical(term)) for term in values):
            return pa.date32()
        case "dateTime" | "dateTimeStamp" if _all(found, datetime) and not any(map(_FINER.search, values)):
            return _timestamp(pa, found)
    return None


def _all(values: Iterable[Any], kind: type, holds: Callable[[Any], bool] = lambda _: True) -> bool:
    return all(type(value) is kind and holds(value) for value in values)


def _decimal(pa: Any, values: Sequence[Any]) -> Any:
    scale = max(max(0, -value.as_tuple().exponent) for value in values)
    digits = max(max(0, value.adjusted() + 1) for value in values)
    return pa.decimal128(max(1, digits + scale), scale) if digits + scale <= _DIGITS_MAX else None


def _timestamp(pa: Any, values: Sequence[Any]) -> Any:
    zones = {value.tzinfo is not None for value in values}
    return None if len(zones) > 1 else pa.timestamp("us", tz="UTC" if zones.pop() else None)
