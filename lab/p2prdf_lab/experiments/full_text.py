"""Standing full-text queries: the RTF paper's evaluation, with the index, the paper's tries, iBroker and brute force.

All programs have the same queries and publications and must find the same matches.  Each program processes its
publications consecutively, as in the paper: with interleaved programs, the caches of the processor would favour the
slow ones.  A slow program stops after its time, and its figures are of fewer publications.  Times are processor time,
with the splitting of texts into words.

Two details determine the cost of the paper's programs, and each is measured both ways: whether RTF scans its query
table for every publication, and the beginning of iBroker's chains.  A third reading of iBroker is only counted:
candidates in a list with linear search.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean, median
from typing import Final, NamedTuple

from p2prdf.errors import LocalProtocolError
from p2prdf.text import FullTextIndex, Publication, Semantics, TextQuery, Triple
from p2prdf_lab.competitors.full_text.brute import BruteForce
from p2prdf_lab.competitors.full_text.ibroker import IBroker, Starts
from p2prdf_lab.competitors.full_text.matcher import Matcher
from p2prdf_lab.competitors.full_text.memory import held_bytes
from p2prdf_lab.competitors.full_text.rtf import Rtf
from p2prdf_lab.competitors.full_text.rtf_m import RtfM
from p2prdf_lab.competitors.full_text.rtf_s import RtfS
from p2prdf_lab.experiments.full_text_lucene import beside_lucene
from p2prdf_lab.experiments.full_text_result import (
    BROKER_FIRST,
    BROKER_PATTERNS,
    BROKER_WORDS,
    BRUTE,
    INDEX,
    RTF_M,
    RTF_M_SCANS,
    RTF_S,
    RTF_S_SCANS,
    Growth,
    Listed,
    Measured,
    Point,
    result_of,
)
from p2prdf_lab.experiments.results import Result
from p2prdf_lab.experiments.setting import Progress, quiet
from p2prdf_lab.workloads.texts import TextShape, TextWorkload

__all__ = ["FullTextSetting", "full_text"]

_LEAST: Final = 5
"""Least number of publications for every program at every size."""
_LISTED: Final = 10
"""Publications for which the linear search of candidates is counted."""
_PARTS: Final = 10
"""Number of parts of the publications, each with a throughput."""
_PROBED: Final = 10_000
_TURNS: Final = 7
"""Number of rounds in which the compared sizes are timed by turns."""
_HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class FullTextSetting:
    """Sizes of the experiment: most queries, steps, publications; ``seconds`` per program and size."""

    shape: TextShape = TextShape()
    queries: int = 20_000
    steps: int = 5
    publications: int = 300
    probabilities: tuple[float, ...] = (0.0, 0.5, 1.0)
    seconds: float = 5.0
    growth: int = 10

    def validate(self) -> None:
        """Raise LocalProtocolError for a setting that cannot be run."""
        self.shape.validate()
        bounds = (("queries", 100, 10_000_000), ("steps", 1, 100), ("publications", 10, 1_000_000), ("growth", 1, 100))
        for name, least, most in bounds:
            size = getattr(self, name)
            if not least <= size <= most:
                raise LocalProtocolError(f"{name}: {size} is not between {least:,} and {most:,}")
        if self.steps > self.queries:
            raise LocalProtocolError(f"steps: {self.steps} for {self.queries} queries")

    def as_dict(self) -> dict[str, str | int | float]:
        """Return the sizes under stable names."""
        shape = self.shape
        return {
            "queries": self.queries, "steps": self.steps, "publications": self.publications, "classes": shape.classes,
            "properties": shape.properties, "patterns_max": shape.patterns_max, "words_max": shape.words_max,
            "seed": shape.seed,
        }  # fmt: skip


class _Program(NamedTuple):
    """A matcher and its variants, each with a name and a function that selects it."""

    matcher: Matcher
    ways: tuple[tuple[str, Callable[[], None]], ...]


def _nothing() -> None:
    """Select the only variant."""


def _tries(rtf: Rtf, counts: str, scans: str) -> _Program:
    def way(value: bool) -> Callable[[], None]:
        def choose() -> None:
            rtf.scans = value

        return choose

    return _Program(rtf, ((counts, way(False)), (scans, way(True))))


def _tries_and_index() -> list[_Program]:
    paper = Semantics.PAPER
    return [
        _Program(FullTextIndex(), ((INDEX, _nothing),)),
        _tries(RtfM(paper), RTF_M, RTF_M_SCANS),
        _tries(RtfS(paper), RTF_S, RTF_S_SCANS),
    ]


def _others() -> list[_Program]:
    paper = Semantics.PAPER
    chained = ((BROKER_FIRST, Starts.FIRST), (BROKER_PATTERNS, Starts.PATTERNS), (BROKER_WORDS, Starts.CONSTANTS))
    brokers = [_Program(IBroker(paper, starts=starts), ((name, _nothing),)) for name, starts in chained]
    return [*brokers, _Program(BruteForce(paper), ((BRUTE, _nothing),))]


@dataclass(slots=True)
class _Run:
    """Measurements of one variant at one size."""

    seconds: list[float] = field(default_factory=list)
    touched: int = 0
    found: int = 0


def full_text(
    setting: FullTextSetting, passages: Sequence[Sequence[str]], progress: Progress = quiet, lucene: str | None = None
) -> Result:
    """Run all programs, with a class path also Lucene's Monitor.

    Raises LocalProtocolError for a setting that cannot be run, or if Java fails.
    """
    setting.validate()
    collects = gc.isenabled()
    gc.disable()
    try:
        measured, stages = [], len(setting.probabilities) + (1 if lucene is None else 2)
        for place, probability in enumerate(setting.probabilities):
            workload = TextWorkload(replace(setting.shape, text_probability=probability), passages)

            def told(done: float, place: int = place) -> None:
                progress((place + done) / stages)

            measured.append(_measure(setting, workload, probability, told))
            gc.collect()
        half = TextWorkload(replace(setting.shape, text_probability=_HALF), passages)
        growth = _growth(setting, half)
        gc.collect()
        progress((len(measured) + 1) / stages)
        compared = None if lucene is None else beside_lucene(half, setting.queries, setting.publications, lucene)
    finally:
        if collects:
            gc.enable()
    progress(1.0)
    return result_of(setting.as_dict(), measured, growth, compared)


def _measure(setting: FullTextSetting, workload: TextWorkload, probability: float, progress: Progress) -> Measured:
    """Insert queries into all programs step by step, and run the programs at each size."""
    programs = [*_tries_and_index(), *(_others() if probability == _HALF else ())]
    publications = list(workload.publications(setting.publications))
    queries = workload.queries(setting.queries)
    points, unequal, held, distinct = [], 0, 0, set[TextQuery]()
    for step in range(setting.steps):
        block = list(islice(queries, setting.queries * (step + 1) // setting.steps - held))
        distinct.update(block)
        inserted = {}
        for program in programs:
            started = time.process_time()
            for key, query in enumerate(block, held):
                program.matcher.add(key, query)
            for name, _ in program.ways:
                inserted[name] = time.process_time() - started
        held += len(block)
        runs, differing = _run(programs, publications, setting.seconds)
        unequal += differing
        sizes = [(each, held_bytes(vars(each.matcher))) for each in programs]
        memory = {name: size for each, size in sizes for name, _ in each.ways}
        points.append(
            Point(held, len(block), inserted, {name: fmean(run.seconds) for name, run in runs.items()}, memory)
        )
        progress((step + 1) / setting.steps)
    listed = [
        _listed(each.matcher, each.ways[0][0], publications[:_LISTED])
        for each in programs
        if isinstance(each.matcher, IBroker)
    ]
    words = fmean(_words(each) for each in publications)
    return Measured(
        probability, tuple(points), unequal, len(distinct), words,
        {name: len(run.seconds) for name, run in runs.items()},
        {name: run.touched / len(run.seconds) for name, run in runs.items()},
        runs[INDEX].found / len(publications),
        {name: tuple(_throughput(run.seconds)) for name, run in runs.items()}, tuple(listed),
    )  # fmt: skip


def _run(programs: list[_Program], publications: list[list[Triple]], seconds: float) -> tuple[dict[str, _Run], int]:
    """Run each program over the publications; return measurements, and the number of different results."""
    runs: dict[str, _Run] = {}
    expected: dict[int, list[int]] = {}
    unequal = 0
    for program in programs:
        for name, choose in program.ways:
            choose()
            run = runs[name] = _Run()
            program.matcher.match(Publication(publications[0]))  # warms caches
            touched, spent = program.matcher.touched, 0.0
            for number, triples in enumerate(publications):
                if number >= _LEAST and spent > seconds and name != INDEX:
                    break
                started = time.process_time()
                found = program.matcher.match(Publication(triples))
                taken = time.process_time() - started
                spent += taken
                run.seconds.append(taken)
                run.found += len(found)
                unequal += found != expected.setdefault(number, found)
            run.touched = program.matcher.touched - touched
    return runs, unequal


def _throughput(seconds: list[float]) -> Iterator[tuple[int, float]]:
    """Yield, for each part, the number of publications up to its end and its publications per second."""
    for part in range(_PARTS):
        start, end = len(seconds) * part // _PARTS, len(seconds) * (part + 1) // _PARTS
        if end > start:
            yield end, (end - start) / max(sum(seconds[start:end]), 1e-9)


def _listed(broker: IBroker, name: str, publications: list[list[Triple]]) -> Listed:
    """Count the comparisons of a linear search for each candidate in the list of previous candidates."""
    touched = comparisons = fitting = 0
    for triples in publications:
        places: dict[int, int] = {}
        opened: dict[int, int] = {}
        for key, fits in broker.touches(Publication(triples)):
            touched += places.get(key, len(places)) + 1
            places.setdefault(key, len(places))
            if fits:
                comparisons += opened.get(key, len(opened)) + 1
                opened.setdefault(key, len(opened))
                fitting += 1
    count = len(publications)
    return Listed(name, fitting / count, comparisons / count, touched / count)


def _words(triples: list[Triple]) -> int:
    publication = Publication(triples)
    texts = (publication.text(number) for number in range(len(triples)))
    return sum(len(text.words) for text in texts if text is not None)


def _growth(setting: FullTextSetting, workload: TextWorkload) -> list[Growth]:
    """Time the index while non-matching queries are added, so that the number of matches is constant."""
    publications = list(workload.publications(setting.publications))
    sizes = sorted({max(10, setting.queries // 10), setting.queries, setting.queries * setting.growth})
    stream = workload.queries(setting.queries * setting.growth * 20)
    indices, held = [FullTextIndex() for _ in sizes], 0
    for size in sizes:
        while held < size:
            block = list(islice(stream, min(_PROBED, max(100, size - held))))
            if held >= sizes[0]:
                block = _unsatisfied(block, publications)
            else:
                block = block[: sizes[0] - held]
            for query in block[: size - held]:
                for index, most in zip(indices, sizes, strict=True):
                    if held < most:
                        index.add(held, query)
                held += 1
    return _timed(indices, publications)


def _unsatisfied(queries: list[TextQuery], publications: list[list[Triple]]) -> list[TextQuery]:
    probe = FullTextIndex()
    for key, query in enumerate(queries):
        probe.add(key, query)
    found = {key for triples in publications for key in probe.match(Publication(triples))}
    return [query for key, query in enumerate(queries) if key not in found]


def _timed(indices: list[FullTextIndex], publications: list[list[Triple]]) -> list[Growth]:
    """Time indices of several sizes by turns, so that other load on the machine affects all of them."""
    spent: list[list[float]] = [[] for _ in indices]
    again: list[list[float]] = [[] for _ in indices]
    told = []
    for _ in range(_TURNS):
        for place, index in enumerate(indices):
            _matched(index, publications)  # replaces other sizes' data in the processor's caches
            for times, taken in zip((spent, again), _matched(index, publications), strict=True):
                times[place].append(taken)
    for place, index in enumerate(indices):
        touched, count = index.touched, len(publications)
        found = sum(len(index.match(Publication(triples))) for triples in publications)
        first, second = (median(times[place]) / count for times in (spent, again))
        told.append(Growth(len(index), first, second, found / count, (index.touched - touched) / count))
    return told


def _matched(index: FullTextIndex, publications: list[list[Triple]]) -> tuple[float, float]:
    """Match each publication twice in a row; return the total times of the first and of the second matches.

    The second match finds its data in the processor's caches, so the difference is the wait for memory.
    """
    first = second = 0.0
    for triples in publications:
        started = time.process_time()
        index.match(Publication(triples))
        between = time.process_time()
        index.match(Publication(triples))
        first += between - started
        second += time.process_time() - between
    return first, second
