"""Rules as texts for the network: one for each, and one for each derived predicate."""

from __future__ import annotations

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf.query import Concludes
from p2prdf.rdf.standing.insertion import parse_insertion
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.insertions import insertions

RULES = """PREFIX : <urn:>
trans: ?x :in ?z :- ?x :in ?y , ?y :in ?z .
seen: ?x :seen "yes" :- ?y :near ?x , ?x :in :town .
"""


def test_derived_predicates_are_read_in_the_graph_and_others_in_the_default_graph():
    texts = insertions(parse_rules(RULES), "<urn:g>")
    assert texts == [
        "INSERT { GRAPH <urn:g> { ?s <urn:in> ?o } } WHERE { ?s <urn:in> ?o }",
        "INSERT { GRAPH <urn:g> { ?s <urn:seen> ?o } } WHERE { ?s <urn:seen> ?o }",
        "INSERT { GRAPH <urn:g> { ?v0 <urn:in> ?v1 } } WHERE { GRAPH <urn:g> { ?v0 <urn:in> ?v2 . ?v2 <urn:in> ?v1 } }",
        (
            'INSERT { GRAPH <urn:g> { ?v0 <urn:seen> "yes" } } WHERE '
            "{ ?v1 <urn:near> ?v0 . GRAPH <urn:g> { ?v0 <urn:in> <urn:town> } }"
        ),
    ]
    given, anything = Concludes.FROM_GIVEN, Concludes.FROM_ANYTHING
    assert [parse_insertion(text).concludes for text in texts] == [given, given, anything, anything]


def test_equal_rules_are_left_once_with_any_names_of_variables():
    more = parse_rules(RULES + "again: ?a :in ?c :- ?a :in ?b , ?b :in ?c .")
    assert insertions(more, "<urn:g>") == insertions(parse_rules(RULES), "<urn:g>")


def test_rules_about_any_predicate_are_refused():
    rules = parse_rules("?x ?q ?y :- ?p <urn:sub> ?q , ?x ?p ?y .")
    with pytest.raises(QueryRefused, match="a predicate is a variable"):
        insertions(rules, "<urn:g>")
