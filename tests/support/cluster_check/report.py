"""The report of a check: a table in Markdown, to be pasted into docs/how-to/run-on-kubernetes.md, and JSON."""

from __future__ import annotations

import datetime
import textwrap
from dataclasses import dataclass, field
from typing import Any, Final

from cluster_check.counts import Counts

__all__ = ["Report", "Result"]

WIDTH: Final = 100


@dataclass(slots=True)
class Result:
    """The result of one step: ``state`` is ``passed``, ``failed`` or ``skipped``; ``facts`` are sentences."""

    step: str
    state: str = "passed"
    seconds: float = 0.0
    facts: list[str] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)

    def line(self) -> str:
        """Return one paragraph."""
        parts = [*self.facts, *(str(each) for each in self.counts)]
        return f"**{self.step}**: {self.state}, {self.seconds:.0f} s. {'. '.join(part.rstrip('.') for part in parts)}."


@dataclass(slots=True)
class Report:
    """All results, with the cluster they hold for."""

    versions: dict[str, str]
    machines: list[str]
    image: str
    results: list[Result] = field(default_factory=list)
    date: datetime.date = field(default_factory=lambda: datetime.datetime.now(tz=datetime.UTC).date())

    @property
    def good(self) -> bool:
        """Whether a step ran and none failed."""
        ran = [each for each in self.results if each.state != "skipped"]
        return bool(ran) and all(each.state == "passed" for each in ran)

    @property
    def totals(self) -> Counts:
        """Return the sums over all loads, and their longest pause."""
        loads = [each for result in self.results for each in result.counts]
        names = ("sent", "acknowledged", "delivered", "lost", "doubled", "phantom", "retracted", "reconnections")
        sums = {name: sum(getattr(each, name) for each in loads) for name in names}
        return Counts(**sums, pause=max((each.pause for each in loads), default=0.0))

    def markdown(self) -> str:
        """Return date, versions, one item per step, and the sums; lines are at most 100 characters long."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        machines = f"{len(self.machines)} machines ({', '.join(self.machines)})" if self.machines else "no machine"
        head = f"{self.date.isoformat()}: {versions}; {machines}."
        items = [_wrapped(result.line(), "- ", "  ") for result in self.results]
        totals = ["", _wrapped(f"All loads: {self.totals}.", "", "")] if self.totals.sent else []
        return "\n".join([_wrapped(head, "", ""), "", *items, *totals, ""])

    def as_json(self) -> dict[str, Any]:
        """Return everything."""
        results = [
            {
                "step": each.step, "state": each.state, "seconds": round(each.seconds, 1), "facts": each.facts,
                "counts": [counts.as_json() for counts in each.counts],
            }
            for each in self.results
        ]  # fmt: skip
        return {
            "date": self.date.isoformat(), "versions": self.versions, "machines": self.machines, "image": self.image,
            "good": self.good, "results": results, "totals": self.totals.as_json(),
        }  # fmt: skip


def _wrapped(text: str, first: str, rest: str) -> str:
    return "\n".join(
        textwrap.wrap(
            text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
        )
    )
