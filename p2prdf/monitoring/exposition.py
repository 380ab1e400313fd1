"""Metrics from a state, in Prometheus' text format 0.0.4.

A state is a tree of dictionaries; a metric has the path to its value.  A metric is left out if its path is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["CONTENT_TYPE", "Metric", "counter", "gauge", "head", "lines", "seconds"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Metric(NamedTuple):
    """A metric of a process.

    ``path``: where its value is in the state; ``labels``: the names of its labels: the value is a dictionary by the
    first label's values, of dictionaries by the second one's, and so on.  ``of``: the feature that a process needs to
    report the metric (a disk, certificates); "": all processes report it.
    """

    name: str
    kind: str
    path: tuple[str, ...]
    text: str
    labels: tuple[str, ...] = ()
    of: str = ""


def gauge(name: str, path: str, text: str, *labels: str, of: str = "") -> Metric:
    """Return a metric of a current value; dots separate the names in ``path``."""
    return Metric(f"p2prdf_{name}", "gauge", tuple(path.split(".")), text, labels, of)


def counter(name: str, path: str, text: str, *labels: str) -> Metric:
    """Return a metric that only grows until the process ends."""
    return Metric(f"p2prdf_{name}_total", "counter", tuple(path.split(".")), text, labels)


def seconds(name: str, path: str, text: str, *labels: str) -> Metric:
    """Return a histogram (:mod:`p2prdf.monitoring.histogram`)."""
    return Metric(f"p2prdf_{name}_seconds", "histogram", tuple(path.split(".")), text, labels)


_NOTHING: Final = object()
"""The value of a path that is missing in a state."""


def lines(metrics: Iterable[Metric], state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of those metrics that have a value in the state."""
    for metric in metrics:
        if (value := _found(state, metric.path)) is _NOTHING:
            continue
        yield from head(metric.name, metric.kind, metric.text)
        for labels, part in _parts(value, metric.labels):
            if metric.kind == "histogram":
                yield from _histogram(metric.name, labels, part)
            else:
                yield f"{metric.name}{_braces(labels)} {_number(part)}"


def head(name: str, kind: str, text: str) -> tuple[str, str]:
    """Return the lines that precede the values of a metric."""
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _parts(value: Any, labels: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values of a labelled metric, each with its labels in Prometheus' syntax."""
    if not labels:
        yield (), value
        return
    for name, part in value.items():
        label = f'{labels[0]}="{str(name).translate(_ESCAPES)}"'
        for more, inner in _parts(part, labels[1:]):
            yield (label, *more), inner


def _histogram(name: str, labels: tuple[str, ...], part: Mapping[str, Any]) -> Iterator[str]:
    for bound, count in zip((*part["le"], float("inf")), (*part["upto"], part["count"]), strict=True):
        upto = 'le="+Inf"' if bound == float("inf") else f'le="{bound:g}"'
        yield f"{name}_bucket{_braces((*labels, upto))} {_number(count)}"
    yield f"{name}_sum{_braces(labels)} {_number(part['sum'])}"
    yield f"{name}_count{_braces(labels)} {_number(part['count'])}"


def _braces(labels: tuple[str, ...]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def _found(state: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = state
    for name in path:
        value = value.get(name, _NOTHING) if isinstance(value, dict) else _NOTHING
    return value


def _number(value: Any) -> str:
    if value is None or isinstance(value, str):  # a reason: 1 if there is one, else 0
        value = value is not None
    return str(int(value)) if isinstance(value, bool | int) else repr(float(value))
