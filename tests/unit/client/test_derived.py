"""The content of a derived graph, step by step, and graphs that are derived from themselves."""

from __future__ import annotations

import random

import pytest
from rule_histories import TRANSITIVE, Numbers, closure

from p2prdf.client.derived import _Answers, _way
from p2prdf.client.ruled import _Closure
from p2prdf.client.solutions import Batch
from p2prdf.hlc import GONE
from p2prdf.reasoning import parse_rules

TRIPLES = [(f"<urn:{s}>", "<urn:p>", f"<urn:{o}>") for s in "abc" for o in "xya"]
SAME = "<http://www.w3.org/2002/07/owl#sameAs>"


def batch(*changes):
    """Return answers and retractions, each given as a triple and whether it is retracted."""
    columns = tuple(list(column) for column in zip(*(triple for triple, _ in changes), strict=True))
    identities = list(range(len(changes)))
    born = [1 | GONE if removed else 1 for _, removed in changes]
    return Batch(("subject", "predicate", "object"), 1, 0, identities, born, columns)


def followed(rng, goal, graph, true_of):
    """Have a graph follow random answers and retractions, in any order.

    ``true_of`` maps the true answers to the content that the graph should have.
    """
    true = set()
    for _ in range(rng.randrange(1, 6)):
        changes = []
        for triple in rng.choices(TRIPLES, k=8):
            changes.append((triple, triple in true))
            true ^= {triple}
        rng.shuffle(changes)
        goal.take(batch(*changes))
        added, removed = goal.due()
        assert graph.isdisjoint(added)
        assert graph.issuperset(removed)
        graph = (graph - set(removed)) | set(added)
        goal.reached()
        assert graph == true_of(true)
        assert goal.due() == ([], [])


@pytest.mark.parametrize("seed", range(50))
def test_a_derived_graph_converges_to_the_answers_from_any_content_and_order(seed):
    rng = random.Random(seed)
    graph = set(rng.sample(TRIPLES, rng.randrange(len(TRIPLES))))
    followed(rng, _Answers(list(graph)), graph, set)


@pytest.mark.parametrize("seed", range(50))
def test_a_graph_by_rules_converges_to_the_unpublished_consequences(seed):
    rng, numbers = random.Random(seed), Numbers()
    rules = [TRANSITIVE, *parse_rules(f"?y a <urn:Place> , ?y <{SAME[1:-1]}> ?y :- ?x <urn:p> ?y .")]
    graph = set(rng.sample([*TRIPLES, ("<urn:a>", "<urn:q>", "<urn:b>")], 3))
    facts, unsaid = [("<urn:x>", "<urn:p>", "<urn:a>")], frozenset({"<urn:y>"})

    def follows(said):
        given = {numbers.fact(*triple) for triple in {*said, *facts}}
        found = {tuple(map(numbers.term, fact)) for fact in closure(rules, given, numbers)}
        return {each for each in found if each not in said and each[1] != SAME and "<urn:y>" not in each}

    followed(rng, _Closure(rules, facts, unsaid, graph), graph, follows)


def test_circles_of_derived_graphs_are_found_and_named():
    edges = {"b": ["c", "d"], "c": ["e"], "d": ["a"], "x": ["y", "x"], "y": ["x"]}
    assert _way(edges, ["a"], "a") == ["a"]
    assert _way(edges, ["c", "b"], "a") == ["b", "d", "a"]
    assert _way(edges, ["c", "x"], "a") == []
    assert _way({}, [], "a") == []
