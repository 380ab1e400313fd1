"""Experiments E1 and E3 to E5 of the seed paper: distribution of load over peers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf.rdf.query import Algorithm
from p2prdf_lab.experiments.hops import Hops
from p2prdf_lab.experiments.results import Claim, Curve, Panel, Result, Table, by_rank, gini, share_of_top
from p2prdf_lab.experiments.setting import Progress, Setting, quiet, run_fleet, stages
from p2prdf_lab.fleets.places import Places, random_positions

if TYPE_CHECKING:
    import numpy.typing as npt

    from p2prdf_lab.fleets.fleet import Fleet, Loads

__all__ = ["load_distribution", "network_size", "query_count", "triple_rate"]

PAPER_CQC_PEERS: Final = 2685
PAPER_CSBV_PEERS: Final = 19_779
"""Participating peers of 20,000 in the paper's first experiment."""

_WRITTEN_TRIPLES: Final = 30_000
_WRITTEN_QUERIES: Final = 100

_RANK: Final = "peers, busiest first"
_QPL: Final = "triples and partial results received, cumulative"
_SL: Final = "patterns, triples and partial results held, cumulative"


@dataclass(frozen=True, slots=True)
class _Run:
    """Loads of one run on one ring."""

    label: str
    algorithm: Algorithm
    loads: Loads
    triples: int
    answers: int

    @property
    def participants(self) -> int:
        """Participating peers: those with a pattern (CQC), or with a received copy of a triple (CSBV)."""
        active = self.loads.patterns if self.algorithm is Algorithm.CQC else self.loads.triples
        return int(np.count_nonzero(active))

    @property
    def at_work(self) -> int:
        """Peers with any processing load."""
        return int(np.count_nonzero(self.processing))

    @property
    def processing(self) -> npt.NDArray[np.int64]:
        """QPL by peer."""
        return self.loads.processing

    @property
    def storage(self) -> npt.NDArray[np.int64]:
        """SL by peer, as in the paper, where CQC stores only matching triples."""
        return self.loads.storage_matching if self.algorithm is Algorithm.CQC else self.loads.storage

    @property
    def rows(self) -> int:
        """Partial results sent."""
        return int(self.loads.rows.sum())

    def table_row(self) -> tuple[str | int | float, ...]:
        """Return the row of :func:`_table`."""
        peers = len(self.loads.rows)
        return (
            self.label, self.triples, peers, self.participants, int(self.processing.sum()), int(self.processing.max()),
            round(share_of_top(self.processing), 3), round(gini(self.processing), 3), int(self.storage.sum()),
            int(self.storage.max()), round(gini(self.storage), 3),
            round(int(self.loads.triples.sum()) / max(1, self.triples), 2), self.rows, self.answers,
        )  # fmt: skip


def _table(title: str, runs: list[_Run]) -> Table:
    return Table(
        title,
        (
            "run", "triples", "peers", "take part", "QPL total", "QPL busiest", "QPL of top 1 %", "QPL Gini",
            "SL total", "SL fullest", "SL Gini", "copies per triple", "partial results", "answers",
        ),
        tuple(run.table_row() for run in runs),
    )  # fmt: skip


def _run(label: str, fleet: Fleet, ring: int = 0) -> _Run:
    loads = fleet.loads[ring]
    kept = type(loads)(*(getattr(loads, name).copy() for name in type(loads).__slots__))
    return _Run(label, fleet.algorithm, kept, fleet.published, fleet.answers)


def _panels(runs: list[_Run], of: str) -> list[Panel]:
    """Return the cumulative loads of runs."""
    processing, storage = (
        tuple(by_rank(run.label, run.processing if first else run.storage) for run in runs) for first in (True, False)
    )
    return [
        Panel(f"Processing load{of}", _RANK, _QPL, processing, x_log=True),
        Panel(f"Storage load{of}", _RANK, _SL, storage, x_log=True),
    ]


def _total(values: npt.NDArray[np.int64]) -> int:
    return int(values.sum())


def expected_participants(distinct_keys: int, peers: int) -> float:
    """Return the expected number of owners of K random keys among N random peers: K/(1+K/N)."""
    return distinct_keys / (1 + distinct_keys / peers)


def _tolerance(peers: int) -> float:
    """Return the tolerance of the number of participating peers, for random deviation."""
    return 0.1 if peers >= 1000 else 0.25


def _cqc_keys(setting: Setting) -> int:
    """Return the number of distinct pattern keys of the path workload's chains."""
    schema = setting.schema
    inner: int = schema.properties - schema.branch**schema.levels
    ends = schema.domains * setting.values
    hit = ends * (1 - (1 - 1 / ends) ** setting.queries)
    return round(inner + hit)


# --- E1 ------------------------------------------------------------------------------------------


_E1_RUNS: Final = (
    ("CQC", Algorithm.CQC, "paper"),
    ("CSBV", Algorithm.CSBV, "paper"),
    ("CSBV, keys on demand", Algorithm.CSBV, "on-demand"),
)


def load_distribution(setting: Setting, progress: Progress = quiet) -> Result:
    """Run E1: distribution of each algorithm's load over the peers; beside it, indexes on demand."""
    ring = Places(random_positions(setting.peers, setting.seed))
    parts = stages(progress, 3)
    runs, traffic = [], []
    for (label, algorithm, indexes), part in zip(_E1_RUNS, parts, strict=True):
        hops = Hops(ring, setting.triples, setting.seed)
        fleet = run_fleet(setting, algorithm, [ring], indexes=indexes, on_messages=hops.take, progress=part)
        runs.append(_run(label, fleet))
        traffic.append(hops.row(label, setting.triples))
    cqc, csbv, demand = runs
    full = Setting(seed=setting.seed, key_encoding=setting.key_encoding) == setting
    wanted = PAPER_CQC_PEERS if full else expected_participants(_cqc_keys(setting), setting.peers)
    result = Result("load-distribution", "Load over peers (E1)", setting.as_dict())
    columns = ("run", "messages", "hops, each alone", "hops, multisend", "transfers, addresses known")
    result.tables = [_table("Load", runs), Table("Traffic per triple", columns, tuple(traffic))]
    result.panels = _panels(runs, "")
    result.claims = [
        Claim(
            f"CQC: some {wanted:,.0f} peers have a pattern" + (" (paper)" if full else " (K/(1+K/N))"),
            f"{cqc.participants:,}",
            abs(cqc.participants / wanted - 1) <= _tolerance(setting.peers),
        ),
        Claim(
            f"CSBV: {PAPER_CSBV_PEERS:,} peers take part (paper)" if full else "CSBV: nearly all peers take part",
            f"{csbv.participants:,} of {setting.peers:,}",
            abs(csbv.participants / (PAPER_CSBV_PEERS if full else setting.peers) - 1) <= (0.02 if full else 0.05),
        ),
        *_e1_shape(cqc, csbv),
        Claim(
            "keys on demand: equal answers from fewer than seven copies",
            f"{demand.answers:,} and {csbv.answers:,} answers, {demand.table_row()[11]} copies per triple",
            demand.answers == csbv.answers and _total(demand.loads.triples) < _total(csbv.loads.triples),
        ),
    ]
    return result


def _e1_shape(cqc: _Run, csbv: _Run) -> list[Claim]:
    """Return the claims for every comparison of the two algorithms."""
    processing = _total(csbv.processing) / max(1, _total(cqc.processing))
    storage = _total(csbv.storage) / max(1, _total(cqc.storage))
    top_cqc, top_csbv = share_of_top(cqc.processing), share_of_top(csbv.processing)
    return [
        Claim("total processing load is slightly lower in CSBV", f"{processing:.3f} times", 0.7 < processing < 1),
        Claim("total storage load is clearly higher in CSBV", f"{storage:.2f} times", storage > 1.05),
        Claim(
            "a few peers carry CQC, all carry CSBV: load of the busiest 1 %",
            f"{top_cqc:.0%} and {top_csbv:.0%}", top_csbv < top_cqc / 2,
        ),
        Claim(
            "storage is flatter in CSBV (Gini)", f"{gini(cqc.storage):.2f} and {gini(csbv.storage):.2f}",
            gini(csbv.storage) < gini(cqc.storage),
        ),
    ]  # fmt: skip


# --- E3 ------------------------------------------------------------------------------------------


def triple_rate(setting: Setting, progress: Progress = quiet) -> Result:
    """Run E3: a quarter, half and all of the triples, rarest pattern first; then, smaller, in written order.

    Patterns in written order give some seventy times as many partial results, so this part has at most
    ``_WRITTEN_TRIPLES`` triples and ``_WRITTEN_QUERIES`` queries.
    """
    parts = stages(progress, 3)
    rarest = {
        algorithm: _rates(setting, algorithm, "rarest", part)
        for algorithm, part in zip(Algorithm, parts[:2], strict=True)
    }
    small = replace(
        setting.scaled(min(1.0, _WRITTEN_TRIPLES / setting.triples)),
        queries=min(setting.queries, _WRITTEN_QUERIES),
    )
    halves = stages(parts[2], 2)
    written = {
        algorithm: _rates(small, algorithm, "written", half)
        for algorithm, half in zip(Algorithm, halves, strict=True)
    }
    result = Result("triple-rate", "Load as triples come (E3)", setting.as_dict())
    cqc, csbv = rarest[Algorithm.CQC], rarest[Algorithm.CSBV]
    _compare(result, cqc, csbv, [f"{run.triples:,} triples" for run in cqc])
    result.tables.append(
        _table(
            f"The same, patterns as written: {small.peers:,} peers, {small.queries:,} queries",
            [*written[Algorithm.CQC], *written[Algorithm.CSBV]],
        )
    )
    result.claims = [
        _outgrows("processing load", [run.processing for run in cqc], [run.processing for run in csbv], cqc),
        _outgrows("storage load", [run.storage for run in cqc], [run.storage for run in csbv], cqc),
        *_fairness(written[Algorithm.CQC], written[Algorithm.CSBV]),
        *_e1_shape(cqc[-1], csbv[-1]),
    ]
    result.notes = [
        "Rarest first, the load that is left gathers at keys next to the root; as written it spreads, as in the paper."
    ]
    return result


def _rates(setting: Setting, algorithm: Algorithm, order: str, progress: Progress) -> list[_Run]:
    """Return the loads of one run after a quarter, half and all of its triples."""
    runs: list[_Run] = []
    ring = Places(random_positions(setting.peers, setting.seed))
    at = (setting.triples // 4, setting.triples // 2, setting.triples)

    def keep(fleet: Fleet) -> None:
        runs.append(_run(f"{algorithm.value.upper()}, {fleet.published:,} triples", fleet))

    run_fleet(setting, algorithm, [ring], order=order, checkpoints=at, on_checkpoint=keep, progress=progress)
    return runs


def _fairness(cqc: list[_Run], csbv: list[_Run]) -> list[Claim]:
    """Return the paper's claims about the distribution, which are for patterns in written order."""
    chain, tree = ([gini(run.processing) for run in runs] for runs in (cqc, csbv))
    return [
        Claim(
            "as written, more triples engage more peers in CSBV, but not in CQC",
            "; ".join(" ".join(f"{run.at_work:,}" for run in runs) for runs in (cqc, csbv)),
            cqc[-1].at_work <= 1.02 * cqc[0].at_work and csbv[-1].at_work > 1.02 * csbv[0].at_work,
        ),
        Claim(
            "as written, CQC's distribution keeps its shape (Gini)", " ".join(f"{each:.3f}" for each in chain),
            max(chain) - min(chain) < 0.1,
        ),
        Claim(
            "as written, CSBV becomes fairer (Gini)", " ".join(f"{each:.3f}" for each in tree), tree[-1] < tree[0]
        ),
    ]  # fmt: skip


def _outgrows(
    what: str, cqc: list[npt.NDArray[np.int64]], csbv: list[npt.NDArray[np.int64]], runs: list[_Run]
) -> Claim:
    """Return the claim that loads grow faster than triples, because joins combine pairs."""
    times = runs[-1].triples / runs[0].triples
    grown = [_total(series[-1]) / max(1, _total(series[0])) for series in (cqc, csbv)]
    return Claim(
        f"total {what} grows faster than the stream",
        f"{times:.1f} times the triples make {grown[0]:.1f} times as much in CQC, {grown[1]:.1f} times in CSBV",
        min(grown) > times,
    )


def _grows(what: str, *series: list[npt.NDArray[np.int64]]) -> Claim:
    totals = [[_total(values) for values in each] for each in series]
    return Claim(
        f"total {what} grows",
        "; ".join(" ".join(f"{total:,}" for total in each) for each in totals),
        all(a < b for each in totals for a, b in pairwise(each)),
    )


def _compare(result: Result, cqc: list[_Run], csbv: list[_Run], ticks: list[str]) -> None:
    """Fill in the table, the curves of each algorithm and bars of totals."""
    result.tables = [_table("Load", [*cqc, *csbv])]
    result.panels = [*_panels(cqc, " of CQC"), *_panels(csbv, " of CSBV")]
    x = tuple(float(at) for at in range(len(ticks)))
    for title, label, processing in (
        ("Total processing load", "triples and partial results received", True),
        ("Total storage load", "patterns, triples and partial results held", False),
    ):
        curves = tuple(
            Curve(name, x, tuple(float(_total(run.processing if processing else run.storage)) for run in runs))
            for name, runs in (("CQC", cqc), ("CSBV", csbv))
        )
        result.panels.append(Panel(title, "", label, curves, "bars", tuple(ticks)))


# --- E4 ------------------------------------------------------------------------------------------


def query_count(setting: Setting, progress: Progress = quiet) -> Result:
    """Run E4: a quarter, half and all of the queries."""
    ring = Places(random_positions(setting.peers, setting.seed))
    counts = (setting.queries // 4, setting.queries // 2, setting.queries)
    parts = iter(stages(progress, 2 * len(counts)))
    runs: dict[Algorithm, list[_Run]] = {}
    for algorithm in (Algorithm.CQC, Algorithm.CSBV):
        runs[algorithm] = [
            _run(
                f"{algorithm.value.upper()}, {count:,} queries",
                run_fleet(replace(setting, queries=count), algorithm, [ring], progress=next(parts)),
            )
            for count in counts
        ]
    result = Result("query-count", "Load as queries are added (E4)", setting.as_dict())
    cqc, csbv = runs[Algorithm.CQC], runs[Algorithm.CSBV]
    _compare(result, cqc, csbv, [f"{count:,} queries" for count in counts])
    result.claims = [
        _grows("processing load", [run.processing for run in cqc], [run.processing for run in csbv]),
        _grows("storage load", [run.storage for run in cqc], [run.storage for run in csbv]),
        *_e1_shape(cqc[-1], csbv[-1]),
    ]
    return result


# --- E5 ------------------------------------------------------------------------------------------


def network_size(setting: Setting, progress: Progress = quiet) -> Result:
    """Run E5: the same queries and triples on rings of half, full and double the setting's size."""
    sizes = (setting.peers // 2, setting.peers, setting.peers * 2)
    rings = [Places(random_positions(size, setting.seed)) for size in sizes]
    runs: dict[Algorithm, list[_Run]] = {}
    for algorithm, stage in zip((Algorithm.CQC, Algorithm.CSBV), stages(progress, 2), strict=True):
        # Joins do not depend on the ring, so one run serves all sizes.
        fleet = run_fleet(setting, algorithm, rings, progress=stage)
        runs[algorithm] = [
            _run(f"{algorithm.value.upper()}, {size:,} peers", fleet, at) for at, size in enumerate(sizes)
        ]
    cqc, csbv = runs[Algorithm.CQC], runs[Algorithm.CSBV]
    result = Result("network-size", "Load as peers are added (E5)", setting.as_dict())
    _compare(result, cqc, csbv, [f"{size:,} peers" for size in sizes])
    busiest_cqc = [int(run.processing.max()) for run in cqc]
    keys = _cqc_keys(setting)
    wanted = [expected_participants(keys, size) for size in sizes]
    result.claims = [
        Claim(
            f"CQC uses only the K/(1+K/N) of N owners of its {keys:,} keys",
            "; ".join(f"{run.participants:,} ({each:,.0f})" for run, each in zip(cqc, wanted, strict=True)),
            all(
                abs(run.participants / each - 1) <= _tolerance(size)
                for run, each, size in zip(cqc, wanted, sizes, strict=True)
            ),
        ),
        Claim(
            "CSBV uses nearly all peers",
            " ".join(f"{run.participants / size:.0%}" for run, size in zip(csbv, sizes, strict=True)),
            all(run.participants >= 0.9 * size for run, size in zip(csbv, sizes, strict=True)),
        ),
        Claim(
            "more peers do not relieve CQC's busiest", " ".join(f"{each:,}" for each in busiest_cqc),
            busiest_cqc[-1] > 0.8 * busiest_cqc[0],
        ),
        *_e1_shape(cqc[1], csbv[1]),
    ]  # fmt: skip
    return result
