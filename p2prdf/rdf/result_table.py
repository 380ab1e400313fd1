"""Rows of results as columns of text for people.

The widths of columns are computed from the first rows, which are held back.  Later rows are written at once; a cell
that is wider than its column shifts the rest of its row.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from p2prdf.rdf.results import Row

__all__ = ["CELL_WIDTH_MAX", "ROWS_HELD", "TableWriter"]

ROWS_HELD: Final = 1000
"""Rows that are held back to compute the widths, as text that is already cut."""
CELL_WIDTH_MAX: Final = 72
"""Widest cell, in terminal columns; longer text is cut and ends in an ellipsis."""


class TableWriter:
    """Writes a head, a rule, the rows and their number; unbound cells are empty.

    ``show`` spells a term.  Terminal control characters in its result are escaped.
    """

    def __init__(self, names: Sequence[str], write: Callable[[str], object], show: Callable[[str], str]):
        self._write = write
        self._show = show
        self._names = [_fit(name) for name in names]
        self._widths: list[int] | None = None
        self._held: list[list[str]] = []
        self._count = 0

    def rows(self, rows: Iterable[Row]) -> None:
        """Write more rows; the first ROWS_HELD are held back."""
        for row in rows:
            if len(row) != len(self._names):
                raise ValueError(f"a row of {len(row)} values for {len(self._names)} columns")
            self._count += 1
            cells = ["" if value is None else _fit(self._show(value)) for value in row]
            if self._widths is not None:
                self._line(cells, self._widths)
                continue
            self._held.append(cells)
            if len(self._held) == ROWS_HELD:
                self._begin()

    def end(self) -> None:
        """Write the rows held back, and the number of rows."""
        if self._widths is None:
            self._begin()
        self._write(f"({self._count:,} row{'' if self._count == 1 else 's'})\n")

    def _begin(self) -> None:
        """Write the head and all rows held back."""
        columns = zip(self._names, *self._held, strict=True)
        widths = self._widths = [max(map(_width, column)) for column in columns]
        if widths:
            self._line(self._names, widths)
            self._line(["-" * width for width in widths], widths)
        for cells in self._held:
            self._line(cells, widths)
        self._held.clear()

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> None:
        if widths:  # without columns, only the number of rows is shown
            padded = (cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True))
            self._write("  ".join(padded).rstrip(" ") + "\n")


def _fit(text: str) -> str:
    """Return the text of a cell: printable, on one line, and no wider than CELL_WIDTH_MAX."""
    # Combining marks have no width, so the width does not bound the number of characters; this limit does.
    shown = "".join(map(_printable, islice(text, 4 * CELL_WIDTH_MAX)))
    if len(text) <= 4 * CELL_WIDTH_MAX and _width(shown) <= CELL_WIDTH_MAX:
        return shown
    room = CELL_WIDTH_MAX - 1
    kept: list[str] = []
    for character in shown:
        room -= _width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "…"


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
