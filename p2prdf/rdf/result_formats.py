"""Query results as text, row by row: SPARQL 1.1 JSON, CSV, TSV and XML, N-Triples, and tables.

Rows are sequences of canonical terms in the order of the names; None is unbound.  A writer receives rows and writes
text at once, so its memory does not depend on the size of the result (:mod:`p2prdf.rdf.result_table` holds some rows
back).  The text is meant for UTF-8; a file must be opened with ``newline=""``, since the line ends of CSV are
carriage return and line feed.

Skolem IRIs become blank nodes, with the same label in all formats (:func:`p2prdf.rdf.terms.blank_label`).  Different
nodes have different labels, also in different results.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol
from xml.sax.saxutils import escape, quoteattr

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.rdf import terms
from p2prdf.rdf.result_table import TableWriter
from p2prdf.rdf.results import Row

__all__ = ["Format", "Write", "Writer", "boolean", "tsv_cell", "writer", "xml_text_of"]

Write = Callable[[str], object]
"""The function that receives the text, in pieces of at most one row: a stream's ``write``."""


class Format(enum.StrEnum):
    """A format of results, by its name on the command line."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    XML = "xml"
    N_TRIPLES = "nt"


class Writer(Protocol):
    """Writes one result; creating it writes the head."""

    def rows(self, rows: Iterable[Row]) -> None:
        """Write more rows.

        Raises ValueError if a row and the names differ in length, DataRefused for a term that the format cannot hold.
        All rows before the refused one have then been written, and no part of the refused row.
        """
        ...

    def end(self) -> None:
        """Write the end of the result; no call may follow."""
        ...


def writer(
    wanted: Format, names: Sequence[str], write: Write, *, show: Callable[[str], str] = str
) -> Writer:
    """Return a writer of solutions with these columns; all formats but N-Triples accept zero columns.

    N-Triples takes the three columns of CONSTRUCT, under any names: each row is a triple.  ``show`` spells a term
    (canonical, or ``_:`` and the label) for people; only the table uses it.  Raises LocalProtocolError for N-Triples
    with a number of columns other than three.
    """
    match wanted:
        case Format.TABLE:
            return TableWriter(names, write, lambda term: show(terms.spelled(term)))
        case Format.JSON:
            return _JsonWriter(names, write)
        case Format.CSV:
            return _CsvWriter(names, write)
        case Format.TSV:
            return _TsvWriter(names, write)
        case Format.XML:
            return _XmlWriter(names, write)
        case Format.N_TRIPLES:
            if len(names) != 3:
                raise LocalProtocolError(f"N-Triples need the three columns of CONSTRUCT, not {list(names)}")
            return _TriplesWriter(write)


def boolean(wanted: Format, value: bool) -> str:
    """Return the whole result of an ASK query.

    The standards for CSV and TSV define no form for it: the result is the word, as other stores write it.  Raises
    LocalProtocolError for N-Triples.
    """
    word = "true" if value else "false"
    match wanted:
        case Format.JSON:
            return f'{{"head":{{}},"boolean":{word}}}\n'
        case Format.XML:
            return f"{_XML_OPENING}<head></head>\n<boolean>{word}</boolean>\n</sparql>\n"
        case Format.CSV:
            return word + "\r\n"
        case Format.TSV | Format.TABLE:
            return word + "\n"
        case Format.N_TRIPLES:
            raise LocalProtocolError("N-Triples can hold the result of CONSTRUCT, not that of ASK")


# --- JSON ----------------------------------------------------------------------------------------


class _JsonWriter:
    """SPARQL 1.1 Query Results JSON, one solution per line."""

    def __init__(self, names: Sequence[str], write: Write):
        self._names = tuple(names)
        self._write = write
        self._between = "\n"
        write('{"head":{"vars":' + _json(self._names) + '},"results":{"bindings":[')

    def rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            found = {
                name: terms.to_json(value) for name, value in zip(self._names, row, strict=True) if value is not None
            }
            self._write(self._between + _json(found))
            self._between = ",\n"

    def end(self) -> None:
        self._write("\n]}}\n")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- CSV and TSV ---------------------------------------------------------------------------------


class _CsvWriter:
    """SPARQL 1.1 Query Results CSV: lexical forms, quoted as in RFC 4180."""

    def __init__(self, names: Sequence[str], write: Write):
        self._width = len(names)
        self._write = write
        write(",".join(names) + "\r\n")

    def rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            _check_width(row, self._width)
            line = ",".join(map(_csv_cell, row))
            # Many readers skip an empty line; "" is the same cell.
            self._write((line or '""' if self._width else line) + "\r\n")

    def end(self) -> None:
        """Do nothing: the last row is complete."""


_CSV_QUOTED: Final = re.compile('[",\r\n\v\f\x1c-\x1e\x85\u2028\u2029]|^[ \t]|[ \t]$')
"""Characters that require quotes.

There are more than RFC 4180 needs, as some readers split lines at them or strip blanks.
"""


def _csv_cell(value: str | None) -> str:
    if value is None:
        return ""
    text = terms.spelled(value) if terms.is_skolem(value) or terms.is_triple(value) else terms.lexical(value)
    if not text:
        return '""'  # the standard leaves it open; the quotes distinguish it from unbound
    return '"' + text.replace('"', '""') + '"' if _CSV_QUOTED.search(text) else text


class _TsvWriter:
    """SPARQL 1.1 Query Results TSV: terms as in Turtle, never abbreviated."""

    def __init__(self, names: Sequence[str], write: Write):
        self._width = len(names)
        self._write = write
        write("\t".join("?" + name for name in names) + "\n")

    def rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            _check_width(row, self._width)
            self._write("\t".join(map(tsv_cell, row)) + "\n")

    def end(self) -> None:
        """Do nothing: the last row is complete."""


_LINE_ENDS: Final = {ord(c): f"\\u{ord(c):04X}" for c in "\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""Characters that some readers treat as line ends besides line feed; escaped in strings and IRIs."""


def tsv_cell(value: str | None) -> str:
    """Return a term as in SPARQL 1.1 TSV, empty for an unbound one, with all kinds of line ends escaped."""
    return "" if value is None else terms.spelled(value).translate(_LINE_ENDS)


def _check_width(row: Row, width: int) -> None:
    if len(row) != width:
        raise ValueError(f"a row of {len(row)} values for {width} columns")


# --- XML -----------------------------------------------------------------------------------------

_XML_OPENING: Final = '<?xml version="1.0" encoding="UTF-8"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">\n'
_ITS: Final = "http://www.w3.org/2005/11/its"
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML 1.0 cannot represent (2.2; surrogates do not occur in terms)."""
_AT_THE_ENDS: Final = re.compile(r"^[ \t\n]+|[ \t\n]+\Z")


class _XmlWriter:
    """SPARQL Query Results XML, one solution per line."""

    def __init__(self, names: Sequence[str], write: Write):
        self._openings = [f"<binding name={quoteattr(name)}>" for name in names]
        self._write = write
        variables = "".join(f"<variable name={quoteattr(name)}/>" for name in names)
        write(f"{_XML_OPENING}<head>{variables}</head>\n<results>\n")

    def rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            cells = [
                f"{opening}{_xml_term(value)}</binding>"
                for opening, value in zip(self._openings, row, strict=True)
                if value is not None
            ]
            self._write(f"<result>{''.join(cells)}</result>\n")

    def end(self) -> None:
        self._write("</results>\n</sparql>\n")


def _xml_term(canonical: str) -> str:
    if not canonical.startswith('"'):
        if terms.is_skolem(canonical):
            return f"<bnode>{terms.blank_label(canonical)}</bnode>"
        if terms.is_triple(canonical):
            s, p, o = map(_xml_term, terms.triple_parts(canonical))
            return f"<triple><subject>{s}</subject><predicate>{p}</predicate><object>{o}</object></triple>"
        return f"<uri>{_xml_text(canonical[1:-1])}</uri>"
    lexical_form, datatype, tag = terms.literal_parts(canonical)
    attribute = ""
    if tag is not None:
        tag, separator, direction = tag.partition(terms.DIRECTION)
        attribute = f' xml:lang="{tag}"'
        if separator:
            attribute += f' xmlns:its="{_ITS}" its:version="2.0" its:dir="{direction}"'
    elif datatype is not None:
        attribute = f" datatype={quoteattr(xml_text_of(datatype))}"
    return f"<literal{attribute}>{_xml_text(lexical_form)}</literal>"


def _xml_text(text: str) -> str:
    # XML parsers read a carriage return as a line feed; some readers strip blanks at the ends.
    text = escape(xml_text_of(text)).replace("\r", "&#xD;")
    return _AT_THE_ENDS.sub(lambda found: "".join(f"&#x{ord(c):X};" for c in found[0]), text)


def xml_text_of(text: str) -> str:
    """Return the text unchanged.  Raises DataRefused if XML 1.0 cannot represent it."""
    found = _NO_XML.search(text)
    if found is not None:
        reason = f"XML 1.0 cannot hold the character U+{ord(found[0]):04X}; JSON, TSV and CSV can"
        raise DataRefused(reason)
    return text


# --- N-Triples -----------------------------------------------------------------------------------


class _TriplesWriter:
    """N-Triples."""

    def __init__(self, write: Write):
        self._write = write

    def rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            _check_width(row, 3)
            if None in row:
                raise DataRefused("a triple has three terms; one of these is unbound")
            s, p, o = (terms.spelled(value or "") for value in row)
            self._write(f"{s} {p} {o} .\n")

    def end(self) -> None:
        """Do nothing: the last row is complete."""
