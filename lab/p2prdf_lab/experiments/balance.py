"""Beyond the paper: load of the busiest peer relative to the mean on skewed data, with hot keys split and without.

The peers run the daemon's code in virtual time, and a central evaluator checks the answers of every run.
:mod:`p2prdf_lab.fleets.skew` has the data, :mod:`p2prdf.peer.joins.hot_keys` the splitting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf.peer import PeerConfig
from p2prdf.sim.world import WorldOptions
from p2prdf_lab.experiments.results import Claim, Curve, Panel, Result, Table, by_rank, gini
from p2prdf_lab.experiments.setting import Progress, Setting, quiet
from p2prdf_lab.fleets.skew import hot_queries, run_skew

if TYPE_CHECKING:
    from typing import Literal

    from p2prdf_lab.fleets.skew import SkewRun

__all__ = ["BUSIEST_MAX", "SETTING", "hot_keys"]

SETTING: Final = Setting(peers=64, queries=4, triples=28_800, instances=1, values=1, key_encoding="typed")

BUSIEST_MAX: Final = 3.0
"""Claimed bound for the busiest peer, in multiples of the mean, with even places and split hot keys."""

_ROUNDS: Final = 15
_MEASURED: Final = 3
_TYPED: Final = (0.25, 0.75)


@dataclass(frozen=True, slots=True)
class _Case:
    """One run and its setup."""

    typed: float
    places: Literal["even", "random"]
    split: bool
    run: SkewRun

    @property
    def label(self) -> str:
        """The label in a legend."""
        return f"{self.places}, {'split' if self.split else 'whole'}"

    def row(self) -> tuple[str | int | float, ...]:
        """Return the row of the table."""
        run = self.run
        loads = np.array(run.settled.loads)
        return (
            f"{self.typed:.0%}: {self.label}", round(run.settled.worst, 2), round(run.whole.worst, 2),
            round(gini(loads), 3), run.keys_split, run.depth_max, run.answers, run.wrong,
        )  # fmt: skip


def hot_keys(setting: Setting, progress: Progress = quiet) -> Result:
    """Run all combinations of 25 % and 75 % rdf:type, even and random places, unsplit and split hot keys."""
    cases: list[_Case] = []
    wanted = [
        (typed, places, split) for typed in _TYPED for places in ("even", "random") for split in (False, True)
    ]
    for typed, places, split in wanted:
        assert places in ("even", "random")
        cases.append(_Case(typed, places, split, _run(setting, typed, places, split=split)))  # type: ignore[arg-type]
        progress(len(cases) / len(wanted))
    sizes: dict[str, str | int | float] = {"peers": setting.peers, "triples": setting.triples, "seed": setting.seed}
    result = Result("hot-keys", "Load on skewed data", sizes)
    columns = (
        "rdf:type: places, keys", "busiest, in times of the mean", "with settling", "Gini", "keys split", "deepest",
        "answers", "wrong",
    )  # fmt: skip
    result.tables = [Table("Processing load", columns, tuple(case.row() for case in cases))]
    result.panels = [*(_ranks(typed, cases) for typed in _TYPED), _worst(cases)]
    even = [case for case in cases if case.places == "even"]
    result.claims = [
        *(
            Claim(
                f"{case.typed:.0%} rdf:type, even places: split, the busiest peer has at most 3 times the mean",
                f"{case.run.settled.worst:.1f} times", case.run.settled.worst <= BUSIEST_MAX,
            )
            for case in even
            if case.split
        ),
        *(
            Claim(
                f"{whole.typed:.0%} rdf:type: the busiest peer has more without splitting",
                f"{whole.run.settled.worst:.1f} times",
                whole.run.settled.worst > 1.5 * split.run.settled.worst,
            )
            for whole, split in zip(even[::2], even[1::2], strict=True)
        ),
        Claim(
            "all answers are the central evaluator's, each once",
            f"{sum(case.run.wrong for case in cases)} wrong of {sum(case.run.answers for case in cases):,}",
            not any(case.run.wrong for case in cases) and all(case.run.answers for case in cases),
        ),
    ]  # fmt: skip
    result.notes = [
        "Classes and predicates are Zipf-distributed, exponent 1.1; indexes on demand; load of the last fifth.",
        "At random places the longest of N stretches is about ln N times the mean by itself.",
    ]
    return result


def _run(setting: Setting, typed: float, places: Literal["even", "random"], *, split: bool) -> SkewRun:
    config = PeerConfig(
        indexes="on-demand", hot_keys=split, hot_interval_seconds=1.0, hot_rate_min=20, hot_sample=4
    )
    options = WorldOptions(peers=setting.peers, seed=setting.seed, places=places, config=config)
    return run_skew(
        options, hot_queries(), typed=typed, round_triples=setting.triples // _ROUNDS,
        settling_rounds=_ROUNDS - _MEASURED, measured_rounds=_MEASURED,
    )  # fmt: skip


def _ranks(typed: float, cases: list[_Case]) -> Panel:
    curves = tuple(by_rank(case.label, np.array(case.run.settled.loads)) for case in cases if case.typed == typed)
    return Panel(
        f"Processing load, {typed:.0%} rdf:type", "peers, busiest first",
        "triples and partial results received, cumulative", curves,
    )  # fmt: skip


def _worst(cases: list[_Case]) -> Panel:
    labels = list(dict.fromkeys(case.label for case in cases))
    x = tuple(float(at) for at in range(len(_TYPED)))
    curves = tuple(
        Curve(label, x, tuple(case.run.settled.worst for case in cases if case.label == label)) for label in labels
    )
    return Panel(
        "Busiest peer", "share of rdf:type", "times the mean of participating peers", curves, "bars",
        tuple(f"{typed:.0%}" for typed in _TYPED),
    )  # fmt: skip
