"""Random publications and queries over a vocabulary so small that coincidences are frequent.

Coincidences reveal defects of joins in the network: one term in two places of a triple, a literal with the text of an
IRI, the empty literal, two terms with the concatenated text of a third, a triple that is published before and after a
subscription, a repeated pattern.  So the few terms have these properties, and queries are triples of the data in which
variables replace terms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

from p2prdf.rdf.query import ConjunctiveQuery, Filter, Pattern
from p2prdf.rdf.terms import is_skolem, skolem
from p2prdf.sim.oracle import Oracle, Publication, Triple
from p2prdf_lab.workloads.paths import PathSchema, path_queries, path_triples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

__all__ = [
    "PathSchema", "Vocabulary", "conjunctive_query", "draw_query", "draw_triples", "draw_vocabulary",
    "path_queries", "path_triples", "sparql_text",
]  # fmt: skip

_XSD: Final = "http://www.w3.org/2001/XMLSchema#"

IRIS: Final = ("<urn:a>", "<urn:ab>", "<urn:b>", "<urn:bc>", "<urn:c>", "<urn:abc>", "<urn:p>", "<urn:q>")
"""Each may be in any place; ``<urn:ab>`` + ``<urn:c>`` and ``<urn:a>`` + ``<urn:bc>`` have equal letters."""

BLANKS: Final = (skolem("sim", "a"), skolem("sim", "b"))

LITERALS: Final = (
    '""', '"a"', '"ab"', '"bc"', '"c"', '"urn:a"', '"urn:p"', '"a"@en', f'"1"^^<{_XSD}integer>',
    f'"01"^^<{_XSD}integer>', f'"2"^^<{_XSD}integer>', '"1"', f'"1.5"^^<{_XSD}decimal>', '"a\\"b\\\\c\\n"',
)  # fmt: skip
"""The empty literal, texts of IRIs, one text under several types, one value under two texts."""

_FILTERS: Final = (
    "?{x} = ?{y}", "?{x} != ?{y}", "isLiteral(?{x})", "isIRI(?{x})", 'STR(?{x}) = "urn:a"', "?{x} = <urn:a>",
    "STRLEN(STR(?{x})) > 4", "?{x} < 2", "?{x} = 1", 'REGEX(STR(?{x}), "b")', 'LANG(?{x}) = "en"',
    "sameTerm(?{x}, ?{y})", "!(?{x} = ?{y}) || isBlank(?{x})", '?{x} IN (<urn:b>, "a", 1)', "?{x} + 1 > 2",
)  # fmt: skip

_PATTERNS_MAX = 5
_ANSWERS_MAX = 400
_PARTIAL_MAX = 3_000
_VARIABLE = re.compile(r"\?(\w+)")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Terms by their possible places in a triple."""

    subjects: tuple[str, ...]
    predicates: tuple[str, ...]
    objects: tuple[str, ...]


def draw_vocabulary(rng: Random) -> Vocabulary:
    """Draw a few terms; IRIs are shared by all three places."""
    iris = rng.sample(IRIS, rng.randint(2, 5))
    subjects = [*iris, *rng.sample(BLANKS, rng.randint(0, 2))]
    predicates = rng.sample(iris, rng.randint(1, min(3, len(iris))))
    objects = [*subjects, *rng.sample(LITERALS, rng.randint(1, 5))]
    return Vocabulary(tuple(subjects), tuple(predicates), tuple(objects))


def draw_triples(rng: Random, vocabulary: Vocabulary, count: int) -> list[Triple]:
    """Draw triples to publish in this order; some occur again, also next to each other."""
    drawn: list[Triple] = []
    for _ in range(count):
        if drawn and rng.random() < 0.2:
            drawn.append(rng.choice(drawn[-4:] if rng.random() < 0.5 else drawn))
            continue
        subject = rng.choice(vocabulary.subjects)
        loop = rng.random() < 0.1
        drawn.append(
            (subject, rng.choice(vocabulary.predicates), subject if loop else rng.choice(vocabulary.objects))
        )
    return drawn


def conjunctive_query(
    patterns: Iterable[tuple[str, str, str]],
    answer: Sequence[str],
    *,
    distinct: bool = False,
    filters: Iterable[str] = (),
) -> ConjunctiveQuery:
    """Return the canonical query of patterns in text: ``?name`` is a variable, the rest are terms.

    Filters are SPARQL expressions over the same names.
    """
    variables: dict[str, int] = {}
    constants: dict[str, int] = {}

    def slot(part: str) -> int:
        if part.startswith("?"):
            return variables.setdefault(part, len(variables))
        return ~constants.setdefault(part, len(constants))

    slots: list[Pattern] = [(slot(s), slot(p), slot(o)) for s, p, o in patterns]
    made = []
    for text in filters:
        used = sorted({variables["?" + name] for name in _VARIABLE.findall(text)})
        made.append(Filter(_VARIABLE.sub(lambda found: f"?v{variables[found[0]]}", text), tuple(used)))
    return ConjunctiveQuery(
        tuple(slots), tuple(constants), tuple(variables[name] for name in answer),
        tuple(name[1:] for name in answer), distinct, tuple(made),
    )  # fmt: skip


def sparql_text(query: ConjunctiveQuery) -> str:
    """Return a query as SPARQL, with its variables renamed to ``?v0``, ``?v1``, ..."""

    def part(slot: int) -> str:
        return query.constants[~slot] if slot < 0 else f"?v{slot}"

    lines = ["  " + " ".join(map(part, pattern)) + " ." for pattern in query.patterns]
    lines += [f"  FILTER({condition.text})" for condition in query.filters]
    shown = " ".join(f"?v{v}" for v in query.answer) or "*"
    return "\n".join([f"SELECT {'DISTINCT ' if query.distinct else ''}{shown} WHERE {{", *lines, "}"])


def draw_query(rng: Random, data: Sequence[Triple], vocabulary: Vocabulary) -> ConjunctiveQuery:
    """Draw a query that usually has answers over the data, in a limited number."""
    oracle = Oracle(Publication(0, number, triple) for number, triple in enumerate(data))
    for _ in range(50):
        query = _draft(rng, data, vocabulary)
        if _affordable(query, oracle):
            return query
    return conjunctive_query([("?s", vocabulary.predicates[0], "?o")], ["?s"])


def _draft(rng: Random, data: Sequence[Triple], vocabulary: Vocabulary) -> ConjunctiveQuery:
    """Replace terms by variables in a few triples of the data, most of which share terms."""
    picked = [rng.choice(data)]
    for _ in range(rng.choice((1, 1, 2, 2, 3, 3, 4, 5)) - 1):
        shared = rng.choice(rng.choice(picked))
        near = [triple for triple in data if shared in triple] if rng.random() < 0.85 else data
        picked.append(rng.choice(near))
    keep_probability = rng.choice((0.1, 0.3, 0.6))
    names: dict[str, str] = {}

    def part(term: str, place: int) -> str:
        keep = rng.random() < (0.7 if place == 1 else keep_probability)
        if keep and not is_skolem(term):
            wild = (vocabulary.subjects, vocabulary.predicates, vocabulary.objects)[rng.randrange(3)]
            replacement = rng.choice(wild) if rng.random() < 0.06 else term
            return term if is_skolem(replacement) else replacement
        if rng.random() < 0.1:
            return f"?x{len(names)}{place}"  # breaks the connection that the data suggests
        return names.setdefault(term, f"?v{len(names)}")

    patterns = [(part(s, 0), part(p, 1), part(o, 2)) for s, p, o in picked]
    if rng.random() < 0.08:
        patterns[rng.randrange(len(patterns))] = ("?v0", "?any", "?v1")
    if len(patterns) < _PATTERNS_MAX and rng.random() < 0.12:
        patterns.append(rng.choice(patterns))
    if len(patterns) < _PATTERNS_MAX and rng.random() < 0.06:
        patterns.append(_ground(rng.choice(data)))
    rng.shuffle(patterns)
    variables = sorted({part for pattern in patterns for part in pattern if part.startswith("?")})
    shown = variables if rng.random() < 0.4 else rng.sample(variables, rng.randint(0, len(variables)))
    shown = shown or variables[:1]
    return conjunctive_query(
        patterns, shown, distinct=rng.random() < 0.2, filters=_draw_filters(rng, variables)
    )


def _ground(triple: Triple) -> Triple:
    """Return a triple as a pattern; a blank node cannot be named in a query."""
    s, p, o = triple
    return ("?g" if is_skolem(s) else s, p, "?h" if is_skolem(o) else o)


def _draw_filters(rng: Random, variables: Sequence[str]) -> list[str]:
    if not variables or rng.random() < 0.8:
        return []
    texts = rng.sample(_FILTERS, rng.choice((1, 1, 2)))
    return [text.format(x=rng.choice(variables)[1:], y=rng.choice(variables)[1:]) for text in texts]


def _affordable(query: ConjunctiveQuery, oracle: Oracle) -> bool:
    """Whether answers and partial results stay few in any order of evaluation, counted per event."""
    if query.distinct or query.filters or query.answer:
        query = ConjunctiveQuery(query.patterns, query.constants, (), ())
    count = len(query.patterns)
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            part = ConjunctiveQuery(tuple(query.patterns[at] for at in chosen), query.constants, (), ())
            limit = _ANSWERS_MAX if size == count else _PARTIAL_MAX
            if oracle.answers(part, 0, per_event=True).total() > limit:
                return False
    return True
