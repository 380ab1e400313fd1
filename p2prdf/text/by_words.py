"""Keyword routing of queries: wait for texts with a required word, not for all texts of a predicate.

A pattern ``?s <p> ?text`` with a condition on ``?text`` matches statements of ``<p>`` with certain words in their
text.  The most selective word of each alternative is chosen, and the pattern's predicate becomes ``<p>`` qualified by
these words (:func:`p2prdf.rdf.quads.worded`).  Statements with one of the words in their text are indexed under that
predicate as well (:mod:`p2prdf.peer.joins.keyword_index`).  The condition remains a filter, so the choice of words
affects load, never solutions.

The choice depends on the words alone, so all peers choose alike: stop words last, then the longest, then by hash (see
docs/explanation/full-text.md).

A pattern stays unchanged if an alternative has no plain word (only stems or globs), if more than ``CHOICES_MAX``
alternatives have no common word, if its subject is constant, if its object occurs elsewhere in the query, and in a
named graph or a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from p2prdf import keys
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import Leaf, StandingQuery, Windowed
from p2prdf.rdf.fulltext import FULL_TEXT, Condition, algorithm_of_key, sole_condition
from p2prdf.rdf.fulltext.stop_words import STOPPED, stop_words_of
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.text.alternatives import alternatives, count, required

if TYPE_CHECKING:
    from p2prdf.rdf.query import Pattern

__all__ = ["CHOICES_MAX", "by_words", "selective_words"]

CHOICES_MAX: Final = 16
"""Most alternatives of a condition with one word chosen for each; more use a common word."""

Query = ConjunctiveQuery | StandingQuery


def selective_words(condition: Condition) -> tuple[str, ...]:
    """Return words such that every text that satisfies a condition contains one; empty if unknown.

    The words are in ascending order.
    """
    choices = alternatives(condition) if count(condition) <= CHOICES_MAX else (required(condition),)
    chosen: dict[str, None] = {}
    for each in choices:
        words = [word for word in each.words if algorithm_of_key(word) is None]
        if not words:
            return ()
        chosen[min(words, key=_commonness)] = None
    return tuple(sorted(chosen))


def by_words(query: Query, allowed: Callable[[str], bool] = lambda _: True) -> Query:
    """Return a query with patterns that use keyword routing where possible; otherwise the same query.

    ``allowed`` is called for each predicate qualified by keywords and may veto it.  Only queries for future
    publications may use the result: earlier statements have no keyword index.  Raises QueryRefused for an invalid
    full-text condition.
    """
    if isinstance(query, ConjunctiveQuery):
        return _conjunctive(query, allowed)
    if any(query.windows):  # then patterns outside of streams match earlier statements, too
        return query
    operators = tuple(
        replace(each, query=_conjunctive(each.query, allowed))
        if isinstance(each, Leaf) and not isinstance(each, Windowed)
        else each
        for each in query.operators
    )
    return query if operators == query.operators else replace(query, operators=operators)


def _conjunctive(query: ConjunctiveQuery, allowed: Callable[[str], bool]) -> ConjunctiveQuery:
    conditions: dict[int, list[Condition]] = {}
    for each in query.filters:
        call = sole_condition(each.text) if each.text.startswith(FULL_TEXT) else None
        if call is not None:
            conditions.setdefault(call[0], []).append(call[1])
    if not conditions or query.concludes:
        return query
    predicates = [_worded(query, pattern, conditions, allowed) for pattern in query.patterns]
    if not any(predicates):
        return query
    constants: dict[str, int] = {}
    patterns: list[Pattern] = []
    for (s, p, o), predicate in zip(query.patterns, predicates, strict=True):
        parts = (s, p, o)
        spelled = [query.constants[~slot] if slot < 0 else "" for slot in parts]
        spelled[1] = predicate or spelled[1]
        slots = [
            slot if slot >= 0 else ~constants.setdefault(text, len(constants))
            for slot, text in zip(parts, spelled, strict=True)
        ]
        patterns.append((slots[0], slots[1], slots[2]))
    return replace(query, patterns=tuple(patterns), constants=tuple(constants))


def _worded(
    query: ConjunctiveQuery, pattern: Pattern, conditions: dict[int, list[Condition]], allowed: Callable[[str], bool]
) -> str:
    """Return the predicate of a pattern qualified by keywords; "" if keyword routing is impossible."""
    s, p, o = pattern
    predicate = query.constants[~p] if p < 0 else ""
    elsewhere = sum(slot == o for other in query.patterns for slot in other) > 1
    if s < 0 or o not in conditions or elsewhere or not predicate.startswith("<"):
        return ""
    choices = [words for each in conditions[o] if (words := selective_words(each))]
    if not choices:
        return ""
    words = min(choices, key=_commonness_of_all)
    found = quads.worded(predicate, words)
    return found if allowed(found) else ""


def _commonness_of_all(words: tuple[str, ...]) -> tuple[int, tuple[bool, int, int]]:
    return len(words), max(map(_commonness, words))


def _commonness(word: str) -> tuple[bool, int, int]:
    """Return a sort key that is smaller for words assumed to be rarer."""
    return word in _stop_words(), -len(word), keys.term_hash(word)


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    return frozenset[str]().union(*map(stop_words_of, sorted(STOPPED)))
