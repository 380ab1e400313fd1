"""What docs/gateway.md says of metrics is what there is."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

from p2prdf.gateway.metrics import METRICS, exposition


def test_counts_are_told_to_the_last_digit():
    """A count of seven digits that is rounded seems to stand still, and then to leap."""
    gateway = SimpleNamespace(subscribers=0, answered={})
    state = {"connections": {"refused": {"rate": 1_234_567}}, "peer": {"sent": 123_456_789}}
    told = exposition(state, gateway).splitlines()
    assert 'p2prdf_connections_refused_total{reason="rate"} 1234567' in told
    assert "p2prdf_messages_sent_total 123456789" in told


def test_all_metrics_are_documented_and_no_others():
    page = (Path(__file__).parents[3] / "docs" / "gateway.md").read_text()
    told = set(re.findall(r"^\| `(p2prdf_\w+)(?:\{\w+\})?` \| (gauge|counter) \|", page, re.MULTILINE))
    assert told - {("p2prdf_gateway_subscribers", "gauge")} == {(each.name, each.kind) for each in METRICS}
    assert all((each.kind == "counter") == each.name.endswith("_total") for each in METRICS)
