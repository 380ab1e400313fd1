"""Items with text and standing queries about them: the workload of the full-text paper, in DBpedia's proportions.

Classes, properties and values are synthetic: 529 classes, 2,300 properties, some of them for each class, all
Zipf-distributed.  The words are real: passages of given texts, 53 words per item on average, most of them in one
description, the others in a title.  A publication is the seven triples of an item.

A query concerns one item and has up to four patterns.  Every second query has a pattern with a class.  Another pattern
has, with the text probability, up to three words, drawn from all words of the texts by frequency; otherwise it has a
property, every second time with a value.  So most words of queries are common ones, as in the paper.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.fulltext import And, Condition, Phrase, words_of
from p2prdf.rdf.terms import RDF, literal
from p2prdf.text import TextPattern, TextQuery, Triple

__all__ = ["TextShape", "TextWorkload"]

_TYPE: Final = f"<{RDF}type>"
_TITLE_WORDS: Final = (1, 6)
_DESCRIPTION_MEAN: Final = 53
"""Mean number of written words of a description, before passages end with their texts."""
_OF_CLASS: Final = 12
"""Properties with values per class; an item has four of them."""
_ITEM_PROPERTIES: Final = 4
_TEXTS_OF_CLASS: Final = 4
"""Properties with text per class; an item has two of them."""


@dataclass(frozen=True, slots=True)
class TextShape:
    """Sizes of a workload.  ``text_probability``: share of patterns with words among those without a class."""

    text_probability: float = 0.5
    classes: int = 529
    properties: int = 2300
    values: int = 1000
    patterns_max: int = 4
    words_max: int = 3
    exponent: float = 1.0
    seed: int = 1

    def validate(self) -> None:
        """Raise LocalProtocolError for an invalid shape."""
        if not 0 <= self.text_probability <= 1:
            raise LocalProtocolError(f"text_probability: {self.text_probability} is not between 0 and 1")
        bounds = (
            ("classes", 1, 100_000), ("properties", 32, 1_000_000), ("values", 1, 1_000_000), ("patterns_max", 1, 8),
            ("words_max", 1, 16),
        )  # fmt: skip
        for name, least, most in bounds:
            size = getattr(self, name)
            if not least <= size <= most:
                raise LocalProtocolError(f"{name}: {size} is not between {least:,} and {most:,}")


class _Zipf:
    """Draws numbers below a size, the k-th with frequency k^-exponent."""

    def __init__(self, size: int, exponent: float):
        self._sums = list(accumulate((k + 1) ** -exponent for k in range(size)))

    def draw(self, rng: random.Random) -> int:
        return bisect(self._sums, rng.random() * self._sums[-1])


class TextWorkload:
    """Items and queries of one shape, with words of given texts.  Raises LocalProtocolError for an invalid shape."""

    def __init__(self, shape: TextShape, passages: Sequence[Sequence[str]]):
        shape.validate()
        self._shape, self._passages = shape, passages
        self._words = [word for passage in passages for word in words_of(" ".join(passage))]
        rng = random.Random(f"schema {shape.seed}")
        self._class = _Zipf(shape.classes, shape.exponent)
        self._value = _Zipf(shape.values, shape.exponent)
        textual = shape.properties // 4
        valued, texts = _Zipf(shape.properties - textual, shape.exponent), _Zipf(textual, shape.exponent)
        self._properties = [_some(valued, _OF_CLASS, rng, "p") for _ in range(shape.classes)]
        self._texts = [_some(texts, _TEXTS_OF_CLASS, rng, "text") for _ in range(shape.classes)]

    def publications(self, count: int) -> Iterator[list[Triple]]:
        """Yield items, each as its triples."""
        rng = random.Random(f"items {self._shape.seed}")
        for number in range(count):
            kind = self._class.draw(rng)
            item = f"<urn:item:{number}>"
            made = [(item, _TYPE, _class(kind))]
            values = rng.sample(self._properties[kind], _ITEM_PROPERTIES)
            made += [(item, p, self._value_of(p, rng)) for p in values]
            title, description = rng.sample(self._texts[kind], 2)
            made.append((item, title, self._passage(rng.randint(*_TITLE_WORDS), rng)))
            made.append((item, description, self._passage(1 + int(rng.expovariate(1 / _DESCRIPTION_MEAN)), rng)))
            yield made

    def queries(self, count: int) -> Iterator[TextQuery]:
        """Yield queries; a smaller count gives the first queries of a larger one."""
        rng = random.Random(f"queries {self._shape.seed}")
        for _ in range(count):
            kind = self._class.draw(rng)
            size = rng.randint(1, self._shape.patterns_max)
            patterns = [TextPattern("?x", _TYPE, _class(kind))] if rng.random() < 0.5 else []
            properties = rng.sample(self._properties[kind], min(size, _OF_CLASS))
            texts = rng.sample(self._texts[kind], min(size, _TEXTS_OF_CLASS))
            while len(patterns) < size:
                at = len(patterns)
                if rng.random() < self._shape.text_probability:
                    patterns.append(TextPattern("?x", texts[at % len(texts)], f"?t{at}", self._condition(rng)))
                elif rng.random() < 0.5:
                    p = properties[at % len(properties)]
                    patterns.append(TextPattern("?x", p, self._value_of(p, rng)))
                else:
                    patterns.append(TextPattern("?x", properties[at % len(properties)], f"?o{at}"))
            yield TextQuery(tuple(patterns))

    def _condition(self, rng: random.Random) -> Condition:
        words = dict.fromkeys(rng.choice(self._words) for _ in range(rng.randint(1, self._shape.words_max)))
        parts = tuple(Phrase((word,)) for word in words)
        return Condition(parts[0] if len(parts) == 1 else And(parts))

    def _value_of(self, p: str, rng: random.Random) -> str:
        return f"{p[:-1]}:{self._value.draw(rng)}>"

    def _passage(self, length: int, rng: random.Random) -> str:
        text = rng.choice(self._passages)
        start = rng.randrange(max(1, len(text) - length + 1))
        return literal(" ".join(text[start : start + length]))


def _class(number: int) -> str:
    return f"<urn:class:{number}>"


def _some(of: _Zipf, count: int, rng: random.Random, name: str) -> list[str]:
    """Return distinct properties, drawn by popularity."""
    found: dict[int, None] = {}
    while len(found) < count:
        found[of.draw(rng)] = None
    return [f"<urn:{name}:{number}>" for number in found]
