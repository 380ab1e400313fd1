"""Sets contained in a given one: equal to trying all, and removed sets leave nothing behind."""

from __future__ import annotations

import random

import pytest

from p2prdf.text.set_trie import END, SetTrie


def _laid_out(trie, block=0):
    """Return nodes as dictionaries, and leaves as their tails and the numbers filed there."""
    blocks = trie._blocks
    if block > 0 and blocks[block] < 0:
        filed = trie._filed[blocks[block + 1]]
        return trie._tail(block), sorted(filed) if isinstance(filed, list) else [filed]
    if block > 0:
        elements = blocks[block + 1 : block + 1 + 2 * blocks[block] : 2]
    else:
        elements = trie._large[-block] if block else (each for each, below in enumerate(trie._roots) if below)
    return {element: _laid_out(trie, trie._below(block, element)) for element in elements}


@pytest.mark.parametrize(("seed", "elements"), [*((seed, 6) for seed in range(30)), *((seed, 70) for seed in range(6))])
def test_contained_sets_are_found_and_removal_restores_the_former_trie(seed: int, elements: int) -> None:
    """Of 70 elements nodes have more than fit into one block, and lose them again."""
    rng, trie, held = random.Random(seed), SetTrie[int](), {}
    paths = range(1, elements + 1)
    for thing in range(400 if elements > 6 else 80):
        leaving = 0.45 if elements == 6 or thing < 150 else 0.1 if thing < 300 else 0.9
        if held and rng.random() < leaving:
            gone = rng.choice(list(held))
            trie.remove(held.pop(gone), gone)
        else:
            first = (1,) if elements > 6 else ()
            held[thing] = (*first, *(each for each in rng.sample(paths, rng.randint(0, 5)) if each not in first))
            trie.add(held[thing], thing)
        present = {*rng.sample(paths, rng.randint(0, 6) if elements == 6 else 40), 1, END}
        found = sorted(trie.find(present))
        assert found == sorted(thing for thing, path in held.items() if present.issuperset(path))
        if elements == 6 or thing % 20 == 19:
            fresh = SetTrie[int]()
            for each, path in held.items():
                fresh.add(path, each)
            assert _laid_out(trie) == _laid_out(fresh)
    assert elements == 6 or len(trie._large) > 1, "some node was large"


def test_the_cost_of_a_search_depends_on_the_set_and_not_on_the_number_of_others() -> None:
    """Ten thousand sets that begin with an absent element: none is looked at."""
    trie = SetTrie[int]()
    for thing in range(10_000):
        trie.add((100 + thing, 1, 2), thing)
    trie.add((3, 1, 2), -1)
    assert trie.find({1, 2, 3, END}) == [-1]
    assert sum(block != 0 for block in trie._roots) == 10_001
    assert all(trie._blocks[block] < 0 for block in trie._roots if block), "what nobody shares is not laid out"


def test_room_is_used_again() -> None:
    """Where blocks of some size lie open the first time, the same work finds room from then on."""
    trie, rng = SetTrie[int](), random.Random(1)
    paths = [tuple(rng.sample(range(1, 50), rng.randint(1, 6))) for _ in range(300)]
    paths += [(60, element) for element in range(1, 50)]  # more than a block holds
    sizes = []
    for _ in range(5):
        for thing, path in enumerate(paths):
            trie.add(path, thing)
        sizes.append((len(trie._blocks), len(trie._filed), len(trie._large)))
        for thing, path in enumerate(paths):
            trie.remove(path, thing)
        assert not any(trie._roots)
    assert len(set(sizes[1:])) == 1, sizes


def test_elements_that_no_path_ever_had_are_not_found() -> None:
    trie = SetTrie[int]()
    assert trie.find({7, END}) == []
    trie.add((), 1)
    trie.add((3,), 2)
    assert sorted(trie.find({3, 1000, END})) == [1, 2]
