"""Results of the full-text experiment: tables, the paper's six panels, claims beside measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from p2prdf_lab.experiments.full_text_lucene import Compared
from p2prdf_lab.experiments.results import Claim, Curve, Panel, Result, Table

__all__ = [
    "BROKER_FIRST", "BROKER_PATTERNS", "BROKER_WORDS", "BRUTE", "INDEX", "RTF_M", "RTF_M_SCANS", "RTF_S", "RTF_S_SCANS",
    "Growth", "Listed", "Measured", "Point", "result_of",
]  # fmt: skip

INDEX: Final = "index"
RTF_M, RTF_M_SCANS = "RTFm, counting", "RTFm, published"
RTF_S, RTF_S_SCANS = "RTFs, counting", "RTFs, published"
BROKER_FIRST, BROKER_PATTERNS, BROKER_WORDS = "iBroker, first", "iBroker, published", "iBroker, words"
BRUTE: Final = "brute force"

_MILLISECONDS_MAX: Final = 0.3
_FASTER_THAN_RTF: Final = 60
_GROWTH_MAX: Final = 3
_TENS: Final = 20
_PAPERS: Final = 94
"""Ratio of iBroker's time to RTFs' in the paper."""
_MEGA: Final = 1_000_000
_NAMES: Final = (
    "published: RTF goes over its query table for every publication, iBroker begins a chain at every pattern in the "
    "buckets that are touched. counting: RTF counts marked patterns by query. first: chains begin at a query's first "
    "pattern only. words: each word of a query is a bucket, too."
)
_STRUCTURES: Final = {
    RTF_S_SCANS: "RTFs", RTF_M_SCANS: "RTFm", BROKER_FIRST: BROKER_FIRST, BROKER_PATTERNS: BROKER_PATTERNS,
    BROKER_WORDS: BROKER_WORDS, BRUTE: BRUTE, INDEX: INDEX,
}  # fmt: skip
"""Programs in the panels of memory and insertion, which do not depend on the counting of queries."""


@dataclass(frozen=True, slots=True)
class Point:
    """Measurements at one number of queries, by program; times in seconds."""

    queries: int
    added: int
    insertion: Mapping[str, float]
    filtering: Mapping[str, float]
    memory: Mapping[str, int]


class Listed(NamedTuple):
    """Per publication: candidates, and comparisons of a linear search for candidates, or for all touched entries."""

    name: str
    candidates: float
    comparisons: float
    comparisons_of_all: float


class Growth(NamedTuple):
    """The index at one size, per publication: seconds, seconds of an immediate repeat, matches, visited entries."""

    queries: int
    seconds: float
    again: float
    matches: float
    touched: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements at one text probability."""

    probability: float
    points: tuple[Point, ...]
    unequal: int
    distinct: int
    words: float
    publications: Mapping[str, int]
    touched: Mapping[str, float]
    matches: float
    throughput: Mapping[str, tuple[tuple[int, float], ...]]
    listed: tuple[Listed, ...]

    @property
    def last(self) -> Point:
        """The largest size."""
        return self.points[-1]


def result_of(
    setting: dict[str, str | int | float],
    measured: Sequence[Measured],
    growth: Sequence[Growth],
    compared: Compared | None = None,
) -> Result:
    """Return tables, panels and claims."""
    half = max(measured, key=lambda each: len(each.last.filtering))
    result = Result("full-text", "Standing full-text queries, by several programs", setting)
    result.tables = [
        _filtering(half), _readings(half), _counted(half), _structures("Memory, MB", half, _memory),
        _structures("Insertion, ms per 1,000 queries", half, _insertion), _by_probability(measured), _grown(growth),
    ]  # fmt: skip
    result.panels = _panels(half, measured)
    result.claims = [*_bars(measured, half, growth), *_papers(measured, half)]
    share = f"{100 * half.probability:g} %"
    result.notes.append(
        f"A publication has {half.words:.1f} words; with text probability {share} it satisfies {half.matches:.1f} "
        f"queries of {half.last.queries:,}, of which {half.distinct:,} are distinct."
    )
    result.notes.append(_NAMES)
    if compared is not None:
        result.tables.append(compared.table)
        result.claims += compared.claims
        result.notes.append(compared.note)
    return result


def _filtering(half: Measured) -> Table:
    names = tuple(half.last.filtering)
    return Table(
        "Filtering, ms per publication (figure 5a)", ("queries", *names),
        tuple((each.queries, *(round(1000 * each.filtering[name], 3) for name in names)) for each in half.points),
    )  # fmt: skip


def _readings(half: Measured) -> Table:
    """Return the comparison of all programs, as published and in their best variants."""
    times = half.last.filtering
    rows = tuple(
        (
            name, round(1000 * times[name], 3), round(half.touched[name]), round(times[name] / times[RTF_S_SCANS], 2),
            round(times[name] / times[RTF_S], 2), round(times[name] / times[INDEX], 1), half.publications[name],
        )
        for name in times
    )  # fmt: skip
    columns = (
        "program", "ms", "visited", "times RTFs, published", "times RTFs, counting", "times index", "publications",
    )  # fmt: skip
    return Table(f"Per publication, {half.last.queries:,} queries", columns, rows)


def _counted(half: Measured) -> Table:
    """Return the counts of the linear search of candidates, beside RTF's visited entries."""
    base, scan = half.touched.get(RTF_S, 1.0), half.touched.get(RTF_S_SCANS, 1.0)
    rows = []
    for each in half.listed:
        for what, count in (("candidates", each.comparisons), ("all touched entries", each.comparisons_of_all)):
            told = (f"{each.name}: {what}", round(each.candidates), round(count))
            rows.append((*told, round(count / scan, 1), round(count / base, 1)))
    columns = ("in a list", "candidates", "comparisons", "times RTFs, published", "times RTFs, counting")
    return Table("Counted, not run: iBroker with linear search of candidates", columns, tuple(rows))


def _structures(title: str, half: Measured, value: Callable[[Point, str], float]) -> Table:
    names = [name for name in _STRUCTURES if name in half.last.memory]
    return Table(
        title, ("queries", *(_STRUCTURES[name] for name in names)),
        tuple((each.queries, *(round(value(each, name), 1) for name in names)) for each in half.points),
    )  # fmt: skip


def _memory(point: Point, name: str) -> float:
    return point.memory[name] / _MEGA


def _insertion(point: Point, name: str) -> float:
    return 1_000_000 * point.insertion[name] / point.added


def _milliseconds(point: Point, name: str) -> float:
    return 1000 * point.filtering[name]


def _by_probability(measured: Sequence[Measured]) -> Table:
    names = (RTF_M_SCANS, RTF_S_SCANS, RTF_M, RTF_S, INDEX)
    rows = tuple(
        (
            round(100 * each.probability), round(each.matches, 1),
            *(round(_milliseconds(each.last, n), 3) for n in names),
            *(round(_memory(each.last, n), 1) for n in (RTF_M_SCANS, RTF_S_SCANS, INDEX)),
        )
        for each in measured
    )  # fmt: skip
    columns = ("text, %", "matches", *(f"{name}, ms" for name in names), "RTFm, MB", "RTFs, MB", "index, MB")
    return Table("By text probability, all queries", columns, rows)


def _grown(growth: Sequence[Growth]) -> Table:
    rows = tuple(
        (each.queries, round(1000 * each.seconds, 4), round(1000 * each.again, 4), round(each.matches, 1),
         round(each.touched, 1))
        for each in growth
    )  # fmt: skip
    columns = ("queries", "ms", "ms, repeated", "matches", "visited")
    return Table("The index with a constant number of matches", columns, rows)


def _program(name: str) -> str:
    """Return the name of a program without its variant: variants share a colour."""
    return name.partition(",")[0]


def _panels(half: Measured, measured: Sequence[Measured]) -> list[Panel]:
    sizes = tuple(float(each.queries) for each in half.points)

    def curves(names: Sequence[str], value: Callable[[Point, str], float]) -> tuple[Curve, ...]:
        return tuple(
            Curve(_STRUCTURES.get(name, name) if value is not _milliseconds else name, sizes,
                  tuple(value(each, name) for each in half.points), program=_program(name))
            for name in names
        )  # fmt: skip

    def by_probability(value: Callable[[Point, str], float]) -> tuple[Curve, ...]:
        return tuple(
            Curve(f"{_STRUCTURES[name]}, {100 * each.probability:g} % text", sizes,
                  tuple(value(point, name) for point in each.points), program=_program(name))
            for each in measured
            for name in (RTF_M_SCANS, RTF_S_SCANS)
        )  # fmt: skip

    held = [name for name in _STRUCTURES if name in half.last.memory]
    return [
        Panel("5a: filtering time", "queries", "processor time per publication, ms",
              curves(tuple(half.last.filtering), _milliseconds), y_log=True),
        Panel("5b: throughput", "publications processed", "publications per second", tuple(
            Curve(
                name, tuple(float(at) for at, _ in told), tuple(rate for _, rate in told), program=_program(name)
            )
            for name, told in half.throughput.items()
        ), y_log=True),
        Panel("6a: memory", "queries", "MB", curves(held, _memory)),
        Panel("6b: insertion", "queries", "processor time, ms per 1,000 queries", curves(held, _insertion), y_log=True),
        Panel("7a: filtering time by text probability", "queries", "processor time per publication, ms",
              by_probability(_milliseconds)),
        Panel("7b: insertion by text probability", "queries", "processor time, ms per 1,000 queries",
              by_probability(_insertion)),
    ]  # fmt: skip


# --- claims --------------------------------------------------------------------------------------


def _bars(measured: Sequence[Measured], half: Measured, growth: Sequence[Growth]) -> list[Claim]:
    times, queries = half.last.filtering, half.last.queries
    unequal = sum(each.unequal for each in measured)
    given = sum(half.publications.values()) * len(half.points)
    ratio = min(times[RTF_M_SCANS], times[RTF_S_SCANS]) / times[INDEX]
    grown = growth[-1].seconds / growth[0].seconds
    return [
        Claim("all find the same queries", f"{unequal} differences in {given:,} runs and more", unequal == 0),
        Claim(
            f"the index takes at most {_MILLISECONDS_MAX} ms per publication at {queries:,} queries and 50 % text",
            f"{1000 * times[INDEX]:.3f} ms", 1000 * times[INDEX] <= _MILLISECONDS_MAX,
        ),
        Claim(
            f"it is at least {_FASTER_THAN_RTF} times as fast as either RTF as published", f"{ratio:.0f} times",
            ratio >= _FASTER_THAN_RTF,
        ),
        Claim(
            f"with as many matches, {growth[-1].queries / growth[0].queries:g} times as many queries cost less than "
            f"{_GROWTH_MAX} times as much", f"{grown:.2f} times", grown < _GROWTH_MAX,
        ),
    ]  # fmt: skip


def _list_claims(half: Measured) -> list[Claim]:
    """Return the claim about the reading with linear search."""
    scan = half.touched[RTF_S_SCANS]
    return [
        Claim(
            f"with a list of touched entries, iBroker makes at least {_PAPERS} comparisons per entry visited by RTFs",
            f"{each.comparisons_of_all / scan:,.0f}; with a list of candidates {each.comparisons / scan:,.0f}",
            each.comparisons_of_all >= _PAPERS * scan,
        )
        for each in half.listed
        if each.name == BROKER_PATTERNS
    ]


def _papers(measured: Sequence[Measured], half: Measured) -> list[Claim]:
    """Return the paper's claims about its programs."""
    times, memory, point = half.last.filtering, half.last.memory, half.last
    brokers = [name for name in (BROKER_PATTERNS, BROKER_WORDS) if name in times]
    claims = []
    if brokers:
        published = times[BROKER_PATTERNS] / times[RTF_S_SCANS]
        best = max(times[name] for name in brokers) / min(times[RTF_S], times[RTF_M])
        claims += [
            Claim(f"iBroker takes at least {_TENS} times as long as RTFs, both as published (paper: {_PAPERS} times)",
                  f"{published:.1f} times", published >= _TENS),
            Claim(f"iBroker's slowest variant takes at least {_TENS} times as long as RTF's fastest",
                  f"{best:.1f} times", best >= _TENS),
            *_list_claims(half),
            Claim("RTFs takes less memory than RTFm, and that less than iBroker (paper: 183, 190 and 313 MB)",
                  ", ".join(f"{memory[name] / _MEGA:.0f} MB" for name in (RTF_S, RTF_M, BROKER_PATTERNS)),
                  memory[RTF_S] < memory[RTF_M] < memory[BROKER_PATTERNS]),
            Claim("iBroker inserts queries faster than RTF",
                  ", ".join(f"{_insertion(point, name):.1f} ms" for name in (BROKER_PATTERNS, RTF_M, RTF_S))
                  + " per 1,000 (iBroker, RTFm, RTFs)",
                  point.insertion[BROKER_PATTERNS] < min(point.insertion[RTF_M], point.insertion[RTF_S])),
        ]  # fmt: skip
    for each in measured:
        m, s = (each.last.filtering[name] for name in (RTF_M_SCANS, RTF_S_SCANS))
        told = f"RTFm {1000 * m:.2f} ms, RTFs {1000 * s:.2f} ms"
        if each.probability == 1:
            claims.append(Claim("with text only, RTFm is faster than RTFs", told, m < s))
        elif each.probability > 0:
            claims.append(Claim("with 50 % text, RTFs is faster than RTFm (paper: by 2.5 %)", told, s < m))
    return claims
