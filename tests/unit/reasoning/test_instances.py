"""Rules instantiated for a schema derive the same from data as the general rules from data and schema."""

from __future__ import annotations

import random

import pytest
from random_schemas import PROPERTIES, TYPE, random_data, random_schema

from p2prdf.reasoning import (
    Atom,
    Rule,
    closure,
    instantiate,
    is_schema,
    owl_rl,
    parse_rules,
    rdfs,
    without_auxiliary,
)
from p2prdf.reasoning.reduction import reduced
from p2prdf.reasoning.unfolding import unfolded
from p2prdf.reasoning.vocabulary import expanded, is_auxiliary

(SUB_CLASS,) = expanded("rdfs:subClassOf")
SEEDS = 12
SETS = {"RDFS": rdfs(), "OWL 2 RL": owl_rl(), "without equality": owl_rl(equality=False)}


def _of_data(rules, triples):
    return {each for each in without_auxiliary(closure(rules, triples)) if not is_schema(each)}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_both_forms_of_a_rule_set_derive_the_same_of_data(seed, name):
    rng, rule_set = random.Random(seed), SETS[name]
    schema, data = random_schema(rng, rng.choice((4, 8, 14))), random_data(rng, rng.choice((3, 6)))
    instances = instantiate(rule_set, schema)
    general = _of_data(rule_set.rules, {*schema, *data})
    assert _of_data(instances.rules, {*data, *instances.facts}) == general
    known = instantiate(rule_set, schema, (*PROPERTIES, TYPE))
    assert all(atom.p[0] != "?" for rule in known.rules for atom in rule.body)
    assert _of_data(known.rules, {*data, *known.facts}) == general


EX = "PREFIX : <urn:>\n"


def _tree(text):
    return {(f"<urn:{c}>", SUB_CLASS, f"<urn:{d}>") for c, d in (pair.split("<") for pair in text.split())}


def test_of_a_closed_class_tree_its_edges_are_the_rules():
    given = _tree("A<B B<C C<D D<E F<C")
    found = instantiate(rdfs(), given)
    assert {(rule.body[0].o, SUB_CLASS, rule.head.o) for rule in found.rules} == given
    assert len(found.schema) == 13
    assert {rule.name for rule in found.rules} == {"rdfs9"}


def test_an_edge_that_says_nothing_new_is_left_out_and_a_circle_stays_closed():
    found = instantiate(rdfs(), _tree("A<B B<C A<C C<A"))
    edges = {(rule.body[0].o, SUB_CLASS, rule.head.o) for rule in found.rules}
    assert len(edges) == 3
    assert closure(rdfs().rules, edges) == closure(rdfs().rules, _tree("A<B B<C C<A"))


def test_of_two_edges_of_which_either_would_do_the_given_one_is_kept():
    given = _tree("A<B B<A A<C")
    assert {(rule.body[0].o, SUB_CLASS, rule.head.o) for rule in instantiate(rdfs(), given).rules} == given


def test_rules_lead_to_each_other_through_properties_and_constants():
    rules = parse_rules(EX + "?x a :C :- ?x :p :v . ?x a :C :- ?x :p ?y . ?x a :D :- ?y :q ?x . ?y :q ?x :- ?x :p ?y .")
    assert reduced(rules) == list(rules[1:])
    more = "?y a :D :- ?x :p ?y . ?x a :D :- ?x :p ?y . ?x :q ?x :- ?x :p ?x . ?x a ?y :- ?x a ?z , ?y a ?z ."
    more = parse_rules(EX + more)
    assert reduced((*more, *rules)) == [*more[:1], *more[3:], *rules[1:]]


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 300])
def test_an_intersection_of_n_classes_is_one_rule_as_far_as_a_body_may_be_that_long(size):
    first, rest, nil, of = expanded("rdf:first rdf:rest rdf:nil owl:intersectionOf")
    cells = [f"<urn:l{number}>" for number in range(size)]
    schema = {("<urn:All>", of, cells[0])}
    for number, (cell, following) in enumerate(zip(cells, [*cells[1:], nil], strict=True)):
        schema |= {(cell, first, f"<urn:C{number}>"), (cell, rest, following)}
    if size > 100:
        rules = unfolded(_walking(cells), lambda atom: is_auxiliary((atom.s, atom.p, atom.o)))
    else:
        rules = [rule for rule in instantiate(owl_rl(equality=False), schema).rules if rule.name == "cls-int1"]
    assert len(rules) == max(1, -(-(size - 1) // 15))
    data = {("<urn:x>", TYPE, f"<urn:C{number}>") for number in range(size)}
    assert ("<urn:x>", TYPE, "<urn:All>") in closure(rules, data)
    assert ("<urn:x>", TYPE, "<urn:All>") not in closure(rules, data - {("<urn:x>", TYPE, f"<urn:C{size // 2}>")})


def _walking(cells):
    of_all = "<urn:p2prdf:rules:ofAll>"
    yield Rule(Atom("?x", TYPE, "<urn:All>"), (Atom("?x", of_all, cells[0]),))
    for number, cell in enumerate(cells):
        body = [Atom("?x", TYPE, f"<urn:C{number}>")]
        body += [Atom("?x", of_all, following) for following in cells[number + 1 : number + 2]]
        yield Rule(Atom("?x", of_all, cell), tuple(body))


def _unfolded(text):
    rules = parse_rules(EX + text)
    return unfolded(rules, lambda atom: atom.p == "<urn:hidden>"), rules


def test_a_predicate_with_several_rules_keeps_all_of_them():
    found, rules = _unfolded("?x :p ?y :- ?x :hidden ?y . ?x :hidden ?y :- ?x :q ?y . ?x :hidden ?y :- ?x :r ?y .")
    assert found == list(rules)


def test_an_unfolded_rule_may_bind_constants_but_not_contradict_them():
    found, _ = _unfolded("?x :p ?y :- ?x :q ?y , ?y :hidden :a . ?x :hidden ?y :- ?x :r ?y , ?y :s ?z .")
    assert found == list(parse_rules(EX + "?x :p ?y :- ?x :q ?y , ?y :r :a , :a :s ?v1 ."))
    found, _ = _unfolded("?x :p ?y :- ?x :q ?y , ?y :hidden :a . ?x :hidden :b :- ?x :r ?y .")
    assert found == []
    found, rules = _unfolded("?x :p ?y :- ?x :hidden ?y . ?x :hidden :b :- ?x :r ?y .")
    assert found == list(rules)


def test_a_recursive_predicate_is_not_unfolded_for_ever():
    found, _ = _unfolded("?x :p ?y :- ?x :hidden ?y . ?x :hidden ?z :- ?x :q ?y , ?y :hidden ?z .")
    assert len(found) == 2
    assert all(any(atom.p == "<urn:hidden>" for atom in rule.body) for rule in found)


def test_a_rule_that_concludes_its_premise_or_needs_a_literal_predicate_is_left_out():
    first, rest, nil, of, below = expanded("rdf:first rdf:rest rdf:nil owl:intersectionOf rdfs:subPropertyOf")
    schema = {("<urn:C>", of, "<urn:a>"), ("<urn:a>", first, "<urn:C>"), ("<urn:a>", rest, "<urn:b>")}
    schema |= {("<urn:b>", first, "<urn:D>"), ("<urn:b>", rest, nil), ("<urn:p>", below, '"literal"')}
    found = instantiate(owl_rl(equality=False), schema)
    assert [str(rule) for rule in found.rules if rule.name[:2] != "eq"] == [
        f"cls-int2: ?x {TYPE} <urn:D> :- ?x {TYPE} <urn:C> ."
    ]


def test_a_chain_is_one_rule_and_its_cells_are_no_visible_predicates():
    first, rest, nil, axiom = expanded("rdf:first rdf:rest rdf:nil owl:propertyChainAxiom")
    schema = {("<urn:p>", axiom, "<urn:a>"), ("<urn:a>", first, "<urn:q>"), ("<urn:a>", rest, "<urn:b>")}
    schema |= {("<urn:b>", first, "<urn:r>"), ("<urn:b>", rest, nil)}
    found = instantiate(owl_rl(equality=False), schema)
    chains = [rule for rule in found.rules if rule.name == "prp-spo2"]
    assert [str(rule) for rule in chains] == ["prp-spo2: ?x <urn:p> ?y :- ?x <urn:q> ?v1, ?v1 <urn:r> ?y ."]
    data = {("<urn:1>", "<urn:q>", "<urn:2>"), ("<urn:2>", "<urn:r>", "<urn:3>")}
    general = closure(owl_rl().rules, schema | data)
    assert any(p == "<urn:a>" for _, p, _ in general)
    assert {each for each in without_auxiliary(general) if not is_schema(each)} == {
        *data, ("<urn:1>", "<urn:p>", "<urn:3>"),
    }  # fmt: skip


def test_a_schemas_statements_about_individuals_are_kept_apart():
    one_of, first, rest, nil = expanded("owl:oneOf rdf:first rdf:rest rdf:nil")
    schema = {("<urn:C>", one_of, "<urn:l>"), ("<urn:l>", first, "<urn:a>"), ("<urn:l>", rest, nil)}
    found = instantiate(owl_rl(), schema | _tree("C<D"))
    assert found.facts == (("<urn:a>", TYPE, "<urn:C>"), ("<urn:a>", TYPE, "<urn:D>"))
