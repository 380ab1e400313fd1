"""The counts of a load's ledger: publications lost, doubled, phantom or retracted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

__all__ = ["Counts", "count", "read_last_line", "read_values"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Publications of one triple each, and the solutions that one standing query delivered.

    ``lost``: acknowledged, and not delivered.  ``doubled``: delivered a second time.  ``phantom``: delivered, and never
    sent.  ``retracted``: taken back, although nothing was deleted.  ``pause``: the longest time between two solutions,
    in seconds.  ``reconnections``: of the publisher and of the subscriber.
    """

    sent: int = 0
    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    doubled: int = 0
    phantom: int = 0
    retracted: int = 0
    pause: float = 0.0
    reconnections: int = 0
    error: str = ""

    @property
    def good(self) -> bool:
        """Whether something was published, and each acknowledged publication was delivered exactly once."""
        bad = self.lost or self.doubled or self.phantom or self.retracted or self.error
        return self.acknowledged > 0 and not bad

    def __str__(self) -> str:
        text = (
            f"{self.acknowledged:,} acknowledged of {self.sent:,} sent, {self.delivered:,} delivered, "
            f"{self.lost:,} lost, {self.doubled:,} doubled, {self.phantom:,} phantom, {self.retracted:,} retracted; "
            f"longest pause {self.pause:.1f} s, {self.reconnections:,} reconnections"
        )
        return f"{text}; {self.error}" if self.error else text

    def as_json(self) -> dict[str, Any]:
        """Return all fields."""
        return asdict(self)

    @classmethod
    def of_ledger(cls, ledger: Mapping[str, Any]) -> Self:
        """Judge the report of the load: ``sent`` and ``acknowledged`` as numbers, ``solutions`` in order."""
        counted = count(ledger["sent"], ledger["acknowledged"], ledger["solutions"])
        known = {field.name for field in fields(cls)}
        rest = {name: value for name, value in ledger.items() if name in known - set(counted)}
        return cls(**counted, **rest)


def count(sent: int, acknowledged: int, solutions: Iterable[tuple[int, bool]]) -> dict[str, int]:
    """Compare the publications 0 to ``sent`` - 1 with the solutions (number, retracted) that were delivered.

    The node acknowledges in order: the first ``acknowledged`` publications are acknowledged.
    """
    seen: set[int] = set()
    doubled = phantom = retracted = 0
    for number, removed in solutions:
        if removed:
            retracted += 1
        elif not 0 <= number < sent:
            phantom += 1
        elif number in seen:
            doubled += 1
        else:
            seen.add(number)
    lost = sum(number not in seen for number in range(acknowledged))
    return {
        "sent": sent, "acknowledged": acknowledged, "delivered": len(seen), "lost": lost, "doubled": doubled,
        "phantom": phantom, "retracted": retracted,
    }  # fmt: skip


def read_last_line(output: str) -> dict[str, Any]:
    """Return the JSON object of the last line.  Raises ValueError with that line if it holds none."""
    line = (output.strip().splitlines() or [""])[-1]
    found: Any = None
    with contextlib.suppress(json.JSONDecodeError):
        found = json.loads(line)
    if isinstance(found, dict):
        return found
    raise ValueError(f"the client ended without a report; its last line is {line!r}")


def read_values(results: str, variable: str) -> list[str]:
    """Return the values of a variable in query results of the format SPARQL 1.1 Results JSON."""
    return [row[variable]["value"] for row in json.loads(results)["results"]["bindings"]]
