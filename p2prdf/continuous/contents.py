"""What the subscriber of a standing query was told and is still true, at each replica of its home.

A new primary withdraws what is true no more, and to do so must know its contents; a result log forgets these when they
are acknowledged.  What was acknowledged here before its contents came is *bare*: it counts as something else
than what others hold, so that repair brings them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from p2prdf.columns import Column, as_list
from p2prdf.continuous.operators.zset import Row
from p2prdf.hlc import GONE
from p2prdf.store.result_log import ResultLog
from p2prdf.wire.messages import WITHDRAWN

__all__ = ["REPORTS_KEPT", "Contents"]

REPORTS_KEPT: Final = 4
"""Of a stream of reports so many are kept, by the order in which they came."""


class Contents:
    """The rows of what was told and not withdrawn, by identity; terms by number, as they are told."""

    def __init__(self, *, reports: bool = False) -> None:
        """``reports``: they are a stream of reports, each with its time behind it, of which only the last are kept."""
        self.rows: dict[int, Row] = {}
        self._by_report: dict[int, list[int]] | None = {} if reports else None
        self._bare: dict[int, None] = {}
        self.version = 0
        """Changes with what is bare."""

    def take(self, log: ResultLog, identity: Column, born: Sequence[int], bindings: tuple[Column, ...]) -> int:
        """Take in what was told, after the log has; return how much of it is news."""
        names = as_list(identity)
        columns = [as_list(column) for column in bindings]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(names)
        over = log.knows([each ^ WITHDRAWN for each in names])
        news = 0
        for name, time, row, is_over in zip(names, born, rows, over, strict=True):
            self._clear(name)
            if time >= GONE:
                news += self.rows.pop(name ^ WITHDRAWN, None) is not None
                self._clear(name ^ WITHDRAWN)
            elif not is_over and name not in self.rows:
                self.rows[name] = row
                news += 1
                if self._by_report is not None:
                    self._by_report.setdefault(row[-1], []).append(name)
        self._forget_reports()
        return news

    def _forget_reports(self) -> None:
        """Forget reports: who takes over asks for the last one of which anything was told."""
        while self._by_report is not None and len(self._by_report) > REPORTS_KEPT:
            for name in self._by_report.pop(next(iter(self._by_report))):
                self.rows.pop(name, None)

    def acknowledge(self, log: ResultLog, identity: Column, *, surely: bool = False) -> Column:
        """Have the log note what is acknowledged; return the identities of those of which that is news.

        What came and went may be acknowledged at once, before any of it came: it is over, and not bare.
        """
        names = as_list(identity)
        early = [name for name, known in zip(names, log.knows(names), strict=True) if not known]
        done = log.acknowledge(identity, surely=surely)
        for name, over in zip(names, self._are_over(log, names), strict=True):
            if over:
                for each in (name, name ^ WITHDRAWN):
                    self._clear(each)
                    self.rows.pop(each, None)
        for name, over, taken in zip(early, self._are_over(log, early), log.knows(early), strict=True):
            if taken and not over:
                self._bare[name] = None
                self.version += 1
        return done

    def _are_over(self, log: ResultLog, names: list[int]) -> list[bool]:
        """Return of answers, or withdrawals, that are known whether the other of the two is known as well."""
        return log.knows([name ^ WITHDRAWN for name in names])

    def _clear(self, name: int) -> None:
        if name in self._bare:
            del self._bare[name]
            self.version += 1

    @property
    def bare(self) -> list[int]:
        """The identities of what is known without its contents, and not known to be withdrawn."""
        return list(self._bare)
