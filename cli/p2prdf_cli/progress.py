"""Progress bars, on standard error and on terminals only."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from types import TracebackType
from typing import Final, Self, TypeVar

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from p2prdf_cli.terminal import console

__all__ = ["PublishBar", "RunBar", "SliceBar"]


class PublishBar:
    """Shows how much of a file has been read and how many triples are acknowledged."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[triples]:,} triples"),
            TextColumn("{task.fields[bad]}"),
            TimeRemainingColumn(),
            console=console(),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task: TaskID | None = None
        self._before = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, name: str, size: int | None, triples_before: int) -> None:
        """Begin a file; ``size`` in bytes, or None if unknown."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._before = triples_before
        self._task = self._progress.add_task(name, total=size, triples=triples_before, bad="")

    def advance(self, triples: int, position: int, bad_lines: int) -> None:
        """Show the acknowledged triples of this run and the position in the file, in bytes."""
        if self._task is not None:
            bad = f"{bad_lines:,} lines skipped" if bad_lines else ""
            self._progress.update(self._task, completed=position, triples=self._before + triples, bad=bad)

    def say(self, text: str) -> None:
        """Write a line above the bar, or a plain line without a bar."""
        if self._progress.disable:
            print(f"p2prdf: {text}", file=sys.stderr)
        else:
            self._progress.console.print(f"p2prdf: {text}", markup=False, soft_wrap=True)


class RunBar:
    """Shows the completed part of a run and its present step."""

    def __init__(self, what: str) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console(),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._progress.add_task(what, total=1.0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, done: float, what: str | None = None) -> None:
        """Show the completed part, 0 to 1; the second argument changes the description."""
        self._progress.update(self._task, completed=done, description=what)


_SHOWN_EACH: Final = 1000
"""Triples between two updates of the bar; an update per triple would take longer than reading it."""
Each = TypeVar("Each")


class _Rate(ProgressColumn):
    """Recent rate in triples per second."""

    def render(self, task: Task) -> Text:
        """Return the rate, empty while it is unknown."""
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


class SliceBar:
    """Shows the received triples of a replica's first slice and their rate; the total is unknown."""

    def __init__(self, what: str) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.completed:,.0f} triples"),
            _Rate(),
            TimeElapsedColumn(),
            console=console(),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._progress.add_task(what, total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar; a second call does nothing."""
        self._progress.stop()

    def advance(self, count: int) -> None:
        """Add received triples."""
        self._progress.advance(self._task, count)

    async def counted(self, each: AsyncIterable[Each] | Iterable[Each]) -> AsyncIterator[Each]:
        """Yield the given items, and count them in the bar."""
        count = 0
        if isinstance(each, AsyncIterable):
            async for one in each:
                count = self._count(count)
                yield one
        else:
            for one in each:
                count = self._count(count)
                yield one
        self.advance(count)

    def _count(self, count: int) -> int:
        if count + 1 < _SHOWN_EACH:
            return count + 1
        self.advance(count + 1)
        return 0
