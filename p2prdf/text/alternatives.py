"""Conditions as alternatives of words that have to be there, for indices know words and not expressions.

A condition is brought into disjunctive form.  Of each alternative the words that it needs are known; whatever words
alone do not say (phrases, nearness, negation, a language) remains to be verified on texts that have the words.

The disjunctive form may be exponentially long, so it is counted before it is made.  Who can do with less takes
``required``: the words that every alternative needs, with the whole condition to be verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import chain, product
from math import prod
from typing import NamedTuple

from p2prdf.rdf.fulltext import And, Condition, Expression, Near, Not, Or, Phrase, keys_asked

__all__ = ["NOTHING", "Alternative", "alternatives", "count", "required"]

_Leaf = tuple[Phrase | Near, bool]
"""A phrase or nearness, and whether it has to be there rather than not to be."""


class Alternative(NamedTuple):
    """What a text needs: these words, a word for each glob, and that the rest holds (None: nothing more).

    ``words`` are keys, stems among them (:mod:`p2prdf.rdf.fulltext.parts`).
    """

    words: tuple[str, ...]
    globs: tuple[str, ...]
    rest: Condition | None


NOTHING = Alternative((), (), None)
"""What an object needs of which nothing is asked."""


def count(condition: Condition | None) -> int:
    """Return how many alternatives a condition has, without making them."""
    return 1 if condition is None else _count(condition.expression, True)


def alternatives(condition: Condition | None) -> tuple[Alternative, ...]:
    """Return the alternatives of a condition, each once, as many as ``count`` says or less."""
    if condition is None:
        return (NOTHING,)
    made = (_alternative(leaves, condition.language) for leaves in _disjuncts(condition.expression, True))
    return tuple(dict.fromkeys(made))


def required(condition: Condition) -> Alternative:
    """Return what every text needs that satisfies a condition, and the condition itself as the rest."""
    words = sorted(_required(condition.expression, True, condition.language))
    return Alternative(
        tuple(each for each in words if "*" not in each), tuple(each for each in words if "*" in each), condition
    )


def _count(expression: Expression, holds: bool) -> int:
    match expression:
        case Not(part):
            return _count(part, not holds)
        case And(parts) | Or(parts):
            counts = [_count(each, holds) for each in parts]
            return prod(counts) if isinstance(expression, And) == holds else sum(counts)
        case _:
            return 1


def _disjuncts(expression: Expression, holds: bool) -> Iterator[tuple[_Leaf, ...]]:
    match expression:
        case Not(part):
            yield from _disjuncts(part, not holds)
        case And(parts) | Or(parts):
            if isinstance(expression, And) == holds:
                for each in product(*(tuple(_disjuncts(part, holds)) for part in parts)):
                    yield tuple(chain.from_iterable(each))
            else:
                for part in parts:
                    yield from _disjuncts(part, holds)
        case Phrase() | Near():
            yield ((expression, holds),)


def _alternative(leaves: tuple[_Leaf, ...], language: str | None) -> Alternative:
    leaves = tuple(dict.fromkeys(leaves))
    words = dict.fromkeys(word for leaf, holds in leaves if holds for word in _words(leaf, language))
    left: list[Expression] = [leaf if holds else Not(leaf) for leaf, holds in leaves if not holds or leaf.size > 1]
    if not left and language is not None:
        left = [leaf for leaf, _ in leaves[:1]]
    rest = None
    if left:
        rest = Condition(left[0] if len(left) == 1 else And(tuple(left)), language)
    return Alternative(
        tuple(each for each in words if "*" not in each), tuple(each for each in words if "*" in each), rest
    )


def _words(leaf: Phrase | Near, language: str | None) -> tuple[str, ...]:
    if isinstance(leaf, Phrase):
        return keys_asked(leaf, language)
    return tuple(chain.from_iterable(keys_asked(each, language) for each in leaf.phrases))


def _required(expression: Expression, holds: bool, language: str | None) -> frozenset[str]:
    match expression:
        case Not(part):
            return _required(part, not holds, language)
        case And(parts) | Or(parts):
            found = [_required(each, holds, language) for each in parts]
            if isinstance(expression, And) == holds:
                return frozenset[str]().union(*found)
            return reduce(frozenset[str].intersection, found)
        case Phrase() | Near():
            return frozenset(_words(expression, language)) if holds else frozenset()
