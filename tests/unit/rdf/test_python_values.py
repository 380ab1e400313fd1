"""Terms as Python values, and values and terms of other libraries as canonical terms."""

from __future__ import annotations

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyoxigraph as ox
import pytest
import rdflib

from p2prdf.errors import DataRefused
from p2prdf.rdf.python_values import as_term, python_value
from p2prdf.rdf.terms import XSD

EAST = timezone(timedelta(hours=5, minutes=30))
BOTH_WAYS = [
    ("3", "integer", 3), ("-7", "integer", -7), ("1.50", "decimal", Decimal("1.50")), ("1.5", "double", 1.5),
    ("1E22", "double", 1e22), ("INF", "double", math.inf), ("true", "boolean", True), ("false", "boolean", False),
    ("2026-11-27T02:00:00", "dateTime", datetime(2026, 11, 27, 2)),
    ("2026-11-27T02:00:00.250000+05:30", "dateTime", datetime(2026, 11, 27, 2, 0, 0, 250_000, EAST)),
    ("2026-11-27", "date", date(2026, 11, 27)), ("02:03:04", "time", time(2, 3, 4)),
    ("-PT1.5S", "dayTimeDuration", timedelta(seconds=-1.5)),
]  # fmt: skip


def typed(lexical, name):
    return f'"{lexical}"^^<{XSD}{name}>'


@pytest.mark.parametrize(("lexical", "name", "value"), BOTH_WAYS)
def test_values_come_back_as_they_were_published(lexical, name, value):
    found = python_value(typed(lexical, name))
    assert (found, type(found)) == (value, type(value))
    assert python_value(as_term(value)) == value
    assert as_term(value).endswith(f"^^<{XSD}{name}>")


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("<urn:a>", "urn:a"), ("<urn:bnode:f:x>", "urn:bnode:f:x"), ('"a\\"b\\n"', 'a"b\n'), ('"chat"@fr', "chat"),
        (typed("007", "byte"), 7), (typed("1", "boolean"), True), (typed("0.1", "double"), 0.1),
        (typed("2026-11-27T02:00:00Z", "dateTimeStamp"), datetime(2026, 11, 27, 2, tzinfo=UTC)),
        (typed("2026-11-27T24:00:00Z", "dateTime"), datetime(2026, 11, 28, tzinfo=UTC)),
        (typed("2026-11-27T02:00:00.1234567Z", "dateTime"), datetime(2026, 11, 27, 2, 0, 0, 123_456, UTC)),
        (typed("02:00:00-05:00", "time"), time(2, tzinfo=timezone(timedelta(hours=-5)))),
        (typed("2026-11-27+05:30", "date"), date(2026, 11, 27)),
        (typed("P1DT2H", "duration"), timedelta(days=1, hours=2)),
    ],
)  # fmt: skip
def test_the_value_is_that_of_the_datatype(term, value):
    found = python_value(term)
    assert (found, type(found)) == (value, type(value))
    if isinstance(value, datetime | time):
        assert found.utcoffset() == value.utcoffset()


@pytest.mark.parametrize(
    ("lexical", "datatype"),
    [
        ("three", XSD + "integer"), ("300", XSD + "byte"), ("2026-02-30", XSD + "date"), ("yes", XSD + "boolean"),
        ("-0005-01-01T00:00:00Z", XSD + "dateTime"), ("12026-01-01", XSD + "date"), ("P1M", XSD + "duration"),
        ("P999999999999D", XSD + "duration"), ("2026", XSD + "gYear"), ("P1Y", XSD + "yearMonthDuration"),
        ("2026-11-27T02:00:00", XSD + "dateTimeStamp"), ("x", "urn:own"),
        ("9" * 500, XSD + "integer"), ("", XSD + "date"),
    ],
)  # fmt: skip
def test_a_literal_without_a_python_value_is_its_text(lexical, datatype):
    assert python_value(f'"{lexical}"^^<{datatype}>') == lexical


def test_not_a_number_is_a_float():
    assert math.isnan(python_value(typed("NaN", "float")))
    assert as_term(math.nan) == typed("NaN", "double")


@pytest.mark.parametrize(
    ("given", "term"),
    [
        (rdflib.URIRef("urn:a"), "<urn:a>"), (rdflib.Literal("a\n\"b'''\\"), '"a\\n\\"b\'\'\'\\\\"'),
        (rdflib.Literal("chat", lang="fr"), '"chat"@fr'), (rdflib.Literal(3), typed("3", "integer")),
        (rdflib.Literal("x", datatype=rdflib.URIRef("urn:own")), '"x"^^<urn:own>'),
        (ox.NamedNode("urn:a"), "<urn:a>"), (ox.Literal("chat", language="fr"), '"chat"@fr'),
        (ox.Literal(3), typed("3", "integer")), (np.int64(3), typed("3", "integer")),
        (np.float32(0.5), typed("0.5", "double")),
        (enum.StrEnum("Name", {"a": "<urn:a>"}).a, "<urn:a>"), ("<urn:a>", "<urn:a>"),
        (Decimal("1E+3"), typed("1000", "decimal")),
    ],
)  # fmt: skip
def test_terms_of_other_libraries_are_taken(given, term):
    assert as_term(given) == term


@pytest.mark.parametrize(
    "given",
    [
        None, object(), b"<urn:a>", ["<urn:a>"], rdflib.BNode("b"), ox.BlankNode("b"), rdflib.Variable("x"),
        ox.Variable("x"), rdflib.URIRef("no iri"), rdflib.URIRef("relative"), Decimal("NaN"), ox.DefaultGraph(), 1j,
    ],
)  # fmt: skip
def test_no_term_is_refused(given):
    with pytest.raises(DataRefused):
        as_term(given)
