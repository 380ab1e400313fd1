"""Metrics are written in Prometheus's format, with any names of their parts."""

from __future__ import annotations

import pytest

from p2prdf.monitoring.exposition import counter, gauge, lines, seconds
from p2prdf.monitoring.histogram import Histogram

STATE = {"a": {"b": 3, "by": {"x": {"p": 1, "q": 0.5}, "y": {"p": 2}}}, "reason": "full", "none": None}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (gauge("m", "a.b", "T."), ["p2prdf_m 3"]),
        (counter("m", "a.b", "T."), ["p2prdf_m_total 3"]),
        (gauge("m", "a.by", "T.", "one", "two"),
         ['p2prdf_m{one="x",two="p"} 1', 'p2prdf_m{one="x",two="q"} 0.5', 'p2prdf_m{one="y",two="p"} 2']),
        (gauge("m", "reason", "T."), ["p2prdf_m 1"]),
        (gauge("m", "none", "T."), ["p2prdf_m 0"]),
    ],
)  # fmt: skip
def test_a_metric_is_written_with_its_parts(metric, expected):
    first, second, *told = lines([metric], STATE)
    assert (first, second) == (f"# HELP {metric.name} T.", f"# TYPE {metric.name} {metric.kind}")
    assert told == expected


@pytest.mark.parametrize("path", ["b", "a.c", "a.b.c", "reason.x"])
def test_metrics_absent_from_the_state_are_left_out(path):
    assert list(lines([gauge("m", path, "T.")], STATE)) == []


def test_names_of_parts_cannot_break_out_of_their_quotes():
    state = {"a": {'x"} 1\np2prdf_other 2\\': 3}}
    *_, told = lines([gauge("m", "a", "T.", "of")], state)
    assert told == 'p2prdf_m{of="x\\"} 1\\np2prdf_other 2\\\\"} 3'


def test_a_histogram_has_a_bucket_for_each_bound_and_one_for_all():
    taken = Histogram()
    for duration in (0.0005, 2.0, 600.0):
        taken.observe(duration)
    told = list(lines([seconds("m", "a", "T.", "of")], {"a": {"x": taken.status()}}))[2:]
    assert told[0] == 'p2prdf_m_seconds_bucket{of="x",le="0.001"} 1'
    assert told[-3:] == [
        'p2prdf_m_seconds_bucket{of="x",le="+Inf"} 3', 'p2prdf_m_seconds_sum{of="x"} 602.0005',
        'p2prdf_m_seconds_count{of="x"} 3',
    ]  # fmt: skip
    assert len(told) == 18
