"""What docs/gateway.md says of metrics is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from p2prdf.gateway.metrics import METRICS


def test_all_metrics_are_documented_and_no_others():
    page = (Path(__file__).parents[3] / "docs" / "gateway.md").read_text()
    told = set(re.findall(r"^\| `(p2prdf_\w+)(?:\{\w+\})?` \| (gauge|counter) \|", page, re.MULTILINE))
    assert told - {("p2prdf_gateway_subscribers", "gauge")} == {(each.name, each.kind) for each in METRICS}
    assert all((each.kind == "counter") == each.name.endswith("_total") for each in METRICS)
