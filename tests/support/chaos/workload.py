"""Publications and queries: an endless generated stream, a real one, and a few dozen standing queries.

**Generated**: readings of devices in rooms, in *chapters* of some fifty triples in shuffled order, so that
every pattern of a join comes first sometimes.  Chapters have their own subjects: answers grow with the stream,
not with its square.  A few triples are published only once, at the beginning, and joined until the end: they
must outlive every fault.  One triple in thirty is published again, as another event.

**Real**: the world's airports (package airportsdata), without the numbers, which an independent store would
spell differently.

Among the queries are *inventories*: single patterns that show every triple of a predicate.  Inventories show
the content of the cluster; the judge compares the other queries with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Final

from chaos.queries import NS, Query, Triple
from p2prdf_cli.demo import airports

__all__ = ["generated_queries", "publications", "real_queries"]

ROOMS, DEVICES, READINGS = 2, 4, 20
KINDS, CLASSES, LEVELS = 3, 3, 5
AGAIN_SHARE: Final = 1 / 30
PUBLICATION_TRIPLES_MAX: Final = 40
_NUMBERS: Final = (f"<{airports.VOCABULARY}elevation>", f"<{airports.GEO}lat>", f"<{airports.GEO}long>")


def _query(
    where: str, select: str, *, algorithm: str = "csbv", distinct: bool = False, per_event: bool = False
) -> Query:
    """Read patterns: ``:name`` is a term of the generated stream, the rest stands as it is."""
    patterns = [pattern.split() for pattern in where.split(" . ")]
    terms = [[f"<{NS}{part[1:]}>" if part.startswith(":") else part for part in each] for each in patterns]
    return Query(tuple((s, p, o) for s, p, o in terms), tuple(select.split()), algorithm, distinct, per_event)


def generated_queries() -> list[Query]:
    """Return the queries over the generated stream: inventories first."""
    inventories = [
        _query(f"?s :{name} ?o", "?s ?o", algorithm=algorithm)
        for name, algorithm in zip(
            ("of", "level", "in", "class", "kind", "floor", "tag", "maker"), ("csbv", "cqc") * 4, strict=True
        )
    ]
    return [
        *inventories,
        _query('?r :level "3"', "?r"),
        _query("?s ?p :kind/2", "?s ?p"),
        _query("?r :of ?d . ?d :class :class/1", "?r ?d"),
        _query("?r :of ?d . ?d :class :class/1", "?r ?d", algorithm="cqc"),
        _query("?d :in ?m . ?m :kind :kind/0", "?d ?m", algorithm="cqc"),
        _query('?r :of ?d . ?r :level "2"', "?d", distinct=True),
        _query("?m :kind ?k . ?k :tag :tag/0", "?m", algorithm="cqc"),
        _query("?d :class ?c . ?c :maker :maker/1", "?d"),
        _query("?r :of ?d . ?d :in ?m . ?m :kind :kind/1", "?r ?m"),
        _query("?r :of ?d . ?d :in ?m . ?m :kind :kind/1", "?r ?m", algorithm="cqc"),
        _query("?r :of ?d . ?d :class ?c . ?c :maker :maker/0", "?r ?c"),
        _query("?a :of ?d . ?b :of ?d . ?d :class :class/2", "?a ?b"),
        _query('?r :of ?d . ?r :level "4" . ?d :in ?m', "?r ?d ?m", algorithm="cqc"),
        _query('?d :in ?m . ?m :floor "1" . ?m :kind ?k', "?k", distinct=True),
        _query('?r :level "1"', "?r", per_event=True),
        _query("?r :of ?d . ?d :class :class/0", "?r ?d", per_event=True),
    ]


def real_queries() -> list[Query]:
    """Return the queries over the airports: inventories first."""

    def term(name: str) -> str:
        return f"<{airports.VOCABULARY}{name}>"

    def thing(kind: str, name: str) -> str:
        return f"<{airports.BASE}{kind}/{name}>"

    city, region, country, zone = (term(each) for each in ("city", "region", "country", "timezone"))
    label, kind = "<http://www.w3.org/2000/01/rdf-schema#label>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    made = [
        (f"?s {each} ?o", "?s ?o", "csbv") for each in (city, region, country, zone, label, kind, term("area"))
    ] + [
        (f"?a {zone} {thing('zone', 'America.Denver')}", "?a", "csbv"),
        (f"?a {city} ?c . ?c {region} {thing('region', 'US.Alaska')}", "?a ?c", "csbv"),
        (f"?a {zone} {thing('zone', 'Europe.Berlin')} . ?a {label} ?n", "?n", "cqc"),
        (f"?a {city} ?c . ?c {region} ?r . ?r {country} {thing('country', 'BR')}", "?a ?c", "csbv"),
        (f"?a {city} ?c . ?c {region} ?r . ?r {country} {thing('country', 'US')}", "?a ?r", "cqc"),
        (f"?a {city} ?c . ?c {label} ?n . ?a {zone} {thing('zone', 'America.Chicago')}", "?a ?n", "csbv"),
        (f"?a {zone} ?z . ?z {term('area')} {thing('area', 'Pacific')} . ?a {kind} {term('Airport')}", "?a ?z", "cqc"),
    ]  # fmt: skip
    return [_query(where, select, algorithm=algorithm) for where, select, algorithm in made]


# --- triples -------------------------------------------------------------------------------------


def publications(seed: int, *, real_share: float = 1 / 3) -> Iterator[list[Triple]]:
    """Yield the triples of one publication after the other, without end; the airports last for 8,000 or so."""
    rng = random.Random(seed)
    generated, real = _cut(rng, _generated(rng)), _cut(rng, _airports())
    while True:
        publication = next(real, None) if rng.random() < real_share else None
        yield publication or next(generated)


def _cut(rng: random.Random, triples: Iterable[Triple]) -> Iterator[list[Triple]]:
    waiting: list[Triple] = []
    size = 1
    for triple in triples:
        waiting.append(triple)
        if len(waiting) >= size:
            yield waiting
            waiting, size = [], rng.randint(1, PUBLICATION_TRIPLES_MAX)
    if waiting:
        yield waiting


def _generated(rng: random.Random) -> Iterator[Triple]:
    yield from (_triple(f"kind/{each}", "tag", f"tag/{each % 2}") for each in range(KINDS))
    yield from (_triple(f"class/{each}", "maker", f"maker/{each % 2}") for each in range(CLASSES))
    chapter = 0
    before: list[Triple] = []
    while True:
        chapter += 1
        triples = list(_chapter(chapter, rng))
        triples += rng.sample(before, min(len(before), round(AGAIN_SHARE * len(triples))))
        rng.shuffle(triples)
        yield from triples
        before = triples


def _chapter(number: int, rng: random.Random) -> Iterator[Triple]:
    rooms = [f"room/{number}.{each}" for each in range(ROOMS)]
    devices = [f"device/{number}.{each}" for each in range(DEVICES)]
    for room in rooms:
        yield _triple(room, "kind", f"kind/{rng.randrange(KINDS)}")
        yield f"<{NS}{room}>", f"<{NS}floor>", f'"{rng.randrange(3)}"'
    for device in devices:
        yield _triple(device, "in", rng.choice(rooms))
        yield _triple(device, "class", f"class/{rng.randrange(CLASSES)}")
    for each in range(READINGS):
        reading = f"reading/{number}.{each}"
        yield _triple(reading, "of", rng.choice(devices))
        yield f"<{NS}{reading}>", f"<{NS}level>", f'"{rng.randrange(LEVELS)}"'


def _triple(subject: str, predicate: str, value: str) -> Triple:
    return f"<{NS}{subject}>", f"<{NS}{predicate}>", f"<{NS}{value}>"


def _airports() -> Iterator[Triple]:
    return (triple for triple in airports.triples(airports.load()) if triple[1] not in _NUMBERS)
