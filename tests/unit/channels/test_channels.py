"""Channels and their knowledge base: accepted and refused input, and their statistics."""

from __future__ import annotations

import dataclasses
import re

import pytest
from channel_histories import Ticks

import p2prdf.channels
from p2prdf.channels import Categories, Channels, Evaluation, KnowledgeBase, Settings, knowledge
from p2prdf.channels.account import Account
from p2prdf.channels.category import Publication
from p2prdf.channels.elements import Cuts
from p2prdf.channels.evaluator import Incremental, Reexecuted
from p2prdf.channels.mapping import MappingTable
from p2prdf.channels.query import parse_channel
from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.vocabulary import TYPE, expanded

SUB_CLASS, FUNCTIONAL = expanded("rdfs:subClassOf owl:FunctionalProperty")
OF_TEXTS = (Categories.COUNT, Categories.SHAPE, Categories.SIGNATURE)
IN = parse_rules("?x <urn:in> ?z :- ?x <urn:in> ?y , ?y <urn:in> ?z .")


def within(one, other):
    return (f"<urn:{one}>", "<urn:in>", f"<urn:{other}>")


def names(pairs):
    return {tuple(term.removeprefix("<urn:").removesuffix(">") for term in pair) for pair in pairs}


class Steps:
    """A timer that stands still; a test sets ``now``."""

    now = 0.0

    def __call__(self):
        return self.now


# --- the knowledge base --------------------------------------------------------------------------


def test_consequences_hold_until_their_premises_are_gone() -> None:
    knowledge = KnowledgeBase(IN)
    knowledge.add([within("a", "b"), within("b", "c"), within("a", "c"), within("c", "d")])
    assert set(knowledge.triples()) >= {within("a", "d"), within("b", "d")}
    assert knowledge.remove(within("b", "c"))[0] == 1
    assert set(knowledge.triples()) == {within(*pair) for pair in ("ab", "ac", "cd", "ad")}, "a in c was said itself"
    count, change = knowledge.remove(("<urn:a>", "?p", "?o"))
    assert (count, len(change.removed)) == (2, 3)
    assert knowledge.remove(("<urn:a>", "?p", "?o"))[0] == 0
    assert set(knowledge.triples()) == {within("c", "d")}
    with pytest.raises(LocalProtocolError, match="neither a canonical term nor a variable: 'a'"):
        knowledge.remove(("a", "?p", "?o"))


def test_inferred_triples_and_the_ontology_cannot_be_deleted() -> None:
    knowledge = KnowledgeBase(IN, facts=[within("x", "y")])
    knowledge.add([within("a", "b"), within("b", "c")])
    told = [knowledge.is_explicit(within(*pair)) for pair in (("a", "b"), ("a", "c"), ("b", "nowhere"))]
    assert told == [True, False, False]
    assert knowledge.remove(within("a", "c"))[0] == 0
    assert knowledge.remove(within("x", "y"))[0] == 0
    assert within("a", "c") in set(knowledge.triples())


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (("?x", "<urn:in>", "?x"), {("a", "a")}), (("?x", "?p", "?x"), {("a", "a")}), (("?s", "?p", "?o"), None),
        (("<urn:a>", "?p", "?o"), {("a", "a"), ("a", "b")}), (("?s", "?p", "<urn:b>"), {("a", "b")}),
        (("<urn:a>", "?p", "<urn:b>"), {("a", "b")}), (("<urn:b>", "?p", "<urn:a>"), set()),
        (("?s", "<urn:nowhere>", "?o"), set()), (("?s", "<urn:in>", "<urn:c>"), {("b", "c")}),
    ],
)  # fmt: skip
def test_a_pattern_finds_its_matches(pattern, found) -> None:
    knowledge = KnowledgeBase()
    knowledge.add([within(*pair) for pair in ("aa", "ab", "bc")])
    text = knowledge.numbers.text
    pairs = names((text(s), text(o)) for s, _, o in knowledge.matching(pattern))
    assert pairs == ({("a", "a"), ("a", "b"), ("b", "c")} if found is None else found)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        ([('"a"', "<urn:p>", "<urn:o>")], 'the subject of statement 1 of a graph is not an IRI: \'"a"\''),
        ([within("a", "b"), ("<urn:s>", "_:b", "<urn:o>")], "predicate of statement 2 of a graph is not an IRI: '_:b'"),
        ([("<urn:s>", "<urn:p>", "o")], "the object of statement 1 of a graph is not a canonical term: 'o'"),
        ([("<urn:s>", "<urn:p>")], "statement 1 of a graph is not a triple of terms"),
        ([("<urn:a>", SUB_CLASS, "<urn:b>")], "statement 1 of a graph is about classes or properties"),
        ([("<urn:p>", TYPE, FUNCTIONAL)], "statement 1 of a graph is about classes or properties"),
    ],
)
def test_a_bad_graph_is_refused_before_any_of_it_is_taken_in(graph, reason) -> None:
    channels = Channels(KnowledgeBase.of_ontology([("<urn:C>", SUB_CLASS, "<urn:D>")]), Ticks(1))
    with pytest.raises(DataRefused, match=reason):
        channels.publish([("<urn:x>", "<urn:p>", "<urn:y>"), *graph][-len(graph) :])
    assert set(channels.knowledge.triples()) == set()
    assert channels.publish([("<urn:x>", TYPE, "<urn:C>")]) == []
    assert ("<urn:x>", TYPE, "<urn:D>") in set(channels.knowledge.triples())


def test_the_quick_look_at_a_statement_takes_nothing_that_the_slow_one_refuses():
    """All statements of odd terms, in each place; the error is the one of the slow check."""
    terms = ("<urn:a>", "<>", "<a", "a>", "_:b", "", "<", ">", '"', '""', '"a"', '"a"@en', "a", 5, None, ("<", ">"))
    pairs = [(s, p) for s in terms for p in terms]
    statements = [*pairs, *((*pair, *pair) for pair in pairs), *((*pair, o) for pair in pairs for o in terms)]
    for statement in [*statements, ("<urn:a>", TYPE, FUNCTIONAL), ("<urn:a>", SUB_CLASS, "<urn:b>")]:
        try:
            knowledge._check(statement, 1, refuse_schema=True)
        except DataRefused as refused:
            with pytest.raises(DataRefused, match=re.escape(str(refused))):
                knowledge.check_graph([statement], refuse_schema=True)
        else:
            assert knowledge.check_graph([statement], refuse_schema=True) == (statement,)


def test_a_graph_that_is_too_large_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("p2prdf.channels.knowledge.GRAPH_TRIPLES_MAX", 2)
    KnowledgeBase().add([within("a", "b"), within("b", "c")])
    with pytest.raises(DataRefused, match="a graph of 3 statements, more than 2"):
        KnowledgeBase().add([within("a", "b"), within("b", "c"), within("c", "d")])


# --- evaluation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("evaluator", [Reexecuted, Incremental])
def test_a_run_returns_the_bindings_that_are_new_since_the_last(evaluator) -> None:
    knowledge = KnowledgeBase(IN)
    knowledge.add([within("a", "b")])
    it = evaluator(parse_channel("SELECT ?x ?y { ?x <urn:in> ?y FILTER(?x != <urn:c>) }"), knowledge)
    text = knowledge.numbers.text

    def run():
        return {(text(x)[5], text(y)[5]) for x, y in it.run()}

    assert run() == {("a", "b")}
    assert run() == set()
    it.changed(knowledge.add([within("b", "c"), within("c", "d")]).change)
    row = tuple(knowledge.numbers.find(f"<urn:{name}>") for name in "ad")
    assert it.holds(row)
    assert row not in it.found
    assert run() == {("b", "c"), ("a", "c"), ("b", "d"), ("a", "d")}
    it.changed(knowledge.remove(within("c", "d"))[1])
    assert not it.holds(row)
    assert run() == set()
    assert row not in it.found
    it.changed(knowledge.add([within("c", "d")]).change)
    assert run() == {("b", "d"), ("a", "d")}


def test_a_query_stays_right_when_there_is_much_more_and_much_less_than_when_it_was_written() -> None:
    knowledge = KnowledgeBase()
    it = Reexecuted(parse_channel("SELECT ?x ?z { ?x <urn:p> ?y . ?y <urn:q> ?z }"), knowledge)
    assert it.run() == []
    written = it.query._rows
    knowledge.add([(f"<urn:{n}>", "<urn:p>", f"<urn:{n + 1}>") for n in range(200)])
    knowledge.add([(f"<urn:{n}>", "<urn:q>", f"<urn:{n + 1}>") for n in range(0, 200, 50)])
    assert len(it.run()) == 3
    assert it.query._rows is not written, "sizes are others, so it is planned anew"
    written = it.query._rows
    assert it.run() == []
    assert it.query._rows is written
    knowledge.remove(("?s", "<urn:p>", "?o"))
    assert it.run() == []
    assert it.found == {}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT ?x { ?x <urn:p> ?y . ?z <urn:q> ?w }", "no variable connects"),
        ("SELECT ?x { ?x <urn:p> ?y ", "at line 1"), ("ASK { ?x <urn:p> ?y }", "ASK"),
        ("SELECT ?x { ?x <urn:p> ?y OPTIONAL { ?y <urn:q> ?z } }", "OPTIONAL"),
        ("SELECT ?x { GRAPH ?g { ?x <urn:p> ?y } }", "GRAPH"),
    ],
)  # fmt: skip
def test_a_query_that_is_no_graph_pattern_is_refused(query, reason) -> None:
    channels = Channels(KnowledgeBase(), Ticks(1))
    with pytest.raises(QueryRefused, match=reason):
        channels.create("it", query)
    assert "it" not in channels


# --- channels and subscribers ------------------------------------------------------------------------


def test_subscribers_hear_of_their_channels_until_they_leave() -> None:
    channels = Channels(KnowledgeBase(IN), Ticks(1))
    channels.publish([within("a", "b")])
    channels.evaluate()
    channels.create("in", "SELECT ?x ?y { ?x <urn:in> ?y }")
    channels.create("in b", "SELECT ?x { ?x <urn:in> <urn:b> }")
    assert names(channels.subscribe("in", "ann")) == {("a", "b")}, "what is there is handed over, and is not news"
    channels.subscribe("in", "bob")
    channels.subscribe("in b", "ann")
    channels.publish([within("c", "b")])
    assert [(each.channel, each.subscribers) for each in channels.evaluate()] == [
        ("in", ("ann", "bob")), ("in b", ("ann",)),
    ]  # fmt: skip
    channels.unsubscribe("in", "ann")
    channels.drop("in b")
    channels.publish([within("d", "b")])
    assert [(each.channel, each.subscribers) for each in channels.evaluate()] == [("in", ("bob",))]
    assert len(channels) == 1


def test_wrong_requests_are_refused_by_name() -> None:
    channels = Channels(KnowledgeBase(), Ticks(1))
    channels.create("it", "SELECT ?x { ?x <urn:p> ?y }")
    for call, reason in (
        (lambda: channels.create("it", "SELECT ?x { ?x <urn:p> ?y }"), "there is a channel 'it' already"),
        (lambda: channels.create("", "SELECT ?x { ?x <urn:p> ?y }"), "1 to 1024 characters, not 0"),
        (lambda: channels.subscribe("other", "ann"), "there is no channel 'other'"),
        (lambda: channels.unsubscribe("it", "ann"), "'ann' has not subscribed to channel 'it'"),
        (lambda: channels.drop("other"), "there is no channel 'other'"),
        (lambda: channels.delete(("a", "?p", "?o")), "neither a canonical term nor a variable: 'a'"),
        (lambda: channels.delete(("?s", "?p")), "a pattern has three terms"),
    ):  # fmt: skip
        with pytest.raises(LocalProtocolError, match=reason):
            call()
    channels.publish([])
    with pytest.raises(LocalProtocolError, match="is not evaluated"):
        channels.publish([])
    assert channels.evaluate() == []
    assert channels.publish([]) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"skip_max": 0}, "skip_max: 0 is not between 1 and 10"), ({"skip_max": 11}, "11 is not between"),
        ({"threshold": 1}, "threshold: 1"), ({"share": -0.1}, "share: -0.1 is below 0"),
        ({"patience": float("nan")}, "patience: nan"), ({"heuristics": (Categories.COUNT,) * 2}, "a name is repeated"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(change, reason) -> None:
    channels = Channels(KnowledgeBase(), Ticks(1))
    with pytest.raises(LocalProtocolError, match=reason):
        channels.create("it", "SELECT ?x { ?x <urn:p> ?y }", dataclasses.replace(Settings(), **change))


def test_public_names_are_those_that_are_there() -> None:
    assert all(hasattr(p2prdf.channels, name) for name in p2prdf.channels.__all__)


# --- whether it pays ---------------------------------------------------------------------------------


def test_an_account_is_in_credit_while_speculation_saves_more_than_it_takes() -> None:
    account = Account(patience=1.0, share=0.1)
    account.spend(1.5)
    assert not account.in_credit
    account.worked(9.0)
    assert not account.in_credit
    account.worked(1.0)
    assert account.in_credit, "half a tenth of all other work is credited"
    account.save(100.0)
    account.spend(1.1)
    assert not account.in_credit, "old savings count no more than the patience"
    assert (account.took, account.saved) == (2.6, 100.0)


def test_credit_halves_with_each_vain_attempt_and_is_whole_again_after_a_saving() -> None:
    account = Account(patience=1.0, share=0.5)
    account.spend(1.25)
    needed = []
    for _ in range(6):
        work = 0.0
        while not account.in_credit:
            account.worked(0.25)
            work += 0.25
        needed.append(work)
        account.spend(0.25 + account.balance)
    assert needed == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    account.save(0.25)
    account.spend(0.25)
    account.worked(1.0)
    assert account.in_credit, "halved once"


def test_the_patience_is_no_more_than_a_few_runs() -> None:
    account = Account(patience=1.0, share=0.0, patience_runs=4.0)
    account.ran(0.125)
    account.spend(0.5)
    assert account.in_credit
    account.spend(0.125)
    assert not account.in_credit
    account = Account(patience=1.0, share=0.0, patience_runs=4.0)
    account.ran(100.0)
    account.spend(1.125)
    assert not account.in_credit


def speculating(steps, testing, skip_max=1):
    """Return channels with false candidates that take time to test, and a function that publishes one more graph."""
    timer = Steps()
    settings = Settings(heuristics=(Categories.COUNT,), threshold=2, skip_max=skip_max, patience=1.0, share=0.05,
                        test_budget=1e9, analysis_budget=1e9)  # fmt: skip
    knowledge = KnowledgeBase()
    channels = Channels(knowledge, timer)
    channels.create("it", "SELECT ?x ?y { ?x <urn:p> ?y }", settings)
    channel = channels._channels["it"]
    run, holds = channel._evaluator.run, channel._evaluator.holds

    def slow_run():
        timer.now += steps
        return run()

    def slow_holds(row):
        timer.now += testing
        return holds(row)

    channel._evaluator.run, channel._evaluator.holds = slow_run, slow_holds

    def publish(*triple):
        channels.publish([triple])
        return channels.evaluate()

    return channels, publish


def test_a_channel_that_gains_nothing_is_switched_off_and_costs_a_share_only() -> None:
    channels, publish = speculating(1.0, testing=0.7)
    for number in range(4):
        publish(f"<urn:x{number}>", "<urn:p>", f"<urn:y{number + 100}>")
    for number in range(5, 500):  # the same shape, but no true bindings: all candidates are false
        for name in ("x", "y"):
            channels.knowledge.numbers.intern(f"<urn:{name}{number}>")
        publish(f"<urn:x{number}>", "<urn:r>", f"<urn:y{number}>")
    found = channels.statistics()[0]
    assert 3 <= found.switched_off <= 10, "it tries again, ever more rarely"
    assert found.candidates == found.switched_off
    assert found.testing + found.analysing <= 0.05 * found.running + 1.0 + 0.7
    assert found.foreseen <= 3


def test_a_channel_that_gains_stays_on() -> None:
    channels, publish = speculating(1.0, testing=0.1)
    for number in range(100):
        publish(f"<urn:x{number}>", "<urn:p>", f"<urn:y{number + 100}>")
    found = channels.statistics()[0]
    assert (found.switched_off, found.speculating) == (0, True)
    assert found.foreseen == 98
    assert found.saved > 50


def test_runs_that_are_left_out_count_as_saved_if_bindings_are_foreseen() -> None:
    channels, publish = speculating(1.0, testing=0.1, skip_max=10)
    for number in range(100):
        publish(f"<urn:x{number}>", "<urn:p>", f"<urn:y{number + 100}>")
    found = channels.statistics()[0]
    assert (found.foreseen, found.skipped > 70) == (98, True)
    assert found.saved > found.foreseen, "more than could be saved by telling early"
    for number in range(100, 300):  # nothing new comes: a run skipped for that is no merit of the heuristic
        publish(f"<urn:x{number}>", "<urn:elsewhere>", f"<urn:y{number + 100}>")
    assert channels.statistics()[0].saved < found.saved + 100


def test_the_budget_of_tests_is_kept() -> None:
    channels, publish = speculating(1.0, testing=0.1)
    channel = channels._channels["it"]
    channel.settings = dataclasses.replace(channel.settings, test_budget=0.0)
    for number in range(10):
        publish(f"<urn:x{number}>", "<urn:p>", f"<urn:y{number + 100}>")
    found = channels.statistics()[0]
    assert (found.candidates, found.foreseen, found.cut_short) == (0, 0, 8)


def test_a_mapping_table_gives_up_the_entries_with_the_lowest_hit_rates() -> None:
    table = MappingTable(entries_max=8)
    for number in range(8):
        entry = table.entry("graph", "binding", (0,), (number,))
        entry.tries, entry.hits = 10, number
    table.entry("graph", "binding", (0,), (8,))
    assert [entry.places for entry in table.entries("graph")] == [(7,), (6,), (5,), (8,), (4,), (3,), (2,)]
    assert (len(table), table.given_up) == (7, 2)
    table.forget("binding")
    assert (len(table), table.entries("graph")) == (0, [])


# --- competing heuristics --------------------------------------------------------------------------


def test_a_signature_is_the_same_in_any_order_and_any_number() -> None:
    one = [("<urn:x>", "<urn:p>", "<urn:y>"), ("<urn:x>", "<urn:q>", "<urn:z1>"), ("<urn:x>", TYPE, "<urn:C>")]
    other = [one[2], one[0], one[1], ("<urn:x>", "<urn:q>", "<urn:z2>")]
    seen = [Publication(1, each, Cuts()).seen(Categories.SIGNATURE) for each in (one, other)]
    assert seen[0] == seen[1]
    elsewhere = [*one[:2], ("<urn:y>", TYPE, "<urn:C>")]
    assert Publication(1, elsewhere, Cuts()).seen(Categories.SIGNATURE)[0] != seen[0][0]


def test_the_heuristic_that_foresees_most_is_the_one_that_is_asked() -> None:
    """Graphs have any length and order: only the predicates identify their kind."""
    channels = Channels(KnowledgeBase(), Steps())
    settings = Settings(heuristics=OF_TEXTS, threshold=2, skip_max=1, switched=False)
    channels.create("it", "SELECT ?x ?y { ?x <urn:p> ?y }", settings)
    for number in range(60):
        graph = [(f"<urn:x{number}>", "<urn:p>", f"<urn:y{number * 7}>")]
        graph += [(f"<urn:x{number}>", "<urn:q>", f"<urn:z{more}>") for more in range(number % 11)]
        channels.publish(graph if number % 2 else graph[::-1])
        channels.evaluate()
    found = channels.statistics()[0]
    assert found.heuristic == "signature"
    assert found.recently_foreseen == 10


@pytest.mark.parametrize("evaluation", [*Evaluation])
def test_initial_bindings_enter_the_histories_without_being_news(evaluation) -> None:
    knowledge = KnowledgeBase()
    knowledge.add([(f"<urn:x{n}>", "<urn:p>", f"<urn:y{n + 50}>") for n in range(100)])
    channels = Channels(knowledge, Steps())
    settings = Settings(evaluation=evaluation, heuristics=OF_TEXTS, skip_max=1, switched=False)
    channels.create("it", "SELECT ?x ?y { ?x <urn:p> ?y }", settings)
    assert len(channels.subscribe("it", "ann")) == 100
    early = []
    for number in range(200, 204):
        early.append(len(channels.publish([(f"<urn:x{number}>", "<urn:p>", f"<urn:y{number + 50}>")])))
        channels.evaluate()
    assert early == [0, 1, 1, 1], "one graph is enough: what is key in the bindings was known"


def test_time_to_build_a_dataflow_does_not_count_as_time_that_could_be_saved(monkeypatch) -> None:
    """Otherwise speculation would go on for hundreds of graphs where a run takes next to nothing."""
    timer, run = Steps(), Incremental.run
    durations = iter([1000.0])

    def slow_once(evaluator):
        timer.now += next(durations, 0.001)
        return run(evaluator)

    monkeypatch.setattr(Incremental, "run", slow_once)
    channels = Channels(KnowledgeBase(), timer)
    settings = Settings(evaluation=Evaluation.INCREMENTAL, heuristics=(Categories.COUNT,), threshold=2)
    channels.create("it", "SELECT ?x ?y { ?x <urn:p> ?y }", settings)
    for number in range(50):
        channels.publish([(f"<urn:x{number}>", "<urn:p>", f"<urn:y{number + 100}>")])
        channels.evaluate()
    found = channels.statistics()[0]
    assert found.foreseen == 48
    assert 0 < found.saved <= 0.001 * found.foreseen
    assert (found.runs, round(found.running, 3)) == (50, 0.05)
