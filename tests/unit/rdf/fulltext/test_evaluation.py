"""Whether a text satisfies a condition: the paper's example, gaps, languages, and random ones against the slow way."""

from __future__ import annotations

import random

import pytest
import text_workloads
from text_workloads import random_condition, random_literal

from p2prdf.rdf.fulltext import condition_holds, evaluation, parse_condition, recent_text_of, text_of, words_of


def _holds(condition: str, term: str) -> bool:
    return condition_holds(parse_condition(condition), text_of(term))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("games rio", True),
        ("the games in rio", True),
        ("games of the rio", True),
        ("games of all the rio", False),
        ("rio games", False),
        ("Games, games of all the Rio", False),
        ("games of all the rio, games in Rio!", True),
        ("games", False),
    ],
)
def test_rio_follows_games_with_at_most_two_words_between(text: str, holds: bool) -> None:
    assert _holds('"games" ftNEAR[0,2] "rio"', f'"{text}"') is holds
    assert _holds('ftNOT "games" ftNEAR[0,2] "rio"', f'"{text}"') is not holds


@pytest.mark.parametrize(
    ("condition", "text", "holds"),
    [
        ('"a" ftNEAR[1,2] "b"', "a b", False),
        ('"a" ftNEAR[1,2,unordered] "b"', "b x a", True),
        ('"a" ftNEAR[1,2] "b"', "b x a", False),
        ('"a b" ftNEAR[0,0] "c"', "a b c", True),
        ('"a b" ftNEAR[0,0,unordered] "c d"', "c d a b", True),
        ('"a" ftNEAR[0,0] "b" ftNEAR[0,0] "a"', "a b x b a", False),
        ('"a a"', "a", False),
        ('"a a"', "b a a", True),
        ('"a" ftAND "a"', "a", True),
        ('"st*p b*"', "stop bus", True),
        ('"st*p b*"', "stop the bus", False),
        ('"*c*"', "abcd", True),
        ('"caf\u00e9"', "Cafe\u0301!", True),
        ('"\u4eac\u30bf*"', "\u6771\u4eac\u30bf\u30ef\u30fc", True),
        ('"a" ftOR ftNOT "b"', "c", True),
        ('ftNOT "a"', "", True),
    ],
)
def test_phrases_nearness_globs_and_negation(condition: str, text: str, holds: bool) -> None:
    assert _holds(condition, f'"{text}"') is holds


@pytest.mark.parametrize(
    ("term", "any_language", "english", "negated"),
    [
        ('"tea"', True, False, False),
        ('"tea"@en', True, True, False),
        ('"tea"@en-gb', True, True, False),
        ('"tea"@eng', True, False, False),
        ('"milk"@fr', False, False, True),
        ('"tea"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#HTML>', False, False, False),
        ("<urn:tea>", False, False, False),
    ],
)
def test_only_strings_have_a_text_and_other_terms_satisfy_nothing(term, any_language, english, negated) -> None:
    assert _holds('"tea"', term) is any_language
    assert _holds('"tea", "en"', term) is english
    assert _holds('ftNOT "tea"', term) is negated


@pytest.mark.parametrize(
    ("condition", "term", "holds"),
    [
        ('"running games" using stemming, "en"', '"He runs the game"@en', False),
        ('"running games" using stemming, "en"', '"Run, game!"@en-gb', True),
        ('"running" using stemming ftNEAR[1,1] "games" using stemming, "en"', '"He runs the game"@en', True),
        ('"running games", "en"', '"Run, game!"@en', False),
        ('"running" using stemming ftAND "games", "en"', '"run the games"@en', True),
        ('"running" using stemming ftAND "games", "en"', '"run the game"@en', False),
        ('"cheval" using stemming, "fr"', '"les chevaux"@fr', True),
        ('"cheval" using stemming, "fr"', '"les chevaux"@en', False),
        ('"cheval" using stemming, "fr"', '"les chevaux"', False),
        ('"gam*" using stemming, "en"', '"gaming"@en', True),
        ('"games*" using stemming, "en"', '"gaming"@en', False),
        ('ftNOT "games" using stemming, "en"', '"gaming"@en', False),
        ('"state of the art", "en"', '"state of the art"@en', True),
        ('"state of the art" using stop words, "en"', '"state of the art"@en', True),
        ('"state of the art" using stop words, "en"', '"a state where an art"@en', True),
        ('"state of the art" using stop words, "en"', '"state art"@en', False),
        ('"state of the art" using stop words, "en"', '"state of art"@en', False),
        ('"the games" using stop words, "en"', '"games"@en', True),
        ('"the games of the" using stop words, "en"', '"olympic games"@en', True),
        ('"the games" using stop words ftNEAR[1,1] "in rio" using stop words, "en"', '"games in rio"@en', True),
        ('"the games" using stop words ftNEAR[0,0] "in rio" using stop words, "en"', '"games in rio"@en', False),
        ('"rio" ftNEAR[0,0,unordered] "the games of" using stop words, "en"', '"games rio"@en', True),
        ('"states of art" using stemming using stop words, "en"', '"the state and arts"@en', True),
    ],
)
def test_stems_and_stop_words_leave_places_as_they_are(condition: str, term: str, holds: bool) -> None:
    assert _holds(condition, term) is holds
    if term.endswith("@en"):
        assert _holds(f'ftNOT ({condition.rpartition(",")[0]}), "en"', term) is not holds


def test_escapes_are_no_part_of_the_text() -> None:
    text = text_of('"say \\"tea\\"\\nnow"@en')
    assert text is not None
    assert text.words == ["say", "tea", "now"]
    assert text.places == {"say": [0], "tea": [1], "now": [2]}


def test_places_of_a_stem_are_those_of_all_its_words_in_order() -> None:
    text = text_of('"pots tea pot pots potted"@en')
    assert text is not None
    assert text.stems("english") == {"pot=english": [0, 2, 3, 4], "tea=english": [1]}
    assert (text.places_of("pot=english"), text.places_of("pot"), text.places_of("x")) == ([0, 2, 3, 4], [2], [])
    assert text.places["pots"] == [0, 3]


@pytest.mark.parametrize("seed", range(20))
def test_random_conditions_hold_as_the_slow_way_says(seed: int) -> None:
    rng, outcomes = random.Random(seed), set()
    for _ in range(150):
        condition, term = random_condition(rng, depth=2), random_literal(rng)
        expected = text_workloads.holds(condition, term)
        outcomes.add(expected)
        assert condition_holds(condition, text_of(term)) is expected, f"{condition} of {term}"
    assert outcomes == {True, False}


def test_a_long_chain_over_a_long_text_takes_time_in_proportion_to_its_places() -> None:
    """There are 500 to the power of 40 choices of places."""
    chain = " ftNEAR[0,499,unordered] ".join(['"a"'] * 40)
    assert _holds(chain, f'"{"a " * 500}"')
    assert not _holds(chain + ' ftNEAR[0,3] "b"', f'"{"a " * 500}"')
    assert len(words_of("a " * 500)) == 500


def test_texts_are_remembered_for_a_while_and_never_many_words_of_them(monkeypatch) -> None:
    """A text that is asked for again is the same object; others, and long ones, make room."""
    monkeypatch.setattr(evaluation, "_TEXTS_MAX", 3)
    monkeypatch.setattr(evaluation, "_WORDS_MAX", 20)
    recent = evaluation._recent
    recent._texts.clear()
    recent._words = 0
    first = recent_text_of('"a b"')
    assert recent_text_of('"a b"') is first
    assert recent_text_of("<a>") is None
    for number in range(50):
        assert recent_text_of(f'"{"word " * number}"').words == ["word"] * number
        assert len(recent._texts) <= 3
        assert sum(len(each.words) for each in recent._texts.values() if each) == recent._words
        assert recent._words <= 20 or len(recent._texts) == 1
    assert recent_text_of('"a b"') is not first
