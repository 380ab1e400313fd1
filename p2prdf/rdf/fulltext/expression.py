"""Full-text expressions as a bounded tree, and their canonical spelling.

::

    "olympic" ftAND ("games" ftNEAR[0,2] "rio") ftAND ftNOT "winter sports" using stemming using stop words

A phrase is one or more adjacent words.  Phrases can be near each other in a chain: each follows the previous one (or,
*unordered*, precedes or follows it), and the number of words between them is in the range of the gap.  One position per
phrase must satisfy the whole chain.  ``ftOR`` binds least, then ``ftAND``, then ``ftNOT``, as in XQuery and XPath Full
Text.

The constructors check the bounds, so code that recurses over a tree needs no bound of its own.  The spelling is
canonical: it parses to an equal tree and omits redundant parentheses.

A tree may also contain similarity to given words (:mod:`p2prdf.rdf.fulltext.similarity`)::

    ftSIMILAR[0.4] "summer games in rio" using stop words using corpus[1000, "games" 40, "rio" 12, "summer" 25]

The tree defines how words are compared; the enclosing condition defines their language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.fulltext import stems
from p2prdf.rdf.fulltext.stop_words import STOPPED, stop_words_of
from p2prdf.rdf.fulltext.words import globs_of

__all__ = [
    "CORPUS_TEXTS_MAX", "DEPTH_MAX", "GAP_MAX", "NO_CORPUS", "PLAIN", "THRESHOLD_SCALE", "WORDS_MAX", "And",
    "Condition", "Corpus", "Expression", "Gap", "Near", "Not", "Or", "Phrase", "Similar", "Using", "spelled",
    "using_also",
]  # fmt: skip

DEPTH_MAX: Final = 32
"""Deepest nesting of a tree; a phrase has depth one."""
WORDS_MAX: Final = 256
"""Most words in one expression."""
GAP_MAX: Final = 100_000
"""Most words between two phrases."""
THRESHOLD_SCALE: Final = 10_000
"""Similarity is compared in units of one ten-thousandth."""
CORPUS_TEXTS_MAX: Final = 1_000_000_000
"""Most texts that a condition may give for its corpus."""

_RANGE: Final = re.compile(r"\*|[a-z]{1,8}(?:-[a-z0-9]{1,8})*")


class Gap(NamedTuple):
    """The number of words between two phrases, and whether the second must follow the first."""

    least: int
    most: int
    ordered: bool = True


class Using(NamedTuple):
    """The comparison of words: by their stems or not, and with stop words ignored or not."""

    stemming: bool = False
    stop_words: bool = False

    def __str__(self) -> str:
        return " using stemming" * self.stemming + " using stop words" * self.stop_words


PLAIN: Final = Using()
"""Words are compared unchanged."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a tree: its depth, and its number of words."""

    depth: int = field(init=False, compare=False, repr=False, default=1)
    size: int = field(init=False, compare=False, repr=False, default=0)


@dataclass(frozen=True, slots=True)
class Phrase(_Part):
    """Adjacent words; each may be a glob.  ``using`` is kept as written."""

    words: tuple[str, ...]
    using: Using = PLAIN

    def __post_init__(self) -> None:
        if not self.words:
            raise LocalProtocolError("a phrase has at least one word")
        for word in self.words:
            if globs_of(word) != [word]:
                raise LocalProtocolError(f"{word!r} is not a single word; the tokeniser returns {globs_of(word)}")
            if word == "*":
                raise LocalProtocolError("'*' alone is no word; write ftNEAR[1,1] for any one word")
        _bound(self, 1, len(self.words))


class Corpus(NamedTuple):
    """Statistics of a corpus: its number of texts, and the number that contain each word.

    The number is 0 for unlisted words.
    """

    texts: int
    counts: tuple[tuple[str, int], ...] = ()


NO_CORPUS: Final = Corpus(0)
"""An empty corpus: all words are equally rare."""


@dataclass(frozen=True, slots=True)
class Similar(_Part):
    """Words with repetitions, and the minimal similarity of a text to them: 1 to THRESHOLD_SCALE.

    Their order is irrelevant, so words are held sorted, and so are counts, without zeros.
    """

    words: tuple[str, ...]
    threshold: int
    using: Using = PLAIN
    corpus: Corpus = NO_CORPUS

    def __post_init__(self) -> None:
        if not self.words:
            raise LocalProtocolError("a similarity needs at least one word")
        for word in self.words:
            if globs_of(word) != [word] or "*" in word:
                raise LocalProtocolError(f"{word!r} is not a single word without '*', which a similarity needs")
        if not 1 <= self.threshold <= THRESHOLD_SCALE:
            threshold = self.threshold / THRESHOLD_SCALE
            raise LocalProtocolError(f"{threshold:g} is no valid threshold: it must be more than 0 and at most 1")
        _bound(self, 1, len(self.words))
        object.__setattr__(self, "words", tuple(sorted(self.words)))
        object.__setattr__(self, "corpus", _checked(self.corpus, self.words))

    @property
    def threshold_text(self) -> str:
        """The threshold as written."""
        return f"{self.threshold / THRESHOLD_SCALE:.4f}".rstrip("0").rstrip(".")

    @property
    def words_text(self) -> str:
        """The words and their comparison as written."""
        counted = "".join(f', "{word}" {count}' for word, count in self.corpus.counts)
        behind = "" if self.corpus == NO_CORPUS else f" using corpus[{self.corpus.texts}{counted}]"
        return f'"{" ".join(self.words)}"{self.using}{behind}'


@dataclass(frozen=True, slots=True)
class Near(_Part):
    """Phrases at some distance from each other: ``gaps[i]`` is between phrases i and i + 1."""

    phrases: tuple[Phrase, ...]
    gaps: tuple[Gap, ...]

    def __post_init__(self) -> None:
        if len(self.phrases) < 2 or len(self.gaps) != len(self.phrases) - 1:
            raise LocalProtocolError("ftNEAR needs two or more phrases, with a gap between each two")
        for gap in self.gaps:
            if not 0 <= gap.least <= gap.most <= GAP_MAX:
                raise LocalProtocolError(
                    f"[{gap.least},{gap.most}] is no valid range: from 0 to {GAP_MAX} words, the smaller number first"
                )
        _bound(self, 1, sum(each.size for each in self.phrases))


@dataclass(frozen=True, slots=True)
class _Parts(_Part):
    parts: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise LocalProtocolError(f"{type(self).__name__} has two or more parts, not {len(self.parts)}")
        _bound(self, 1 + max(each.depth for each in self.parts), sum(each.size for each in self.parts))


class And(_Parts):
    """All of two or more parts."""

    __slots__ = ()


class Or(_Parts):
    """At least one of two or more parts."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Not(_Part):
    """Negation: holds for texts for which the part does not."""

    part: Expression

    def __post_init__(self) -> None:
        _bound(self, self.part.depth + 1, self.part.size)


Expression = Phrase | Similar | Near | And | Or | Not


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression and a language range as in ``langMatches``; None: any language or none.

    It is false for terms that are no texts (IRIs, numbers, dates), even if the expression is negated.
    """

    expression: Expression
    language: str | None = None

    def __post_init__(self) -> None:
        if self.language is not None and _RANGE.fullmatch(self.language) is None:
            raise LocalProtocolError(f"{self.language!r} is no language range: write en, en-gb or *, in lower case")
        for leaf in _word_leaves(self.expression):
            if leaf.using != PLAIN:
                _check_language(leaf, self.language)

    def __str__(self) -> str:
        tail = "" if self.language is None else f', "{self.language}"'
        return spelled(self.expression) + tail


def spelled(expression: Expression) -> str:
    """Return the canonical spelling, which reads back as an equal tree."""
    match expression:
        case Phrase(words, using):
            return f'"{" ".join(words)}"{using}'
        case Similar():
            return f"ftSIMILAR[{expression.threshold_text}] {expression.words_text}"
        case Near(phrases, gaps):
            rest = zip(gaps, phrases[1:], strict=True)
            return " ".join([spelled(phrases[0]), *(f"{_gap(gap)} {spelled(each)}" for gap, each in rest)])
        case Not(part):
            return f"ftNOT {_within(part, (And, Or))}"
        case And(parts):
            return " ftAND ".join(_within(each, (And, Or)) for each in parts)
        case Or(parts):
            return " ftOR ".join(_within(each, (Or,)) for each in parts)


def using_also(expression: Expression, using: Using) -> Expression:
    """Return an expression with the given comparison added to all its words."""
    if using == PLAIN:
        return expression
    match expression:
        case Phrase():
            return _phrase_also(expression, using)
        case Similar():
            return replace(expression, using=_both(expression.using, using))
        case Near(phrases):
            return replace(expression, phrases=tuple(_phrase_also(each, using) for each in phrases))
        case Not(part):
            return Not(using_also(part, using))
        case And(parts) | Or(parts):
            return replace(expression, parts=tuple(using_also(each, using) for each in parts))


def _phrase_also(phrase: Phrase, using: Using) -> Phrase:
    return Phrase(phrase.words, _both(phrase.using, using))


def _both(one: Using, other: Using) -> Using:
    return Using(one.stemming or other.stemming, one.stop_words or other.stop_words)


def _word_leaves(expression: Expression) -> Iterator[Phrase | Similar]:
    match expression:
        case Phrase() | Similar():
            yield expression
        case Near(phrases):
            yield from phrases
        case Not(part):
            yield from _word_leaves(part)
        case And(parts) | Or(parts):
            for each in parts:
                yield from _word_leaves(each)


def _checked(corpus: Corpus, words: tuple[str, ...]) -> Corpus:
    """Return a corpus in canonical form.  Raises LocalProtocolError for impossible counts."""
    texts, counts = corpus
    if not 0 <= texts <= CORPUS_TEXTS_MAX:
        raise LocalProtocolError(f"a corpus has 0 to {CORPUS_TEXTS_MAX} texts, not {texts}")
    for word, count in counts:
        if word not in words:
            raise LocalProtocolError(f"a corpus may count the given words only, not {word!r}")
        if not 0 <= count <= texts:
            raise LocalProtocolError(f"the count {count} of {word!r} is not between 0 and {texts}")
    if len({word for word, _ in counts}) < len(counts):
        raise LocalProtocolError("a corpus counts each word once")
    return Corpus(texts, tuple(sorted(each for each in counts if each[1])))


def _check_language(leaf: Phrase | Similar, language: str | None) -> None:
    """Raise LocalProtocolError if the language is missing or unknown, or if all words are stop words."""
    wish = str(leaf.using).strip()
    if language is None or language == "*":
        said = "none is given" if language is None else "'*' is any language"
        reason = f"{wish} needs the language of the texts, and {said}: add a range such as \"en\" after the condition"
        raise LocalProtocolError(reason)
    algorithm = stems.algorithm_of(language)
    if algorithm is None:
        known = ", ".join(stems.ALGORITHMS)
        raise LocalProtocolError(f"{wish} does not support the language {language!r}; supported: {known}")
    if leaf.using.stemming:
        stems.stems_of(leaf.words, algorithm)
    if leaf.using.stop_words:
        if algorithm not in STOPPED:
            known = ", ".join(each for each, name in stems.ALGORITHMS.items() if name in STOPPED)
            raise LocalProtocolError(f"there are no stop words for the language {language!r}; supported: {known}")
        if stop_words_of(algorithm).issuperset(leaf.words):
            shown = " ".join(leaf.words)
            raise LocalProtocolError(f'"{shown}" has no word left, only stop words of {algorithm.capitalize()}')


def _within(part: Expression, loose: tuple[type[And | Or], ...]) -> str:
    return f"({spelled(part)})" if isinstance(part, loose) else spelled(part)


def _gap(gap: Gap) -> str:
    return f"ftNEAR[{gap.least},{gap.most}{'' if gap.ordered else ',unordered'}]"


def _bound(made: _Part, depth: int, size: int) -> None:
    if depth > DEPTH_MAX:
        raise LocalProtocolError(f"a full-text expression nests deeper than {DEPTH_MAX}")
    if size > WORDS_MAX:
        raise LocalProtocolError(f"a full-text expression has {size} words, more than {WORDS_MAX}")
    object.__setattr__(made, "depth", depth)
    object.__setattr__(made, "size", size)
