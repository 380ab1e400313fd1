"""The globs that match a word: found by a few characters, equal to trying all."""

from __future__ import annotations

import random
import re
import time

from p2prdf.text.globs import Globs


def _random_glob(rng: random.Random) -> str:
    while True:
        glob = re.sub(r"\*+", "*", "".join(rng.choice("ab*") for _ in range(rng.randint(2, 9))))
        if "*" in glob and glob != "*":
            return glob


def test_the_globs_that_fit_are_those_that_fit_when_all_are_tried() -> None:
    rng, globs, held = random.Random(1), Globs(), {}
    for number in range(600):
        glob = _random_glob(rng)
        if glob in held:
            globs.remove(glob)
            del held[glob]
        else:
            globs.add(glob, number)
            held[glob] = number
        word = "".join(rng.choice("ab") for _ in range(rng.randint(1, 9)))
        expected = sorted(n for g, n in held.items() if re.fullmatch(g.replace("*", ".*"), word))
        for _ in range(2):  # the second time remembered
            assert sorted(globs.fitting(word)) == expected
    for glob in held:
        globs.remove(glob)
    assert len(globs) == 0
    assert [globs._heads, globs._tails, globs._middles] == [{}, {}, {}]


def test_a_word_of_a_million_letters_is_looked_through_once_and_not_kept() -> None:
    globs = Globs()
    for number, glob in enumerate(("*xyz*", "a*b", "*aab", "*b*a*")):
        globs.add(glob, number)
    started = time.process_time()
    assert sorted(globs.fitting("a" * 1_000_000 + "b")) == [1, 2]
    assert time.process_time() - started < 5
    assert not globs._remembered
