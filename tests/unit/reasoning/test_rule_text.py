"""Rules as text: reading, writing, and refusals by name and place."""

from __future__ import annotations

import random

import pytest
from rule_histories import random_rule

from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.reasoning import Atom, Rule, parse_rules, write_rules
from p2prdf.reasoning.rule import BODY_ATOMS_MAX
from p2prdf.reasoning.rule_text import RULES_BYTES_MAX

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE = f"<{RDF}type>"
EX = "PREFIX : <http://example.org/>\n"


def _ex(*names):
    return Atom(*(name if name[0] in '?<"' else f"<http://example.org/{name}>" for name in names))


TRANSITIVE = Rule(_ex("?x", "isIn", "?z"), (_ex("?x", "isIn", "?y"), _ex("?y", "isIn", "?z")))


@pytest.mark.parametrize(
    "text",
    [
        "?x :isIn ?z :- ?x :isIn ?y , ?y :isIn ?z .",
        "trans: ?x :isIn ?z :- ?x :isIn ?y , ?y :isIn ?z .",
        "isIn(?x, ?z) :- isIn(?x, ?y), isIn(?y, ?z).",
        ":isIn(?x,?z):-:isIn(?x,?y),?y :isIn ?z .",
        "# a comment\n?x :isIn $z # another\n:- $x <http://example.org/isIn> ?y , ?y :isIn ?z .",
        "CONSTRUCT { ?x :isIn ?z } WHERE { ?x :isIn ?y . ?y :isIn ?z }",
        "construct { ?x :isIn ?z } { ?x :isIn ?y . ?y :isIn ?z . }",
    ],
)
def test_a_rule_can_be_written_in_several_ways(text):
    assert parse_rules(EX + text) == (TRANSITIVE,)


def test_the_name_of_a_rule_is_the_word_before_its_colon():
    (rule,) = parse_rules(EX + "rdfs-7.a: ?x :p ?y :- ?x :q ?y .")
    assert rule.name == "rdfs-7.a"


def test_terms_of_all_kinds_are_read_as_their_canonical_spellings():
    body = "?x :p 'a\\u0041'@EN , ?x :q -5 , ?x :r true , ?x :s :e"
    (rule,) = parse_rules(f"{EX}BASE <http://b.org/>\n?x a <c> :- {body} .")
    assert rule.head == Atom("?x", TYPE, "<http://b.org/c>")
    assert [atom.o for atom in rule.body] == [
        '"aA"@en', f'"-5"^^<{XSD}integer>', f'"true"^^<{XSD}boolean>', "<http://example.org/e>",
    ]  # fmt: skip


def test_several_heads_are_several_rules_of_one_name_and_one_argument_is_a_class():
    rules = parse_rules(EX + "both: Place(?x) , ?y a :Place :- isIn(?x, ?y) .\n?p(?x) :- ?p(?x, ?y) .")
    body = (_ex("?x", "isIn", "?y"),)
    assert rules == (
        Rule(_ex("?x", TYPE, "Place"), body), Rule(_ex("?y", TYPE, "Place"), body),
        Rule(Atom("?x", TYPE, "?p"), (Atom("?x", "?p", "?y"),)),
    )  # fmt: skip
    assert [rule.name for rule in rules] == ["both", "both", ""]


def test_a_pattern_of_a_query_may_be_abbreviated_and_its_blank_nodes_are_variables():
    text = "CONSTRUCT { ?x :r ?b1 ; a :C } WHERE { ?x :p [ :q ?b1 ] , _:n . _:n :q (1) }"
    first, second = parse_rules(EX + text)
    assert (first.head, second.head) == (_ex("?x", "r", "?b1"), _ex("?x", TYPE, "C"))
    assert first.body == second.body == (
        _ex("?x", "p", "?b2"), _ex("?b2", "q", "?b1"), _ex("?x", "p", "?b3"), _ex("?b3", "q", "?b4"),
        Atom("?b4", f"<{RDF}first>", f'"1"^^<{XSD}integer>'), Atom("?b4", f"<{RDF}rest>", f"<{RDF}nil>"),
    )  # fmt: skip


def test_a_label_in_a_template_and_in_a_pattern_is_refused_and_not_joined():
    with pytest.raises(QueryRefused, match="blank node"):
        parse_rules(EX + "CONSTRUCT { ?x :p _:n } WHERE { ?x :q _:n }")


def test_no_text_is_no_rules():
    assert parse_rules("# nothing\n") == ()


@pytest.mark.parametrize("seed", range(30))
def test_a_rule_written_out_reads_back_equal(seed):
    rng = random.Random(seed)
    odd = Rule(Atom("?x", TYPE, '"a\\n\\"\\u0001 :- é"@de-ch'), (Atom("?x", "?y", "<urn:a:b.>"),), "prp-trp")
    rules = (*(random_rule(rng) for _ in range(10)), odd)
    assert parse_rules(write_rules(rules)) == rules
    assert parse_rules("".join(f"{rule}\n" for rule in rules)) == rules
    shorter = write_rules(rules, {"u": "urn:", "": "http://example.org/"})
    assert "u:p" in shorter
    assert "PREFIX :" not in shorter
    assert parse_rules(shorter) == rules
    assert parse_rules(shorter)[-1].name == "prp-trp"


def test_a_prefix_is_used_only_where_the_rest_is_a_plain_name():
    rule = Rule(_ex("?x", "isIn", "?y"), (_ex("?x", "not/plain", "?y"),))
    text = write_rules([rule], {"": "http://example.org/"})
    assert text == EX + "?x :isIn ?y :- ?x <http://example.org/not/plain> ?y .\n"


@pytest.mark.parametrize("name", ["two words", "a:", "a:b", "1", "-", "?x", "a.", "a\n"])
def test_a_name_that_could_not_be_read_again_is_not_written(name):
    with pytest.raises(LocalProtocolError, match="cannot be read again as a name"):
        write_rules([Rule(TRANSITIVE.head, TRANSITIVE.body, name)])


LONG_BODY = " , ".join(f"?x :p{number} ?y" for number in range(BODY_ATOMS_MAX + 1))
REFUSED = [
    ("?x :p ?y :- ?x :q ?y", "syntax error", (1, 21), "ends too early"),
    ("?x :p ?y", "syntax error", (1, 9), "ends too early"),
    ("?x :p ?y ?z .", "syntax error", (1, 10), "'z' is out of place"),
    ("?x :p :- ?x :q ?y .", "syntax error", (1, 7), "':-' is out of place"),
    (":- ?x :q ?y .", "syntax error", (1, 1), "':-' is out of place"),
    ("?x :p ?y :- .", "syntax error", (1, 13), "'.' is out of place"),
    ("?x :p ?y :- ?x :q ?y ; :r ?z .", "syntax error", (1, 22), "';' is out of place"),
    ("?x :p ?y :- ?x :q ?y :- ?x :r ?y .", "syntax error", (1, 22), "':-' is out of place"),
    ("?x :p ?y : - ?x :q ?y .", "syntax error", (1, 10), "out of place"),
    ("?x :p ?y :- ?x :q ` .", "syntax error", (1, 19), "no token of SPARQL"),
    ("?x :p ?y :- ?x :q ?y .\nfor: ex:a :p ?y :- ?x :q ?y .", "prefix", (2, 6), "'ex:' is not declared"),
    ("?x :p ?z :- ?x :q ?y .", "unsafe variable", (1, 1), r"\?z of the head is not in the body"),
    ("?x :p ?y :- ?x :q ?y .\n\n n: ?y :p ?x , ?x ?q ?w :- ?x :q ?y .", "unsafe variable", (3, 5), r"\?q, \?w of"),
    (":a :p :b .", "fact", (1, 1), "publish it"),
    ("?x :p ?y , :a :p :b .", "fact", (1, 1), "publish it"),
    ("?x :p _:b :- ?x :q ?y .", "blank node", (1, 7), "no new nodes"),
    ("?x :p ?y :- ?x :q [ :r ?y ] .", "blank node", (1, 19), "no new nodes"),
    ("?x :p ?y :- ?x :q (?y) .", "collection", (1, 19), "as its triples"),
    ('"a" :p ?y :- ?x :q ?y .', "literal", (1, 1), "subject of no triple"),
    ("?x :p ?y :- 5(?x, ?y) .", "literal", (1, 13), "subject of no triple"),
    ("?x :p ?y :- :q('a', ?y) .", "literal", (1, 16), "subject of no triple"),
    ("?x 'p' ?y :- ?x :q ?y .", "literal", (1, 4), "predicate of no triple"),
    ("?x :p ?y :- ?x true ?y .", "syntax error", (1, 16), "'true' is out of place"),
    ("?x :p ?y :- :q(?x, ?y, ?y) .", "arguments", (1, 22), "a predicate has two"),
    ("?x :p ?y :- :q() .", "syntax error", (1, 16), r"'\)' is out of place"),
    ("?x :p ?y :- ?x ^:q ?y .", "property path", (1, 16), "one predicate"),
    ("?x :p ?y :- ?x :q/:r ?y .", "property path", (1, 18), "one predicate"),
    ("?x :p ?y :- ?x :q+ ?y .", "property path", (1, 18), "one predicate"),
    ("?x :p ?y :- ?x :q ?y , FILTER(?x > ?y) .", "FILTER", (1, 24), "no conditions"),
    ("?x :p ?y :- ?x :q ?y , ?x != ?y .", "!=", (1, 27), "no conditions"),
    ("?x :p ?y :- ?x :q ?y , NOT ?y :q ?x .", "NOT", (1, 24), "no negation"),
    ("?x :p ?y :- ?x :q ?y , not(:q(?y, ?x)) .", "NOT", (1, 24), "no negation"),
    ("?x :p ?y :- ?x :q ?y , !:q(?y, ?x) .", "!", (1, 24), "no negation"),
    ("?x :p ?y :- { ?x :q ?y } .", "group", (1, 13), "UNION as several rules"),
    ("?x :p ?y :- GRAPH :g { ?x :q ?y } .", "GRAPH", (1, 13), "one graph"),
    ("SELECT ?x WHERE { ?x :q ?y }", "SELECT", (1, 1), "no subqueries"),
    ("ASK { ?x :q ?y }", "ASK", (1, 1), "only CONSTRUCT"),
    ("?x :p ?y :- ?x :q ?y .\nPREFIX x: <urn:x> ?x x:p ?y :- ?x :q ?y .", "PREFIX", (2, 1), "before the first rule"),
    (f"?x :p ?y :- {LONG_BODY} .", "rule body", (1, 1), "17 patterns"),
    (f"?x :p ?y :- ?x :q {'(' * 65}{')' * 65} .", "nesting", (1, 83), "deeper than 64"),
    ("CONSTRUCT WHERE { ?x :p ?y }", "CONSTRUCT WHERE", (1, 1), "concludes nothing"),
    ("CONSTRUCT { } WHERE { ?x :p ?y }", "empty template", (1, 1), "has a head"),
    ("CONSTRUCT { ?x :p ?y } WHERE { }", "empty pattern", (1, 1), "has a body"),
    ("CONSTRUCT { ?x :p [] } WHERE { ?x :q ?y }", "blank node", (1, 16), "no new nodes"),
    ("CONSTRUCT { 'a' :p ?x } WHERE { ?x :q ?y }", "literal", (1, 17), "subject of no triple"),
    ("CONSTRUCT { ?x :p ?z } WHERE { ?x :q ?y }", "unsafe variable", (1, 1), r"\?z of the head"),
    ("CONSTRUCT { ?x :p/:q ?y } WHERE { ?x :q ?y }", "property path", (1, 18), "one predicate"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q/:r ?y }", "property path", (1, 35), "one predicate"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q* ?y }", "property path", (1, 35), "one predicate"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q ?y FILTER(?x != ?y) }", "FILTER", (1, 41), "no conditions"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q ?y OPTIONAL { ?y :r ?z } }", "OPTIONAL", (1, 41), "write two rules"),
    ("CONSTRUCT { ?x :p ?y } WHERE { { ?x :q ?y } UNION { ?y :q ?x } }", "group", (1, 32), "UNION as several rules"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q ?y MINUS { ?x :r ?y } }", "MINUS", (1, 41), "no negation"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q ?z BIND(?z AS ?y) }", "BIND", (1, 41), "computes no values"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q ?y VALUES ?x { 1 } }", "VALUES", (1, 41), "a rule for each row"),
    ("CONSTRUCT { ?x :p ?y } WHERE { GRAPH ?g { ?x :q ?y } }", "GRAPH", (1, 32), "one graph"),
    ("CONSTRUCT { ?x :p ?y } FROM :g WHERE { ?x :q ?y }", "FROM", (1, 24), "one graph"),
    ("CONSTRUCT { ?x :p ?y } WHERE { SELECT * { ?x :q ?y } }", "SELECT", (1, 32), "no subqueries"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q ?y } LIMIT 1", "LIMIT", (1, 43), "by itself"),
    ("CONSTRUCT { ?x :p ?y } WHERE { ?x :q ?y } ?x :p ?y :- ?x :q ?y .", "syntax error", (1, 43), "out of place"),
]


@pytest.mark.parametrize(("text", "construct", "place", "reason"), REFUSED, ids=[text[:60] for text, *_ in REFUSED])
def test_a_bad_rule_is_refused_by_name_and_place(text, construct, place, reason):
    with pytest.raises(QueryRefused, match=reason) as refusal:
        parse_rules(EX + text)
    found = refusal.value
    assert (found.construct, (found.line - 1, found.column)) == (construct, place)


def test_a_text_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(QueryRefused, match="more than 1048576"):
        parse_rules("#" * (RULES_BYTES_MAX + 1))
