"""Conditions in disjunctive form, as alternatives of required words, which an index can look up.

Each alternative has the words that it requires; parts that words alone cannot express (phrases, nearness, negation, a
language) are verified on texts that contain the words.

Similarity requires one of several words, which gives several alternatives.  A matcher with its own lookup for
similarity takes it ``whole``: it is listed by name, and nothing about it remains to be verified.

The disjunctive form may be exponentially long, so it is counted before it is built.  ``required`` is the short form:
the words that every alternative requires, with the whole condition to be verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import chain, product
from math import prod
from typing import NamedTuple

from p2prdf.rdf.fulltext import And, Condition, Expression, Near, Not, Or, Phrase, Similar, needed, phrase_keys

__all__ = ["NOTHING", "Alternative", "alternatives", "count", "required"]


class _Leaf(NamedTuple):
    """A phrase, nearness or similarity, whether it must hold or must not, and the words that it requires."""

    leaf: Phrase | Near | Similar
    holds: bool
    words: tuple[str, ...]


class Alternative(NamedTuple):
    """The requirements on a text: words, a word for each glob, and the condition ``rest`` (None: none).

    ``words`` are keys, including those of stems (:mod:`p2prdf.rdf.fulltext.parts`).
    """

    words: tuple[str, ...]
    globs: tuple[str, ...]
    rest: Condition | None
    similars: tuple[Condition, ...] = ()
    """Similarities taken whole, each with the language of the condition."""


NOTHING = Alternative((), (), None)
"""The alternative of a pattern without a condition."""


def count(condition: Condition | None, *, whole: bool = False) -> int:
    """Return the number of alternatives of a condition, without building them."""
    return 1 if condition is None else _count(condition.expression, True, condition.language, whole)


def alternatives(condition: Condition | None, *, whole: bool = False) -> tuple[Alternative, ...]:
    """Return the distinct alternatives of a condition, at most as many as ``count`` returns.

    ``whole``: similarities are listed by name instead of by words.
    """
    if condition is None:
        return (NOTHING,)
    language = condition.language
    made = (_alternative(leaves, language, whole) for leaves in _disjuncts(condition.expression, True, language, whole))
    return tuple(dict.fromkeys(made))


def required(condition: Condition) -> Alternative:
    """Return the requirements common to all alternatives of a condition, with the condition as the rest."""
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
        return phrase_keys(leaf, language)
    return tuple(chain.from_iterable(phrase_keys(each, language) for each in leaf.phrases))


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
