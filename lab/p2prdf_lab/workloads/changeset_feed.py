"""A feed of changesets with the proportions that the iRap paper reports for DBpedia Live in October 2014.

Tables 2 and 3 of the paper give, for each of five days, the number of changesets, the triples removed and added, and
the shares of these that were interesting for a Football and for a Location interest.  Here a day has fewer changesets
of the same size and shares.  The contents are synthetic: footballers with teams, places with coordinates, and other
triples, of which common predicates (``foaf:name``, ``rdfs:label``, ``rdf:type``) are potentially interesting.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.interest import Changeset, Triple

__all__ = ["DAYS", "FOOTBALL", "FOOTBALL_SLICE", "LOCATION", "Day", "Feed", "FeedShape"]

FOOTBALL_SLICE: Final = 265_622
"""Triples of the paper's Football target."""

_PREFIXES: Final = """PREFIX dbo: <http://dbpedia.org/ontology/> PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX wgs: <http://www.w3.org/2003/01/geo/wgs84_pos#>
PREFIX dct: <http://purl.org/dc/terms/>
"""
FOOTBALL: Final = _PREFIXES + """SELECT * WHERE {
  ?footballer a dbo:SoccerPlayer ; foaf:name ?name ; dbo:team ?team . ?team rdfs:label ?teamName }"""
LOCATION: Final = _PREFIXES + """SELECT * WHERE {
  ?location a ?type ; wgs:long ?long ; wgs:lat ?lat ; rdfs:label ?label ; dbo:abstract ?abstract .
  OPTIONAL { ?location dct:subject ?subject } }"""

_TYPE: Final = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_NAME: Final = "<http://xmlns.com/foaf/0.1/name>"
_LABEL: Final = "<http://www.w3.org/2000/01/rdf-schema#label>"
_TEAM: Final = "<http://dbpedia.org/ontology/team>"
_ABSTRACT: Final = "<http://dbpedia.org/ontology/abstract>"
_SUBJECT: Final = "<http://purl.org/dc/terms/subject>"
_LONG, _LAT = (f"<http://www.w3.org/2003/01/geo/wgs84_pos#{name}>" for name in ("long", "lat"))
_PLAYER: Final = "<http://dbpedia.org/ontology/SoccerPlayer>"


@dataclass(frozen=True, slots=True)
class Day:
    """A day of the paper: changesets, and triples removed and added.

    ``football``, ``location``: interesting triples removed and added, then potentially interesting ones.
    """

    changesets: int
    removed: int
    added: int
    football: tuple[int, int, int]
    location: tuple[int, int, int]


DAYS: Final = (
    Day(1621, 1_895_179, 2_051_976, (9065, 184, 169_554), (77_377, 7093, 430_376)),
    Day(1755, 1_748_511, 2_384_232, (4865, 155, 168_856), (82_461, 7301, 509_972)),
    Day(5352, 1716, 10_728_855, (0, 45_429, 684_491), (0, 259_587, 2_002_271)),
    Day(751, 449, 1_522_939, (0, 7970, 97_300), (0, 27_292, 280_718)),
    Day(2578, 1677, 5_234_788, (0, 19_598, 333_232), (0, 100_073, 972_284)),
)


@dataclass(frozen=True, slots=True)
class FeedShape:
    """Size of a feed: ``slice_triples`` of the Football target at the start, ``changesets`` of each day."""

    slice_triples: int = FOOTBALL_SLICE
    changesets: int = 40
    seed: int = 1

    def validate(self) -> None:
        """Raise LocalProtocolError for an invalid shape."""
        if not 1000 <= self.slice_triples <= 10_000_000:
            raise LocalProtocolError(f"a slice of {self.slice_triples} triples: it has 1,000 to 10,000,000")
        if not 2 <= self.changesets <= 5352:
            raise LocalProtocolError(f"{self.changesets} changesets in a day: there are 2 to 5,352")


class Feed:
    """A changing dataset.  ``start`` is read once, before ``changesets``."""

    def __init__(self, shape: FeedShape):
        shape.validate()
        self._shape = shape
        self._rng = random.Random(shape.seed)
        teams = shape.slice_triples // 62
        players = (shape.slice_triples - teams) // 3
        self._teams = [_resource("Team", number) for number in range(teams)]
        self._players: list[tuple[Triple, ...]] = [self._player() for _ in range(players)]
        lost = sum(day.location[0] / day.changesets for day in DAYS)  # a place for each removed triple
        places = max(players // 4, round(1.1 * lost * shape.changesets))
        self._places: list[tuple[Triple, ...]] = [self._place() for _ in range(places)]
        self._halves: list[Triple] = []
        self._made = 0

    def start(self) -> Iterator[Triple]:
        """Yield the triples of the initial dataset that the interests or later removals need."""
        yield from ((team, _LABEL, f'"{number} FC"@en') for number, team in enumerate(self._teams))
        for triples in (*self._players, *self._places):
            yield from triples

    def changesets(self) -> Iterator[tuple[int, Changeset]]:
        """Yield changesets, each with the number of its day from 0."""
        sequence = 0
        for number, day in enumerate(DAYS):
            for _ in range(self._shape.changesets):
                sequence += 1
                yield number, Changeset.of(self._removed(day), self._added(day), sequence)

    # --- changes -----------------------------------------------------------------------------------------

    def _count(self, whole: int, day: Day) -> int:
        """Return one changeset's part of a day's number: an integer, exact on average."""
        mean = whole / day.changesets
        return int(mean) + (self._rng.random() < mean % 1)

    def _removed(self, day: Day) -> Iterator[Triple]:
        rng = self._rng
        football, location = (self._count(each[0], day) for each in (day.football, day.location))
        for _ in range(football):
            yield rng.choice(self._players.pop(rng.randrange(len(self._players))))
        for _ in range(location):
            yield rng.choice(self._places.pop(rng.randrange(len(self._places))))
        left = max(0, self._count(day.removed, day) - football - location)
        near = min(left, self._count(day.location[2] // 8, day), len(self._halves))
        for _ in range(near):
            yield self._halves.pop(rng.randrange(len(self._halves)))
        for _ in range(left - near):
            yield self._other()

    def _added(self, day: Day) -> Iterator[Triple]:
        rng = self._rng
        total = self._count(day.added, day)
        football, location = (self._count(each[1], day) for each in (day.football, day.location))
        near = self._count(day.location[2], day)
        common = min(near, self._count(day.football[2], day))
        found: list[Triple] = []
        while len(found) < football:  # three triples of a new player, or another name of an existing one
            player = self._player()
            self._players.append(player)
            found += player[: football - len(found)] if football - len(found) >= 3 else [self._renamed()]
        while len(found) < football + location:
            place = self._place()
            self._places.append(place)
            left = football + location - len(found)
            found += place if left >= len(place) else [(rng.choice(self._places)[0][0], _TYPE, self._term("Class"))]
        for number in range(near):
            self._made += 1
            who = _resource("Thing", self._made)
            predicate = rng.choice((_NAME, _LABEL)) if number < common else rng.choice((_TYPE, _ABSTRACT, _SUBJECT))
            value = self._term("Class") if predicate in (_TYPE, _SUBJECT) else self._text()
            self._halves.append((who, predicate, value))
            found.append(self._halves[-1])
        yield from found
        for _ in range(max(0, total - len(found))):
            yield self._other()

    def _renamed(self) -> Triple:
        return self._rng.choice(self._players)[0][0], _NAME, self._text()

    def _player(self) -> tuple[Triple, ...]:
        who = self._new("Player")
        return (who, _TYPE, _PLAYER), (who, _NAME, self._text()), (who, _TEAM, self._rng.choice(self._teams))

    def _place(self) -> tuple[Triple, ...]:
        where, rng = self._new("Place"), self._rng
        return (
            (where, _TYPE, self._term("Class")), (where, _LONG, f'"{rng.uniform(-180, 180):.4f}"'),
            (where, _LAT, f'"{rng.uniform(-90, 90):.4f}"'), (where, _LABEL, self._text()),
            (where, _ABSTRACT, self._text()), (where, _SUBJECT, self._term("Category")),
        )  # fmt: skip

    def _other(self) -> Triple:
        rng = self._rng
        who = _resource("Other", rng.randrange(1 << 30))
        return who, f"<http://dbpedia.org/property/p{rng.randrange(2000)}>", self._text()

    def _new(self, kind: str) -> str:
        return _resource(kind, self._rng.getrandbits(60))

    def _term(self, kind: str) -> str:
        return _resource(kind, self._rng.randrange(300))

    def _text(self) -> str:
        return f'"{self._rng.getrandbits(64):x} {self._rng.getrandbits(64):x}"@en'


def _resource(kind: str, number: int) -> str:
    return f"<http://dbpedia.org/resource/{kind}_{number}>"
