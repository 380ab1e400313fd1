"""Figures: panels of lines and bars, drawn so that they read in print and in grey.

The only module that imports matplotlib (extra ``plot``).  It is used through its object interface,
without pyplot: no window system is looked for, nothing is global, and settings hold for one figure.
Text is in the font that matplotlib brings along.

What tells curves apart are three things at once: a grey level with a touch of hue, a kind of line,
a marker.  Any one of them may be lost, to a printer, a projector or an eye.  Earlier curves are
drawn broader and below later ones, so that curves on top of each other still show.

Equal panels give equal bytes, as far as the format allows: no date, and names inside an SVG file that
do not depend on chance.
"""

from __future__ import annotations

import io
import textwrap
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from p2prdf.sim.experiments.results import Curve, Panel

__all__ = ["amount", "draw", "rendered"]

_WIDTH: Final = 10.7
_PANEL_HEIGHT: Final = 3.9
_MARGIN_HEIGHT: Final = 0.8
_DOTS_PER_INCH: Final = 150
"""1,605 dots wide."""

_INKS: Final = ("#14213d", "#a83a0c", "#5f8fc7", "#d0ac52", "#3d6b4f", "#8f7ca8")
"""From dark to light, the first four a fifth of the way from black to white apart; neighbours always differ."""

_LINES: Final[tuple[Any, ...]] = (
    "-", (0, (5, 1.6)), (0, (1.2, 1.3)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)), (0, (3, 1, 1, 1, 1, 1)),
)  # fmt: skip
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_HATCHES: Final = ("", "////", "....", "\\\\\\\\", "xxxx", "--")
_MARKS: Final = 7
"""Markers along a curve."""

_LEGEND_CHARACTERS: Final = 66
_KEY_CHARACTERS: Final = 8
"""How much fits into one line of a legend over half the figure, and what of it a key takes."""

_TICKS_CHARACTERS: Final = 54
"""Of all names below the bars of a panel."""

_SETTINGS: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans", "font.size": 9.0, "axes.titlesize": 10.5, "axes.titleweight": "bold",
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8, "axes.edgecolor": "#444444",
    "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e3e3e3", "grid.linewidth": 0.7,
    "legend.frameon": False, "legend.fontsize": 8.5, "legend.handlelength": 2.8, "legend.columnspacing": 1.2,
    "hatch.linewidth": 0.6, "svg.hashsalt": "p2prdf", "svg.fonttype": "path", "pdf.fonttype": 42,
    "path.simplify": True,
}  # fmt: skip

_UNDATED: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}


def draw(title: str, panels: Sequence[Panel], foot: str = "") -> Figure:
    """Return a figure: panels two in a row, the last alone across the whole width if their number is odd."""
    rows = -(-len(panels) // 2)
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH, rows * _PANEL_HEIGHT + _MARGIN_HEIGHT), dpi=_DOTS_PER_INCH)
        figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12, hspace=0.04, wspace=0.03)
        figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold")
        grid = figure.add_gridspec(rows, 2)
        for place, panel in enumerate(panels):
            alone = place == len(panels) - 1 and place % 2 == 0
            axes = figure.add_subplot(grid[place // 2, :] if alone else grid[place // 2, place % 2])
            _panel(axes, panel, alone=alone)
        if foot:
            figure.supxlabel("\n".join(textwrap.wrap(foot, 150)), x=0.012, ha="left", fontsize=7.5, color="#555555")
    return figure


def rendered(figure: Figure, kind: str) -> bytes:
    """Return the bytes of a figure as png, svg or pdf."""
    stream = io.BytesIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(stream, format=kind, metadata=_UNDATED[kind], facecolor="white")
    return stream.getvalue()


def amount(value: float, _: object = None) -> str:
    """Spell a number on an axis: ``5,000``, ``2 M``, ``0.25``."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    if abs(value) >= 1 or value == 0:
        return f"{value:,.6g}" if abs(value) < 1e5 and value != int(value) else f"{value:,.0f}"
    return f"{value:.3g}"


# --- panels --------------------------------------------------------------------------------------


def _panel(axes: Axes, panel: Panel, *, alone: bool) -> None:
    if panel.kind == "bars":
        _bars(axes, panel)
    else:
        _lines(axes, panel)
    _scale(axes, panel)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel("\n".join(textwrap.wrap(panel.y_label, 38)))
    above = _legend(axes, panel, alone=alone) if len(panel.curves) > 1 else 0
    axes.set_title(panel.title, loc="left", pad=6.0 + above)


def _lines(axes: Axes, panel: Panel) -> None:
    style = zip(panel.curves, cycle(_INKS), cycle(_LINES), cycle(_MARKERS), strict=False)
    for place, (curve, ink, line, marker) in enumerate(style):
        count = len(panel.curves)
        axes.plot(
            curve.x, curve.y, label=curve.label, color=ink, linestyle=line, marker=marker,
            linewidth=1.6 + 0.55 * (count - 1 - place), markersize=5.2, markerfacecolor="white", markeredgewidth=1.2,
            markevery=_marked(curve, panel, place), zorder=2 + place, clip_on=False,
        )  # fmt: skip
    right = max(max(curve.x) for curve in panel.curves)
    if panel.x_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(amount))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(right=right * 1.05)
    else:
        axes.set_xlim(0, right * 1.01 if right else 1.0)
        axes.xaxis.set_major_formatter(FuncFormatter(amount))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def _marked(curve: Curve, panel: Panel, place: int) -> list[int]:
    """Return the points of a curve that get its marker: evenly along the axis, not where others have theirs."""
    if panel.x_log or len(curve.x) <= _MARKS + 1:
        return list(range(len(curve.x)))
    right = max(max(each.x) for each in panel.curves)
    shift = (place + 0.5) / len(panel.curves)
    wanted = [right * (step + shift) / _MARKS for step in range(_MARKS)]
    nearest = (min(range(len(curve.x)), key=lambda at: abs(curve.x[at] - x)) for x in wanted if x <= curve.x[-1])
    return sorted(set(nearest))


def _bars(axes: Axes, panel: Panel) -> None:
    count = len(panel.curves)
    width = 0.78 / count
    for place, (curve, ink, hatch) in enumerate(zip(panel.curves, cycle(_INKS), cycle(_HATCHES), strict=False)):
        places = [x + (place - (count - 1) / 2) * width for x in curve.x]
        axes.bar(
            places, curve.y, width * 0.92, label=curve.label, color=ink, hatch=hatch, edgecolor="white", linewidth=0.6,
        )  # fmt: skip
    room = max(8, _TICKS_CHARACTERS // max(1, len(panel.ticks)))
    axes.set_xticks(
        range(len(panel.ticks)), ["\n".join(textwrap.wrap(tick, room, break_long_words=False)) for tick in panel.ticks]
    )
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")


def _scale(axes: Axes, panel: Panel) -> None:
    top = max((y for curve in panel.curves for y in curve.y), default=0.0)
    low = min((y for curve in panel.curves for y in curve.y if y > 0), default=1.0)
    if panel.y_log and top > 0:
        axes.set_yscale("log")
        axes.set_ylim(low / 2 if low < 1 else max(0.5, low / 2), top * 1.6)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if top / low < 1e3 else (1.0,)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, top * 1.06 if top else 1.0)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(amount))


def _legend(axes: Axes, panel: Panel, *, alone: bool) -> float:
    """Put the legend between title and axes, where no data is; return its height in points.

    The layout must not see it: it would make room for its width, and the axes narrower.
    """
    labels = _short([curve.label for curve in panel.curves])
    columns = next(
        columns for columns in range(len(labels), 0, -1)
        if columns == 1 or _legend_width(labels, columns) <= _LEGEND_CHARACTERS * (1 + alone)
    )  # fmt: skip
    rows = -(-len(labels) // columns)
    columns = -(-len(labels) // rows)  # else the first column alone would be full
    handles = axes.get_legend_handles_labels()[0]
    legend = axes.legend(
        handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, borderpad=0.0,
    )  # fmt: skip
    legend.set_in_layout(False)
    return 13.5 * rows + 3.0


def _legend_width(labels: list[str], columns: int) -> int:
    """Return the characters of a legend's line: its columns are filled downwards, each as wide as its longest."""
    rows = -(-len(labels) // columns)
    return sum(max(map(len, labels[start : start + rows])) + _KEY_CHARACTERS for start in range(0, len(labels), rows))


def _short(labels: list[str]) -> list[str]:
    """Leave out what all labels begin with: in a panel about CQC each would say so."""
    heads = {label.partition(", ")[0] for label in labels}
    if len(heads) > 1 or not all(", " in label for label in labels):
        return labels
    return [label.partition(", ")[2] for label in labels]
