"""Metrics of nodes: names, kinds and the text that a gateway answers."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

from p2prdf.gateway.metrics import METRICS, exposition
from p2prdf.monitoring.histogram import SECONDS, Histogram


def test_counts_are_exact_to_the_last_digit():
    """A count of seven digits that is rounded seems to stand still, and then to leap."""
    gateway = SimpleNamespace(subscribers=0, answered={}, webhooks=None)
    state = {"connections": {"refused": {"rate": 1_234_567}}, "peer": {"sent": 123_456_789}}
    told = exposition(state, gateway).splitlines()
    assert 'p2prdf_connections_refused_total{reason="rate"} 1234567' in told
    assert "p2prdf_messages_sent_total 123456789" in told


def test_counters_end_in_total_and_no_other_metric_does():
    assert all((each.kind == "counter") == each.name.endswith("_total") for each in METRICS)


def test_webhooks_are_counted_where_there_are_some():
    sender = SimpleNamespace(outcomes={"2xx": 7, "unanswered": 2})
    webhooks = SimpleNamespace(states=lambda: {"active": 3, "ended": 0}, sender=sender)
    told = exposition({}, SimpleNamespace(subscribers=0, answered={}, webhooks=webhooks)).splitlines()
    assert told[-7:] == [
        "# TYPE p2prdf_gateway_webhooks gauge", 'p2prdf_gateway_webhooks{state="active"} 3',
        'p2prdf_gateway_webhooks{state="ended"} 0',
        "# HELP p2prdf_gateway_webhook_requests_total Requests to receivers, by outcome.",
        "# TYPE p2prdf_gateway_webhook_requests_total counter",
        'p2prdf_gateway_webhook_requests_total{outcome="2xx"} 7',
        'p2prdf_gateway_webhook_requests_total{outcome="unanswered"} 2',
    ]  # fmt: skip


def test_names_are_those_of_prometheus_conventions():
    names = [each.name for each in METRICS]
    assert len(set(names)) == len(names)
    for each in METRICS:
        assert re.fullmatch(r"p2prdf(_[a-z]+)+", each.name), each.name
        assert not re.search(r"_(ms|milliseconds|mib|kb|count|sum|bucket|info)$", each.name), each.name
        assert each.name.endswith("_seconds") or each.kind != "histogram", each.name
        assert each.text.endswith(".")
        assert "\n" not in each.text


def test_a_histogram_has_buckets_that_add_up():
    taken = Histogram()
    for seconds in (0.0005, 0.001, 0.0011, 2.0, 600.0):
        taken.observe(seconds)
    gateway = SimpleNamespace(subscribers=0, answered={}, webhooks=None)
    state = {"turn_seconds": taken.status(), "clients": {"publication_seconds": {"indexed": taken.status()}}}
    told = exposition(json.loads(json.dumps(state)), gateway).splitlines()
    assert "# TYPE p2prdf_turn_seconds histogram" in told
    buckets = [line for line in told if line.startswith('p2prdf_publication_seconds_bucket{level="indexed",le="')]
    assert buckets[0].endswith('le="0.001"} 2')
    assert buckets[1].endswith('le="0.0025"} 3')
    assert buckets[-2:] == [
        'p2prdf_publication_seconds_bucket{level="indexed",le="60"} 4',
        'p2prdf_publication_seconds_bucket{level="indexed",le="+Inf"} 5',
    ]
    assert len(buckets) == len(SECONDS) + 1
    assert 'p2prdf_publication_seconds_count{level="indexed"} 5' in told
    assert 'p2prdf_publication_seconds_sum{level="indexed"} 602.0026' in told
    assert "p2prdf_turn_seconds_count 5" in told


def test_a_reason_is_exported_as_the_number_1():
    gateway = SimpleNamespace(subscribers=0, answered={}, webhooks=None)
    for reason, value in ((None, 0), ("no room", 1)):
        told = exposition({"storage": {"refusal": reason}}, gateway).splitlines()
        assert f"p2prdf_storage_refusing {value}" in told
    assert not [line for line in exposition({"storage": {}, "tls": None}, gateway).splitlines() if "storage" in line]
