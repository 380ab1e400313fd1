"""Joins of the triples that patterns match: every choice tried, paths and stars in little time, more refused."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.rdf.fulltext import parse_condition
from p2prdf.text import ANY, FullTextIndex, Publication, TextPattern, TextQuery
from p2prdf.text import joins as module
from p2prdf.text.joins import joinable
from p2prdf.text.publication import TRIPLES_MAX
from p2prdf.text.query import PATTERNS_MAX

NODES = [f"<urn:n{n}>" for n in range(20)]
COMPLETE = [(a, "<urn:p>", b) for a in NODES for b in NODES if a != b]


def _edges(*pairs: str) -> list[TextPattern]:
    return [TextPattern(f"?{pair[0]}", "<urn:p>", f"?{pair[1]}") for pair in pairs]


@pytest.mark.parametrize("seed", range(30))
def test_some_choice_agrees_if_and_only_if_trying_all_finds_one(seed: int) -> None:
    rng, outcomes = random.Random(seed), set()
    for _ in range(40):
        patterns = _edges(*("".join(rng.sample("abcde", 2)) for _ in range(rng.randint(1, 4))))
        found = [[(rng.choice(NODES[:3]), "<urn:p>", rng.choice(NODES[:3])) for _ in range(rng.randint(0, 3))]
                 for _ in patterns]  # fmt: skip
        expected = False
        for choice in itertools.product(*found):
            bindings: dict[str, str] = {}
            expected = expected or all(
                bindings.setdefault(part, term) == term
                for pattern, triple in zip(patterns, choice, strict=True)
                for part, term in ((pattern.s, triple[0]), (pattern.o, triple[2]))
            )
        outcomes.add(expected)
        assert joinable(patterns, found) is expected
    assert outcomes == {True, False}


def test_paths_and_stars_take_time_in_proportion_to_the_triples() -> None:
    """There are 20 to the power of 16 choices."""
    path = _edges(*("".join(pair) for pair in itertools.pairwise("abcdefghijklmnop")))
    star = _edges(*(f"a{other}" for other in "bcdefghijklmnop"))
    started = time.process_time()
    assert joinable(path, [COMPLETE] * len(path))
    assert joinable(star, [COMPLETE] * len(star))
    assert not joinable([*path, TextPattern("?p", "<urn:p>", "?p2")], [*[COMPLETE] * len(path), []])
    assert time.process_time() - started < 5


def test_a_join_that_takes_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_MAX", 20_000)
    index = FullTextIndex()
    index.add(1, TextQuery(tuple(_edges("ab", "ac", "ad", "ae", "bc", "bd", "be", "cd", "ce", "de"))))
    assert index.match(Publication(COMPLETE[:3])) == []
    with pytest.raises(DataRefused, match="more than 20000 rows"):
        index.match(Publication(COMPLETE))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: TextQuery(()), f"1 to {PATTERNS_MAX} patterns"),
        (lambda: TextQuery((TextPattern(ANY, ANY, ANY),) * (PATTERNS_MAX + 1)), f"1 to {PATTERNS_MAX} patterns"),
        (lambda: TextPattern("", "<urn:p>", "?o"), "s: ''"),
        (lambda: TextPattern('"literal"', "<urn:p>", "?o"), "s: "),
        (lambda: TextPattern("?s", '"literal"', "?o"), "p: "),
        (lambda: TextPattern("?s", "urn:p", "?o"), "p: 'urn:p'"),
        (lambda: TextPattern("?s", "?", "?o"), "p: '?'"),
        (lambda: TextPattern("?s", "<urn:p>", '"tea"', parse_condition('"tea"')), "a condition on the constant"),
    ],
)
def test_queries_that_there_cannot_be_are_refused_by_name(make, named: str) -> None:
    with pytest.raises(LocalProtocolError, match=named.replace("?", r"\?")):
        make()


def test_a_publication_of_too_many_triples_is_refused() -> None:
    with pytest.raises(DataRefused, match=f"more than {TRIPLES_MAX}"):
        Publication(("<urn:s>", "<urn:p>", f"<urn:o{n}>") for n in range(TRIPLES_MAX + 1))
    assert len(Publication([("<urn:s>", "<urn:p>", "<urn:o>")] * (TRIPLES_MAX + 1)).triples) == 1
