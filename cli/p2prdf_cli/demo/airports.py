"""The world's airports as RDF, from the package ``airportsdata`` (MIT; nothing is downloaded).

An airport lies in a city, a city in a region, a region in a country, and an airport keeps the
time of a time zone, which belongs to an area (Europe, Pacific, ...)::

    airport --city--> city --region--> region --country--> country
       |                                                      (an airport without a city
       +--timezone--> time zone --area--> area                 links its region or country)

so that joins of four and five patterns have solutions.  A resource is described where it is first mentioned.
Airports come in a fixed shuffled order: the source is sorted by country, and a stream of one country after the other
would be a dull demonstration.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, TypedDict

import airportsdata

__all__ = ["GEO", "PREFIXES", "VOCABULARY", "Airport", "Triple", "load", "triples"]

Triple = tuple[str, str, str]
"""Subject, predicate and object in canonical N-Triples form."""

BASE: Final = "http://airports.example.org/"
VOCABULARY: Final = BASE + "vocabulary#"
GEO: Final = "http://www.w3.org/2003/01/geo/wgs84_pos#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
XSD: Final = "http://www.w3.org/2001/XMLSchema#"

PREFIXES: Final = {
    "": VOCABULARY,
    "airport": BASE + "airport/",
    "area": BASE + "area/",
    "city": BASE + "city/",
    "country": BASE + "country/",
    "region": BASE + "region/",
    "zone": BASE + "zone/",
    "geo": GEO,
    "rdfs": RDFS,
}
"""Prefixes in the demonstration's queries and output."""

_TYPE: Final = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_LABEL: Final = f"<{RDFS}label>"
_SHUFFLE_SEED: Final = 7400


class Airport(TypedDict):
    """One record of the source; an empty string stands for an unknown value."""

    icao: str
    iata: str
    name: str
    city: str
    subd: str
    country: str
    elevation: float
    lat: float
    lon: float
    tz: str
    lid: str


def load(count: int | None = None) -> list[Airport]:
    """Return the first ``count`` airports (all by default) of the shuffled order."""
    records: list[Airport] = [record for _, record in sorted(airportsdata.load("ICAO").items())]
    random.Random(_SHUFFLE_SEED).shuffle(records)  # noqa: S311 - an order, not a secret
    return records if count is None else records[:count]


def triples(airports: list[Airport]) -> Iterator[Triple]:
    """Yield about nine triples for each airport, each triple once."""
    described: set[str] = set()
    for record in airports:
        yield from _airport(record)
        fresh = [triple for triple in _surroundings(record) if triple[0] not in described]
        described.update(subject for subject, _, _ in fresh)
        yield from fresh


def _airport(record: Airport) -> Iterator[Triple]:
    me = _iri("airport", record["icao"])
    yield me, _TYPE, _term("Airport")
    yield me, _LABEL, _text(record["name"])
    yield me, f"<{GEO}lat>", _decimal(record["lat"])
    yield me, f"<{GEO}long>", _decimal(record["lon"])
    yield me, _term("elevation"), _decimal(record["elevation"])
    yield me, _term("timezone"), _zone(record)
    if record["iata"]:
        yield me, _term("iata"), _text(record["iata"])
    if record["city"]:
        yield me, _term("city"), _city(record)
    elif record["subd"]:
        yield me, _term("region"), _region(record)
    else:
        yield me, _term("country"), _country(record)


def _surroundings(record: Airport) -> Iterator[Triple]:
    """Yield the description of the places an airport belongs to."""
    country, region, city, zone = _country(record), _region(record), _city(record), _zone(record)
    yield country, _TYPE, _term("Country")
    yield country, _LABEL, _text(record["country"])
    yield zone, _TYPE, _term("TimeZone")
    yield zone, _term("area"), _iri("area", record["tz"].split("/")[0])
    if record["subd"]:
        yield region, _TYPE, _term("Region")
        yield region, _LABEL, _text(record["subd"])
        yield region, _term("country"), country
    if record["city"]:
        yield city, _LABEL, _text(record["city"])
        if record["subd"]:
            yield city, _term("region"), region
        else:
            yield city, _term("country"), country


def _country(record: Airport) -> str:
    return _iri("country", record["country"])


def _region(record: Airport) -> str:
    return _iri("region", record["country"], record["subd"])


def _city(record: Airport) -> str:
    return _iri("city", record["country"], record["subd"], record["city"])


def _zone(record: Airport) -> str:
    return _iri("zone", *record["tz"].split("/"))


def _iri(kind: str, *parts: str) -> str:
    """Return the IRI of a resource, ``region:US.New_York`` in short; only letters, digits and "-" stay unescaped."""
    return f"<{BASE}{kind}/{'.'.join(''.join(map(_plain, part)) for part in parts if part)}>"


def _plain(character: str) -> str:
    if character.isalnum() or character == "-":
        return character
    return "_" if character == " " else "".join(f"%{byte:02X}" for byte in character.encode())


def _term(name: str) -> str:
    return f"<{VOCABULARY}{name}>"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _decimal(value: float) -> str:
    """Return a plain xsd:decimal (never an exponent, always a decimal point)."""
    number = format(Decimal(repr(value)), "f")
    return f'"{number if "." in number else number + ".0"}"^^<{XSD}decimal>'
