"""Metrics of an interest worker: the process, the datasets it reads, the interests it maintains.

Up to ``INTERESTS_REPORTED`` interests have metrics of their own, those in a bad state first; a monitoring system
stores a few series for each. The counts by state cover all interests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from p2prdf.monitoring.exposition import Metric, counter, gauge, lines, seconds
from p2prdf.replica.answers import STATES, report
from p2prdf.replica.dataset_pass import DatasetPass
from p2prdf.replica.worker import InterestWorker
from p2prdf.workers.worker_metrics import WORKER_METRICS, worker_state

__all__ = ["INTERESTS_REPORTED", "METRICS", "exposition"]

INTERESTS_REPORTED: Final = 1000
_UNWELL: Final = ("failing", "refused", "behind", "reading")
"""States in the order of reporting when there are too many interests."""


def _of_dataset(name: str, text: str) -> Metric:
    return gauge(f"dataset_{name}", f"datasets.{name}", text, "dataset")


def _of_interest(name: str, text: str) -> Metric:
    return gauge(f"interest_{name}", f"interests.{name}", text, "interest")


METRICS: Final = (
    *WORKER_METRICS,
    gauge("interests", "states", "Interests of this worker by state; all report refused ones.", "state"),
    gauge("interests_unreported", "unreported", "Interests without metrics of their own because of their number."),
    _of_dataset("lag_seconds", "Age of the oldest publication that is not processed."),
    _of_dataset("failing", "1 while the dataset cannot be read."),
    _of_dataset("triples", "Triples held for all interests of the dataset."),
    _of_dataset("evicted_triples", "Potentially interesting triples evicted since the last complete reading."),
    _of_dataset("incomplete_seconds", "Time since targets may be incomplete because of evictions; 0: complete."),
    counter("dataset_solutions", "datasets.solutions", "Solutions received from the cluster.", "dataset"),
    counter("dataset_changesets", "datasets.changesets", "Bookmarks with changes.", "dataset"),
    counter("dataset_readings", "datasets.readings", "Complete readings of the dataset.", "dataset"),
    seconds("dataset_pass", "datasets.pass_seconds", "Computing the changes of targets.", "dataset"),
    gauge("interest_state", "interests.state", "1 for the state of the interest.", "interest", "state"),
    _of_interest("lag_seconds", "Age of the oldest publication that is not in the target."),
    _of_interest("target_triples", "Triples that the target should hold."),
    _of_interest("potential_triples", "Potentially interesting triples held."),
    _of_interest("evicted_triples", "Triples evicted since the last complete reading, by pattern."),
    _of_interest("pending_triples", "Triples still to be applied to the target."),
    counter("interest_updates", "interests.updates", "Updates applied to the target.", "interest"),
    counter("interest_failures", "interests.failures", "Failed updates of the target.", "interest"),
)  # fmt: skip


async def exposition(worker: InterestWorker) -> str:
    """Return all metrics of a worker."""
    return "".join(f"{line}\n" for line in lines(METRICS, await _state(worker)))


async def _state(worker: InterestWorker) -> dict[str, Any]:
    entries = await report(worker)
    states = Counter(str(each["state"]) for each in entries)
    well = len(_UNWELL)
    rank = {state: number for number, state in enumerate(_UNWELL)}
    entries.sort(key=lambda each: (rank.get(str(each["state"]), well), str(each["name"])))
    return {
        **worker_state(worker),
        "states": {state: states[state] for state in STATES},
        "unreported": max(0, len(entries) - INTERESTS_REPORTED),
        "datasets": _datasets(worker.passes, worker.now()),
        "interests": _interests(worker, entries[:INTERESTS_REPORTED]),
    }


def _datasets(passes: Mapping[str, DatasetPass], now: float) -> dict[str, dict[str, Any]]:
    """Return values by metric, then by dataset."""
    found: dict[str, dict[str, Any]] = {}
    for dataset, each in sorted(passes.items()):
        values: dict[str, Any] = {
            "failing": each.error is not None, "triples": each.triples, "evicted_triples": each.given_up,
            "incomplete_seconds": 0.0 if each.whole_as_of is None else max(0.0, now - each.whole_as_of / 1000),
            "solutions": each.read, "changesets": each.changesets, "readings": each.readings,
            "pass_seconds": each.passes.status(),
        }  # fmt: skip
        if each.as_of:
            values["lag_seconds"] = max(0.0, now - each.as_of / 1000)
        _put(found, dataset[1:-1], values)
    return found


def _interests(worker: InterestWorker, entries: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return values by metric, then by interest."""
    found: dict[str, dict[str, Any]] = {}
    known = ("lag_seconds", "target_triples", "potential_triples", "evicted_triples", "pending_triples")
    for each in entries:
        name = str(each["name"])
        mine = {key: each[key] for key in known if key in each}
        if "target_triples" in mine:
            mine.setdefault("evicted_triples", 0)
        kept = worker.kept.get(name)
        if kept is not None:
            mine |= {"updates": kept.target.updates, "failures": kept.target.failures}
        _put(found, name, {"state": {each["state"]: 1}, **mine})
    return found


def _put(found: dict[str, dict[str, Any]], name: str, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        found.setdefault(key, {})[name] = value
