"""Graphs and deletions of a knowledge base lead to the same content in any order of arrival."""

from __future__ import annotations

import itertools
import random

import pytest

from p2prdf.channels.log import GRACE_MS, Log, LogChange
from p2prdf.channels.publication import (
    DELETE,
    GRAPH,
    GRAPH_BYTES_MAX,
    deletion_literal,
    graph_literal,
    identifier_of,
    read_deletion,
    read_graph,
)
from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.rdf import terms
from p2prdf.reasoning import Triple

NEVER = 1 << 62


def at(milliseconds: int) -> int:
    return milliseconds << 16


def fact(number: int, value: int = 0) -> Triple:
    return f"<urn:s{number}>", "<urn:p>", f'"{value}"'


def name(number: int) -> str:
    return f"{number:032x}"


def graph(number: int, when: int, *statements: Triple) -> tuple[str, str]:
    return GRAPH, graph_literal(name(number), at(when), statements)


def deletion(number: int, when: int, *pattern: str) -> tuple[str, str]:
    s, p, o = pattern
    return DELETE, deletion_literal(name(number), at(when), (s, p, o))


def take(log: Log, what: tuple[str, str], *, removed: bool = False, stamp: int = NEVER) -> LogChange:
    return log.take(*what, stamp, removed=removed)


def holding(log: Log) -> set[Triple]:
    return {each for graph in log.content() for each in graph}


class TestOrder:
    def test_a_deletion_takes_from_the_graphs_before_it_and_from_no_others(self) -> None:
        log = Log()
        assert take(log, graph(1, 10, fact(1), fact(2))).graph == (fact(1), fact(2))
        assert take(log, graph(2, 30, fact(2))).graph == (fact(2),)
        assert take(log, deletion(3, 20, "?s", "<urn:p>", '"0"')).lost == [fact(1)], "fact 2 is in a later graph"
        assert holding(log) == {fact(2)}
        assert take(log, graph(4, 15, fact(4), fact(5, 1))).graph == (fact(5, 1),), "heard of late, it is trimmed"
        assert take(log, deletion(5, 40, "<urn:s2>", "?p", "?o")).lost == [fact(2)]

    def test_a_variable_that_stands_twice_takes_the_same_term(self) -> None:
        log = Log()
        itself: Triple = ("<urn:a>", "<urn:p>", "<urn:a>")
        take(log, graph(1, 10, itself, ("<urn:a>", "<urn:p>", "<urn:b>")))
        assert take(log, deletion(2, 20, "?x", "?p", "?x")).lost == [itself]

    def test_all_orders_come_to_the_same(self) -> None:
        rng = random.Random(4)
        for _ in range(20):
            ops: list[tuple[str, str]] = []
            expected: set[Triple] = set()
            for when in range(1, 7):
                number = rng.randrange(4)
                if rng.random() < 0.4:
                    ops.append(deletion(when, when, f"<urn:s{number}>", "?p", "?o"))
                    expected = {each for each in expected if each[0] != f"<urn:s{number}>"}
                else:
                    statements = [fact(number, when), fact(rng.randrange(4), 9)]
                    ops.append(graph(when, when, *statements))
                    expected.update(statements)
            for order in itertools.islice(itertools.permutations(ops), 0, 720, 29):
                log, known = Log(), set[Triple]()
                for each in order:
                    heard = take(log, each)
                    known.update(heard.graph)
                    known.difference_update(heard.lost)
                assert known == holding(log) == expected, "what an engine is told is what there is"


class TestRewriting:
    def test_a_trimmed_graph_is_rewritten_and_nothing_is_lost_meanwhile(self) -> None:
        log = Log()
        old = graph(1, 10, fact(1), fact(2))
        take(log, old)
        take(log, deletion(2, 20, "<urn:s1>", "?p", "?o"))
        ((was, new),) = log.rewrites(10)
        assert (was, new) == (old[1], graph(1, 10, fact(2))[1])
        assert log.rewrites(10) == [], "it is under way"
        log.retry([was])
        assert log.rewrites(10) == [(was, new)]
        # The removal of the old graph arrives before the new graph.
        assert take(log, old, removed=True, stamp=at(40)) == LogChange()
        assert log.settle(40) == [], "up to its removal all has not come yet"
        assert take(log, graph(1, 10, fact(2))) == LogChange(), "no publication"
        assert log.settle(41) == []
        assert holding(log) == {fact(2)}
        assert log.graphs == 1

    def test_a_graph_of_which_nothing_is_left_goes(self) -> None:
        log = Log()
        take(log, graph(1, 10, fact(1)))
        take(log, deletion(2, 20, "?s", "?p", "?o"))
        ((_, new),) = log.rewrites(10)
        assert new is None

    def test_a_deletion_stays_until_its_graphs_are_rewritten_and_it_is_old(self) -> None:
        log = Log()
        one, gone = graph(1, 10, fact(1)), deletion(2, 20, "?s", "?p", "?o")
        take(log, one)
        take(log, gone)
        late = 20 + GRACE_MS + 1
        assert log.applied(late) == [], "its graph is there"
        log.rewrites(10)
        take(log, one, removed=True, stamp=at(30))
        log.settle(31)
        assert log.applied(late - 1) == []
        assert log.applied(late) == [gone[1]]
        # A retracted deletion counts for a while: somebody may write one of the graphs that it has trimmed late.
        take(log, gone, removed=True, stamp=at(late))
        assert (log.settle(late + 1), log.deletions) == ([], 0)
        assert take(log, one) == LogChange(), "written by somebody who was taken for gone"
        assert log.rewrites(10) == [(one[1], None)], "and it goes again"
        log.settle(late + GRACE_MS + 1)
        assert take(log, graph(3, 15, fact(3))).graph == (fact(3),), "it is forgotten"

    def test_a_retracted_graph_that_comes_again_late_is_retracted_again(self) -> None:
        log = Log()
        one = graph(1, 10, fact(1), fact(2))
        take(log, one)
        take(log, deletion(2, 20, "<urn:s1>", "?p", "?o"))
        log.rewrites(10)
        take(log, one, removed=True, stamp=at(30))
        take(log, one)
        assert [was for was, _ in log.rewrites(10)] == [one[1]]

    @pytest.mark.parametrize("turned", [False, True])
    def test_the_same_publication_again_is_as_old_as_the_first(self, turned: bool) -> None:
        log = Log()
        both = [graph(1, 10, fact(1), fact(2)), graph(1, 30, fact(1), fact(2))]
        known = set[Triple]()
        for each in (*both[::-1 if turned else 1], deletion(2, 20, "<urn:s1>", "?p", "?o")):
            heard = take(log, each)
            known.update(heard.graph)
            known.difference_update(heard.lost)
        assert holding(log) == known == {fact(2)}
        assert {new for _, new in log.rewrites(10)} == {graph(1, 10, fact(2))[1]}

    def test_a_deletion_again_is_as_old_as_the_first(self) -> None:
        log = Log()
        take(log, deletion(2, 20, "?s", "?p", "?o"))
        take(log, graph(1, 30, fact(1)))
        assert take(log, deletion(2, 40, "?s", "?p", "?o")) == LogChange()
        assert holding(log) == {fact(1)}


class TestForms:
    def test_a_bad_graph_or_deletion_is_refused_and_remembered(self) -> None:
        log = Log()
        for predicate, literal in (
            (GRAPH, "<urn:x>"), (GRAPH, '"x"'), (GRAPH, '"x"@en'), (GRAPH, terms.literal(f"# {name(1)} 1\nx")),
            (GRAPH, terms.literal(f"# {name(1)} 1\n_:b <urn:p> <urn:o> .\n")),
            (GRAPH, terms.literal(f"# {name(1)} 1\n<urn:a> <http://www.w3.org/2002/07/owl#sameClassAs> <urn:o> .\n")),
            (DELETE, '"[]"'), (DELETE, '"{}"'), (DELETE, terms.literal("[" * 100_000)),
            (DELETE, terms.literal(f'{{"id": "{name(1)}", "stamp": 1, "pattern": [1, 2, 3]}}')),
            (DELETE, terms.literal(f'{{"id": "{name(1)}", "stamp": true, "pattern": ["?s", "?p", "?o"]}}')),
        ):  # fmt: skip
            assert take(log, (predicate, literal)) == LogChange()
            assert literal in log.refused
            take(log, (predicate, literal), removed=True, stamp=at(5))
            log.settle(6)
            assert literal not in log.refused

    def test_they_are_read_as_they_were_written(self) -> None:
        statements = (fact(1), ("<urn:a>", "<urn:p>", terms.literal('line\n"two" \\ é')))
        found = read_graph(graph_literal(name(1), at(5), statements), NEVER)
        assert (found.identifier, found.stamp, found.statements) == (name(1), at(5), statements)
        assert read_graph(graph_literal(name(1), at(5), statements), at(4)).stamp == at(4), "no stamp is of the future"
        gone = read_deletion(deletion_literal(name(2), at(5), ("?s", "<urn:p>", '"x"')), NEVER)
        assert (gone.identifier, gone.stamp, gone.pattern) == (name(2), at(5), ("?s", "<urn:p>", '"x"'))

    def test_a_literal_is_as_large_as_nodes_take_at_most(self) -> None:
        empty = graph_literal(name(1), 1, [("<urn:a>", "<urn:p>", '""')])
        room = GRAPH_BYTES_MAX - len(empty.encode())
        assert len(graph_literal(name(1), 1, [("<urn:a>", "<urn:p>", f'"{"x" * room}"')]).encode()) == GRAPH_BYTES_MAX
        with pytest.raises(DataRefused, match="publish it in parts"):
            graph_literal(name(1), 1, [("<urn:a>", "<urn:p>", f'"{"x" * (room + 1)}"')])
        with pytest.raises(DataRefused, match="without statements"):
            graph_literal(name(1), 1, [])

    def test_patterns_are_of_canonical_terms(self) -> None:
        with pytest.raises(LocalProtocolError, match="not a canonical term"):
            deletion_literal(name(1), 1, ("?s", "?p", '"\\u0041"'))
        with pytest.raises(LocalProtocolError, match="neither a canonical term nor a variable"):
            deletion_literal(name(1), 1, ("?s", "?p", "_:b"))

    def test_a_publisher_says_the_same_under_the_same_identifier(self) -> None:
        assert identifier_of("a", (1, "x")) == identifier_of("a", (1, "x"))
        assert len({identifier_of("a", "x"), identifier_of("b", "x"), identifier_of("a", "y")}) == 3
