"""The report of a write, summed over its partitions: a line for people, a JSON value for programs.

Spark gives a Python data source no accumulators, and commits in another process than the driver's. So a commit
writes one line to standard error and, on request, appends one line to a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from p2prdf.publish.partition import Written

__all__ = ["append_report", "progress_line", "read_report", "summary"]


def summary(parts: Sequence[Written], *, query: str = "", batch: int | None = None) -> dict[str, Any]:
    """Return the sums over all partitions, and the times spent."""
    names = ("rows", "triples", "removed", "frames", "repeated", "bad_rows")
    counts = {name: sum(getattr(part, name) for part in parts) for name in names}
    seconds = {
        name: round(sum(getattr(part, f"{name}_seconds") for part in parts), 3)
        for name in ("reading", "encoding", "waiting")
    }
    slowest = max((part.seconds for part in parts), default=0.0)
    return {
        **({"query": query, "batch": batch} if query or batch is not None else {}),
        "partitions": len(parts),
        **counts,
        "partition_seconds": {**seconds, "all": round(sum(part.seconds for part in parts), 3)},
        "slowest_seconds": round(slowest, 3),
        "nodes": sorted({part.node for part in parts if part.node}),
        "attempts": sum(part.place.attempt > 0 for part in parts),
        "bad_examples": [text for part in parts for text in part.examples][:3],
        "bad_rows_files": [part.bad_rows_file for part in parts if part.bad_rows_file],
    }


def progress_line(found: dict[str, Any]) -> str:
    """Return a line of progress."""
    batch = f"batch {found['batch']}: " if found.get("batch") is not None else ""
    rate = found["triples"] / found["slowest_seconds"] if found["slowest_seconds"] else 0.0
    more = [
        f"{found[name]:,} {what}"
        for name, what in (("removed", "removed"), ("repeated", "sent again"), ("bad_rows", "bad rows skipped"))
        if found[name]
    ]
    return (
        f"p2prdf: {batch}{found['triples']:,} triples acknowledged in {found['slowest_seconds']:.1f} s, {rate:,.0f}/s"
        f"{''.join(', ' + each for each in more)}"
    )


def append_report(path: str, found: dict[str, Any]) -> None:
    """Append one line, atomically even with concurrent writers."""
    line = (json.dumps(found, ensure_ascii=False) + "\n").encode()
    place = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(place, line)
    finally:
        os.close(place)


def read_report(path: str | Path) -> list[dict[str, Any]]:
    """Return the reports in a file, of one write or several; none if there is no file."""
    try:
        lines: Iterable[str] = Path(path).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]
