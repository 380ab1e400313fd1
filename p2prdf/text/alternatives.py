"""Conditions as alternatives of words that have to be there, for indices know words and not expressions.

A condition is brought into disjunctive form.  Of each alternative the words that it needs are known; whatever words
alone do not say (phrases, nearness, negation, a language) remains to be verified on texts that have the words.

Similarity to some words needs one or another of them, which makes several alternatives.  Who can find what is similar
enough in another way takes it ``whole``: it is named, and there is nothing more to verify about it.

The disjunctive form may be exponentially long, so it is counted before it is made.  Who can do with less takes
``required``: the words that every alternative needs, with the whole condition to be verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import chain, product
from math import prod
from typing import NamedTuple

from p2prdf.rdf.fulltext import And, Condition, Expression, Near, Not, Or, Phrase, Similar, keys_asked, needed

__all__ = ["NOTHING", "Alternative", "alternatives", "count", "required"]


class _Leaf(NamedTuple):
    """A phrase, nearness or similarity, whether it has to be there rather than not to be, and what it needs then."""

    leaf: Phrase | Near | Similar
    holds: bool
    words: tuple[str, ...]


class Alternative(NamedTuple):
    """What a text needs: these words, a word for each glob, and that the rest holds (None: nothing more).

    ``words`` are keys, stems among them (:mod:`p2prdf.rdf.fulltext.parts`).
    """

    words: tuple[str, ...]
    globs: tuple[str, ...]
    rest: Condition | None
    similars: tuple[Condition, ...] = ()
    """Similarities taken whole, each with the language of the condition."""


NOTHING = Alternative((), (), None)
"""What an object needs of which nothing is asked."""


def count(condition: Condition | None, *, whole: bool = False) -> int:
    """Return how many alternatives a condition has, without making them."""
    return 1 if condition is None else _count(condition.expression, True, condition.language, whole)


def alternatives(condition: Condition | None, *, whole: bool = False) -> tuple[Alternative, ...]:
    """Return the alternatives of a condition, each once, as many as ``count`` says or less.

    ``whole``: what has to be similar is named, and not taken apart into words.
    """
    if condition is None:
        return (NOTHING,)
    language = condition.language
    made = (_alternative(leaves, language, whole) for leaves in _disjuncts(condition.expression, True, language, whole))
    return tuple(dict.fromkeys(made))


def required(condition: Condition) -> Alternative:
    """Return what every text needs that satisfies a condition, and the condition itself as the rest."""
    words = sorted(_required(condition.expression, True, condition.language))
    return Alternative(
        tuple(each for each in words if "*" not in each), tuple(each for each in words if "*" in each), condition
    )


def _count(expression: Expression, holds: bool, language: str | None, whole: bool) -> int:
    match expression:
        case Not(part):
            return _count(part, not holds, language, whole)
        case And(parts) | Or(parts):
            counts = [_count(each, holds, language, whole) for each in parts]
            return prod(counts) if isinstance(expression, And) == holds else sum(counts)
        case Similar() if holds and not whole:
            return len(needed(expression, language).one_of) or 1
        case _:
            return 1


def _disjuncts(expression: Expression, holds: bool, language: str | None, whole: bool) -> Iterator[tuple[_Leaf, ...]]:
    match expression:
        case Not(part):
            yield from _disjuncts(part, not holds, language, whole)
        case And(parts) | Or(parts):
            if isinstance(expression, And) == holds:
                for each in product(*(tuple(_disjuncts(part, holds, language, whole)) for part in parts)):
                    yield tuple(chain.from_iterable(each))
            else:
                for part in parts:
                    yield from _disjuncts(part, holds, language, whole)
        case Similar() if holds and not whole:
            all_of, one_of = needed(expression, language)
            for words in ((*all_of, each) for each in one_of) if one_of else (all_of,):
                yield (_Leaf(expression, True, words),)
        case Similar():
            yield (_Leaf(expression, holds, ()),)
        case Phrase() | Near():
            yield (_Leaf(expression, holds, _words(expression, language) if holds else ()),)


def _alternative(leaves: tuple[_Leaf, ...], language: str | None, whole: bool) -> Alternative:
    leaves = tuple(dict.fromkeys(leaves))
    words = dict.fromkeys(word for each in leaves for word in each.words)
    similars: list[Condition] = []
    left: list[Expression] = []
    for leaf, holds, _ in leaves:
        if not holds:
            left.append(Not(leaf))
        elif isinstance(leaf, Similar) and whole:
            similars.append(Condition(leaf, language))
        elif leaf.size > 1 or isinstance(leaf, Similar):
            left.append(leaf)
    if not left and not similars and language is not None:
        left = [leaf for leaf, _, _ in leaves[:1]]
    rest = None
    if left:
        rest = Condition(left[0] if len(left) == 1 else And(tuple(left)), language)
    return Alternative(
        tuple(each for each in words if "*" not in each), tuple(each for each in words if "*" in each), rest,
        tuple(similars),
    )  # fmt: skip


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
        case Similar():
            return frozenset(needed(expression, language).all_of) if holds else frozenset()
        case Phrase() | Near():
            return frozenset(_words(expression, language)) if holds else frozenset()
