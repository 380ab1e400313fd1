"""A cohort is one query: the disjoint union of its members."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf.algebra import Leaf, Settled
from p2prdf.rdf.standing.form import decode, encode
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.standing.settling import COHORT_MAX, cohort_names, cohort_query

TEXTS = (
    "SELECT ?x ?y { ?x <urn:a> ?y }",
    "ASK { ?x <urn:b> ?y }",
    "SELECT (COUNT(*) AS ?n) { ?s <urn:a> ?t }",
    "CONSTRUCT { ?x <urn:c> ?y } WHERE { ?x <urn:a> ?y . ?y <urn:b> ?x }",
)


def cohort(*texts):
    return cohort_query([parse_query(text) for text in texts])


def test_the_names_tell_each_members_columns():
    query = cohort(*TEXTS)
    assert query.names == ("0:x 2:n 3:subject", "0:y 3:predicate", "3:object", "select ask select construct")
    assert cohort_names(query.names) == [("x", "y"), (), ("n",), ("subject", "predicate", "object")]


def test_members_share_the_leaves_of_equal_patterns():
    query = cohort(*TEXTS)
    assert isinstance(query.operators[-1], Settled)
    leaves = [each.query for each in query.operators if isinstance(each, Leaf)]
    assert sorted(each.constants for each in leaves) == [("<urn:a>",), ("<urn:b>",)]


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], TEXTS[1:2], TEXTS[:1] * 3])
def test_a_cohort_passes_the_wire(texts):
    query = cohort(*texts)
    assert decode(encode(query)) == query
    assert len(cohort_names(query.names)) == len(texts)


def test_a_cohort_is_bounded():
    with pytest.raises(QueryRefused, match="a cohort of 0 queries: it has 1 to 32"):
        cohort()
    with pytest.raises(QueryRefused, match=f"a cohort of {COHORT_MAX + 1} queries"):
        cohort(*TEXTS[:1] * (COHORT_MAX + 1))
    with pytest.raises(QueryRefused, match="more than 32 different triple patterns"):
        cohort(*(f"SELECT * {{ ?x <urn:p{at}> ?y . ?y <urn:q{at}> ?z }}" for at in range(17)))


def test_windows_are_refused():
    window = "REGISTER QUERY q AS SELECT ?a FROM STREAM <urn:s> [RANGE 5s STEP 5s] WHERE { ?a <urn:p> ?b }"
    with pytest.raises(QueryRefused, match="settled delivery"):
        cohort(TEXTS[0], window)


@pytest.mark.parametrize("names", [(), ("x", "y"), ("0:x 7:y", "select"), ("x", "select")])
def test_names_of_other_queries_are_refused(names):
    with pytest.raises(QueryRefused, match="not one of a cohort"):
        cohort_names(names)
