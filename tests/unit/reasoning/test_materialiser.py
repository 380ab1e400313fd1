"""The materialiser against closures worked out the slow way; ``tests/papers/test_imars.py`` has the paper's example."""

from __future__ import annotations

import os
import random

import pytest
from rule_histories import (
    ANEW,
    MENDED,
    OF_PROPERTIES,
    THREE,
    TRANSITIVE,
    Always,
    Given,
    Numbers,
    closure,
    history,
    labelled_closure,
    random_rules,
)

from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning.materialiser import FOREVER, Materialiser
from p2prdf.reasoning.rule import Atom, Rule

HISTORIES = int(os.environ.get("HISTORIES", "250"))
IS_IN = TRANSITIVE.head.p
RANGE = 10

STREAM = {1: ["AB"], 2: ["BC"], 3: ["CD"], 4: ["AE", "ED"]}


class Places:
    """Names in a transitive relation."""

    def __init__(self, effort=MENDED):
        self.numbers = Numbers()
        self.all = Materialiser([TRANSITIVE], self.numbers, effort=effort)

    def fact(self, pair):
        return self.numbers.fact(f"<urn:{pair[0]}>", IS_IN, f"<urn:{pair[1]}>")

    def step(self, now, given=(), back=(), until=None):
        label = now + RANGE if until is None else until
        return self.all.step(now, {self.fact(each): label for each in given}, [self.fact(each) for each in back])

    @property
    def held(self):
        names = {self.numbers(f"<urn:{name}>"): name for name in "ABCDE"}
        return {f"{names[s]}{names[o]}{label if label != FOREVER else ''}" for (s, _, o), label in self.all}


def test_a_renewal_extends_consequences_and_reports_no_change():
    places = Places()
    for now in (1, 2, 3):
        places.step(now, STREAM[now])
    change = places.step(4, STREAM[4])
    assert set(change.added.values()) == {14}
    assert (change.relabelled, change.removed) == ({places.fact("AD"): 14}, [])


@pytest.mark.parametrize("until", [FOREVER, None], ids=["for ever", "expiring"])
def test_facts_that_came_and_went_leave_nothing(until):
    """Subjects and objects are new in each step; a fact that never expires may be taken back as often."""
    numbers = Numbers()
    both = Materialiser([OF_PROPERTIES, THREE], numbers, effort=MENDED)
    for now in range(1, 40):
        fact = numbers.fact(f"<urn:s{now}>", "<urn:p>", f"<urn:o{now}>")
        both.step(now, {fact: now if until is None else until})
        both.step(now, {}, [fact] if until else [])
    both.step(50)
    assert len(both) == 0
    others = [nested for order, nested in both._facts.orders.items() if order[0] != "p"]
    assert others
    assert not any(others)
    assert list(both._levels.descending()) == list(both._given._levels.descending()) == []


def test_late_facts_are_counted_and_unknown_ones_cannot_be_taken_back():
    places = Places()
    places.step(9, ["AB"], until=9)
    change = places.step(10, ["BC"], ["CD", "AB"], until=9)
    assert (places.held, places.all.late, change.removed) == (set(), 1, [places.fact("AB")])


def test_time_does_not_go_back():
    places = Places()
    places.step(2)
    with pytest.raises(LocalProtocolError, match="time goes back from 2 to 1"):
        places.step(1)


@pytest.mark.parametrize("effort", [MENDED, ANEW, None], ids=["mended", "anew", "both"])
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_fact_holds_just_as_long_as_its_derivations(seed, effort):
    """The theorem: f follows from the facts given until a moment or longer iff E(f) is that moment or later."""
    rng, numbers = random.Random(seed), Numbers()
    rules = random_rules(rng)
    effort = effort or Always(lambda: rng.random() < 0.3)
    both, given, held = Materialiser(rules, numbers, effort=effort), Given(), {}
    for now, arrivals, back in history(rng, numbers, 7):
        change = both.step(now, arrivals, back)
        given.step(now, arrivals, back)
        found = dict(both)
        assert found == labelled_closure(rules, given.labels, numbers)
        assert len(both) == len(found)
        assert change.added == {fact: label for fact, label in found.items() if fact not in held}
        assert sorted(change.removed) == sorted(held.keys() - found.keys())
        if not change.anew:
            assert change.relabelled == {f: label for f, label in found.items() if held.get(f, label) != label}
        held = found


@pytest.mark.parametrize("seed", range(100))
def test_without_expirations_only_new_facts_are_computed_and_labels_count_when_something_expires(seed, monkeypatch):
    rng, numbers = random.Random(seed), Numbers()
    rules = random_rules(rng)
    both, given, held, taken = Materialiser(rules, numbers, effort=MENDED), Given(), {}, []
    take = both._closing.take
    monkeypatch.setattr(both._closing, "take", lambda these, label: taken.append(label) or take(these, label))
    for at, (now, arrivals, back) in enumerate(history(rng, numbers, 12)):
        lasts = at % 6 < 4
        arrivals = dict.fromkeys(arrivals, FOREVER) if lasts else arrivals
        back = [] if lasts and at % 6 else back
        change = both.step(now, arrivals, back)
        given.step(now, arrivals, back)
        found = dict(both)
        assert found == labelled_closure(rules, given.labels, numbers)
        assert change.added == {fact: label for fact, label in found.items() if fact not in held}
        assert sorted(change.removed) == sorted(held.keys() - found.keys())
        assert change.relabelled == {f: label for f, label in found.items() if held.get(f, label) != label}
        held = found
    assert set(taken) == {FOREVER}


def test_a_fact_that_became_permanent_is_not_filed_under_its_former_label():
    numbers = Numbers()
    both = Materialiser([THREE], numbers, effort=MENDED)
    fact = numbers.fact("<urn:a>", "<urn:q>", "<urn:b>")
    both.step(0, {fact: 5})
    both.step(1, {fact: FOREVER})
    both.step(6)
    assert list(both._levels.descending()) == list(both._given._levels.descending()) == []
    assert dict(both) == {fact: FOREVER}


@pytest.mark.parametrize("seed", range(60))
def test_one_materialisation_serves_windows_of_all_sizes(seed):
    """With the oldest support as the label, and facts dropped after the largest window."""
    rng, numbers = random.Random(seed), Numbers()
    rules = random_rules(rng)
    largest, both, published = 9, Materialiser(rules, numbers), {}
    for now, arrivals, _ in history(rng, numbers, 6):
        for fact in arrivals:
            published[fact] = now
        both.step(max(0, now - largest), dict.fromkeys(arrivals, now))
        for size in range(largest + 1):
            inside = {fact for fact, at in published.items() if at + size >= now}
            assert set(both.since(max(0, now - size))) == closure(rules, inside, numbers)


@pytest.mark.parametrize("effort", [MENDED, ANEW], ids=["mended", "anew"])
def test_literals_recognised_as_such_become_no_subject_or_predicate(effort):
    numbers = Numbers()
    literal, thing = numbers('"a"'), numbers("<urn:a>")
    inverse = Rule(Atom("?y", "<urn:q>", "?x"), (Atom("?x", "<urn:p>", "?y"),))
    as_predicate = Rule(Atom("?x", "?y", "?x"), (Atom("?x", "<urn:p>", "?y"),))
    given = {(thing, numbers("<urn:p>"), literal): FOREVER, (thing, numbers("<urn:p>"), numbers("<urn:b>")): FOREVER}
    wary = Materialiser([inverse, as_predicate], numbers, is_literal=lambda n: n == literal, effort=effort)
    wary.step(0, given)
    follows = {numbers.fact("<urn:b>", "<urn:q>", "<urn:a>"), numbers.fact("<urn:a>", "<urn:b>", "<urn:a>")}
    assert {fact for fact, _ in wary} == given.keys() | follows
    wary.step(0, taken_back=list(given))
    assert len(wary) == 0
    every = Materialiser([inverse, as_predicate], numbers, effort=effort)
    every.step(0, given)
    assert len(every) == len(given) + 4


def test_facts_are_kept_in_the_orders_asked_for() -> None:
    numbers = Numbers()
    everything = Materialiser([TRANSITIVE], numbers, orders=("ops", "spo"))
    given = numbers.fact("<urn:a>", IS_IN, "<urn:b>")
    everything.step(0, {given: FOREVER, numbers.fact("<urn:b>", IS_IN, "<urn:c>"): FOREVER})
    derived = s, p, o = numbers.fact("<urn:a>", IS_IN, "<urn:c>")
    assert everything.facts.orders["ops"][o][p][s] == everything.facts.orders["spo"][s][p][o] == FOREVER
    assert everything.is_given(given)
    assert not everything.is_given(derived)
    everything.step(0, taken_back=[given])
    assert not everything.is_given(given)
    assert everything.facts.orders["ops"][o][p].keys() == {numbers("<urn:b>")}
