"""Dashboard, alerts and unit fit the metrics of all processes, and docs/reference/operations.md."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from p2prdf.channel_workers.worker_metrics import METRICS as OF_CHANNELS
from p2prdf.gateway.metrics import METRICS as OF_NODES
from p2prdf.monitoring.exposition import Metric
from p2prdf.replica.worker_metrics import METRICS as OF_INTERESTS
from p2prdf_node.config import NodeConfig

METRICS: tuple[Metric, ...] = (*OF_NODES, *OF_INTERESTS, *OF_CHANNELS)
ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
DASHBOARD = ROOT / "deploy/grafana/p2prdf.json"
UNIT = ROOT / "deploy/p2prdf-node.service"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
]
_promtool = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(_promtool is None, reason="promtool is not installed (Debian: prometheus)")

FIRING: dict[str, dict[str, str]] = {
    "P2prdfNodeDown": {'up{job="p2prdf",instance="a"}': "0x60"},
    "P2prdfTooFewCopies": {"p2prdf_copies": "1x60", "p2prdf_copies_needed": "2x60"},
    "P2prdfCopiesMissing": {"p2prdf_copies": "2x60", "p2prdf_replicas": "3x60"},
    "P2prdfFenced": {"p2prdf_fenced": "1x60"},
    "P2prdfViewsDiffer": {
        'p2prdf_peers{job="p2prdf",instance="a"}': "4x60", 'p2prdf_peers{job="p2prdf",instance="b"}': "3x60",
    },
    "P2prdfNotInSync": {"p2prdf_in_sync": "0x60"},
    "P2prdfClockSuspect": {"p2prdf_clock_suspect": "1x60"},
    "P2prdfClockWasAhead": {"p2prdf_stamps_corrected": "0x60", "p2prdf_stamps_refused_total": "0+1x60"},
    "P2prdfDiskRefuses": {"p2prdf_storage_refusing": "1x60"},
    "P2prdfStateDamaged": {"p2prdf_storage_damaged": "1x60"},
    "P2prdfBusy": {"p2prdf_busy": "1x60"},
    "P2prdfLoopBusy": {"p2prdf_turn_seconds_sum": "0+57x60"},
    "P2prdfTurnsLong": {"p2prdf_turn_seconds_count": "0+62x60", 'p2prdf_turn_seconds_bucket{le="1"}': "0+60x60"},
    "P2prdfPublicationsSlow": {
        'p2prdf_publication_seconds_bucket{level="indexed",le="5"}': "0+90x60",
        'p2prdf_publication_seconds_bucket{level="indexed",le="10"}': "0+100x60",
        'p2prdf_publication_seconds_bucket{level="indexed",le="+Inf"}': "0+100x60",
    },
    "P2prdfOutboxFull": {"p2prdf_outbox": "6000x60"},
    "P2prdfSolutionsDropped": {"p2prdf_solutions_dropped_total": "0+1x60"},
    "P2prdfMessagesRefused": {"p2prdf_messages_refused_total": "0+1x60"},
    "P2prdfDefect": {'p2prdf_failures_total{kind="tasks"}': "0+1x60", 'p2prdf_failures_total{kind="effects"}': "0x60"},
    "P2prdfCertificateExpires": {"p2prdf_tls_expires_seconds": "600000-60x60"},
    "P2prdfMemberDown": {'up{job="p2prdf-interest-workers",instance="a"}': "0x60"},
    "P2prdfMemberNotReady": {"p2prdf_worker_ready": "0x60"},
    "P2prdfMemberLapses": {"p2prdf_worker_lapses_total": "0+1x60"},
    "P2prdfDatasetUnread": {"p2prdf_dataset_failing": "1x60"},
    "P2prdfTargetFailing": {'p2prdf_interests{state="failing"}': "1x60"},
    "P2prdfTargetBehind": {
        'p2prdf_interest_lag_seconds{interest="a",instance="x"}': "0+60x60",
        'p2prdf_interest_state{interest="b",state="paused",instance="x"}': "1x60",
    },
    "P2prdfInterestRefused": {'p2prdf_interests{state="refused"}': "1x60"},
    "P2prdfTargetsIncomplete": {"p2prdf_dataset_incomplete_seconds": "84000+60x60"},
}  # fmt: skip
"""Series, a value a minute, by which each alert fires within the hour, and does not if they are as in ``QUIET``."""
QUIET: dict[str, dict[str, str]] = {
    "P2prdfNodeDown": {'up{job="p2prdf",instance="a"}': "1x60", 'up{job="other",instance="a"}': "0x60"},
    "P2prdfTooFewCopies": {"p2prdf_copies": "2x60", "p2prdf_copies_needed": "2x60"},
    "P2prdfCopiesMissing": {"p2prdf_copies": "3x50 2x10", "p2prdf_replicas": "3x60"},
    "P2prdfViewsDiffer": {
        'p2prdf_peers{job="p2prdf",instance="a"}': "4x60", 'p2prdf_peers{job="p2prdf",instance="b"}': "4x60",
    },
    "P2prdfFenced": {"p2prdf_fenced": "0x60"},
    "P2prdfNotInSync": {"p2prdf_in_sync": "0x40 1x20"},
    "P2prdfClockSuspect": {"p2prdf_clock_suspect": "0x54 1x6"},
    "P2prdfClockWasAhead": {"p2prdf_stamps_corrected": "0x60", "p2prdf_stamps_refused_total": "9x60"},
    "P2prdfDiskRefuses": {"p2prdf_storage_refusing": "1x50 0x10"},
    "P2prdfStateDamaged": {"p2prdf_storage_damaged": "0x60"},
    "P2prdfBusy": {"p2prdf_busy": "0x52 1x8"},
    "P2prdfSolutionsDropped": {"p2prdf_solutions_dropped_total": "9x60"},
    "P2prdfMessagesRefused": {"p2prdf_messages_refused_total": "0+1x30 30x30"},
    "P2prdfLoopBusy": {"p2prdf_turn_seconds_sum": "0+50x60"},
    "P2prdfTurnsLong": {"p2prdf_turn_seconds_count": "0+61x60", 'p2prdf_turn_seconds_bucket{le="1"}': "0+60x60"},
    "P2prdfPublicationsSlow": {
        'p2prdf_publication_seconds_bucket{level="indexed",le="5"}': "0+100x60",
        'p2prdf_publication_seconds_bucket{level="indexed",le="+Inf"}': "0+100x60",
    },
    "P2prdfOutboxFull": {"p2prdf_outbox": "6000x50 4000x9"},
    "P2prdfDefect": {'p2prdf_failures_total{kind="tasks"}': "7x60"},
    "P2prdfCertificateExpires": {"p2prdf_tls_expires_seconds": "900000-60x60"},
    "P2prdfMemberDown": {
        'up{job="p2prdf-interest-workers",instance="a"}': "0x50 1x10", 'up{job="p2prdf",instance="b"}': "0x60",
    },
    "P2prdfMemberNotReady": {"p2prdf_worker_ready": "0x52 1x8"},
    "P2prdfMemberLapses": {"p2prdf_worker_lapses_total": "0+1x20 20x40"},
    "P2prdfDatasetUnread": {"p2prdf_dataset_failing": "1x40 0x20"},
    "P2prdfTargetFailing": {
        'p2prdf_interests{state="failing"}': "1x49 0x10", 'p2prdf_interests{state="current"}': "9x60",
    },
    "P2prdfTargetBehind": {
        'p2prdf_interest_lag_seconds{interest="a",instance="x"}': "0+60x60",
        'p2prdf_interest_state{interest="a",state="paused",instance="x"}': "1x60",
    },
    "P2prdfInterestRefused": {'p2prdf_interests{state="refused"}': "0x60"},
    "P2prdfTargetsIncomplete": {"p2prdf_dataset_incomplete_seconds": "0+60x60"},
}  # fmt: skip


def _names(expression: str) -> set[str]:
    """Return the metrics that an expression asks for."""
    return set(re.findall(r"\b(?:p2prdf_\w+|up)\b", expression))


def _told() -> set[str]:
    found = {"up", "p2prdf_gateway_subscribers", "p2prdf_gateway_requests_total"}
    for metric in METRICS:
        ends = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        found |= {metric.name + end for end in ends}
    return found


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def _expressions() -> list[str]:
    return [target["expr"] for panel in _panels() for target in panel["targets"]] + [rule["expr"] for rule in RULES]


def test_every_queried_metric_exists() -> None:
    """Real nodes have the metrics of METRICS: tests/daemon/test_gateway.py and test_monitoring.py."""
    for expression in _expressions():
        names = _names(expression)
        assert names, expression
        assert names <= _told(), f"{expression}: nobody tells {sorted(names - _told())}"


def test_counters_are_asked_for_their_growth_and_gauges_for_their_value() -> None:
    kinds = {each.name: each.kind for each in METRICS} | {
        "p2prdf_gateway_requests_total": "counter", "p2prdf_gateway_subscribers": "gauge",
    }  # fmt: skip
    for expression in _expressions():
        for name in _names(expression) - {"up"}:
            counted = kinds.get(name, "counter") == "counter"  # the series of a histogram count, too
            grown = re.search(rf"\b(?:rate|increase)\({name}\b", expression) is not None
            assert counted == grown, f"{expression}: {name}"


def test_labels_that_expressions_name_are_those_of_the_metric() -> None:
    labels = {each.name: set(each.labels) for each in METRICS}
    for expression in _expressions():
        for name, inside in re.findall(r"\b(p2prdf_\w+)\{([^}]*)\}", expression):
            used = set(re.findall(r"(\w+)\s*!?=", inside)) - {"job", "instance"}
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert used <= labels.get(base, set()) | {"le"}, f"{expression}: {name} has no {used}"


def test_panels_are_whole_and_none_lies_over_another() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    variables = {each["name"] for each in dashboard["templating"]["list"]} | {"__rate_interval"}
    for panel in _panels():
        assert panel["title"]
        assert panel["targets"]
        assert set(re.findall(r"\$\{?(\w+)", json.dumps(panel))) <= variables
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_every_alert_has_instructions() -> None:
    page = (ROOT / "docs/reference/operations.md").read_text()
    chapter = page.split("\n## Alerts\n")[1].split("\n## ")[0]
    entries = dict(re.findall(r"^### (\w+)\n\n(.+?)(?=\n### |\Z)", chapter, re.MULTILINE | re.DOTALL))
    assert list(entries) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        name, entry = rule["alert"], entries[rule["alert"]]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["runbook_url"] == f"docs/reference/operations.md#{name.lower()}"
        assert "**Why.**" in entry, name
        assert "**Do.**" in entry, name
        assert rule["annotations"]["summary"] not in entry, f"{name}: the entry only repeats the alert"


@needs_promtool
def test_prometheus_takes_the_rules() -> None:
    assert _promtool is not None
    check = subprocess.run([_promtool, "check", "rules", ALERTS], check=False, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


@needs_promtool
def test_each_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    assert _promtool is not None
    assert set(FIRING) == set(QUIET) == {rule["alert"] for rule in RULES}
    tests = [_case(rule, FIRING[rule["alert"]], fires=True) for rule in RULES]
    tests += [_case(rule, QUIET[rule["alert"]], fires=False) for rule in RULES]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    run = subprocess.run([_promtool, "test", "rules", file], check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def _case(rule: dict[str, Any], series: dict[str, str], *, fires: bool) -> dict[str, Any]:
    labels = {"severity": rule["labels"]["severity"]}
    label = re.search(r"\{(.*?)\}", next(iter(series)))
    kept = {
        "P2prdfNodeDown": ("job", "instance"), "P2prdfViewsDiffer": ("job",), "P2prdfMemberDown": ("job", "instance"),
        "P2prdfTargetBehind": ("interest",),
    }.get(rule["alert"], ())  # fmt: skip
    if label is not None:
        labels |= {name: value for name, value in re.findall(r'(\w+)="([^"]*)"', label[1]) if name in kept}
    expected = [{"exp_labels": labels, "exp_annotations": rule["annotations"]}] if fires else []
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": "55m", "alertname": rule["alert"], "exp_alerts": expected}],
    }

def _unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if not line.startswith(("#", "[")) and line:
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_starts_a_node_with_settings_that_there_are_and_gives_it_time_to_leave() -> None:
    unit = _unit()
    assert unit["ExecStart"] == ["/opt/p2prdf/bin/python -m p2prdf_node"]
    settings = {field.name: field for field in dataclasses.fields(NodeConfig)}
    text = UNIT.read_text()
    for name in re.findall(r"\bP2PRDF_(\w+)=", text):
        assert name.lower() in settings, name
    assert float(unit["TimeoutStopSec"][0]) > NodeConfig().drain_seconds + 10
    assert unit["RestartPreventExitStatus"] == ["2"]  # a setting that is wrong
    assert unit["StateDirectory"] == ["p2prdf"]
    assert "P2PRDF_DATA=%S/p2prdf" in unit["Environment"][0]
    assert unit["LoadCredential"][0].split(":")[0] == "secret"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit_and_finds_it_shut_in(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/p2prdf/bin/python", sys.executable))
    for words in (["verify"], ["security", "--offline=true", "--threshold=20"]):
        run = subprocess.run(["systemd-analyze", *words, copy], check=False, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "Unknown" not in run.stderr
        assert "ignoring" not in run.stderr
