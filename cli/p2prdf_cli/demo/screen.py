"""Output of the demonstration while it runs: lines, and on a terminal a live part below them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from p2prdf.client import Batch
from p2prdf_cli.demo.airports import PREFIXES
from p2prdf_cli.demo.collector import Holding
from p2prdf_cli.demo.queries import StandingQuery
from p2prdf_cli.render import fit, printable, short_term

__all__ = ["Screen"]

ANSWERS_SHOWN = 4
"""Solutions of each query that are printed; further ones are only counted."""
PLAIN_STEPS = 10
"""Number of progress lines without a terminal."""


class Screen:
    """Prints the progress of a demonstration to a console; ``quiet`` prints nothing."""

    def __init__(self, console: Console, *, quiet: bool = False):
        self._console = console
        self._quiet = quiet
        self._started = time.monotonic()
        self._holdings: Sequence[Holding] = ()
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=40), MofNCompleteColumn(), TimeElapsedColumn(),
            console=console, auto_refresh=False,
        )  # fmt: skip
        self._task = self._bar.add_task("publishing", total=1, visible=False)
        self._live = console.is_terminal and not quiet
        self._last_step = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        """Print a line with the elapsed time."""
        if not self._quiet:
            self._console.print(Text(f"{self.elapsed:5.1f} s  {text}"), soft_wrap=True)

    def query(self, number: int, query: StandingQuery, where: str) -> None:
        """Print a standing query and its node."""
        if self._quiet:
            return
        head = f"Q{number} {query.title}: {query.shape}, {query.algorithm.upper()}, subscribed at {where}"
        self._console.print(Text(f"\n{head}", style="bold"), soft_wrap=True)
        self._console.print(Text(_indented(query.text)), soft_wrap=True)

    @contextmanager
    def publishing(self, total: int, holdings: Sequence[Holding]) -> Iterator[None]:
        """Show progress and counts of solutions while the block runs."""
        self._holdings = holdings
        self._bar.update(self._task, total=total, visible=True)
        if not self._live:
            yield
            return
        with Live(get_renderable=self._render, console=self._console, refresh_per_second=5, transient=True):
            yield

    def progress(self, published: int, total: int) -> None:
        """Show the number of acknowledged triples."""
        self._bar.update(self._task, completed=published)
        step = published * PLAIN_STEPS // max(1, total)
        if not self._live and step > self._last_step:
            self._last_step = step
            answers = sum(holding.answers for holding in self._holdings)
            self.say(f"{published:>9,} of {total:,} triples published, {answers:,} solutions")

    def answers(self, holding: Holding, batch: Batch) -> None:
        """Print the first solutions of each query as they arrive."""
        before = holding.answers - len(batch)
        if self._quiet or before >= ANSWERS_SHOWN:
            return
        number = 1 + next(n for n, each in enumerate(self._holdings) if each is holding)
        for solution in list(batch)[: ANSWERS_SHOWN - before]:
            terms = "  ".join(f"?{name} {printable(short_term(t, PREFIXES))}" for name, t in solution.items())
            milliseconds = 1000 * max(0.0, time.time() - solution.born)
            self.say(f"Q{number} solution {solution.sequence} after {milliseconds:,.0f} ms: {fit(terms, 100)}")

    def _render(self) -> Group:
        counts = Table.grid(padding=(0, 2))
        for number, holding in enumerate(self._holdings, 1):
            counts.add_row(f"Q{number}", holding.query.title, f"{holding.answers:,} solutions")
        return Group(Text(), counts, self._bar.get_renderable())


def _indented(text: str) -> str:
    return "\n".join("   " + line for line in text.splitlines())
