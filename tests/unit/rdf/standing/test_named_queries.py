"""Named sub-queries and planner hints, as Blazegraph's queries have them."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf.federation import without_services
from p2prdf.rdf.standing.query import parse_query

P = "PREFIX : <http://e.org/> "
HINTS = "PREFIX hint: <http://www.bigdata.com/queryHints#> "
COUNTS = "{ SELECT ?x (COUNT(?y) AS ?n) { ?x :p ?y . [] :q _:b . _:b :r ?x } GROUP BY ?x }"
AGAIN = COUNTS.replace("_:b", "_:c")
TWO = f"SELECT * WITH {COUNTS} AS %a WITH {{ SELECT * {{ INCLUDE %a . ?x :q ?z }} LIMIT 3 }} AS %b"


@pytest.mark.parametrize(
    ("text", "inlined"),
    [
        (f"SELECT ?x ?n WITH {COUNTS} AS %counts WHERE {{ INCLUDE %counts ?x :q ?z }}",
         f"SELECT ?x ?n WHERE {{ {COUNTS} ?x :q ?z }}"),
        (f"{TWO} {{ {{ INCLUDE %b }} UNION {{ INCLUDE %a }} }}",
         f"SELECT * {{ {{ {{ SELECT * {{ {COUNTS} . ?x :q ?z }} LIMIT 3 }} }} UNION {{ {AGAIN} }} }}"),
        (f"ASK WITH {COUNTS} AS %a {{ INCLUDE %a FILTER(?n > 3) }}", f"ASK {{ {COUNTS} FILTER(?n > 3) }}"),
        (f"CONSTRUCT {{ ?x :n ?n }} WITH {COUNTS} AS %a WHERE {{ INCLUDE %a }}",
         f"CONSTRUCT {{ ?x :n ?n }} WHERE {{ {COUNTS} }}"),
        (HINTS + "SELECT * { ?x :p ?y . hint:Prior hint:rangeSafe true . hint:Query hint:optimizer 'None' }",
         "SELECT * { ?x :p ?y }"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ordered", [False, True])
def test_an_included_query_counts_as_written_in_its_place(text: str, inlined: str, ordered: bool) -> None:
    assert parse_query(P + text, ordered=ordered) == parse_query(P + inlined, ordered=ordered)
    assert parse_query(P + without_services(text), ordered=ordered) == parse_query(P + inlined, ordered=ordered)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"SELECT * WITH {COUNTS} AS %a {{ INCLUDE %b }}", "names a sub-query"),
        (f"SELECT * WITH {COUNTS} AS %a {{ INCLUDE ?x }}", "names a sub-query"),
        ("SELECT * { INCLUDE %a }", "names a sub-query"),
        ("SELECT * WITH { SELECT * { INCLUDE %a } } AS %a { INCLUDE %a }", "names a sub-query"),
        ("SELECT * WITH { SELECT * { INCLUDE %b } } AS %a WITH { SELECT * { INCLUDE %a } } AS %b { INCLUDE %b }",
         "names a sub-query"),
        (f"SELECT * WITH {COUNTS} AS %a WITH {COUNTS} AS %a {{ INCLUDE %a }}", "two sub-queries have the name %a"),
        ("SELECT * WITH { ?x :p ?y } AS %a { INCLUDE %a }", "begins with SELECT"),
        (f"SELECT * WITH {COUNTS} AS a {{ INCLUDE %a }}", "begins with %"),
        (f"SELECT * {{ {{ SELECT * WITH {COUNTS} AS %a {{ INCLUDE %a }} }} }}", "out of place|not supported"),
        ("SELECT * { ?x :p %a }", "out of place"),
    ],
)  # fmt: skip
def test_malformed_names_are_refused(text: str, reason: str) -> None:
    with pytest.raises(QueryRefused, match=reason):
        parse_query(P + text)


def test_queries_that_include_each_other_many_times_are_bounded() -> None:
    doubled = "".join(
        f" WITH {{ SELECT * {{ INCLUDE %q{number} INCLUDE %q{number} }} }} AS %q{number + 1}" for number in range(59)
    )
    with pytest.raises(QueryRefused, match="at most 128"):
        parse_query(f"{P} SELECT * WITH {{ SELECT * {{ ?x :p ?y }} }} AS %q0{doubled} {{ INCLUDE %q59 }}")
