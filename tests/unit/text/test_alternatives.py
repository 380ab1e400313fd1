"""Conditions taken apart: some alternative has its words in a text that satisfies the rest, if and only if it holds."""

from __future__ import annotations

import random

import pytest
from text_workloads import holds, random_condition, random_literal

from p2prdf.rdf.fulltext import condition_holds, parse_condition, text_of, word_fits
from p2prdf.text.alternatives import NOTHING, Alternative, alternatives, count, required


def _met(alternative: Alternative, term: str) -> bool:
    text = text_of(term)
    return (
        text is not None
        and all(map(text.places_of, alternative.words))
        and all(any(word_fits(glob, word) for word in text.words) for glob in alternative.globs)
        and (alternative.rest is None or condition_holds(alternative.rest, text))
        and all(condition_holds(each, text) for each in alternative.similars)
    )


@pytest.mark.parametrize("seed", range(20))
def test_an_alternative_is_met_if_and_only_if_the_condition_holds(seed: int) -> None:
    rng, outcomes = random.Random(seed), set()
    for _ in range(60):
        condition = random_condition(rng, depth=3)
        if count(condition) > 500:
            continue
        found = alternatives(condition)
        assert len(found) <= count(condition)
        for term in (random_literal(rng), random_literal(rng), '"5"^^<urn:t>'):
            expected = holds(condition, term)
            outcomes.add(expected)
            assert any(_met(each, term) for each in found) is expected, f"{condition} of {term}"
            whole = alternatives(condition, whole=True)
            assert len(whole) <= count(condition, whole=True)
            assert any(_met(each, term) for each in whole) is expected, f"{condition} of {term}"
            assert _met(required(condition), term) is expected, f"{condition} of {term}"
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("condition", "number", "words"),
    [
        ('"a" ftAND ("b" ftOR "c")', 2, ["a b", "a c"]),
        ('ftNOT ("a" ftAND "b" ftAND "c")', 3, ["", "", ""]),
        ('ftNOT ("a" ftOR "b")', 1, [""]),
        ('ftNOT (ftNOT "a" ftAND ftNOT "b") ftAND "c*"', 2, ["a c*", "b c*"]),
        ('"a b" ftNEAR[0,2] "c"', 1, ["a b c"]),
        (" ftAND ".join(f'("a{n}" ftOR "b{n}")' for n in range(100)), 2**100, None),
    ],
)
def test_alternatives_are_counted_before_they_are_made(condition: str, number: int, words: list[str] | None) -> None:
    read = parse_condition(condition)
    assert count(read) == number
    if words is not None:
        assert [" ".join((*each.words, *each.globs)) for each in alternatives(read)] == words


def test_words_alone_leave_nothing_to_verify_and_anything_else_does() -> None:
    assert alternatives(None) == (NOTHING,)
    assert alternatives(parse_condition('"a" ftAND "b*"')) == (Alternative(("a",), ("b*",), None),)
    for condition in ('"a b"', '"a", "en"', 'ftNOT "a"', '"a" ftNEAR[0,9] "b"', '"the b" using stop words, "en"'):
        (only,) = alternatives(parse_condition(condition))
        assert only.rest == parse_condition(condition)


def test_remaining_stems_and_words_are_required_of_a_text() -> None:
    (only,) = alternatives(parse_condition('"the games of Ri*" using stemming using stop words ftAND "games", "en"'))
    assert (only.words, only.globs) == (("game=english", "games"), ("ri*",))


def test_similarity_is_one_alternative_or_as_many_as_it_needs_one_of() -> None:
    similar = 'ftSIMILAR[0.4] "a b c" using corpus[99, "b" 1, "c" 99]'
    condition = parse_condition(f'"x" ftAND {similar} ftAND ftNOT "y", "en"')
    assert [each.words for each in alternatives(condition)] == [("x", "a"), ("x", "b")]
    (only,) = alternatives(condition, whole=True)
    assert (only.words, [str(each) for each in only.similars]) == (("x",), [f'{similar}, "en"'])
    assert only.rest == parse_condition('ftNOT "y", "en"')
