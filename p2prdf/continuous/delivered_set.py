"""The delivered set of a standing query: solutions that were delivered and still hold, kept at each replica.

A new primary retracts the solutions that no longer hold.  For this it needs their rows, which the result log forgets
at acknowledgement.  A solution is *bare* if its acknowledgement arrived here before its row.  Digests distinguish
bare solutions from those of replicas that hold the row, so anti-entropy fetches the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from p2prdf.columns import Column, as_list
from p2prdf.continuous.operators.zset import Row
from p2prdf.hlc import GONE
from p2prdf.store.result_log import ResultLog
from p2prdf.wire.messages import WITHDRAWN

__all__ = ["REPORTS_KEPT", "DeliveredSet"]

REPORTS_KEPT: Final = 4
"""Number of reports of a stream that are kept, by order of arrival."""


class DeliveredSet:
    """The rows that were delivered and not retracted, by identity, with term numbers as delivered."""

    def __init__(self, *, reports: bool = False) -> None:
        """``reports``: the rows are a stream of reports with the time at the end; only the last reports are kept."""
        self.rows: dict[int, Row] = {}
        self._by_report: dict[int, list[int]] | None = {} if reports else None
        self._bare: dict[int, None] = {}
        self.version = 0
        """Changes with the set of bare solutions."""

    def take(self, log: ResultLog, identity: Column, born: Sequence[int], bindings: tuple[Column, ...]) -> int:
        """Take in deliveries, after the log has; return how many are new."""
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
        """Forget old reports: a new primary needs only the last report with any delivery."""
        while self._by_report is not None and len(self._by_report) > REPORTS_KEPT:
            for name in self._by_report.pop(next(iter(self._by_report))):
                self.rows.pop(name, None)

    def acknowledge(self, log: ResultLog, identity: Column, *, surely: bool = False) -> Column:
        """Pass an acknowledgement to the log; return the identities that were not acknowledged before.

        A solution and its retraction may be acknowledged together before either arrived: that solution is over and
        not bare.
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
        """Return for each known solution or retraction whether the log knows its counterpart as well."""
        return log.knows([name ^ WITHDRAWN for name in names])

    def _clear(self, name: int) -> None:
        if name in self._bare:
            del self._bare[name]
            self.version += 1

    @property
    def bare(self) -> list[int]:
        """The identities that are known without their rows and not known to be retracted."""
        return list(self._bare)
