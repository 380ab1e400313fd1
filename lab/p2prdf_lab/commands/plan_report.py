"""The text and the figure of a capacity plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from rich.text import Text

from p2prdf_cli.render import human_bytes, printable
from p2prdf_cli.terminal import output, table
from p2prdf_lab.capacity.plan import Spread
from p2prdf_lab.capacity.verdict import verdict
from p2prdf_lab.commands.report import write_paragraph
from p2prdf_lab.experiments.results import Curve, Panel

if TYPE_CHECKING:
    from rich.table import Table

    from p2prdf_lab.capacity.plan import CapacityPlan

__all__ = ["foot", "panels", "write_plan"]

_TERMS_CHARACTERS: Final = 38

_HELD: Final = {
    "triples": "triples",
    "rows": "partial results",
    "queries": "queries, plans",
    "terms": "terms",
    "answers": "answers seen",
}
_GROWN: Final = {
    "processing": "processing load",
    "copies": "copies held",
    "rows": "partial results held",
    "answers": "answers",
}
_SENT: Final = {
    "index": "triples to owners", "forward": "partial results to owners", "answers": "answers to coordinators",
    "deliver": "answers to subscribers", "delivered": "receipts to coordinators", "settled": "replies to receipts",
    "acknowledge": "acknowledgements",
}  # fmt: skip
_BARS: Final = {
    "index": "triples", "forward": "partial results", "answers": "answers to homes", "deliver": "answers on",
    "delivered": "receipts", "settled": "answers to receipts", "acknowledge": "acknowl- edgements",
}  # fmt: skip
_POINTS_MAX: Final = 400


def write_plan(plan: CapacityPlan, sample: str, seconds: float, plot: Path | None) -> None:
    """Write a plan to standard output."""
    console = output()
    console.print(Text(f"Capacity of {plan.options.peers:,} peers", "bold"))
    write_paragraph(console, foot(plan))
    write_paragraph(console, _sample(plan, sample))
    tables = [_loads(plan), _messages(plan), _memory(plan), _keys(plan), _growth(plan)]
    for each in tables:
        console.print()
        console.print(each)
    console.print()
    write_paragraph(console, verdict(plan))
    console.print()
    figure = f"; figure: {plot}" if plot is not None else ""
    write_paragraph(console, f"{seconds:.1f} s{figure}")


def foot(plan: CapacityPlan) -> str:
    """Return the options of the plan in one line."""
    options = plan.options
    equal = f" ({plan.distinct_queries:,} different)" if plan.distinct_queries < plan.queries else ""
    return (
        f"{plan.queries:,} queries{equal}, {options.algorithm.value.upper()}, indexed under {', '.join(plan.roles)};"
        f" {options.overlay}, {options.places} places, seed {options.seed};"
        f" {options.rate:,.6g} triples a second, {options.batch:,} at once, at {options.publishers:,}"
        f" {'peer' if options.publishers == 1 else 'peers'}"
    )


def _sample(plan: CapacityPlan, sample: str) -> str:
    taken = f"{plan.published:,} of {sample}: {plan.cut}" if plan.cut else sample
    answers = (
        f"{plan.answers / plan.published:,.4g} answers found per triple,"
        f" {plan.delivered / plan.published:,.4g} delivered to subscribers."
    )
    return f"Sample: {taken}; {plan.seconds:,.1f} s of the stream. {answers}"


# --- tables --------------------------------------------------------------------------------------


def _loads(plan: CapacityPlan) -> Table:
    rows: list[tuple[object, ...]] = [
        (what, spell(each.max), spell(each.median), spell(each.mean), f"{each.gini:.2f}", spell(each.total))
        for what, each, spell in (
            ("to work off, a second", plan.processing_per_second, _count),
            ("held, in the end", Spread.of(plan.storage), _count),
            ("network, a second", plan.link_per_second, human_bytes),
        )
    ]
    return table(
        "Load per peer: copies and partial results; bytes sent and received",
        ("", "max", "median", "mean", "Gini", "all peers"), rows,
    )  # fmt: skip


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2f}"


def _messages(plan: CapacityPlan) -> Table:
    rate = plan.options.rate
    rows: list[tuple[object, ...]] = [
        (
            _SENT[each.kind], f"{each.messages:.4f}", f"{each.rows / each.messages:,.1f}" if each.messages else "-",
            f"{each.bytes:,.1f}", _count(each.messages * rate), human_bytes(each.bytes * rate),
        )
        for each in plan.traffic
    ]  # fmt: skip
    messages, size = (sum(getattr(each, name) for each in plan.traffic) for name in ("messages", "bytes"))
    rows.append(("together", f"{messages:.4f}", "", f"{size:,.1f}", _count(messages * rate), human_bytes(size * rate)))
    weighed = sum(each.weighed for each in plan.traffic)
    return table(
        f"Messages between peers per triple; bytes by {weighed:,} real frames",
        ("", "messages", "rows\nin each", "bytes", "messages\na second", "bytes\na second"), rows,
    )  # fmt: skip


def _memory(plan: CapacityPlan) -> Table:
    fullest, median = plan.holders["fullest"].footprint, plan.holders["median"].footprint
    rows: list[tuple[object, ...]] = []
    for name, what in _HELD.items():
        cells: list[object] = [what]
        for held in (fullest, median):
            count, size = getattr(held, name), getattr(held, f"{name}_bytes")
            each = f"{size / count:,.0f}" if count and name != "queries" else "-"
            cells += [f"{count:,}", human_bytes(size), each]
        rows.append(tuple(cells))
    rows.append(("together", "", human_bytes(fullest.bytes), "", "", human_bytes(median.bytes), ""))
    if plan.times_estimated is not None and plan.times_estimated > 1:
        cells = [f"after {plan.options.hours:g} h"]
        for which in ("fullest", "median"):
            least, most = (human_bytes(each) for each in plan.holders[which].after(plan.times_estimated))
            cells += ["", f"{least}\nto {most}" if least != most else least, ""]
        rows.append(tuple(cells))
    return table(
        "Memory of the fullest and of the median peer",
        ("", "fullest", "bytes", "each", "median", "bytes", "each"), rows,
    )  # fmt: skip


def _keys(plan: CapacityPlan) -> Table:
    rows: list[tuple[object, ...]] = [
        (key.role, _terms(key.terms), key.triples, key.rows, f"{key.load / max(1, load):.0%}")
        for key, load in plan.busiest_keys
    ]
    return table("Busiest keys", ("role", "terms", "copies", "partial\nresults", "of its\npeer's load"), rows)


def _terms(terms: tuple[str, ...]) -> str:
    """Shorten terms to the width; of an IRI the end remains, which distinguishes it."""
    if not terms:  # the wildcard index
        return ""
    room = _TERMS_CHARACTERS // len(terms)
    return " ".join(term if len(term) <= room else _cut(term, room) for term in map(printable, terms))


def _cut(term: str, room: int) -> str:
    return f"<...{term[4 - room :]}" if term.startswith("<") else f"{term[: room - 3]}..."


def _growth(plan: CapacityPlan) -> Table:
    rows: list[tuple[object, ...]] = []
    for name, each in plan.growth.items():
        powers = each.exponents
        told = ("too few", "to tell") if powers is None else tuple(f"{power:.2f}" for power in powers)
        rows.append((_GROWN[name], *(f"{count:,}" for count in each.counts), *told))
    first, *others = (f"{count:,}" for count in plan.growth["rows"].triples)
    return table(
        "Growth with the stream, and the power of it at each doubling",
        ("", f"{first}\ntriples", *others, "power", "lately"), rows,
    )  # fmt: skip


# --- the figure ----------------------------------------------------------------------------------


def panels(plan: CapacityPlan) -> list[Panel]:
    """Return the panels of a plan's figure."""
    rank = "peers, busiest first"
    ticks = tuple(_BARS[each.kind] for each in plan.traffic)
    x = tuple(float(at) for at in range(len(ticks)))
    per_triple = (
        ("Messages between peers", "messages per triple", [each.messages for each in plan.traffic]),
        ("Bytes between peers", "bytes per triple", [each.bytes for each in plan.traffic]),
    )
    work, mean = plan.processing / plan.seconds, plan.processing_per_second.mean
    return [
        Panel(
            "Processing load", rank, "copies and partial results a second",
            (_ranked("each peer", work), Curve("mean", (1.0, float(len(work))), (mean, mean))),
        ),
        Panel(
            "Network", rank, "bytes a second",
            (
                _ranked("sent", plan.sent_bytes / plan.seconds),
                _ranked("received", plan.received_bytes / plan.seconds),
            ),
        ),
        *(
            Panel(title, "", label, (Curve("sample", x, tuple(values)),), "bars", ticks)
            for title, label, values in per_triple
        ),
    ]  # fmt: skip


def _ranked(label: str, values: npt.NDArray[np.float64]) -> Curve:
    """Return values by rank, from 1: about a hundred points, denser at the busy end."""
    ranked = np.sort(values)[::-1]
    ranks = np.unique(np.geomspace(1, len(ranked), _POINTS_MAX).round().astype(np.int64))
    return Curve(label, tuple(ranks.astype(float).tolist()), tuple(ranked[ranks - 1].tolist()))
