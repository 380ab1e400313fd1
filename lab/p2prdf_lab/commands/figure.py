"""Figures: panels of lines and bars, readable in print and in grey.

The only module that imports matplotlib (extra ``plot``).  It uses matplotlib's object interface without pyplot: no
window system, no global state, settings for one figure.  Text is in matplotlib's own font.

Curves differ in grey level (with some hue), line style and marker, because a printer, a projector or an eye may lose
one of the three.  They are the same in all panels of a figure: one colour per program, one line style and marker per
curve.  Earlier curves are broader and lie below later ones, so coincident curves remain visible.  A band or an error
bar shows the least and the greatest value of several seeds.

Equal panels give equal bytes, as far as the format allows: without date, and with fixed names inside an SVG file.
"""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from p2prdf_lab.experiments.results import Curve, Panel

__all__ = ["amount", "draw", "rendered"]

_WIDTH: Final = 10.7
_PANEL_HEIGHT: Final = 3.9
_MARGIN_HEIGHT: Final = 0.8
_DOTS_PER_INCH: Final = 150
"""1,605 dots wide."""

_INKS: Final = ("#14213d", "#a83a0c", "#5f8fc7", "#d0ac52", "#3d6b4f", "#8f7ca8", "#c76b98", "#7a7a7a")
"""Colours; the first four are a fifth of the scale from black to white apart, and neighbours always differ."""

_LINES: Final[tuple[Any, ...]] = (
    "-", (0, (5, 1.6)), (0, (1.2, 1.3)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)), (0, (3, 1, 1, 1, 1, 1)),
)  # fmt: skip
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "p", "*")
_HATCHES: Final = ("", "////", "....", "\\\\\\\\", "xxxx", "--")
_BROADEST: Final = 1.65
"""Most points by which the first curve of a panel is broader than the last."""
_MARKS: Final = 7
"""Markers along a curve."""

_LEGEND_CHARACTERS: Final = 66
_KEY_CHARACTERS: Final = 8
"""Characters of a legend's line over half the figure, and characters that a key takes."""

_TICKS_CHARACTERS: Final = 54
"""Most characters of all names below the bars of a panel."""

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


@dataclass(frozen=True, slots=True)
class _Style:
    """The appearance of a curve in all panels of a figure."""

    ink: str
    line: Any
    marker: str
    hatch: str


def _styles(panels: Sequence[Panel]) -> dict[str, _Style]:
    """Return the style of each curve by its label: programs have their colours in order of appearance.

    Line styles and markers depend on the curve, so variants of one program differ in these.
    """
    curves = {curve.label: curve.program or curve.label for panel in panels for curve in panel.curves}
    programs = list(dict.fromkeys(curves.values()))
    return {
        label: _Style(
            _INKS[programs.index(program) % len(_INKS)], _LINES[place % len(_LINES)], _MARKERS[place % len(_MARKERS)],
            _HATCHES[place % len(_HATCHES)],
        )
        for place, (label, program) in enumerate(curves.items())
    }  # fmt: skip


def draw(title: str, panels: Sequence[Panel], foot: str = "") -> Figure:
    """Return a figure: panels two in a row, the last alone across the whole width if their number is odd."""
    rows = -(-len(panels) // 2)
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH, rows * _PANEL_HEIGHT + _MARGIN_HEIGHT), dpi=_DOTS_PER_INCH)
        figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12, hspace=0.04, wspace=0.03)
        figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold")
        grid = figure.add_gridspec(rows, 2)
        styles = _styles(panels)
        for place, panel in enumerate(panels):
            alone = place == len(panels) - 1 and place % 2 == 0
            axes = figure.add_subplot(grid[place // 2, :] if alone else grid[place // 2, place % 2])
            _panel(axes, panel, styles, alone=alone)
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


def _panel(axes: Axes, panel: Panel, styles: Mapping[str, _Style], *, alone: bool) -> None:
    if panel.kind == "bars":
        _bars(axes, panel, styles)
    else:
        _lines(axes, panel, styles)
    _scale(axes, panel)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel("\n".join(textwrap.wrap(panel.y_label, 38)))
    above = _legend(axes, panel, alone=alone) if len(panel.curves) > 1 else 0
    axes.set_title(panel.title, loc="left", pad=6.0 + above)


def _lines(axes: Axes, panel: Panel, styles: Mapping[str, _Style]) -> None:
    count = len(panel.curves)
    step = min(0.55, _BROADEST / max(1, count - 1))
    for place, whole in enumerate(panel.curves):
        curve = _positive(whole) if panel.x_log else whole
        style = styles[curve.label]
        if curve.low:
            axes.fill_between(curve.x, curve.low, curve.high, color=style.ink, alpha=0.16, linewidth=0)
        axes.plot(
            curve.x, curve.y, label=curve.label, color=style.ink, linestyle=style.line, marker=style.marker,
            linewidth=1.6 + step * (count - 1 - place), markersize=5.2, markerfacecolor="white", markeredgewidth=1.2,
            markevery=_marked(curve, panel, place), zorder=2 + place, clip_on=False,
        )  # fmt: skip
    right = max(max(curve.x) for curve in panel.curves)
    if panel.x_log:
        axes.set_xscale("log")
        left = min(x for curve in panel.curves for x in curve.x if x > 0)
        axes.xaxis.set_major_locator(LogLocator(subs=_between(left, right)))
        axes.xaxis.set_major_formatter(FuncFormatter(amount))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(left / 1.05, right * 1.05)
    else:
        axes.set_xlim(0, right * 1.01 if right else 1.0)
        axes.xaxis.set_major_formatter(FuncFormatter(amount))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def _positive(curve: Curve) -> Curve:
    """Return the points of a curve with positive values, which a logarithmic axis can show."""
    kept = [at for at, x in enumerate(curve.x) if x > 0]
    columns = (curve.x, curve.y, curve.low, curve.high)
    x, y, low, high = (tuple(column[at] for at in kept) if column else () for column in columns)
    return replace(curve, x=x, y=y, low=low, high=high)


def _between(low: float, high: float) -> tuple[float, ...]:
    """Return the multiples of powers of ten to label on a logarithmic axis, without overlaps."""
    return (1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,)


def _marked(curve: Curve, panel: Panel, place: int) -> list[int]:
    """Return the points of a curve that get a marker: evenly along the axis, apart from other curves' markers."""
    if len(curve.x) <= _MARKS + 1:
        return list(range(len(curve.x)))
    if panel.x_log:
        apart = -(-len(curve.x) // _MARKS) if len(curve.x) > 3 * _MARKS else 1
        return list(range(place % apart, len(curve.x), apart))
    right = max(max(each.x) for each in panel.curves)
    shift = (place + 0.5) / len(panel.curves)
    wanted = [right * (step + shift) / _MARKS for step in range(_MARKS)]
    nearest = (min(range(len(curve.x)), key=lambda at: abs(curve.x[at] - x)) for x in wanted if x <= curve.x[-1])
    return sorted(set(nearest))


def _bars(axes: Axes, panel: Panel, styles: Mapping[str, _Style]) -> None:
    count = len(panel.curves)
    width = 0.78 / count
    for place, curve in enumerate(panel.curves):
        style = styles[curve.label]
        places = [x + (place - (count - 1) / 2) * width for x in curve.x]
        axes.bar(
            places, curve.y, width * 0.92, label=curve.label, color=style.ink, hatch=style.hatch, edgecolor="white",
            linewidth=0.6,
        )  # fmt: skip
        if curve.low:
            below = [y - low for y, low in zip(curve.y, curve.low, strict=True)]
            above = [high - y for y, high in zip(curve.y, curve.high, strict=True)]
            axes.errorbar(places, curve.y, yerr=(below, above), fmt="none", ecolor="#444444", capsize=2, linewidth=0.9)
    room = max(8, _TICKS_CHARACTERS // max(1, len(panel.ticks)))
    axes.set_xticks(
        range(len(panel.ticks)), ["\n".join(textwrap.wrap(tick, room, break_long_words=False)) for tick in panel.ticks]
    )
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")


def _scale(axes: Axes, panel: Panel) -> None:
    values = [y for curve in panel.curves for y in (*curve.y, *curve.low, *curve.high)]
    top = max(values, default=0.0)
    low = min((y for y in values if y > 0), default=1.0)
    if panel.y_log and top > 0:
        axes.set_yscale("log")
        axes.set_ylim(low / 2 if low < 1 else max(0.5, low / 2), top * 1.6)
        axes.yaxis.set_major_locator(LogLocator(subs=_between(low, top)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        bottom = min(0.0, *values) if values else 0.0
        room = 0.06 * (top - bottom)
        axes.set_ylim(bottom - room if bottom < 0 else 0, top + room if top > bottom else 1.0)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(amount))


def _legend(axes: Axes, panel: Panel, *, alone: bool) -> float:
    """Put the legend between title and axes, where no data is; return its height in points.

    The layout ignores the legend: otherwise it would narrow the axes by the legend's width.
    """
    labels = _short([curve.label for curve in panel.curves])
    columns = next(
        columns for columns in range(len(labels), 0, -1)
        if columns == 1 or _legend_width(labels, columns) <= _LEGEND_CHARACTERS * (1 + alone)
    )  # fmt: skip
    rows = -(-len(labels) // columns)
    columns = -(-len(labels) // rows)  # fills the columns evenly
    handles = axes.get_legend_handles_labels()[0]
    legend = axes.legend(
        handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, borderpad=0.0,
    )  # fmt: skip
    legend.set_in_layout(False)
    return 13.5 * rows + 3.0


def _legend_width(labels: list[str], columns: int) -> int:
    """Return the characters of a legend's line, with columns filled downwards, each as wide as its longest label."""
    rows = -(-len(labels) // columns)
    return sum(max(map(len, labels[start : start + rows])) + _KEY_CHARACTERS for start in range(0, len(labels), rows))


def _short(labels: list[str]) -> list[str]:
    """Remove the common beginning of all labels, such as the algorithm of a panel."""
    heads = {label.partition(", ")[0] for label in labels}
    if len(heads) > 1 or not all(", " in label for label in labels):
        return labels
    return [label.partition(", ")[2] for label in labels]
