"""Results of the experiment with semantic channels: the paper's table and figures, claims beside measurements."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from p2prdf.channels import ChannelStatistics
from p2prdf_lab.experiments.results import Claim, Curve, Panel, Result, Table
from p2prdf_lab.workloads.universities import PUBLISHED

__all__ = ["Costs", "Measured", "Run", "Told", "result_of"]

_HEAVY: Final = ("Q6", "Q8", "Q14")
"""The channels with bindings that the paper's heuristic predicts."""
_SHOWN: Final = ("Q5", "Q6")
"""The channels of the paper's Figures 4 and 5."""
_HIT_RATE: Final = 0.8
_REDUCTION: Final = 0.9
_FASTER: Final = 5.0
_MORE: Final = 0.05
_NEXT_TO_NONE: Final = 0.1
_ONE: Final = 1
"""Most early bindings for the claim that almost none is early."""
_FEW: Final = 10
"""Least number of notifications for a claim about a rate."""
_HEURISTICS: Final = {
    "skipping": "count", "by shape": "shape", "by signature": "signature", "by change": "change",
    "competing": "competing",
}  # fmt: skip


class Told(NamedTuple):
    """A notification of a new binding: its graph, whether it was early, and its delay in the channel's own time."""

    binding: tuple[str, ...]
    at: int
    early: bool
    seconds: float


class Costs(NamedTuple):
    """Costs of a channel in a run, in seconds; ``runs``: evaluations of its query."""

    testing: float
    analysing: float
    running: float
    runs: int
    switched_off: int
    heuristic: str

    @property
    def speculation(self) -> float:
        """Seconds of testing and learning."""
        return self.testing + self.analysing

    @property
    def all(self) -> float:
        """The sum of all costs."""
        return self.speculation + self.running


@dataclasses.dataclass(slots=True)
class Run:
    """One run: notifications and costs of each channel."""

    graphs: int
    channels: tuple[str, ...]
    total: float = 0.0
    publishing: float = 0.0
    """Seconds to insert graphs and their derived facts."""
    told: dict[str, list[Told]] = dataclasses.field(init=False)
    recent: dict[str, list[int]] = dataclasses.field(init=False)
    """After each graph, the number of early notifications among those of the last ten new bindings."""
    costs: dict[str, Costs] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.told = {name: [] for name in self.channels}
        self.recent = {name: [] for name in self.channels}

    def note(self, name: str, before: ChannelStatistics, after: ChannelStatistics) -> None:
        """Add the costs of a channel between two states of its statistics."""
        self.costs[name] = Costs(
            after.testing - before.testing, after.analysing - before.analysing, after.running - before.running,
            after.runs - before.runs, after.switched_off - before.switched_off, after.heuristic,
        )  # fmt: skip

    def bindings(self, name: str) -> set[tuple[str, ...]]:
        """Return the bindings of a channel's notifications."""
        return {each.binding for each in self.told[name]}

    def hit_rate(self, name: str) -> float:
        """Return the share of new bindings with early notifications."""
        told = self.told[name]
        return sum(each.early for each in told) / len(told) if told else 0.0

    def alone(self, name: str) -> tuple[int, int]:
        """Return the numbers of all, and of early, bindings that were the only new one of a graph on a channel."""
        per_graph = Counter(each.at for each in self.told[name])
        found = [each for each in self.told[name] if per_graph[each.at] == 1]
        return len(found), sum(each.early for each in found)

    def milliseconds(self, name: str) -> float:
        """Return the mean delay of a channel's notifications, without those of the final evaluation."""
        times = [each.seconds for each in self.told[name] if each.at < self.graphs]
        return 1000 * sum(times) / len(times) if times else 0.0
    def more(self, name: str) -> float:
        """Return the cost of speculation relative to all other costs, for this channel alone."""
        costs = self.costs[name]
        return costs.speculation / (self.publishing + costs.running)


class Measured(NamedTuple):
    """All runs over one set of graphs, the bindings at the end by channel, and the rates of single channels."""

    graphs: int
    statements: int
    sizes: tuple[int, int]
    facts: int
    runs: dict[str, Run]
    held: dict[str, int]
    alone: dict[str, dict[str, float]]
    """By channel and kind of run, graphs per second without other channels."""


def result_of(setting: dict[str, str | int | float], measured: Measured) -> Result:
    """Return tables, panels and claims."""
    runs = measured.runs
    sizes = {"graphs": measured.graphs, "statements": measured.statements, "facts before": measured.facts}
    found = Result("semantic-channels", "Semantic channels: what is new, told early", {**setting, **sizes})
    found.tables = [_notifications(runs), _rates(measured), _heuristics(runs), _evaluators(runs)]
    found.panels = [*_panels(measured)]
    found.claims = [*_claims(setting, measured)]
    reference = runs["reference"]
    least, most = measured.sizes
    found.notes = [
        f"Graphs of {least} to {most} statements. Processor time, without other load.",
        (
            "A notification's delay is the time of its channel: testing candidates and, if it is not early, running"
            " the query. Inserting the graph and its derived facts is the same for all channels and took"
            f" {1000 * reference.publishing / reference.graphs:.3f} ms a graph."
        ),
        "One examination of a graph serves all speculating channels; each is charged its part.",
        (
            "Alone: bindings that were the only new one of their graph. A graph with many new bindings (a department"
            " after its students) does not name them, so heuristics that read the graph cannot predict them; change"
            " reads the new facts, and looks up the rest."
        ),
    ]
    return found


# --- tables --------------------------------------------------------------------------------------


def _notifications(runs: dict[str, Run]) -> Table:
    without, with_it, all_of_them = runs["reference"], runs["heuristic"], runs["competing, each"]
    rows = []
    for name in without.channels:
        before, after = without.milliseconds(name), with_it.milliseconds(name)
        query = 1000 * without.costs[name].running / without.costs[name].runs
        shorter = 100 * (1 - after / before) if before else 0.0
        hits = 100 * with_it.hit_rate(name)
        single, predicted = with_it.alone(name)
        rows.append((
            name, len(without.told[name]), round(query, 3), round(before, 3), round(after, 3), round(shorter, 1),
            round(hits, 1), single, round(100 * predicted / single, 1) if single else 0.0,
            round(best := all_of_them.milliseconds(name), 3), round(100 * (1 - best / before), 1) if before else 0.0,
            round(100 * all_of_them.hit_rate(name), 1),
        ))  # fmt: skip
    columns = (
        "channel", "notifications", "query, ms", "without, ms", "with, ms", "shorter by, %", "hit rate, %", "alone",
        "hit rate alone, %", "competing, ms", "competing, shorter by, %", "competing, hit rate, %",
    )  # fmt: skip
    return Table("Notifications, the query run at each graph (the paper's Table 1)", columns, tuple(rows))


def _rates(measured: Measured) -> Table:
    runs = measured.runs
    without, paper, all_of_them = runs["reference"], runs["skipping"], runs["competing"]
    rows: list[tuple[str | int | float, ...]] = []
    for name, rates in measured.alone.items():
        costs = all_of_them.costs[name]
        before, after, best = rates["reference"], rates["skipping"], rates["competing"]
        rows.append((
            name, round(before), round(after), round(after / before, 2), round(best), round(best / before, 2),
            costs.runs, round(100 * all_of_them.hit_rate(name), 1), costs.switched_off,
        ))  # fmt: skip
    before, after, best = (each.graphs / each.total for each in (without, paper, all_of_them))
    every = sum(each.runs for each in all_of_them.costs.values())
    rows.append((
        "all 14", round(before), round(after), round(after / before, 2), round(best), round(best / before, 2), every,
        "", "",
    ))  # fmt: skip
    columns = (
        "channel", "without, graphs/s", "count, graphs/s", "factor", "competing, graphs/s", "factor, competing", "runs",
        "hit rate, %", "switched off",
    )  # fmt: skip
    return Table("Graphs a second with skipping, each channel run alone", columns, tuple(rows))


def _heuristics(runs: dict[str, Run]) -> Table:
    rows: list[tuple[str | int | float, ...]] = []
    for name in runs["reference"].channels:
        hits = [round(100 * runs[run].hit_rate(name), 1) for run in _HEURISTICS]
        rows.append((name, len(runs["reference"].told[name]), *hits, runs["competing"].costs[name].heuristic))
    columns = ("channel", "notifications", *(f"{name}, %" for name in _HEURISTICS.values()), "chosen at the end")
    return Table("Hit rates by heuristic, with skipping", columns, tuple(rows))


def _evaluators(runs: dict[str, Run]) -> Table:
    kinds = ("reference", "competing", "incremental", "incremental, heuristic")
    rows: list[tuple[str | int | float, ...]] = []
    sums = [0.0] * len(kinds)
    for name in runs["reference"].channels:
        times = [1000 * runs[kind].costs[name].all / runs[kind].graphs for kind in kinds]
        sums = [one + other for one, other in zip(sums, times, strict=True)]
        hits = round(100 * runs[kinds[-1]].hit_rate(name), 1)
        rows.append((name, *(round(each, 4) for each in times), hits))
    rows.append(("all 14", *(round(each, 3) for each in sums), ""))
    columns = (
        "channel", "re-executed", "re-executed, skipping", "incremental", "incremental, heuristic", "hit rate there, %",
    )  # fmt: skip
    return Table("Both evaluators: a channel's time per graph, ms, without inserting the graph", columns, tuple(rows))


# --- figures -------------------------------------------------------------------------------------


def _panels(measured: Measured) -> Iterable[Panel]:
    runs = measured.runs
    names = runs["reference"].channels
    x = tuple(map(float, range(len(names))))
    told = [name for name in names if runs["reference"].told[name]]
    times = {
        label: tuple(runs[run].milliseconds(name) for name in told)
        for label, run in (
            ("without heuristic", "reference"), ("the paper's", "heuristic"), ("competing", "competing, each"),
        )
    }
    yield Panel(
        "Notification time (the paper's Figure 3)", "channel", "time to a notification, ms",
        tuple(Curve(label, x[: len(told)], y) for label, y in times.items()),
        kind="bars", ticks=tuple(told), y_log=True,
    )  # fmt: skip
    for number, name in zip((4, 5), _SHOWN, strict=True):
        recent = tuple(map(float, runs["heuristic"].recent[name]))
        curve = Curve(name, tuple(map(float, range(1, len(recent) + 1))), recent)
        title = f"{name}: of the last ten (Figure {number})"
        yield Panel(title, "graphs published", "notifications told early, of 10", (curve,))
    rates = {
        label: tuple(measured.alone[name][run] for name in names)
        for label, run in (("each query each time", "reference"), ("count", "skipping"), ("competing", "competing"))
    }
    yield Panel(
        "Graphs a second with skipping, one channel alone", "channel", "graphs published a second",
        tuple(Curve(label, x, y) for label, y in rates.items()), kind="bars", ticks=names, y_log=True,
    )  # fmt: skip


# --- claims --------------------------------------------------------------------------------------


def _claims(setting: dict[str, str | int | float], measured: Measured) -> Iterable[Claim]:
    runs = measured.runs
    reference, paper, every = runs["reference"], runs["heuristic"], runs["competing, each"]
    names = reference.channels
    yield _equal(runs)
    if setting["universities"] == 1:
        held = tuple(measured.held[name] for name in names)
        text = "the channels end with the benchmark's published answers"
        yield Claim(text, " ".join(map(str, held)), held == PUBLISHED)
    known = [name for name in _HEAVY if len(reference.told[name]) >= _FEW]
    hits = {name: every.hit_rate(name) for name in known}
    yield Claim("hit rate above 80 % for Q6, Q8 and Q14", _percent(hits), min(hits.values(), default=1) > _HIT_RATE)
    q9, early = paper.hit_rate("Q9"), sum(each.early for each in paper.told["Q9"])
    text = "almost none for Q9 with the paper's heuristic: its graphs do not name new bindings"
    told = f"{100 * q9:.1f} %, {early} of {len(paper.told['Q9'])}; competing {100 * every.hit_rate('Q9'):.1f} %"
    yield Claim(text, told, q9 <= _NEXT_TO_NONE or early <= _ONE)
    shorter = {
        name: 1 - every.milliseconds(name) / before for name in known if (before := reference.milliseconds(name))
    }
    text = "notification time at least 90 % shorter on Q6, Q8 and Q14"
    yield Claim(text, _percent(shorter), min(shorter.values(), default=1) >= _REDUCTION)
    faster = {name: rates["competing"] / rates["reference"] for name, rates in measured.alone.items()}
    told = ", ".join(f"{name} {faster[name]:.2f}" for name in (*known, "Q9"))
    text = "with skipping 5 times as many graphs a second on Q6, Q8, Q14 and Q9 (paper: 3.7 to 5.2)"
    yield Claim(text, told, min(faster[name] for name in (*known, "Q9")) >= _FASTER)
    for kind, text in (("competing, each", "re-executed"), ("incremental, heuristic", "evaluated incrementally")):
        more = {name: runs[kind].more(name) for name in names}
        most = max(more, key=more.__getitem__)
        told = f"at most {100 * more[most]:.1f} %, {most}"
        yield Claim(f"heuristics cost channels that are {text} at most 5 %", told, more[most] <= _MORE)


def _equal(runs: dict[str, Run]) -> Claim:
    """Return the claim that all runs had the same notifications, one for each binding."""
    reference = runs["reference"]
    unequal = [
        f"{name} in {kind}" for kind, run in runs.items() for name in reference.channels
        if run.bindings(name) != reference.bindings(name) or len(run.told[name]) != len(run.bindings(name))
    ]  # fmt: skip
    total = sum(map(len, reference.told.values()))
    told = f"unequal: {', '.join(unequal)}" if unequal else f"{total:,} in each of {len(runs)} runs"
    return Claim("all runs have the same notifications, one for each binding", told, not unequal)


def _percent(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * each:.1f} %" for name, each in values.items()) or "too few notifications"
