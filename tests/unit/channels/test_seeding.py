"""Predictions seeded with new facts, and heuristics that compete."""

from __future__ import annotations

import itertools
import random

import pytest
from channel_histories import Ticks

import p2prdf.channels.seeding
from p2prdf.channels import Categories, Channels, KnowledgeBase, Settings
from p2prdf.channels.category import Publication
from p2prdf.channels.competition import Competition
from p2prdf.channels.elements import Cuts
from p2prdf.channels.heuristic import Outcome
from p2prdf.channels.mapping import MappingTable
from p2prdf.channels.query import CompiledQuery, matching, parse_channel
from p2prdf.channels.seeding import Seeding
from p2prdf.reasoning import parse_rules
from p2prdf.reasoning.vocabulary import TYPE

RULES = parse_rules("?x <urn:part> ?z :- ?x <urn:part> ?y , ?y <urn:part> ?z .")
MEMBERS = """SELECT ?x ?d ?m {
    ?x a <urn:Student> . ?d a <urn:Dept> . ?x <urn:member> ?d . ?d <urn:part> <urn:uni> . ?x <urn:mail> ?m
}"""
CHANGE = Settings(heuristics=(Categories.CHANGE,), skip_max=1, switched=False, bindings_first=0, test_budget=1e9,
                  analysis_budget=1e9)  # fmt: skip


def student(name, dept):
    me = f"<urn:{name}>"
    return [(me, TYPE, "<urn:Student>"), (me, "<urn:member>", f"<urn:{dept}>"), (me, "<urn:mail>", f'"{name}@x"')]


def department(name):
    return [(f"<urn:{name}>", TYPE, "<urn:Dept>"), (f"<urn:{name}>", "<urn:part>", "<urn:uni>")]


def bindings(*pairs):
    return {(f"<urn:{name}>", f"<urn:{dept}>", f'"{name}@x"') for name, dept in pairs}


def made(query=MEMBERS, settings=CHANGE, graphs=()):
    channels = Channels(KnowledgeBase(RULES), Ticks(1))
    for graph in graphs:
        channels.publish(graph)
        channels.evaluate()
    channels.create("it", query, settings)
    return channels


def told(channels, graph):
    """Publish a graph; return the bindings reported early, and the further ones that the query found."""
    early = {each.binding for each in channels.publish(graph)}
    return early, {each.binding for each in channels.evaluate() if each.first}


def test_a_department_that_comes_after_its_students_is_foreseen_to_bring_them_once_another_did() -> None:
    channels = made()
    for name, dept in (("ann", "a"), ("bob", "a"), ("eve", "b"), ("joe", "b"), ("sue", "b")):
        assert told(channels, student(name, dept)) == (set(), set())
    assert told(channels, department("a")) == (set(), bindings(("ann", "a"), ("bob", "a")))
    assert told(channels, department("b")) == (bindings(("eve", "b"), ("joe", "b"), ("sue", "b")), set())
    assert channels.statistics()[0].candidates == 1, "what the graph names is one thing"


def test_an_entry_learned_of_one_student_predicts_for_all() -> None:
    channels = made(graphs=[department("a"), department("b")])
    assert told(channels, student("ann", "a")) == (set(), bindings(("ann", "a")))
    assert told(channels, student("somebody/else-1", "b")[::-1]) == (bindings(("somebody/else-1", "b")), set())
    assert channels.statistics()[0].entries == 1


def test_initial_facts_are_rehearsed() -> None:
    settings = Settings(heuristics=(Categories.CHANGE,), skip_max=1, switched=False)
    channels = made(settings=settings, graphs=[department("a"), student("ann", "a"), student("bob", "b")])
    assert channels.statistics()[0].entries == 2
    assert told(channels, student("eve", "a")) == (bindings(("eve", "a")), set())
    assert told(channels, department("b")) == (bindings(("bob", "b")), set())


def test_an_entry_that_never_predicted_anything_is_not_followed() -> None:
    channels = made(graphs=[department("a")])
    told(channels, student("ann", "a"))
    for number in range(20):
        me = f"<urn:prof{number}>"
        told(channels, [(me, "<urn:member>", "<urn:a>"), (me, "<urn:mail>", f'"p{number}@x"')])
    assert channels.statistics()[0].candidates == 0


def test_an_inferred_fact_is_a_seed_too() -> None:
    """A group is reported when its department becomes part of the university: no graph names group and university."""
    channels = made("SELECT ?g { ?g a <urn:Group> . ?g <urn:part> <urn:uni> }")
    for name, dept in (("g1", "a"), ("g2", "b"), ("g3", "b")):
        told(channels, [(f"<urn:{name}>", TYPE, "<urn:Group>"), (f"<urn:{name}>", "<urn:part>", f"<urn:{dept}>")])
    assert told(channels, department("a")) == (set(), {("<urn:g1>",)})
    assert told(channels, department("b")) == ({("<urn:g2>",), ("<urn:g3>",)}, set())


def test_a_graph_that_brings_bindings_in_two_ways_gets_an_entry_for_each() -> None:
    channels = made(graphs=[department("a")])
    told(channels, student("ann", "a"))

    def both(one, other):  # a student, and the address of another one, known before
        return [*student(one, "a"), student(other, "a")[2]]

    for name in ("bob", "eve", "joe"):
        told(channels, [triple for triple in student(name, "a") if triple[1] != "<urn:mail>"])
    assert told(channels, both("x1", "bob")) == (bindings(("x1", "a")), bindings(("bob", "a")))
    assert told(channels, both("x2", "eve")) == (bindings(("x2", "a"), ("eve", "a")), set())


def test_tests_have_a_bound_of_steps_and_their_finds_are_reported(monkeypatch) -> None:
    channels = made()
    for number in range(60):
        told(channels, student(f"s{number}", "a" if number < 10 else "b"))
    told(channels, department("a"))
    monkeypatch.setattr(p2prdf.channels.seeding, "STEPS_MAX", 60)
    early, late = told(channels, department("b"))
    assert 10 <= len(early) <= 30
    assert early | late == bindings(*((f"s{number}", "b") for number in range(10, 60)))
    assert channels.statistics()[0].cut_short == 1


def test_a_query_of_too_many_patterns_is_not_begun_with_any() -> None:
    path = " . ".join(f"?x{at} ?p{at} ?x{at + 1}" for at in range(16))
    channels = made(f"SELECT ?x0 ?x16 {{ {path} }}")
    ends = set()
    for _ in range(3):
        early, late = told(channels, [("<urn:a>", "<urn:p>", "<urn:a>"), ("<urn:a>", "<urn:p>", "<urn:b>")])
        ends |= late
        assert early == set()
        channels.delete(("?x", "<urn:p>", "?y"))
    assert ends == {("<urn:a>", "<urn:a>"), ("<urn:a>", "<urn:b>")}
    assert channels.statistics()[0].entries == 0


QUERIES = (
    "SELECT ?x ?z { ?x <urn:p> ?y . ?y <urn:q> ?z }",
    "SELECT ?x { ?x <urn:p> ?x . ?x <urn:q> <urn:1> }",
    "SELECT ?x ?r { ?x ?r ?y . ?y <urn:q> ?x }",
    "SELECT ?y { <urn:1> <urn:p> ?x . ?x <urn:p> ?y . ?y <urn:q> ?z FILTER(?z != <urn:2>) }",
    "SELECT ?z { <urn:1> <urn:p> <urn:2> . ?x <urn:q> ?z }",
    "SELECT ?p { ?x ?p ?p . ?p ?x ?y }",
)


@pytest.mark.parametrize("text", QUERIES)
def test_the_rows_of_a_seed_are_those_that_it_is_part_of(text: str) -> None:
    """Against all combinations of facts."""
    for seed in range(15):
        rng = random.Random(seed)
        knowledge = KnowledgeBase()
        things = [f"<urn:{n}>" for n in (1, 2, 3, "p", "q")]
        graph = {tuple(rng.choices(things, (3, 3, 3, 1, 1))[0] if at != 1 else rng.choice(things[3:])
                       for at in range(3)) for _ in range(12)}  # fmt: skip
        knowledge.add(sorted(graph))
        parsed = parse_channel(text)
        query = CompiledQuery(parsed, knowledge)
        facts = [fact for fact, _ in knowledge.facts]
        expected: dict[tuple[int, tuple[int, int, int]], set[tuple[int, ...]]] = {}
        rows = query.rows()
        for chosen in itertools.product(facts, repeat=len(query.patterns)):
            bound: dict[int, int] = {}
            fits = all(
                (bound.setdefault(slot, term) if slot >= 0 else ~slot) == term
                for pattern, fact in zip(query.patterns, chosen, strict=True)
                for slot, term in zip(pattern, fact, strict=True)
            )
            row = tuple(bound[slot] for slot in query.answer) if fits else ()
            if fits and row in rows and (not parsed.filters or bound[2] != knowledge.numbers.find("<urn:2>")):
                for number, fact in enumerate(chosen):
                    expected.setdefault((number, fact), set()).add(row)
        for number, pattern in enumerate(query.patterns):
            seeded = query.seeded(number)
            assert seeded is not None
            for fact in facts:
                for values in matching(pattern)([fact]):
                    found: dict[tuple[int, ...], None] = {}
                    assert seeded(values, found, 10_000) >= 0
                    assert set(found) == expected.get((number, fact), set())
        for row in rows:
            solution = query.solution(row)
            assert solution is not None
            assert tuple(solution[slot] for slot in query.answer) == row
            assert all(
                tuple(solution[slot] if slot >= 0 else ~slot for slot in pattern) in set(facts)
                for pattern in query.patterns
            )


def test_a_seed_stops_where_its_steps_end() -> None:
    knowledge = KnowledgeBase()
    knowledge.add([("<urn:a>", "<urn:p>", f"<urn:{n}>") for n in range(100)])
    query = CompiledQuery(parse_channel("SELECT ?x ?y { ?x <urn:p> ?z . ?x <urn:p> ?y }"), knowledge)
    seeded = query.seeded(0)
    assert seeded is not None
    values = tuple(knowledge.numbers.find(f"<urn:{name}>") for name in ("a", "7"))
    found: dict[tuple[int, ...], None] = {}
    assert seeded(values, found, 30) < 0
    assert len(found) == 30
    assert seeded(values, found, 1000) == 900
    assert len(found) == 100


# --- competition ------------------------------------------------------------------------------------


class Stub:
    """A heuristic that foresees the bindings of its choice, and counts how often it is asked."""

    def __init__(self, categories, foresees):
        self.categories, self._foresees = categories, foresees
        self.table, self.foreseen = MappingTable(), []
        self.asked, self.learned = 0, 0

    @property
    def rate(self):
        recent = self.foreseen[-40:]
        return sum(recent) / len(recent) if recent else 0.0

    def test(self, publication, known, over):
        return Outcome([publication.number], 1, False)

    def foresees(self, row, publications):
        self.asked += 1
        return self._foresees(row[0])

    def learn(self, row, publications):
        self.learned += 1


def publication(number):
    return Publication(number, (), Cuts())


def test_others_are_hardly_asked_while_nearly_all_is_foreseen() -> None:
    active, other = Stub(Categories.COUNT, lambda _: False), Stub(Categories.SHAPE, lambda _: True)
    competition = Competition([active, other])
    for number in range(1000):
        competition.heard((number,), [publication(number)], foreseen=True)
    assert competition.categories is Categories.COUNT
    assert other.asked == 10 + 1000 // 64
    for number in range(200):
        competition.heard((number,), [publication(number)], foreseen=False)
    assert 10 < active.learned < 128
    assert competition.categories is Categories.SHAPE, "it is noticed when that ends"


def test_an_active_heuristic_that_fails_is_replaced_by_a_better_one() -> None:
    competition = Competition([Stub(Categories.COUNT, None), Stub(Categories.CHANGE, lambda n: n % 2 == 0)])
    for number in range(9):
        competition.heard((number,), [publication(number)], foreseen=False)
    assert competition.categories is Categories.COUNT
    competition.heard((9,), [publication(9)], foreseen=False)
    assert competition.categories is Categories.CHANGE, "as soon as a rate says something"


def test_a_rehearsal_takes_each_thing_described_in_a_binding_to_have_come_last() -> None:
    knowledge = KnowledgeBase(RULES)
    knowledge.add([*department("a"), *student("ann", "a")])
    query = CompiledQuery(parse_channel(MEMBERS), knowledge)
    seeding = Seeding(query, knowledge, entries_max=10, candidates_max=16)
    seeding.begin(list(query.rows()))
    found = {(category, entry.binding) for category in range(32) for entry in seeding.table.entries(category)}
    # patterns 0, 2 and 4 are about the student: of the most variables the first; 1 and 3 about the department
    assert found == {(0b10101, 2), (0b01010, 1)}
