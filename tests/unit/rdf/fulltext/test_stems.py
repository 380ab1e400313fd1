"""Stems and stop words by language: all peers must compute the same."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from p2prdf.errors import QueryRefused
from p2prdf.rdf.fulltext import parse_condition, stems, words_of
from p2prdf.rdf.fulltext.stems import ALGORITHMS, algorithm_of, algorithm_of_key, key_of, stems_of
from p2prdf.rdf.fulltext.stop_words import STOPPED, stop_words_of

SAMPLES = {
    "arabic": ("\u0627\u0644\u0643\u062a\u0627\u0628", "\u0643\u062a\u0627\u0628"),
    "danish": ("hundene", "hund"),
    "dutch": ("paarden", "paar"),
    "english": ("generously", "generous"),
    "finnish": ("taloissa", "talo"),
    "french": ("continuellement", "continuel"),
    "german": ("h\xe4usern", "haus"),
    "greek": ("\u03b1\u03b3\u03ce\u03bd\u03b5\u03c3", "\u03b1\u03b3\u03c9\u03bd"),
    "italian": ("abbandonata", "abbandon"),
    "norwegian": ("hundene", "hund"),
    "polish": ("kobietami", "kobiet"),
    "portuguese": ("quilombos", "quilomb"),
    "russian": ("\u0432\u0435\u0447\u0435\u0440\u0430", "\u0432\u0435\u0447\u0435\u0440"),
    "spanish": ("cheques", "chequ"),
    "swedish": ("klostren", "klostr"),
    "turkish": ("evlerimizden", "ev"),
}


@pytest.fixture
def forgotten():
    stems._stemmer.cache_clear()
    yield
    stems._stemmer.cache_clear()


def test_there_is_an_algorithm_for_each_language_that_is_named() -> None:
    for algorithm in ALGORITHMS.values():
        assert stems_of(["a"], algorithm) == ["a"]


@pytest.mark.parametrize("algorithm", SAMPLES)
def test_stems_are_those_of_the_version_that_is_meant(algorithm: str) -> None:
    word, stem = SAMPLES[algorithm]
    assert words_of(word) == [word]
    assert stems_of([word], algorithm) == [stem]


def test_a_language_is_its_first_subtag() -> None:
    assert [algorithm_of(each) for each in ("en", "en-gb", "eng", "*", None, "nb-no")] == [
        "english", "english", None, None, None, "norwegian",
    ]  # fmt: skip
    assert algorithm_of_key(key_of("game", "english")) == "english"
    assert algorithm_of_key("game") is None


def test_another_version_refuses_conditions_and_decides_none(monkeypatch, forgotten) -> None:
    other = SimpleNamespace(version=lambda: "3.2.0", Stemmer=None)
    monkeypatch.setitem(sys.modules, "Stemmer", other)
    with pytest.raises(QueryRefused, match=r"Snowball 3\.1 is required, but 3\.2\.0 is installed"):
        parse_condition('"games" using stemming, "en"')
    assert parse_condition('"the games" using stop words, "en"')


def test_without_the_library_conditions_are_refused(monkeypatch, forgotten) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(QueryRefused, match="PyStemmer is not installed"):
        parse_condition('"games" using stemming, "en"')


@pytest.mark.parametrize("algorithm", sorted(STOPPED))
def test_stop_words_are_words_as_texts_have_them(algorithm: str) -> None:
    words = stop_words_of(algorithm)
    assert algorithm in ALGORITHMS.values()
    assert all(words_of(word) == [word] for word in words)
    assert 100 < len(words) < 250
