"""Random texts of a few words, and queries with conditions on them, for fault schedules with full text.

There are so few words that texts share them, in different distances, and that texts are published again and deleted
around a subscription.  Conditions require one word, several, one of several, or none, so queries wait in the keyword
index or under predicates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from p2prdf.rdf.terms import is_skolem

if TYPE_CHECKING:
    from random import Random

    from p2prdf.sim.oracle import Triple
    from p2prdf_lab.workloads.random_queries import Vocabulary

__all__ = ["draw_text_query", "draw_texts"]

_WORDS: Final = ("red", "green", "tea", "pot", "rio", "the")
_CONDITIONS: Final = (
    '"{a}"', '"{a}"', '"{a} {b}"', '"{a}" ftAND "{b}"', '"{a}" ftOR "{b}"', '("{a}" ftAND "{b}") ftOR "{c}"',
    '"{a}" ftAND ftNOT "{b}"', '"{a}" ftNEAR[0,1,unordered] "{b}"', '"{a}", "en"', '"{a}" ftAND "t*"', 'ftNOT "{a}"',
    '"*e*"', 'ftSIMILAR[0.6] "{a} {b}"',
)  # fmt: skip
_SHAPES: Final = (
    "SELECT ?s ?t WHERE {{ ?s {p} ?t FILTER ftcontains(?t, {c}) }}",
    "SELECT ?s ?t WHERE {{ ?s {p} ?t FILTER ftcontains(?t, {c}) }}",
    "SELECT ?s ?t ?x WHERE {{ ?s {p} ?t FILTER ftcontains(?t, {c}) ?s {q} ?x }}",
    "SELECT ?s ?t ?u WHERE {{ ?s {p} ?t FILTER ftcontains(?t, {c}) ?s {q} ?u FILTER ftcontains(?u, {d}) }}",
    "SELECT ?s ?u WHERE {{ {s} {p} ?t FILTER ftcontains(?t, {c}) ?s {q} ?u FILTER ftcontains(?u, {d}) }}",
    "SELECT ?s ?r WHERE {{ ?s {p} ?t . ?r {q} ?t FILTER ftcontains(?t, {c}) }}",
)  # fmt: skip
_STANDING: Final = (
    "SELECT * WHERE {{ ?s {p} ?t FILTER ftcontains(?t, {c}) OPTIONAL {{ ?s {q} ?u FILTER ftcontains(?u, {d}) }} }}",
    "SELECT DISTINCT ?s WHERE {{ ?s {p} ?t FILTER ftcontains(?t, {c}) }}",
    "SELECT (COUNT(*) AS ?n) WHERE {{ ?s {p} ?t FILTER ftcontains(?t, {c}) }}",
)  # fmt: skip


def draw_texts(rng: Random, vocabulary: Vocabulary, count: int) -> list[Triple]:
    """Draw statements with texts to publish in this order; some occur again."""
    drawn: list[Triple] = []
    for _ in range(count):
        if drawn and rng.random() < 0.25:
            drawn.append(rng.choice(drawn))
            continue
        words = " ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 4)))
        text = f'"{words}"{rng.choice(("", "", "@en"))}'
        drawn.append((rng.choice(vocabulary.subjects), rng.choice(vocabulary.predicates), text))
    return drawn


def draw_text_query(rng: Random, vocabulary: Vocabulary, *, standing: bool = False) -> str:
    """Draw a query with a condition on one or two texts; ``standing``: it is not only conjunctive."""

    def condition() -> str:
        a, b, c = rng.sample(_WORDS, 3)
        return rng.choice(_CONDITIONS).format(a=a, b=b, c=c)

    named = [each for each in vocabulary.subjects if not is_skolem(each)]
    return rng.choice(_STANDING if standing else _SHAPES).format(
        s=rng.choice(named), p=rng.choice(vocabulary.predicates), q=rng.choice(vocabulary.predicates),
        c=condition(), d=condition(),
    )  # fmt: skip
