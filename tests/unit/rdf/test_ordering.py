"""The order of terms: SPARQL's where it has one, and total."""

from __future__ import annotations

import itertools

from p2prdf.errors import QueryRefused
from p2prdf.rdf import values
from p2prdf.rdf.moments import ExpressionError
from p2prdf.rdf.ordering import in_order, order_key, order_name

XSD = "http://www.w3.org/2001/XMLSchema#"


def typed(name: str, *lexical: str) -> list[str]:
    return [f'"{text}"^^<{XSD}{name}>' for text in lexical]


TERMS = [
    None, "<urn:bnode:f:a>", "<urn:bnode:f:b>", "<urn:a>", "<urn:b>",
    '"a"', '"b"', '"A"', '""', '"a"@en', '"a"@de', '"b"@en',
    *typed("integer", "1", "01", "-5", "10", "nonsense"), *typed("decimal", "1.0", "1.5"),
    *typed("float", "0.1", "INF"), *typed("double", "1e0", "NaN", "-INF", "1e300"),
    *typed("boolean", "true", "false", "1"),
    *typed("dateTime", "2020-01-01T00:00:00", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00+14:00"),
    *typed("dateTime", "2021-06-01T12:00:00.5"), *typed("date", "2020-01-01", "2020-01-01Z", "2019-12-31"),
    *typed("time", "10:00:00", "09:00:00-02:00"), *typed("gYear", "2020", "2019"), *typed("gYearMonth", "2020-05"),
    *typed("gMonthDay", "--02-29"), *typed("dayTimeDuration", "P1D", "PT25H"),
    *typed("yearMonthDuration", "P1M", "P1Y"), *typed("duration", "P1M1D", "P365D"),
    '"x"^^<urn:unknown>', '"y"^^<urn:unknown>',
]  # fmt: skip


def test_any_two_terms_compare_and_the_order_is_one() -> None:
    keys = [order_key(term) for term in TERMS]
    for one, other in itertools.product(keys, repeat=2):
        assert (one < other) + (other < one) + (one == other) == 1
    kinds = [order_key(term)[0] for term in (None, "<urn:bnode:f:a>", "<urn:a>", *typed("integer", "1"))]
    assert kinds == sorted(kinds)


def test_it_is_the_order_of_the_operator_where_that_has_one() -> None:
    compared = 0
    for a, b in itertools.product(TERMS, repeat=2):
        if a is None or b is None:
            continue
        try:
            order = values.compare(values.decode(a), values.decode(b))
        except (ExpressionError, QueryRefused):
            continue
        if order is None:
            continue
        compared += 1
        keys = order_key(a), order_key(b)
        if order < 0:
            assert keys[0] < keys[1], (a, b)
        if order == 0 and a[0] == '"' and values.decode(a).family is values.Family.NUMBER:
            assert keys[0] == keys[1], (a, b)
    assert compared > 200


def test_a_result_is_sorted_by_its_last_columns():
    names = ("a", order_name(0, descending=True), order_name(1, descending=False))
    one, ten = typed("integer", "1", "10")
    rows = [
        ("<urn:1>", one, "<urn:x>"), ("<urn:2>", ten, "<urn:y>"), ("<urn:3>", ten, None), ("<urn:0>", one, "<urn:x>"),
    ]  # fmt: skip
    assert in_order(names, rows) == (("a",), [("<urn:3>",), ("<urn:2>",), ("<urn:0>",), ("<urn:1>",)])
    assert in_order(names, rows[::-1]) == in_order(names, rows)


def test_a_result_without_an_order_stays_as_it_is():
    rows = [("<urn:b>",), ("<urn:a>",)]
    assert in_order(("a",), rows) == (("a",), rows)
    assert in_order((), [()]) == ((), [()])
