"""Results of an experiment: tables, panels of a figure, claims beside measurements.

Results are plain values, equal in a terminal, a figure and a JSON file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Claim", "Curve", "Panel", "Result", "Table", "by_rank", "gini", "share_of_top"]

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Curve:
    """One line, or one set of bars, of a panel.

    ``program``: the measured program, if the label has more than its name; it has one colour in all panels of a figure.
    ``low`` and ``high``: the least and the greatest value of several seeds for each ``y``; empty with one seed.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    program: str = ""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        spread = {"low": list(self.low), "high": list(self.high)} if self.low else {}
        return {"label": self.label, "x": list(self.x), "y": list(self.y), **spread}


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes.  Labels name the quantity and its unit.

    ``bars``: a group of bars for each x, a category that ``ticks`` names.
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    kind: Literal["lines", "bars"] = "lines"
    ticks: tuple[str, ...] = ()
    y_log: bool = False
    x_log: bool = False

    def as_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "title": self.title, "x_label": self.x_label, "y_label": self.y_label, "kind": self.kind,
            "ticks": list(self.ticks), "y_log": self.y_log, "x_log": self.x_log,
            "curves": [curve.as_dict() for curve in self.curves],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table; the first column is the heading of a row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def as_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {"title": self.title, "columns": list(self.columns), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper or of this project, with the measurement and whether the claim holds."""

    text: str
    measured: str
    holds: bool

    def as_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {"text": self.text, "measured": self.measured, "holds": self.holds}


@dataclass(slots=True)
class Result:
    """The result of one experiment."""

    name: str
    title: str
    setting: dict[str, Cell]
    tables: list[Table] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "name": self.name, "title": self.title, "setting": dict(self.setting),
            "tables": [table.as_dict() for table in self.tables],
            "panels": [panel.as_dict() for panel in self.panels],
            "claims": [claim.as_dict() for claim in self.claims], "notes": list(self.notes),
        }  # fmt: skip


_POINTS_MAX = 400


def by_rank(label: str, load: npt.NDArray[np.int64]) -> Curve:
    """Return the cumulative load of peers ranked by load, busiest first, as in the paper's figures.

    It has about a hundred points, denser at the bend.
    """
    total = np.cumsum(np.sort(load)[::-1])
    ranks = np.unique(np.geomspace(1, len(load), _POINTS_MAX // 2).astype(np.int64))
    ranks = np.union1d(ranks, np.linspace(1, len(load), _POINTS_MAX // 2).astype(np.int64))
    x = (0.0, *ranks.astype(float).tolist())
    return Curve(label, x, (0.0, *total[ranks - 1].astype(float).tolist()))


def gini(load: npt.NDArray[np.int64]) -> float:
    """Return the Gini coefficient: 0 for equal loads, near 1 if one peer has all of the load."""
    total = int(load.sum())
    if total == 0:
        return 0.0
    ranked = np.sort(load)
    place = np.arange(1, len(ranked) + 1)
    return float(2 * np.dot(place, ranked) / (len(ranked) * total) - (len(ranked) + 1) / len(ranked))


def share_of_top(load: npt.NDArray[np.int64], share: float = 0.01) -> float:
    """Return the part of the load on the busiest ``share`` of all peers."""
    total = int(load.sum())
    count = max(1, round(len(load) * share))
    return float(np.sort(load)[::-1][:count].sum() / total) if total else 0.0
