"""Queries that wait by words: for texts with a word that they need, instead of for all texts of a predicate.

A pattern ``?s <p> ?text`` with a condition on ``?text`` asks for statements of ``<p>`` whose text has certain words.
Of each alternative of the condition one word is chosen, the most telling one, and the pattern is turned into one whose
predicate is ``<p>`` qualified by these words (:func:`p2prdf.rdf.quads.worded`).  Statements are indexed with that
predicate, too, if their text has one of them (:mod:`p2prdf.peer.joins.keyword_index`).  So what a pattern waits under
depends on a word, as it depends on a constant; the condition stays a filter and is decided as ever, and a choice of
words decides about load, never about answers.

Which word is the most telling is decided by the words alone, so that all peers choose alike and equal queries stay
equal: stop words of any language last, the longest first (frequent words are short), then by hash.  No text is
counted, for counts differ from peer to peer and from day to day.

What has no such word stays as it is: a condition with an alternative of which only stems, words with ``*`` or nothing
is known (stems depend on a version of Snowball, of which publishers know nothing), or with more alternatives than
``CHOICES_MAX`` that do not share a word.  So does a pattern with a subject, which waits under that as well; one whose
object stands elsewhere in the query, as its value may be bound by then; and one of a named graph or a stream.
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

__all__ = ["CHOICES_MAX", "by_words", "telling_words"]

CHOICES_MAX: Final = 16
"""Alternatives of a condition of which a word each is chosen; of more, one that all of them need."""

Query = ConjunctiveQuery | StandingQuery


def telling_words(condition: Condition) -> tuple[str, ...]:
    """Return words of which every text has one that satisfies a condition, ascending; none if that is not known."""
    choices = alternatives(condition) if count(condition) <= CHOICES_MAX else (required(condition),)
    chosen: dict[str, None] = {}
    for each in choices:
        words = [word for word in each.words if algorithm_of_key(word) is None]
        if not words:
            return ()
        chosen[min(words, key=_commonness)] = None
    return tuple(sorted(chosen))


def by_words(query: Query, allowed: Callable[[str], bool] = lambda _: True) -> Query:
    """Return a query whose patterns wait by words where they can; the same if none can.

    ``allowed`` is asked for each predicate that is qualified by words.  It may only be left for what is published from
    now on: what was before is not indexed so.  Raises QueryRefused for a full-text condition that is none.
    """
    if isinstance(query, ConjunctiveQuery):
        return _conjunctive(query, allowed)
    if any(query.windows):  # then what is of no stream counts from the beginning on
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
    """Return the predicate by which a pattern may wait, qualified by words; "" if there is none."""
    s, p, o = pattern
    predicate = query.constants[~p] if p < 0 else ""
    elsewhere = sum(slot == o for other in query.patterns for slot in other) > 1
    if s < 0 or o not in conditions or elsewhere or not predicate.startswith("<"):
        return ""
    choices = [words for each in conditions[o] if (words := telling_words(each))]
    if not choices:
        return ""
    words = min(choices, key=_commonness_of_all)
    found = quads.worded(predicate, words)
    return found if allowed(found) else ""


def _commonness_of_all(words: tuple[str, ...]) -> tuple[int, tuple[bool, int, int]]:
    return len(words), max(map(_commonness, words))


def _commonness(word: str) -> tuple[bool, int, int]:
    """Return what is the less, the rarer a word is held to be."""
    return word in _stop_words(), -len(word), keys.term_hash(word)


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    return frozenset[str]().union(*map(stop_words_of, sorted(STOPPED)))
