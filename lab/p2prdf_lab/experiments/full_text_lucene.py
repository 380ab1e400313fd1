"""The index of p2prdf beside Lucene's Monitor, on the same queries and publications.

The conditions favour the Monitor: words are split already, its presearchers run with its own weights and with the
rarity of words in other publications, the virtual machine is warm, and times are processor time of its thread without
compilation and garbage collection.  The Monitor stores equal queries several times, the index once, so the Monitor's
best variant also runs with distinct queries.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Final

from p2prdf.text import FullTextIndex, Publication, TextQuery, Triple
from p2prdf_lab.competitors.full_text.memory import held_bytes
from p2prdf_lab.competitors.lucene import LuceneFiles, LuceneRun
from p2prdf_lab.experiments.results import Claim, Table
from p2prdf_lab.workloads.texts import TextWorkload

__all__ = ["LUCENE_FASTER", "Compared", "beside_lucene"]

LUCENE_FASTER: Final = 25
"""Claimed ratio of the Monitor's processor time to the index's."""
_WAYS: Final = ((1, "length"), (1, "rarity"), (2, "rarity"))
"""Variants of the Monitor: number of terms that a query is indexed by, and their selection."""
_ROUNDS_LEAST: Final = 24
"""Least number of rounds over all publications; the second half is timed."""
_WARM: Final = 2000
"""Least number of publications before the timed half, for Java's compiler."""
_SAMPLE: Final = 1000
"""Unmeasured publications from which the Monitor learns the rarity of words."""
_MILLI: Final = 1000
_MEGA: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison's results."""

    table: Table
    claims: tuple[Claim, ...]
    note: str


@dataclass(frozen=True, slots=True)
class _Row:
    """One program; seconds to insert all queries, and of each round over all publications."""

    name: str
    rounds: tuple[float, ...]
    candidates: float
    insertion: float
    held: int

    @property
    def seconds(self) -> float:
        """The median of the timed rounds."""
        return median(self.rounds[len(self.rounds) // 2 :])


def beside_lucene(workload: TextWorkload, queries: int, publications: int, libraries: str) -> Compared:
    """Run index and Monitor; ``libraries`` is Lucene's class path.  Raises LocalProtocolError if Java fails."""
    rounds = max(_ROUNDS_LEAST, 2 * -(-_WARM // publications))
    items = list(workload.publications(publications + _SAMPLE))
    measured, sample = items[:publications], items[publications:]
    given = list(workload.queries(queries))
    index, expected = _indexed(given, measured, rounds)
    with tempfile.TemporaryDirectory(prefix="p2prdf-lucene-") as folder:
        files = LuceneFiles(Path(folder), libraries)
        files.write(enumerate(given), measured, sample)
        runs = [files.run(passes, weights, rounds) for passes, weights in _WAYS]
        best = min(runs, key=lambda run: _row(run, publications).seconds)
        numbers: dict[TextQuery, list[int]] = {}
        for key, query in enumerate(given):
            numbers.setdefault(query, []).append(key)
        keys = list(numbers.values())
        files.write(enumerate(numbers), measured, sample)
        once = files.run(best.passes, best.weights, rounds)
    found = [[list(each) for each in run.found] for run in runs]
    found.append([sorted(key for number in each for key in keys[number]) for each in once.found])
    unequal = sum(one != other for each in found for one, other in zip(each, expected, strict=True))
    rows = [index, *(_row(run, publications) for run in runs), _row(once, publications, ", equal queries once")]
    ratio = min(row.seconds for row in rows[1:-1]) / index.seconds
    return Compared(
        _table(rows, queries, publications, len(numbers)),
        (
            Claim("Lucene's Monitor finds the same", f"{unequal} differences in {publications * len(found):,} runs",
                  unequal == 0),
            Claim(f"the index takes at least {LUCENE_FASTER} times less processor time than the Monitor at its best",
                  f"{ratio:.0f} times", ratio >= LUCENE_FASTER),
        ),
        f"Lucene's Monitor at {queries:,} queries, of which {len(numbers):,} are distinct, that {publications} "
        f"publications satisfy {fmean(map(len, expected)):.1f} of: words come to it already cut.",
    )  # fmt: skip


def _indexed(
    queries: list[TextQuery], publications: list[list[Triple]], times: int
) -> tuple[_Row, list[list[int]]]:
    """Insert queries into the index and match; return measurements and matches."""
    index = FullTextIndex()
    started = time.process_time()
    for key, query in enumerate(queries):
        index.add(key, query)
    insertion = time.process_time() - started
    rounds, found = [], []
    for _ in range(times):
        started = time.process_time()
        found = [index.match(Publication(triples)) for triples in publications]
        rounds.append(time.process_time() - started)
    touched = index.touched / (times * len(publications))
    return _Row("index", tuple(rounds), touched, insertion / len(queries), held_bytes(vars(index))), found


def _row(run: LuceneRun, publications: int, kind: str = "") -> _Row:
    terms = "one term" if run.passes == 1 else f"{run.passes} terms"
    name = f"Monitor: {terms}, by {run.weights}{kind}"
    return _Row(name, run.rounds, run.candidates / publications, run.insertion / run.queries, run.heap_bytes)


def _table(rows: list[_Row], queries: int, publications: int, distinct: int) -> Table:
    index = rows[0]
    return Table(
        f"Lucene's Monitor, {queries:,} queries ({distinct:,} distinct), per publication",
        ("program", "ms", "fastest, ms", "queries looked at", "insertion, ms per 1,000", "MB", "times index"),
        tuple(
            (
                row.name, round(_MILLI * row.seconds / publications, 3),
                round(_MILLI * min(row.rounds) / publications, 3), round(row.candidates, 1),
                round(_MILLI * _MILLI * row.insertion, 1), round(row.held / _MEGA, 1),
                round(row.seconds / index.seconds, 1),
            )
            for row in rows
        ),
    )  # fmt: skip
