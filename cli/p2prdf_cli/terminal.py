"""Output by ``rich``, which is slow to load: consoles, tables, and solutions on a terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from p2prdf_cli.render import TRUE, SolutionsAlone, fit, printable, short_term

if TYPE_CHECKING:
    from p2prdf.client import Solution

__all__ = ["TerminalColumns", "console", "output", "table"]

PLAIN_WIDTH: Final = 110
"""Width in characters without a terminal."""

_QUANTITY: Final = re.compile(r"[\d.,]+(%| ?[a-zA-Z/]+)?( / [\d.,]+( ms)?)?")
"""A number with a unit, or two of them."""


def console() -> Console:
    """Return the console for progress and remarks (standard error)."""
    return Console(stderr=True, highlight=False)


def output() -> Console:
    """Return the console for results (standard output); a pipe or file gets PLAIN_WIDTH columns."""
    wanted = Console(highlight=False)
    if not wanted.is_terminal and "COLUMNS" not in os.environ:
        wanted = Console(highlight=False, width=PLAIN_WIDTH)
    return wanted


class TerminalColumns(SolutionsAlone):
    """Columns to the width of the terminal, with shortened terms; unbound is blank, and ASK has one column,
    ``true``."""

    def __init__(self, names: Sequence[str], prefixes: Mapping[str, str]):
        self._console = output()
        self._prefixes = prefixes
        self._width = max(8, (self._console.width - 7) // max(1, len(names)) - 2)
        self._line("#", names, style="bold")

    def solution(self, solution: Solution) -> None:
        """Write one solution."""
        cells = [printable(short_term(term or "", self._prefixes)) for term in solution.terms] or [TRUE]
        self._line(("-" if solution.removed else "") + str(solution.sequence), cells)

    def _line(self, number: str, cells: Sequence[str], style: str = "") -> None:
        text = "  ".join(fit(cell, self._width).ljust(self._width) for cell in cells)
        self._console.print(Text(f"{number:>6} {text}".rstrip(), style=style), no_wrap=True, crop=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table; columns of numbers are right-aligned."""
    result = Table(
        title=title, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD,
        padding=(0, 2, 0, 0), pad_edge=False, min_width=len(title),
    )  # fmt: skip
    for number, name in enumerate(columns):
        numeric = bool(rows) and all(_numeric(row[number]) for row in rows)
        result.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric or not number)
    for row in rows:
        result.add_row(*(Text(_cell(value)) for value in row))
    return result


def _numeric(value: object) -> bool:
    return isinstance(value, int | float) or value in ("", "-") or _QUANTITY.fullmatch(str(value)) is not None


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
