"""The tokeniser: boundaries of words, equality of words, and the words that match a glob."""

from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from p2prdf.rdf.fulltext import globs_of, word_fits, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" - ... ", []),
        ("Rock-n-roll, 1969!", ["rock", "n", "roll", "1969"]),
        ("under_score", ["under", "score"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("Caf\u00e9 Cafe\u0301", ["caf\u00e9", "caf\u00e9"]),
        ("\uff32\uff29\uff2f \ufb01ne x\u00b2", ["rio", "fine", "x", "2"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 x", ["\u0939\u093f\u0928\u094d\u0926\u0940", "x"]),
        ("\u0130stanbul", ["i\u0307stanbul"]),
        ("\u6771\u4eac\u30bf\u30ef\u30fc\u3078", ["\u6771", "\u4eac", "\u30bf\u30ef\u30fc", "\u3078"]),
        ("\u00bd\u00bc 3\u00bdkg", ["1", "2", "1", "4", "3", "1", "2", "kg"]),
        ("\u2460\u2461 Java\u2122 5\u338f 20\u2103", ["1", "2", "java", "tm", "5", "kg", "20", "c"]),
        ("\u24d0\u24d1 \u2177", ["ab", "viii"]),
        ("a \u0301 b", ["a", "b"]),
        ("2\u00bd \u2014 caf\u00e9", ["2", "1", "2", "caf\u00e9"]),
    ],
)  # fmt: skip
def test_words_are_runs_of_letters_numbers_and_marks_folded(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(st.text(max_size=60))
def test_tokenising_a_word_of_any_text_gives_the_word(text: str) -> None:
    for word in words_of(text):
        assert words_of(word) == [word] == globs_of(word)
        assert any(each.isalnum() for each in word)
        assert unicodedata.is_normalized("NFKC", word)


@given(st.text(alphabet="aB\u00e9*\u00df\u0301 .\u6771", max_size=20))
def test_globs_without_stars_are_words_and_globs_of_globs_are_themselves(text: str) -> None:
    for glob in globs_of(text):
        assert "**" not in glob
        assert globs_of(glob) == [glob]
    if "*" not in text:
        assert globs_of(text) == words_of(text)


@example("ab*ba", "aba")
@given(st.text(alphabet="ab*", min_size=1, max_size=8), st.text(alphabet="ab", max_size=10))
def test_a_star_stands_for_any_characters_or_none(glob: str, word: str) -> None:
    assert word_fits(glob, word) == bool(re.fullmatch(glob.replace("*", ".*"), word))


def test_no_glob_takes_long() -> None:
    """Measured in processor time with room to spare: a regular expression takes for ever for a glob of this kind."""
    started = time.process_time()
    assert not word_fits("*a" * 200 + "b", "a" * 20_000)
    assert len(words_of("\u0939\u093f-" * 100_000)) == 100_000
    assert time.process_time() - started < 5
