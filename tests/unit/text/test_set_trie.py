"""Sets contained in a given one: found as by trying all, and nothing is left of those that were taken out."""

from __future__ import annotations

import random

import pytest

from p2prdf.text.set_trie import END, Leaf, SetTrie


def _laid_out(node):
    if isinstance(node, Leaf):
        return node.tail, sorted(node.filed)
    return {element: _laid_out(child) for element, child in node.items()}


@pytest.mark.parametrize("seed", range(30))
def test_what_is_contained_is_found_and_what_is_left_is_as_if_the_rest_had_never_been(seed: int) -> None:
    rng, trie, held = random.Random(seed), SetTrie[int](), {}
    for thing in range(80):
        if held and rng.random() < 0.45:
            gone = rng.choice(list(held))
            trie.remove(held.pop(gone), gone)
        else:
            held[thing] = tuple(rng.sample(range(6), rng.randint(0, 5)))
            trie.add(held[thing], thing)
        present = {*rng.sample(range(6), rng.randint(0, 6)), END}
        found = sorted(each for leaf in trie.find(present) for each in leaf.filed)
        assert found == sorted(thing for thing, path in held.items() if present.issuperset(path))
        fresh = SetTrie[int]()
        for each, path in held.items():
            fresh.add(path, each)
        assert _laid_out(trie._root) == _laid_out(fresh._root)


def test_a_set_is_found_by_what_it_has_and_not_by_how_many_others_there_are() -> None:
    """Ten thousand sets that begin with what is not there: none is looked at."""
    trie = SetTrie[int]()
    for thing in range(10_000):
        trie.add((100 + thing, 1, 2), thing)
    trie.add((3, 1, 2), -1)
    assert [leaf.filed for leaf in trie.find({1, 2, 3, END})] == [[-1]]
    assert len(trie._root) == 10_001
    assert all(isinstance(child, Leaf) for child in trie._root.values()), "what nobody shares is not laid out"
