"""The demonstration's standing queries: stars, paths and triangle-free joins of two to five patterns."""

from __future__ import annotations

from dataclasses import dataclass

from p2prdf_cli.demo.airports import PREFIXES

__all__ = ["QUERIES", "StandingQuery"]


@dataclass(frozen=True, slots=True)
class StandingQuery:
    """A query of the demonstration: its ``where`` text without prefixes, and how it is joined."""

    title: str
    shape: str
    algorithm: str
    select: str
    patterns: tuple[str, ...]
    condition: str = ""

    @property
    def text(self) -> str:
        """The query as people write it, without prefixes."""
        lines = [f"{self.select} WHERE {{", *(f"  {pattern} ." for pattern in self.patterns)]
        if self.condition:
            lines.append(f"  FILTER ({self.condition})")
        return "\n".join([*lines, "}"])

    @property
    def sparql(self) -> str:
        """The whole query."""
        prefixes = "\n".join(f"PREFIX {name}: <{iri}>" for name, iri in PREFIXES.items())
        return f"{prefixes}\n{self.text}"


QUERIES = (
    StandingQuery(
        "airports above 12,000 feet",
        "star of 2",
        "csbv",
        "SELECT ?name ?feet",
        ("?airport :elevation ?feet", "?airport rdfs:label ?name"),
        "?feet > 12000",
    ),
    StandingQuery(
        "where in Nepal one can land",
        "star of 4",
        "csbv",
        "SELECT ?name ?lat ?long",
        (
            "?airport :timezone zone:Asia.Kathmandu",
            "?airport rdfs:label ?name",
            "?airport geo:lat ?lat",
            "?airport geo:long ?long",
        ),
    ),
    StandingQuery(
        "Brazil's airports by city",
        "path of 3",
        "csbv",
        "SELECT ?airport ?city",
        ("?airport :city ?city", "?city :region ?region", "?region :country country:BR"),
    ),
    StandingQuery(
        "Swiss airports, by name and region",
        "path of 5",
        "cqc",
        "SELECT ?name ?regionName",
        (
            "?airport rdfs:label ?name",
            "?airport :city ?city",
            "?city :region ?region",
            "?region rdfs:label ?regionName",
            "?region :country country:CH",
        ),
    ),
    StandingQuery(
        "two airlines' airports in one city",
        "star of 4",
        "csbv",
        "SELECT ?one ?other ?city",
        ("?a :city ?city", "?b :city ?city", "?a :iata ?one", "?b :iata ?other"),
        "?one < ?other",
    ),
    StandingQuery(
        "countries that keep a Pacific time",
        "path of 5",
        "csbv",
        "SELECT DISTINCT ?country",
        (
            "?zone :area area:Pacific",
            "?airport :timezone ?zone",
            "?airport :city ?city",
            "?city :region ?region",
            "?region :country ?country",
        ),
    ),
    StandingQuery(
        "seaplane bases in Alaska",
        "star of 3",
        "cqc",
        "SELECT ?name ?city",
        (
            "?airport :city ?city",
            "?city :region region:US.Alaska",
            "?airport rdfs:label ?name",
        ),
        'CONTAINS(?name, "Seaplane")',
    ),
)
