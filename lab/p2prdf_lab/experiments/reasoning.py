"""Comparison of programs that maintain derived facts, on one stream: time and visited facts per step.

All programs process the same steps, and each step must give equal changes.  They share storage and compiled joins, so
only the algorithms differ.  Only ``stream`` has special code for transitive relations, so it also runs with the rule
alone.  The programs run by turns, step by step, in changing order, so that other load on the machine affects all of
them; results are medians.  Times are processor time of this process, with the collector of cyclic garbage disabled.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning import Materialiser
from p2prdf.reasoning.effort import Effort
from p2prdf.reasoning.maintenance import Change
from p2prdf_lab.competitors.reasoning.counting import Counting
from p2prdf_lab.competitors.reasoning.maintenance import Maintenance
from p2prdf_lab.competitors.reasoning.naive import Naive
from p2prdf_lab.competitors.reasoning.paper import Paper
from p2prdf_lab.competitors.reasoning.volz import Volz
from p2prdf_lab.experiments.engines import ENGINES
from p2prdf_lab.experiments.results import Claim, Curve, Panel, Result, Table
from p2prdf_lab.experiments.setting import Progress, quiet
from p2prdf_lab.workloads.isin_stream import TRANSITIVE, IsInStream, Step, StreamShape

__all__ = ["RATES", "ReasoningSetting", "incremental_reasoning"]

RATES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 1 / 3, 0.5)
"""Shares of the window that enter, and leave, per step; the window's size is constant."""
BAR_RATE: Final = 0.01
_ENGINE_RATES: Final = (0.01, 0.1)
_NAIVE_TIMES_MAX: Final = 1.1
_FASTER_THAN_NAIVE: Final = 12
_FASTER_THAN_VOLZ: Final = 3
NAIVE, VOLZ, COUNTING, PAPER = "naive", "volz", "counting", "paper"
BY_RULES, MENDED, STREAM = "stream, by rules", "stream, only mended", "stream"


@dataclass(frozen=True, slots=True)
class ReasoningSetting:
    """The stream, the number of timed steps per rate, and the rates."""

    shape: StreamShape = StreamShape()
    steps: int = 15
    seed: int = 1
    rates: tuple[float, ...] = RATES

    def validate(self) -> None:
        """Raise LocalProtocolError for a setting that cannot be run."""
        self.shape.validate()
        if not 1 <= self.steps <= 10_000:
            raise LocalProtocolError(f"steps: {self.steps} is not between 1 and 10,000")

    def as_dict(self) -> dict[str, str | int | float]:
        """Return the sizes under stable names."""
        shape = self.shape
        return {
            "window": shape.window, "depth": shape.depth, "fan_out": shape.fan_out, "pool": shape.pool,
            "background": shape.background, "taken_back": shape.taken_back, "parents": shape.parents,
            "steps": self.steps, "seed": self.seed,
        }  # fmt: skip


@dataclass(slots=True)
class _Run:
    """One program at one rate."""

    name: str
    program: Maintenance
    seconds: list[float] = field(default_factory=list)
    touched: list[int] = field(default_factory=list)

    def step(self, step: Step) -> Change:
        before = self.program.touched
        started = time.process_time()
        change = self.program.step(step.now, step.given, step.taken_back)
        self.seconds.append(time.process_time() - started)
        self.touched.append(self.program.touched - before)
        return change


@dataclass(frozen=True, slots=True)
class _Measured:
    """Measurements at one rate, by program."""

    rate: float
    entering: int
    facts: int
    milliseconds: Mapping[str, float]
    touched: Mapping[str, float]
    unequal_steps: int


class _OnlyMends(Effort):
    def anew(self, changes: int, facts: int) -> bool:
        """Return whether to recompute, which is possible in the first step only."""
        return facts == 0 and super().anew(changes, facts)


_PROGRAMS: Final[Mapping[str, Callable[[], Maintenance]]] = {
    NAIVE: lambda: Naive([TRANSITIVE], IsInStream.intern),
    VOLZ: lambda: Volz([TRANSITIVE], IsInStream.intern),
    COUNTING: lambda: Counting([TRANSITIVE], IsInStream.intern),
    PAPER: lambda: Paper([TRANSITIVE], IsInStream.intern),
    BY_RULES: lambda: Materialiser([TRANSITIVE], IsInStream.intern, closes=False),
    MENDED: lambda: Materialiser([TRANSITIVE], IsInStream.intern, effort=_OnlyMends()),
    STREAM: lambda: Materialiser([TRANSITIVE], IsInStream.intern),
}


def incremental_reasoning(setting: ReasoningSetting, progress: Progress = quiet) -> Result:
    """Run all programs at all rates.  Raises LocalProtocolError for a setting that cannot be run."""
    setting.validate()
    collects = gc.isenabled()
    gc.disable()
    try:
        measured = []
        for place, rate in enumerate(setting.rates):
            measured.append(_measure(setting, rate))
            gc.collect()
            progress((place + 1) / (len(setting.rates) + 1))
        others = _others(setting)
    finally:
        if collects:
            gc.enable()
    progress(1.0)
    return _result(setting, measured, others)


def _entering(setting: ReasoningSetting, rate: float) -> int:
    """Return the number of entering triples per step, rounded down so that filling a window takes no step less."""
    return max(1, int(setting.shape.window * rate + 1e-9))


def _measure(setting: ReasoningSetting, rate: float) -> _Measured:
    entering = _entering(setting, rate)
    stream = IsInStream(setting.shape, entering, setting.seed).steps()
    runs = [_Run(name, make()) for name, make in _PROGRAMS.items()]
    unequal = 0
    warming = 2 + setting.shape.window // entering // 10  # the cost of changes is unknown at first
    for number in range(warming + setting.steps):
        step = next(stream)
        turn = [*runs[number % len(runs) :], *runs[: number % len(runs)]]
        changes = [(each, each.step(step)) for each in turn]
        unequal += not _all_equal([change for _, change in changes])
    held = [{fact for fact, _ in each.program} for each in runs]
    unequal += any(each != held[0] for each in held)
    return _Measured(
        rate, entering, len(held[0]),
        {each.name: 1000 * median(each.seconds[warming:]) for each in runs},
        {each.name: round(median(each.touched[warming:])) for each in runs},
        unequal,
    )  # fmt: skip


def _all_equal(changes: list[Change]) -> bool:
    """Return whether changes add and remove the same facts, apart from labels."""
    first = changes[0]
    removed = set(first.removed)
    return all(each.added.keys() == first.added.keys() and set(each.removed) == removed for each in changes)


@dataclass(frozen=True, slots=True)
class _Other:
    """An external reasoner on the facts at one time; without results if it is not installed."""

    name: str
    rate: float
    given: int
    milliseconds: float
    equal: bool


def _others(setting: ReasoningSetting) -> list[_Other]:
    """Run external reasoners from scratch on the base facts after a step, at some rates."""
    found = []
    for rate in _ENGINE_RATES:
        stream = IsInStream(setting.shape, _entering(setting, rate), setting.seed).steps()
        naive = Naive([TRANSITIVE], IsInStream.intern)
        for _ in range(2):
            step = next(stream)
            naive.step(step.now, step.given, step.taken_back)
        expected = {(s, o) for (s, _, o), _ in naive}
        given = list(naive.given)
        for engine in ENGINES:
            if engine.installed:
                run = engine.run(given)
                started = time.process_time()
                pairs = run()
                seconds = time.process_time() - started
                found.append(_Other(engine.module, rate, len(given), 1000 * seconds, pairs == expected))
    return found


# --- results -------------------------------------------------------------------------------------


def _result(setting: ReasoningSetting, measured: list[_Measured], others: list[_Other]) -> Result:
    result = Result("incremental-reasoning", "What follows, kept up to date (stream reasoning)", setting.as_dict())
    names = tuple(_PROGRAMS)
    first = ("change, %", "in per step", "facts")
    result.tables = [
        Table(
            "Time per step, ms", (*first, *names),
            tuple((*_head(each), *(round(each.milliseconds[name], 2) for name in names)) for each in measured),
        ),
        Table(
            "Looked at per step: facts (counting: facts and rule instances)", (*first, *names),
            tuple((*_head(each), *(each.touched[name] for name in names)) for each in measured),
        ),
    ]  # fmt: skip
    if others:
        result.tables.append(_others_table(measured, others))
    x = tuple(100 * each.rate for each in measured)
    result.panels = [
        Panel(title, "change per step, % of the window", label, tuple(
            Curve(name, x, tuple(values(each)[name] for each in measured)) for name in names
        ), y_log=True, x_log=True)
        for title, label, values in (
            ("Time per step", "processor time, ms", _milliseconds),
            ("Looked at per step", "facts (counting: and rule instances)", _touched),
        )
    ]  # fmt: skip
    result.claims = [_equality(setting, measured, others), *_bars(measured), *_crossovers(measured)]
    missing = [engine.module for engine in ENGINES if not engine.installed]
    if missing:
        result.notes.append(f"Not installed, so not compared: {', '.join(missing)} (pip install {' '.join(missing)}).")
    return result


def _milliseconds(each: _Measured) -> Mapping[str, float]:
    return each.milliseconds


def _touched(each: _Measured) -> Mapping[str, float]:
    return each.touched


def _head(each: _Measured) -> tuple[float, int, int]:
    return round(100 * each.rate, 1), each.entering, each.facts


def _others_table(measured: list[_Measured], others: list[_Other]) -> Table:
    by_rate = {each.rate: each for each in measured}
    rows = tuple(
        (
            f"{each.name}, {100 * each.rate:g} %", each.given, round(each.milliseconds, 1),
            round(each.milliseconds / by_rate[each.rate].milliseconds[STREAM], 1) if each.rate in by_rate else "-",
        )
        for each in others
    )  # fmt: skip
    return Table("OWL 2 RL from scratch, external reasoners", ("reasoner", "given", "ms", "times stream"), rows)


def _equality(setting: ReasoningSetting, measured: list[_Measured], others: list[_Other]) -> Claim:
    unequal = sum(each.unequal_steps for each in measured) + sum(not each.equal for each in others)
    told = f"{unequal} differences in {len(measured)} times {setting.steps} steps, and in the steps before"
    if others:
        told += f", and {len(others)} closures of external reasoners"
    return Claim("all programs have the same facts after every step", told, unequal == 0)


def _bars(measured: list[_Measured]) -> list[Claim]:
    """Return the claims about time, which depend on the machine."""
    claims = []
    worst = max(measured, key=lambda each: each.milliseconds[STREAM] / each.milliseconds[NAIVE])
    times = worst.milliseconds[STREAM] / worst.milliseconds[NAIVE]
    claims.append(
        Claim(
            f"stream takes at most {_NAIVE_TIMES_MAX} times as long as naive at any rate",
            f"at most {times:.2f} times, at {100 * worst.rate:.3g} %", times <= _NAIVE_TIMES_MAX,
        )
    )  # fmt: skip
    for name, least in ((NAIVE, _FASTER_THAN_NAIVE), (VOLZ, _FASTER_THAN_VOLZ)):
        for each in measured:
            if each.rate == BAR_RATE:
                times = each.milliseconds[name] / each.milliseconds[STREAM]
                text = f"at {100 * BAR_RATE:g} % stream is at least {least} times as fast as {name}"
                claims.append(Claim(text, f"{times:.1f} times", times >= least))
    closest = max(measured, key=lambda each: each.milliseconds[STREAM] / each.milliseconds[VOLZ])
    times = closest.milliseconds[STREAM] / closest.milliseconds[VOLZ]
    claims.append(
        Claim(
            "stream takes less time than volz at any rate",
            f"at most {times:.2f} times its time, at {100 * closest.rate:.3g} %", times < 1,
        )
    )  # fmt: skip
    return claims


def _crossovers(measured: list[_Measured]) -> list[Claim]:
    volz, mended = _crossover(measured, VOLZ), _crossover(measured, MENDED)
    return [
        Claim(
            f"{what} becomes slower than naive, but not before 1 % changes (paper: about {paper} %)", _crossing(at),
            at is not None and at >= BAR_RATE,
        )
        for what, at, paper in (("volz", volz, "2.5"), ("stream that only mends", mended, "13"))
    ] + [
        Claim(
            "volz does so first", f"{_crossing(volz)}; {_crossing(mended)}",
            volz is not None and (mended is None or volz < mended),
        )
    ]  # fmt: skip


def _crossing(at: float | None) -> str:
    return "never" if at is None else f"at {100 * at:.1f} %"


def _crossover(measured: list[_Measured], name: str) -> float | None:
    """Return the interpolated rate from which on a program is slower than naive, or None."""
    logs = [(math.log(each.rate), math.log(each.milliseconds[name] / each.milliseconds[NAIVE])) for each in measured]
    for (x0, y0), (x1, y1) in zip(logs[-2::-1], logs[:0:-1], strict=True):
        if y1 <= 0:
            return None
        if y0 <= 0:
            return math.exp(x0 + (x1 - x0) * -y0 / (y1 - y0))
    return measured[0].rate if logs and logs[0][1] > 0 else None
