"""Spans from the log files of nodes, assembled into one tree per trace."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["LINES_MAX", "LoggedSpan", "describe", "new_traceparent", "spans_of", "trees"]

LINES_MAX: Final = 100_000
"""Most spans assembled at a time; further ones are omitted, with a remark."""
_OF_ALL: Final = frozenset({
    "event", "level", "timestamp", "node", "name", "trace", "span", "parent", "began", "ms", "links",
})  # fmt: skip
_INDENT_MAX: Final = 20
_NO_PARENT: Final = "0" * 16


@dataclass(frozen=True, slots=True)
class LoggedSpan:
    """A span as logged by a node; ``began`` in seconds by that node's clock, ``depth`` in its tree."""

    trace: str
    span: str
    parent: str
    name: str
    node: str
    began: float
    ms: float
    fields: dict[str, Any]
    depth: int = 0
    lost: bool = False
    """Whether the logs lack a line of its parent in the same trace."""

    def json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "trace": self.trace, "span": self.span, "parent": self.parent, "name": self.name, "node": self.node,
            "began": self.began, "ms": self.ms, "depth": self.depth, "parent_missing": self.lost, **self.fields,
        }  # fmt: skip


def new_traceparent() -> str:
    """Return a new random traceparent."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def spans_of(lines: Iterable[str], trace: str | None = None) -> Iterator[LoggedSpan]:
    """Yield the spans in lines of logs, of one trace or of all; other lines are ignored."""
    for line in lines:
        if '"span"' not in line or (trace is not None and trace not in line):
            continue
        try:
            found = json.loads(line)
            if found.get("event") != "span" or (trace is not None and found["trace"] != trace):
                continue
            yield LoggedSpan(
                str(found["trace"]), str(found["span"]), str(found["parent"]), str(found["name"]),
                str(found.get("node", "")), float(found["began"]), float(found["ms"]),
                {name: value for name, value in found.items() if name not in _OF_ALL or name == "links"},
            )  # fmt: skip
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue  # a line of another program, or a cut one


def trees(spans: Iterable[LoggedSpan]) -> list[list[LoggedSpan]]:
    """Return the spans of each trace in tree order: parents before children, siblings by time.

    Duplicate lines count once.  A span with a missing parent is a root, after the root of the publication; so is a
    span in a cycle, which no node writes.
    """
    by_trace: dict[str, dict[str, LoggedSpan]] = {}
    for span in spans:
        by_trace.setdefault(span.trace, {}).setdefault(span.span, span)
    found = [_tree(by_number) for by_number in by_trace.values()]
    return sorted(found, key=lambda tree: tree[0].began)


def _tree(by_number: dict[str, LoggedSpan]) -> list[LoggedSpan]:
    children: dict[str, list[LoggedSpan]] = {}
    roots: list[LoggedSpan] = []
    for span in sorted(by_number.values(), key=lambda each: (each.began, each.name, each.span)):
        if span.parent in by_number and span.parent != span.span:
            children.setdefault(span.parent, []).append(span)
        else:
            roots.append(span)
    roots.sort(key=lambda each: each.name != "publish")
    placed: dict[str, LoggedSpan] = {}
    for root in (*roots, *by_number.values()):  # the latter for spans in a cycle
        waiting = [(root, 0)]
        while waiting:
            span, depth = waiting.pop()
            if span.span in placed:
                continue
            lost = depth == 0 and span.name != "publish" and span.parent != _NO_PARENT
            placed[span.span] = LoggedSpan(
                span.trace, span.span, span.parent, span.name, span.node, span.began, span.ms, span.fields, depth, lost
            )
            waiting += [(each, depth + 1) for each in reversed(children.get(span.span, []))]
    return list(placed.values())


def describe(tree: list[LoggedSpan]) -> Iterator[str]:
    """Yield a trace as lines for people: start after the first span, duration, node and kind."""
    first = min(span.began for span in tree)
    last = max(span.began + span.ms / 1000 for span in tree)
    nodes = len({span.node for span in tree})
    yield f"trace {tree[0].trace}: {len(tree)} spans at {nodes} nodes, {(last - first) * 1000:.1f} ms"
    for span in tree:
        said = " ".join(f"{name}={_short(value)}" for name, value in span.fields.items())
        mark = " (its parent is not in these logs)" if span.lost else ""
        name = "  " * min(span.depth, _INDENT_MAX) + span.name
        yield f"{(span.began - first) * 1000:+10.1f} ms {span.ms:8.1f} ms  {span.node[:8]:8}  {name:24} {said}{mark}"


def _short(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
