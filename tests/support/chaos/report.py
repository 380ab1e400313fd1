"""The result of a run: for people, and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from chaos.faults import Kill
from chaos.judge import Loss, Verdict
from chaos.probes import Outage, Probes

__all__ = ["GAP_AFTER_SECONDS", "Gap", "Report", "gaps", "percentile"]

GAP_BEFORE_SECONDS: Final = 1.0
GAP_AFTER_SECONDS: Final = 4.0
LINES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Gap:
    """Longest delay of a probe around one kill, in seconds; ``of_all``: around one of all nodes."""

    kill: int
    seconds: float
    of_all: bool


def gaps(kills: Sequence[Kill], probes: Probes) -> list[Gap]:
    """Return each kill's gap: the largest delay among probes due from 1 s before it to 4 s after it.

    A kill of one node is left out if its period overlaps the time in which all were down, or coming back: its
    delay has another cause.
    """
    dark = [
        (kill.at - GAP_BEFORE_SECONDS, max(kill.back_at, kill.at) + GAP_AFTER_SECONDS)
        for kill in kills
        if len(kill.nodes) > 1
    ]
    found = []
    for kill in kills:
        since, until = kill.at - GAP_BEFORE_SECONDS, kill.at + GAP_AFTER_SECONDS
        of_all = len(kill.nodes) > 1
        if not of_all and any(since < end and begin < until for begin, end in dark):
            continue
        delays = probes.delays(since, until)
        if delays:
            found.append(Gap(kill.number, max(delays), of_all))
    return found


def percentile(values: Iterable[float], part: float) -> float | None:
    """Return the value that ``part`` (0 to 1) of the values do not exceed; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] if ordered else None


@dataclass(slots=True)
class Report:
    """All results of a run."""

    settings: dict[str, Any]
    seconds: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)
    queries: dict[str, Verdict] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    publications: dict[str, int] = field(default_factory=dict)
    """Pieces and triples, attempted and acknowledged; attempts; errors."""
    failures: dict[str, dict[str, int]] = field(default_factory=dict)
    """Errors that clients met and retried, by kind of client and code."""
    faults: dict[str, int] = field(default_factory=dict)
    delays: list[float] = field(default_factory=list)
    """Delays of all probes."""
    gaps: list[Gap] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    """Seconds from the last node's being ready until all copies were restored."""
    proxy: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Further problems: nodes that ended by themselves, errors in their logs."""

    @property
    def good(self) -> bool:
        """Whether nothing is lost, duplicated, phantom or otherwise wrong."""
        return self.verdict.good and not self.problems and not self.publications.get("errors", 0)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values; times in seconds, infinite ones null."""
        figures: dict[str, Any] = asdict(self)
        figures["good"] = self.good
        figures["delay_seconds"] = _spread(figures.pop("delays"))
        figures["gap_seconds"] = {
            "one_node": _spread(gap.seconds for gap in self.gaps if not gap.of_all),
            "all_nodes": _spread(gap.seconds for gap in self.gaps if gap.of_all),
        }
        figures["gaps"] = [{"kill": gap.kill, "seconds": _finite(gap.seconds)} for gap in self.gaps]
        figures["restart_seconds"] = {
            "one_node": _spread(each for kill in self.kills if len(kill.nodes) == 1 for each in kill.ready_seconds),
            "several_nodes": _spread(each for kill in self.kills if len(kill.nodes) > 1 for each in kill.ready_seconds),
        }
        figures["whole_seconds"] = _spread(figures.pop("whole"))
        return figures

    def _complaints(self) -> list[str]:
        return [
            f"{name}: {_listed({k: v for k, v in asdict(verdict).items() if v})}"
            for name, verdict in self.queries.items()
            if not verdict.good
        ]

    def _lost(self) -> list[str]:
        return [
            f"lost: {' '.join(loss.row)} of {loss.query}; completed by what was due at {loss.published_at:.3f} s and "
            f"acknowledged at {loss.acknowledged_at:.3f} s; sent to {', '.join(loss.attempts)}"
            for loss in self.losses
        ]

    def show(self, console: Console) -> None:
        """Print tables."""
        counts = Table(title=f"{self.seconds:,.0f} s, {sum(self.faults.values()):,} faults: {_listed(self.faults)}")
        for name in asdict(self.verdict):
            counts.add_column(name, justify="right")
        counts.add_row(*(f"{value:,}" for value in asdict(self.verdict).values()))
        console.print(counts)
        for line in _first(self._complaints()):
            console.print(f"  {line}", highlight=False, markup=False)
        for line in _first(self._lost()):
            console.print(f"  {line}", highlight=False, markup=False)
        times = Table(title="seconds")
        for name in ("", "count", "p50", "p99", "largest"):
            times.add_column(name, justify="right" if name else "left")
        figures = self.as_json()
        for name, spread in (
            ("answers, all probes", figures["delay_seconds"]),
            ("answer gap, one node killed", figures["gap_seconds"]["one_node"]),
            ("answer gap, all nodes killed", figures["gap_seconds"]["all_nodes"]),
            ("start to ready, one node", figures["restart_seconds"]["one_node"]),
            ("start to ready, all at once", figures["restart_seconds"]["several_nodes"]),
            ("ready to all copies restored", figures["whole_seconds"]),
        ):
            missing = "never" if spread["count"] else "-"
            shown = (missing if value is None else f"{value:,.3f}" for value in list(spread.values())[1:])
            times.add_row(name, f"{spread['count']:,}", *shown)
        console.print(times)
        console.print(f"publications: {_listed(self.publications)}")
        for who, failures in self.failures.items():
            if failures:
                console.print(f"tried again by {who}: {_listed(failures)}")
        if self.proxy:
            console.print(f"proxy: {_listed(self.proxy)}")
        for problem in _first(self.problems):
            console.print(f"problem: {problem}", style="bold", highlight=False, markup=False)
        console.print("nothing lost, duplicated or phantom" if self.good else "NOT GOOD", style="bold")


def _first(lines: Sequence[str]) -> list[str]:
    """Return the first lines, for people; all of them are in the JSON."""
    more = len(lines) - LINES_MAX
    return [*lines[:LINES_MAX], f"... and {more:,} more"] if more > 0 else list(lines)


def _spread(values: Iterable[float]) -> dict[str, float | None]:
    known = list(values)
    return {
        "count": len(known), "p50": _finite(percentile(known, 0.5)), "p99": _finite(percentile(known, 0.99)),
        "largest": _finite(max(known, default=None)),
    }  # fmt: skip


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else round(value, 4)


def _listed(counts: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in counts.items()) or "none"
