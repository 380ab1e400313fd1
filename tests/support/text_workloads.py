"""Random full-text queries and publications over few words and names, and their matches, found the slow way.

The oracle shares nothing with the package but the classes of the tree: it has its own words, tries every choice
of triples for patterns and every choice of places for phrases.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter

from p2prdf.rdf.fulltext import And, Condition, Corpus, Gap, Near, Not, Or, Phrase, Similar, Using
from p2prdf.text import ANY, TextPattern, TextQuery

WORDS = ("red", "green", "blue", "tea", "teas", "teapot", "pot", "pots", "potted", "pothole", "rio", "the")
STEMS = {
    "en": {"teas": "tea", "pots": "pot", "potted": "pot", "pothole": "pothol"},
    "fr": {"blue": "blu", "tea": "te", "teas": "te", "pots": "pot", "pothole": "pothol"},
}
"""Stems of WORDS that differ from the words."""
STOPPED = {"en": {"the"}, "fr": set()}
THRESHOLDS = (300, 1700, 3000, 4500, 6300, 8500, 9300)
"""Thresholds in ten-thousandths, none of them near the similarity of a text of a few words."""
GLOBS = ("tea*", "*pot", "p*t", "*o*", "re*d", "gr*e*n")
SUBJECTS = tuple(f"<urn:s{n}>" for n in range(3))
PREDICATES = tuple(f"<urn:p{n}>" for n in range(3))
OBJECTS = ("<urn:o0>", "<urn:o1>", *SUBJECTS[:2], '"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"red tea"')
VARIABLES = ("?x", "?y", "?z")


def random_expression(rng: random.Random, depth: int = 2, language: str | None = None):
    kind = rng.choice(["phrase", "phrase", "near", "and", "or", "not"]) if depth else "phrase"
    if kind == "phrase" and rng.random() < 0.15:
        return random_similar(rng, language)
    if kind == "phrase":
        return _phrase(rng, rng.choice([1, 1, 1, 2, 3]), language)
    if kind == "near":
        phrases = tuple(_phrase(rng, rng.choice([1, 1, 2]), language) for _ in range(rng.choice([2, 3])))
        gaps = []
        for _ in phrases[1:]:
            least = rng.randint(0, 2)
            gaps.append(Gap(least, least + rng.randint(0, 2), rng.random() < 0.7))
        return Near(phrases, tuple(gaps))
    if kind == "not":
        return Not(random_expression(rng, depth - 1, language))
    parts = tuple(random_expression(rng, depth - 1, language) for _ in range(rng.randint(2, 3)))
    return (And if kind == "and" else Or)(parts)


def random_similar(rng: random.Random, language: str | None = None) -> Similar:
    words = tuple(rng.choice(WORDS) for _ in range(rng.randint(1, 6)))
    texts = rng.choice([0, 0, 3, 1000])
    counts = tuple((word, rng.randint(0, texts)) for word in sorted(set(words)) if rng.random() < 0.8)
    using = Using()
    if language in ("en", "en-gb", "fr"):
        using = Using(rng.random() < 0.5, rng.random() < 0.5 and words.count("the") < len(words))
    return Similar(words, rng.choice(THRESHOLDS), using, Corpus(texts, counts))


def _phrase(rng: random.Random, length: int, language: str | None) -> Phrase:
    words = tuple(_word(rng) for _ in range(length))
    if language not in ("en", "en-gb", "fr"):
        return Phrase(words)
    return Phrase(words, Using(rng.random() < 0.5, rng.random() < 0.5 and words.count("the") < length))


def _word(rng: random.Random) -> str:
    return rng.choice(GLOBS) if rng.random() < 0.2 else rng.choice(WORDS)


def random_condition(rng: random.Random, depth: int = 2) -> Condition:
    language = rng.choice([None, None, None, "en", "en", "en-gb", "fr", "*"])
    return Condition(random_expression(rng, depth, language), language)


def random_pattern(rng: random.Random, depth: int = 2) -> TextPattern:
    s = rng.choice(SUBJECTS) if rng.random() < 0.15 else rng.choice((*VARIABLES, "?x", "?x", ANY))
    p = rng.choice(PREDICATES) if rng.random() < 0.8 else rng.choice((*VARIABLES, ANY))
    if rng.random() < 0.3:
        return TextPattern(s, p, rng.choice(OBJECTS))
    o = rng.choice((*VARIABLES, ANY))
    return TextPattern(s, p, o, random_condition(rng, depth) if rng.random() < 0.6 else None)


def random_query(rng: random.Random, depth: int = 2) -> TextQuery:
    return TextQuery(tuple(random_pattern(rng, depth) for _ in range(rng.randint(1, 3))))


def random_literal(rng: random.Random) -> str:
    words = (rng.choice(WORDS) for _ in range(rng.randint(0, 7)))
    return f'"{" ".join(words)}"' + rng.choice(["", "", "@en", "@en-gb", "@fr"])


def random_publication(rng: random.Random, subjects: int = 2) -> list[tuple[str, str, str]]:
    made = []
    for _ in range(rng.randint(1, 6)):
        o = random_literal(rng) if rng.random() < 0.6 else rng.choice(OBJECTS)
        made.append((rng.choice(SUBJECTS[:subjects]), rng.choice(PREDICATES), o))
    return made


# --- the oracle ----------------------------------------------------------------------------------


def satisfied(query: TextQuery, triples: list[tuple[str, str, str]], joins: bool = True) -> bool:
    """Tell whether some choice of a triple for each pattern satisfies a query."""
    fitting = [[t for t in set(triples) if _pattern_holds(each, t)] for each in query.patterns]
    for choice in itertools.product(*fitting):
        if not joins:
            return True
        bindings: dict[str, set[str]] = {}
        for pattern, triple in zip(query.patterns, choice, strict=True):
            for part, term in zip((pattern.s, pattern.p, pattern.o), triple, strict=True):
                if part.startswith("?"):
                    bindings.setdefault(part, set()).add(term)
        if all(len(terms) == 1 for terms in bindings.values()):
            return True
    return False


def _pattern_holds(pattern: TextPattern, triple: tuple[str, str, str]) -> bool:
    for part, term in zip((pattern.s, pattern.p, pattern.o), triple, strict=True):
        if part != "*" and not part.startswith("?") and part != term:
            return False
    return pattern.condition is None or holds(pattern.condition, triple[2])


def holds(condition: Condition, term: str) -> bool:
    """Tell whether a condition holds of a term that has no escapes."""
    read = re.fullmatch(r'"([^"]*)"(?:@(.*))?', term)
    if read is None:
        return False
    wanted, language = condition.language, read[2]
    if wanted is not None and (language is None or not (wanted == "*" or f"{language}-".startswith(f"{wanted}-"))):
        return False
    return _holds(condition.expression, re.findall(r"[^\W_]+", read[1].lower()), (wanted or "")[:2])


def _holds(expression, words: list[str], language: str) -> bool:
    match expression:
        case And():
            return all(_holds(each, words, language) for each in expression.parts)
        case Or():
            return any(_holds(each, words, language) for each in expression.parts)
        case Not():
            return not _holds(expression.part, words, language)
        case Similar():
            return cosine(expression, words, language) >= expression.threshold / 10_000
        case Phrase():
            return any(_stands(expression, words, at, language) for at in range(len(words)))
        case Near():
            places = [[at for at in range(len(words)) if _stands(p, words, at, language)] for p in expression.phrases]
            return any(_chained(expression, choice, language) for choice in itertools.product(*places))
    raise AssertionError(expression)


def cosine(similar: Similar, words: list[str], language: str) -> float:
    """Return the cosine of words given, weighted by rarity, and of a text's, in floating point numbers."""
    stopped = STOPPED[language] if similar.using.stop_words else ()
    stems = STEMS[language] if similar.using.stemming else {}
    asked, there = (
        Counter(stems.get(word, word) for word in some if word not in stopped) for some in (similar.words, words)
    )
    counts = dict(similar.corpus.counts)
    kept = {word: stems.get(word, word) for word in similar.words if word not in stopped}
    known = {term: max(counts.get(word, 0) for word, of in kept.items() if of == term) for term in asked}
    rare = {term: 1 + math.log((similar.corpus.texts + 1) / (count + 1)) for term, count in known.items()}
    query = {term: (1 + math.log(count)) * rare[term] for term, count in asked.items()}
    text = {term: 1 + math.log(count) for term, count in there.items()}
    dot = sum(weight * text.get(term, 0) for term, weight in query.items())
    return dot and dot / math.hypot(*query.values()) / math.hypot(*text.values())


def _wanted(phrase: Phrase, language: str) -> list[str | None]:
    """Return the words of a phrase without the stop words at its edges; None is any word."""
    stopped = STOPPED[language] if phrase.using.stop_words else ()
    wanted = [None if word in stopped else word for word in phrase.words]
    while wanted[0] is None:
        wanted = wanted[1:]
    while wanted[-1] is None:
        wanted = wanted[:-1]
    return wanted


def _stands(phrase: Phrase, words: list[str], at: int, language: str) -> bool:
    wanted = _wanted(phrase, language)
    there = words[at : at + len(wanted)]
    stems = STEMS[language] if phrase.using.stemming else {}

    def fits(glob: str | None, word: str) -> bool:
        if glob is None or "*" in glob:
            return glob is None or re.fullmatch(glob.replace("*", ".*"), word) is not None
        return stems.get(glob, glob) == stems.get(word, word)

    return len(there) == len(wanted) and all(map(fits, wanted, there))


def _chained(near: Near, places: tuple[int, ...], language: str) -> bool:
    for number, gap in enumerate(near.gaps):
        first, second = near.phrases[number], near.phrases[number + 1]
        behind = places[number + 1] - places[number] - len(_wanted(first, language))
        before = places[number] - places[number + 1] - len(_wanted(second, language))
        if not (gap.least <= behind <= gap.most or (not gap.ordered and gap.least <= before <= gap.most)):
            return False
    return True
