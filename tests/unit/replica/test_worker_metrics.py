"""Metrics and health checks of workers for interests; names of the metrics of all workers."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from p2prdf.channel_workers import worker_metrics as channel_worker_metrics
from p2prdf.interest.registration import Registration
from p2prdf.monitoring.histogram import Histogram
from p2prdf.replica import worker_metrics
from p2prdf.replica.dataset_pass import Sizes
from p2prdf.replica.registry import Refusal
from p2prdf.replica.worker import Maintained
from p2prdf.workers.worker_metrics import not_ready_reason


def registration(name: str) -> Registration:
    return Registration(name, "<urn:d>", "http://h/update", "http://h/query", None, "SELECT * { ?a <urn:p> ?b }")


class Pass:
    """A dataset that is read up to the 90th second."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.as_of = 90_000
        self.whole_as_of: int | None = 40_000
        self.triples, self.given_up, self.read, self.changesets, self.readings = 7, 5, 40, 3, 1
        self.passes = Histogram()
        self.passes.observe(0.002)

    async def sizes(self, names: list[str]) -> dict[str, Sizes]:
        return {name: Sizes(4, 2, 5 if name == "one" else 0) for name in names}


def target(**state: Any) -> SimpleNamespace:
    return SimpleNamespace(**({
        "paused": False, "error": None, "as_of": 90_000, "is_current": True, "pending": 0, "reached": 90_000,
        "reached_position": "17", "updates": 6, "failures": 2,
    } | state))  # fmt: skip


def worker(**kept: SimpleNamespace) -> Any:
    return SimpleNamespace(
        began=0.0, is_ready=True, holds_lease=lambda: False, disconnections=3, lapses=4, now=lambda: 100.0,
        known=SimpleNamespace(membership=SimpleNamespace(workers=lambda: ["a", "b"])), passes={"<urn:d>": Pass()},
        kept={name: Maintained(registration(name), each) for name, each in kept.items()},  # type: ignore[arg-type]
        refused={"far": Refusal(registration("far"), "no host")},
    )  # fmt: skip


async def test_metrics_of_a_sync_worker_show_its_state() -> None:
    text = await worker_metrics.exposition(
        worker(one=target(), two=target(paused=True, reached=70_000, pending=9, is_current=False))
    )
    told = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    name = "p2prdf_"
    expected = {
        "worker_ready": "1", "worker_lease_held": "0", "worker_members": "2", "worker_disconnections_total": "3",
        "worker_lapses_total": "4",
        'interests{state="current"}': "1", 'interests{state="paused"}': "1", 'interests{state="refused"}': "1",
        'interests{state="failing"}': "0", "interests_unreported": "0",
        'dataset_lag_seconds{dataset="urn:d"}': "10.0", 'dataset_triples{dataset="urn:d"}': "7",
        'dataset_evicted_triples{dataset="urn:d"}': "5", 'dataset_incomplete_seconds{dataset="urn:d"}': "60.0",
        'dataset_solutions_total{dataset="urn:d"}': "40", 'dataset_changesets_total{dataset="urn:d"}': "3",
        'dataset_failing{dataset="urn:d"}': "0", 'dataset_pass_seconds_count{dataset="urn:d"}': "1",
        'interest_state{interest="one",state="current"}': "1", 'interest_state{interest="two",state="paused"}': "1",
        'interest_state{interest="far",state="refused"}': "1", 'interest_lag_seconds{interest="two"}': "30.0",
        'interest_target_triples{interest="one"}': "4", 'interest_potential_triples{interest="one"}': "2",
        'interest_evicted_triples{interest="one"}': "5", 'interest_pending_triples{interest="two"}': "9",
        'interest_updates_total{interest="one"}': "6", 'interest_failures_total{interest="one"}': "2",
    }  # fmt: skip
    assert {key: told.get(f"{name}{key}") for key in expected} == expected
    assert f'{name}interest_updates_total{{interest="far"}}' not in told
    for metric in worker_metrics.METRICS:
        assert f"# TYPE {metric.name} {metric.kind}\n" in text, metric.name


async def test_of_too_many_interests_the_failing_ones_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_metrics, "INTERESTS_REPORTED", 3)
    kept = {f"a{number}": target() for number in range(5)}
    text = await worker_metrics.exposition(worker(**kept, x=target(error="no"), y=target(is_current=False)))
    assert re.findall(r'interest_state\{interest="(\w+)"', text) == ["x", "far", "y"]
    assert "p2prdf_interests_unreported 5\n" in text
    assert 'p2prdf_interests{state="current"} 5\n' in text, "counted are all"


@pytest.mark.parametrize("metrics", [worker_metrics.METRICS, channel_worker_metrics.METRICS])
def test_names_of_metrics_follow_the_conventions_of_prometheus(metrics: Any) -> None:
    for each in metrics:
        assert (each.kind == "counter") == each.name.endswith("_total"), each.name
        assert re.fullmatch(r"p2prdf(_[a-z]+)+", each.name)
        assert each.text.endswith(".")


@pytest.mark.parametrize(
    ("ready", "sure", "expected"),
    [(True, True, None), (False, True, "has not been read completely"), (True, False, "not renewed")],
)
def test_a_worker_without_the_registry_or_its_lease_is_not_ready(ready: bool, sure: bool, expected: str | None) -> None:
    found = not_ready_reason(SimpleNamespace(is_ready=ready, holds_lease=lambda: sure))  # type: ignore[arg-type]
    assert (found is None) if expected is None else (expected in str(found))
