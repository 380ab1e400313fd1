"""A window over the last texts of a stream, with the number of texts that contain each word.

A condition about similarity states the rarity of its words (:mod:`p2prdf.rdf.fulltext.similarity`).  A window counts
it: each new text is added, texts beyond the last ``texts_max`` are removed, and the counts for a query's words become
part of its condition.  The condition does not change with the window afterwards.

Words are counted as conditions compare them, so a window has a language and a comparison of its own, and creates
conditions of that kind.  It can be saved as lines of text and loaded again.

Bounds: a window holds up to ``TEXTS_MAX`` texts and ``TERMS_MAX`` terms in all of them; beyond that, the oldest texts
are removed.  A term of a text takes four bytes, a distinct one some 150 more.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any, Final

from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused
from p2prdf.rdf.fulltext import Condition, Corpus, Similar, Using, text_of, words_of
from p2prdf.rdf.fulltext.evaluation import language_fits
from p2prdf.rdf.fulltext.expression import PLAIN, THRESHOLD_SCALE
from p2prdf.rdf.fulltext.similarity import terms_of
from p2prdf.rdf.fulltext.stems import algorithm_of, key_of
from p2prdf.rdf.fulltext.stop_words import stop_words_of

__all__ = ["TERMS_MAX", "TEXTS_MAX", "CorpusWindow"]

TEXTS_MAX: Final = 1_000_000
"""Most texts in a window."""
TERMS_MAX: Final = 1 << 24
"""Most terms in all texts of a window, each counted once per text."""

_FOREIGN: Final = re.compile(r"[\x00-/:-`{-\x7f]")
"""ASCII characters that occur in no term: anything except digits and small letters."""
_FORMAT: Final = "p2prdf corpus"
_VERSION: Final = 1
_SHOWN_MAX: Final = 60


class CorpusWindow:
    """The last texts, at most ``texts_max``; with ``language``, of literals in that range only.

    Raises LocalProtocolError for a size outside 1 to TEXTS_MAX, and if ``using`` needs a language that is missing or
    unknown.
    """

    def __init__(self, texts_max: int, *, language: str | None = None, using: Using = PLAIN):
        if not 1 <= texts_max <= TEXTS_MAX:
            raise LocalProtocolError(f"a corpus window holds 1 to {TEXTS_MAX:,} texts, not {texts_max:,}")
        self._kind = Condition(Similar(("0",), 1, using), language)
        self.texts_max = texts_max
        self.language = language
        self.using = using
        self._texts: deque[array[int]] = deque()
        self._terms = 0
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._counts: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._texts)

    def add(self, literal: str) -> bool:
        """Add the text of a canonical term; return whether it has one in the language of the window."""
        text = text_of(literal)
        if text is None or not language_fits(self.language, text.language):
            return False
        counts, _ = text.measure(self.using, self._algorithm)
        self._append(counts)
        return True

    def count(self, word: str) -> int:
        """Return the number of texts that contain a word, or one with the same stem."""
        number = self._numbers.get(self._term_of(word))
        return 0 if number is None else self._counts[number]

    def corpus(self, words: Iterable[str]) -> Corpus:
        """Return the counts of some words, for a condition."""
        stopped = stop_words_of(self._algorithm) if self.using.stop_words and self._algorithm else frozenset[str]()
        distinct = (word for word in dict.fromkeys(words) if word not in stopped)
        return Corpus(len(self), tuple((word, self.count(word)) for word in distinct))

    def similar(self, text: str, threshold: float | str) -> Condition:
        """Return the condition that a literal is similar to a text, with the current counts.

        Raises QueryRefused unless ``threshold`` is a number of at most four decimals, more than 0 and at most 1, and
        if the text has no words, only stop words or too many words.
        """
        words = words_of(text)
        if not words:
            raise QueryRefused(f"{text[:_SHOWN_MAX]!r} contains no word", construct="ftsimilar")
        try:
            made = Similar(tuple(words), _ten_thousandths(threshold), self.using, self.corpus(words))
            return replace(self._kind, expression=made)
        except QueryRefused:
            raise
        except LocalProtocolError as error:
            raise QueryRefused(str(error), construct="ftsimilar") from None

    def call(self, variable: str, text: str, threshold: float | str) -> str:
        """Return the call of ``ftsimilar`` for :meth:`similar` on a variable, for a FILTER."""
        condition = self.similar(text, threshold)
        assert isinstance(condition.expression, Similar), "that is what was made"
        behind = "" if condition.language is None else f', "{condition.language}"'
        made = condition.expression
        return f"ftsimilar(?{variable.removeprefix('?')}, {made.words_text}, {made.threshold_text}{behind})"

    # --- lines of text -----------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """Yield the window as lines: a header, and then each text's terms, the oldest text first."""
        stemming, stop_words = self.using
        yield json.dumps({
            _FORMAT: _VERSION, "texts_max": self.texts_max, "language": self.language, "stemming": stemming,
            "stop_words": stop_words,
        })  # fmt: skip
        for text in self._texts:
            yield " ".join(self._names[number].partition("=")[0] for number in text)

    @classmethod
    def read(cls, lines: Iterable[str]) -> CorpusWindow:
        """Return the window that lines encode.  Raises DataRefused with the number of an invalid line."""
        numbered = enumerate(lines, 1)
        window = cls._of_header(next(numbered, (1, ""))[1])
        known: set[str] = set()
        for number, line in islice(numbered, window.texts_max):
            terms = line.split()
            fresh = set(terms) - known
            for term in fresh:
                if _FOREIGN.search(term):
                    raise DataRefused(f"line {number}: {term[:_SHOWN_MAX]!r} is no word of a corpus")
            known |= fresh
            if len(set(terms)) < len(terms):
                raise DataRefused(f"line {number}: a text has each of its terms once")
            window._append(map(window._key, terms))
        if (more := next(numbered, None)) is not None:
            raise DataRefused(f"line {more[0]}: the window holds {window.texts_max:,} texts, and more follow")
        return window

    @classmethod
    def _of_header(cls, line: str) -> CorpusWindow:
        try:
            said: Any = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict) or said.get(_FORMAT) != _VERSION:
            raise DataRefused(f"line 1: {line[:_SHOWN_MAX]!r} does not begin a corpus of version {_VERSION}")
        texts_max, language = said.get("texts_max"), said.get("language")
        stemming, stop_words = said.get("stemming"), said.get("stop_words")
        named = language is None or isinstance(language, str)
        if type(texts_max) is not int or not named or type(stemming) is not bool or type(stop_words) is not bool:
            raise DataRefused("line 1: a corpus has texts_max, language, stemming and stop_words")
        try:
            return cls(texts_max, language=language, using=Using(stemming, stop_words))
        except LocalProtocolError as error:
            raise DataRefused(f"line 1: {error}") from None

    # --- terms -------------------------------------------------------------------------------

    @property
    def _algorithm(self) -> str | None:
        return algorithm_of(self.language) if self.using != PLAIN else None

    def _key(self, term: str) -> str:
        return key_of(term, self._algorithm) if self.using.stemming and self._algorithm is not None else term

    def _term_of(self, word: str) -> str:
        algorithm = self._algorithm
        return word if algorithm is None else terms_of([word], self.using, algorithm)[0]

    def _append(self, terms: Iterable[str]) -> None:
        made = array("I", map(self._number, terms))
        for number in made:
            self._counts[number] += 1
        self._texts.append(made)
        self._terms += len(made)
        while len(self._texts) > self.texts_max or (self._terms > TERMS_MAX and len(self._texts) > 1):
            self._forget()

    def _number(self, term: str) -> int:
        number = self._numbers.get(term)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._names[number] = term
            else:
                number = len(self._names)
                self._names.append(term)
                self._counts.append(0)
            self._numbers[term] = number
        return number

    def _forget(self) -> None:
        """Remove the oldest text, and the terms that occur in no other text."""
        gone = self._texts.popleft()
        self._terms -= len(gone)
        for number in gone:
            self._counts[number] -= 1
            if not self._counts[number]:
                del self._numbers[self._names[number]]
                self._names[number] = ""
                self._free.append(number)


def _ten_thousandths(threshold: float | str) -> int:
    try:
        reached = Decimal(str(threshold)) * THRESHOLD_SCALE
    except InvalidOperation:
        reached = Decimal("NaN")
    if not reached.is_finite() or not 0 < reached <= THRESHOLD_SCALE or reached != reached.to_integral_value():
        shown = str(threshold)[:_SHOWN_MAX]
        reason = f"{shown!r} is no valid threshold: it must be more than 0 and at most 1, with at most four decimals"
        raise QueryRefused(reason, construct="ftsimilar")
    return int(reached)
