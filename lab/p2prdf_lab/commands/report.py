"""Results of experiments as text: tables that fit the width, claims beside measurements."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from p2prdf_cli.render import human_bytes
from p2prdf_cli.terminal import output, table

if TYPE_CHECKING:
    from rich.console import Console

    from p2prdf_lab.experiments.results import Claim, Result
    from p2prdf_lab.experiments.results import Table as Numbers

__all__ = ["WIDTH_MAX", "setting_text", "write_paragraph", "write_result", "write_tables"]

WIDTH_MAX: Final = 100
"""Most columns of a table, if it can be split."""

_SETTING_WORDS: Final = {
    "peers": "peers", "queries": "queries", "triples": "triples", "instances": "instances per class",
    "values": "values per literal domain",
}  # fmt: skip

_HEADER_MIN: Final = 8
_ENDLESS: Final = 10_000
_DECIMALS_MAX: Final = 3

Cell = str | int | float


def setting_text(setting: Mapping[str, Cell]) -> str:
    """Return a setting in one line, sizes first."""
    parts = [f"{setting[name]:,} {words}" for name, words in _SETTING_WORDS.items() if name in setting]
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in setting.items() if name not in _SETTING_WORDS]
    return ", ".join(parts)


def write_result(result: Result, seconds: float, peak: int, plot: Path | None) -> None:
    """Write a result to standard output."""
    console = output()
    console.print(Text(result.title, "bold"))
    write_paragraph(console, setting_text(result.setting))
    for each in result.tables:
        console.print()
        write_tables(console, each)
    console.print()
    console.print(_claims_grid(console, result.claims), width=min(console.width, WIDTH_MAX))
    for note in result.notes:
        console.print()
        write_paragraph(console, note)
    console.print()
    failed = sum(not claim.holds for claim in result.claims)
    verdict = f"{failed} of {len(result.claims)} claims DO NOT HOLD" if failed else "every claim holds"
    figure = f"; figure: {plot}" if plot is not None else ""
    write_paragraph(console, f"{verdict}; {seconds:.1f} s, at most {human_bytes(peak)} of memory{figure}")


def write_paragraph(console: Console, text: str) -> None:
    """Write a text, wrapped at words."""
    console.print(Text(text), width=min(console.width, WIDTH_MAX))


def _claims_grid(console: Console, claims: Sequence[Claim]) -> Table:
    """Return the claims, each with a mark and its measurement."""
    drawn = console.encoding.lower().startswith("utf")
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for claim in claims:
        mark = ("✓" if drawn else "yes") if claim.holds else ("✗" if drawn else "NO")
        text = Text(claim.text + ": ")
        text.append(claim.measured, "bold")
        grid.add_row(Text(mark, "green" if claim.holds else "bold red"), text)
    return grid


# --- tables --------------------------------------------------------------------------------------


def write_tables(console: Console, numbers: Numbers) -> None:
    """Write a table as it is if it fits, otherwise transposed and split into several tables."""
    width = min(console.width, WIDTH_MAX)
    rows = spelled(numbers)
    parts = [table(numbers.title, _broken(numbers.columns, rows), rows)]
    if _width(console, parts[0]) > width:
        parts = _turned(console, numbers, rows, width)
    for place, part in enumerate(parts):
        if place:
            console.print()
        console.print(part)


def _turned(console: Console, numbers: Numbers, rows: list[list[str]], width: int) -> list[Table]:
    """Return the table transposed, in the fewest equal parts that fit."""
    cut: list[Table] = []
    for each in range(len(rows), 0, -1):
        if len(rows) % each == 0:
            starts = range(0, len(rows), each)
            cut = [_on_its_side(numbers, rows[start : start + each], first=not start) for start in starts]
            if all(_width(console, part) <= width for part in cut):
                break
    return cut


def _on_its_side(numbers: Numbers, rows: list[list[str]], *, first: bool) -> Table:
    turned = [[name, *(row[at] for row in rows)] for at, name in enumerate(numbers.columns)]
    names, body = turned[0], turned[1:]
    return table(numbers.title if first else "", _broken(["", *names[1:]], body), body)


def _broken(names: Sequence[str], rows: list[list[str]]) -> list[str]:
    """Wrap headers that are wider than their columns; numbers are never wrapped."""
    broken = []
    for at, name in enumerate(names):
        below = max((len(row[at]) for row in rows), default=0)
        longest = max((len(word) for word in name.split()), default=1)
        broken.append("\n".join(textwrap.wrap(name, max(below, longest, _HEADER_MIN))) or name)
    return broken


def _width(console: Console, each: Table) -> int:
    """Return the width of a table without truncation."""
    return console.measure(each, options=console.options.update(width=_ENDLESS)).maximum


def spelled(numbers: Numbers) -> list[list[str]]:
    """Return the cells as text: with thousands separators, and one number of decimals per column."""
    columns = []
    for column in zip(*numbers.rows, strict=True):
        decimals = max((_decimals(value) for value in column if isinstance(value, float)), default=0)
        columns.append([_spell(value, decimals) for value in column])
    return [list(row) for row in zip(*columns, strict=True)]


def _decimals(value: float) -> int:
    return len(f"{value:.{_DECIMALS_MAX}f}".rstrip("0").partition(".")[2])


def _spell(value: Cell, decimals: int) -> str:
    return value if isinstance(value, str) else f"{value:,.{decimals}f}" if isinstance(value, float) else f"{value:,}"
