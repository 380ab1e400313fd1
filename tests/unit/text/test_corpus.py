"""Windows over the last texts: counts against a fresh count, conditions made of them, lines, and bounds."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_workloads import STEMS, STOPPED, WORDS, random_literal

from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused
from p2prdf.rdf.fulltext import Condition, Corpus, Similar, Using, condition_holds, parse_call, text_of
from p2prdf.text import CorpusWindow, corpus

ENGLISH = Using(stemming=True, stop_words=True)


def filled(window: CorpusWindow, *texts: str) -> CorpusWindow:
    for text in texts:
        assert window.add(f'"{text}"@en')
    return window


def counted(texts: list[str], word: str, language: str | None, using: Using) -> int:
    """Return how many texts have a word, belongs to a single word."""
    stems = STEMS[language or "en"] if using.stemming else {}
    stopped = STOPPED[language or "en"] if using.stop_words else ()
    terms = [{stems.get(each, each) for each in text.split() if each not in stopped} for text in texts]
    return sum(stems.get(word, word) in each for each in terms)


kinds = st.sampled_from([(None, Using()), ("en", Using()), ("en", ENGLISH), ("fr", Using(stemming=True))])


@settings(max_examples=60, deadline=None)
@given(kinds, st.randoms(use_true_random=False), st.integers(1, 12), st.integers(0, 40))
def test_a_window_counts_the_last_texts_and_goes_on_after_it_was_written(kind, rng, size, number) -> None:
    language, using = kind
    window = CorpusWindow(size, language=language, using=using)
    held: list[str] = []
    for _ in range(number):
        literal = random_literal(rng)
        text, _, own = literal[1:].partition('"')
        fits = language is None or own[1:3] == language
        assert window.add(literal) is fits
        held = [*held, text][-size:] if fits else held
        if rng.random() < 0.1:
            window = CorpusWindow.read(list(window.lines()))
    for each in (window, CorpusWindow.read(window.lines())):
        assert (len(each), each.texts_max, each.language, each.using) == (len(held), size, language, using)
        for word in WORDS:
            assert each.count(word) == counted(held, word, language, using)
    assert set(window._numbers) == {name for name in window._names if name}


def test_terms_that_are_no_text_are_not_counted() -> None:
    window = CorpusWindow(3, language="en")
    assert not any(map(window.add, ("<urn:a>", '"a"', '"a"@fr', '"5"^^<urn:t>')))
    assert window.add('"a"@en-gb')
    assert (len(window), window.count("a")) == (1, 1)


def test_a_condition_holds_the_counts_of_its_own_words_alone() -> None:
    window = filled(CorpusWindow(10, language="en", using=ENGLISH), "the games of rio", "a game", "winter", "the tea")
    made = window.similar("The gaming in Rio, rio!", 0.45)
    expected = Similar(("gaming", "in", "rio", "rio", "the"), 4500, ENGLISH, Corpus(4, (("gaming", 2), ("rio", 1))))
    assert made == Condition(expected, "en")
    before = condition_holds(made, text_of('"game on"@en')), condition_holds(made, text_of('"rio"@en'))
    assert before == (False, True)
    filled(window, *["rio"] * 9)
    assert (condition_holds(made, text_of('"game on"@en')), condition_holds(made, text_of('"rio"@en'))) == before
    assert window.similar("The gaming in Rio, rio!", 0.45) != made


@pytest.mark.parametrize(("language", "using"), [(None, Using()), ("en", ENGLISH), ("de", Using(stop_words=True))])
def test_a_call_reads_back_as_the_condition(language, using) -> None:
    window = CorpusWindow(10, language=language, using=using)
    window.add('"rio games"@en')
    call = window.call("?body", "games in Rio", "0.35")
    assert parse_call(call) == ("body", window.similar("games in Rio", 0.35), len(call))


def test_bounds_hold_for_any_texts(monkeypatch) -> None:
    monkeypatch.setattr(corpus, "TERMS_MAX", 20)
    window = CorpusWindow(1000)
    rng = random.Random(1)
    for _ in range(200):
        words = [f"w{rng.randrange(40)}" for _ in range(rng.randint(1, 9))]
        window.add(f'"{" ".join(words)}"')
        assert window._terms == sum(map(len, window._texts)) <= 20
        assert len(window._names) <= 40
    window.add(f'"{" ".join(f"v{number}" for number in range(50))}"')
    assert (len(window), window.count("v7"), window.count("w1")) == (1, 1, 0)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: CorpusWindow(0), "1 to 1,000,000 texts, not 0"),
        (lambda: CorpusWindow(10**9), "not 1,000,000,000"),
        (lambda: CorpusWindow(5, using=ENGLISH), "needs the language"),
        (lambda: CorpusWindow(5, language="ja", using=Using(stemming=True)), "does not support the language 'ja'"),
        (lambda: CorpusWindow(5, language="el", using=ENGLISH), "no stop words"),
    ],
)
def test_no_window_is_made_that_could_not_count(make, named) -> None:
    with pytest.raises(LocalProtocolError, match=named):
        make()


@pytest.mark.parametrize(
    ("text", "threshold", "named"),
    [
        ("--", 0.4, "contains no word"),
        ("of the", 0.4, "only stop words of English"),
        ("rio " * 300, 0.4, "more than 256"),
        *(("rio", each, "is no valid threshold") for each in (0, -1, 1.01, "nan", "inf", "much", 0.12345)),
    ],
)
def test_conditions_that_would_mean_nothing_are_refused(text, threshold, named) -> None:
    with pytest.raises(QueryRefused, match=named):
        CorpusWindow(5, language="en", using=ENGLISH).similar(text, threshold)


HEADER = '{"p2prdf corpus": 1, "texts_max": 2, "language": null, "stemming": false, "stop_words": false}'


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([], "line 1: '' does not begin a corpus"),
        (["[" * 100_000], "line 1: .* does not begin a corpus"),
        (["{}"], "line 1"),
        ([HEADER.replace("1,", "2,", 1)], "of version 1"),
        ([HEADER.replace(": 2", ": true")], "a corpus has texts_max"),
        ([HEADER.replace(": 2", ": 0")], "line 1: a corpus window holds"),
        ([HEADER.replace("null", '"E N"')], "line 1: 'E N' is no language range"),
        ([HEADER.replace("null", "7")], "a corpus has texts_max"),
        ([HEADER.replace("false", "true", 1)], "line 1: using stemming needs the language"),
        ([HEADER, "a b", "a, b"], "line 3: 'a,' is no word"),
        ([HEADER, "a=english"], "line 2: 'a=english' is no word"),
        ([HEADER, "a b a"], "line 2: a text has each of its terms once"),
        ([HEADER, "a", "b", "c"], "line 4: the window holds 2 texts"),
    ],
)
def test_lines_that_are_of_no_window_are_refused_by_number(lines, named) -> None:
    assert json.loads(HEADER)["texts_max"] == 2
    assert len(CorpusWindow.read([HEADER, "a b", "", "c"][:3])) == 2
    with pytest.raises(DataRefused, match=named):
        CorpusWindow.read(lines)
