"""What a derived graph is to hold, step by step, and which graphs are derived from themselves."""

from __future__ import annotations

import random

import pytest

from p2prdf.client.derived import _Goal, _way
from p2prdf.client.solutions import Batch
from p2prdf.hlc import GONE

TRIPLES = [(f"<urn:{s}>", "<urn:p>", f"<urn:{o}>") for s in "abc" for o in "xy"]


def batch(*changes):
    """Return answers and withdrawals, each given as a triple and whether it is taken back."""
    columns = tuple(list(column) for column in zip(*(triple for triple, _ in changes), strict=True))
    identities = list(range(len(changes)))
    born = [1 | GONE if removed else 1 for _, removed in changes]
    return Batch(("subject", "predicate", "object"), 1, 0, identities, born, columns)


@pytest.mark.parametrize("seed", range(50))
def test_a_graph_comes_to_hold_what_is_answered_whatever_it_held_and_whatever_overtakes(seed):
    rng = random.Random(seed)
    graph = set(rng.sample(TRIPLES, rng.randrange(len(TRIPLES))))
    goal, true = _Goal(list(graph)), set()
    for _ in range(rng.randrange(1, 6)):
        changes = []
        for triple in rng.choices(TRIPLES, k=8):
            changes.append((triple, triple in true))
            true ^= {triple}
        rng.shuffle(changes)
        goal.take(batch(*changes))
        added, removed = goal.missing(), goal.surplus()
        assert graph.isdisjoint(added)
        assert graph.issuperset(removed)
        graph = (graph - set(removed)) | set(added)
        goal.reached()
        assert graph == true
        assert (goal.missing(), goal.surplus()) == ([], [])


def test_ways_back_are_found_and_told():
    edges = {"b": ["c", "d"], "c": ["e"], "d": ["a"], "x": ["y", "x"], "y": ["x"]}
    assert _way(edges, ["a"], "a") == ["a"]
    assert _way(edges, ["c", "b"], "a") == ["b", "d", "a"]
    assert _way(edges, ["c", "x"], "a") == []
    assert _way({}, [], "a") == []
