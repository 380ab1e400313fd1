"""Compiled rules: the generated functions, and the facts that each is for."""

from __future__ import annotations

import pytest
from rule_histories import Numbers

from p2prdf.reasoning.joins import Program, Tell
from p2prdf.reasoning.rule import Atom, Rule

TYPE = "<urn:type>"
CLASSES = 50


def _below(number):
    return Rule(Atom("?x", TYPE, f"<urn:c{number + 1}>"), (Atom("?x", TYPE, f"<urn:c{number}>"),))


OF_ALL = Rule(Atom("?x", "<urn:seen>", "?y"), (Atom("?x", "?p", "?y"),))
OF_TYPES = Rule(Atom("?y", "<urn:used>", "?y"), (Atom("?x", TYPE, "?y"),))


@pytest.fixture(name="numbers")
def _numbers():
    return Numbers()


def _told(firing, fact):
    out = []
    for fire in firing.of(fact[1], fact[2]):
        fire((fact,), 1, out.append)
    return sorted((s, p, o) for s, p, o, _ in out)


def test_a_fact_meets_the_rules_of_its_predicate_and_object_and_those_of_any(numbers):
    firing = Program([*map(_below, range(CLASSES)), OF_ALL, OF_TYPES], numbers).telling(Tell.RAISED)
    fact = numbers.fact("<urn:a>", TYPE, "<urn:c7>")
    assert len(firing.of(*fact[1:])) == 3
    assert _told(firing, fact) == sorted([
        numbers.fact("<urn:a>", TYPE, "<urn:c8>"), numbers.fact("<urn:a>", "<urn:seen>", "<urn:c7>"),
        numbers.fact("<urn:c7>", "<urn:used>", "<urn:c7>"),
    ])  # fmt: skip
    assert len(firing.of(*numbers.fact(TYPE, "<urn:other>"))) == 2
    assert len(firing.of(*numbers.fact("<urn:p>", "<urn:c7>"))) == 1


def test_functions_are_written_once_when_a_fact_comes_that_they_take(numbers, monkeypatch):
    program, written = Program([*map(_below, range(CLASSES)), OF_TYPES], numbers), []
    make = program._made
    monkeypatch.setattr(program, "_made", lambda source: written.append(source) or make(source))
    firing = program.telling(Tell.RAISED)
    assert written == []
    for _ in range(2):
        for name in ("<urn:c7>", "<urn:c9>", "<urn:other>"):
            firing.of(*numbers.fact(TYPE, name))
    assert len(written) == 3


def test_the_best_label_of_a_fact_is_sought_by_the_rules_that_make_such_facts_alone(numbers, monkeypatch):
    program, written = Program([*map(_below, range(CLASSES)), OF_ALL], numbers), []
    make = program._made
    monkeypatch.setattr(program, "_made", lambda source: written.append(source) or make(source))
    best = program.best()
    program.facts.put(numbers.fact("<urn:a>", TYPE, "<urn:c7>"), 5)
    assert best(numbers.fact("<urn:a>", TYPE, "<urn:c8>")) == 5
    assert best(numbers.fact("<urn:b>", TYPE, "<urn:c8>")) == -1
    assert best(numbers.fact("<urn:a>", "<urn:seen>", "<urn:c7>")) == 5
    assert len(written) == 2


def test_a_name_makes_no_rule_another_one(numbers):
    rule = _below(1)
    named = Rule(rule.head, rule.body, "cax-sco")
    assert named == rule
    assert Program([rule, named], numbers).rules == (rule,)
