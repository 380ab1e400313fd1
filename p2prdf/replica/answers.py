"""Answers of an interest worker: the state of its targets, their comparison, and their repair.

:mod:`p2prdf.workers.answering` delivers them. Workers reach targets and have credentials; clients that ask
need neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from p2prdf.errors import P2PRDFError
from p2prdf.interest import Triple
from p2prdf.interest.registration import ANSWERS, REQUESTS_GRAPH, Registration
from p2prdf.replica.dataset_pass import Sizes
from p2prdf.workers.answering import publish_answer, read_request
from p2prdf.workers.overlay import Writing

if TYPE_CHECKING:
    from p2prdf.replica.worker import InterestWorker, Maintained

__all__ = ["STATES", "answer", "report"]

STATES: Final = ("current", "behind", "reading", "paused", "failing", "refused")
"""The states of an interest, as an interest worker reports them."""

Entry: TypeAlias = dict[str, object]


async def answer(worker: InterestWorker, overlay: Writing, request: Triple) -> None:
    """Answer a request, if it is valid and concerns this worker."""
    asked = read_request(request)
    if asked is None:
        return
    what, name = asked
    if what == "status" and (name is None or isinstance(name, str)):
        entries = await report(worker, None if name is None else [name])
    elif what in ("verify", "repair") and isinstance(name, str) and name in worker.kept:
        entries = [await _compared(worker, name, mend=what == "repair")]
    elif what in ("verify", "repair") and isinstance(name, str) and name in worker.refused:
        entries = [{"name": name, "error": worker.refused[name].reason}]
    else:
        entries = []
    await publish_answer(overlay, request, entries, member=worker.name, graph=REQUESTS_GRAPH, predicate=ANSWERS)


async def _compared(worker: InterestWorker, name: str, *, mend: bool) -> Entry:
    """Compare a target with its expected content; ``mend``: read evicted triples again, then repair.

    Triples read again are in transit like any change. They count as lacking only if they have not arrived yet.
    """
    kept = worker.kept[name]
    dataset = worker.passes.get(kept.registration.dataset)
    try:
        given_up = 0 if dataset is None else await dataset.given_up_of(name)
        if mend and dataset is not None and given_up:
            await dataset.read_anew()
        found = await (kept.target.repair() if mend else kept.target.verify())
    except P2PRDFError as error:
        return {"name": name, "error": str(error)}
    entry: Entry = {
        "name": name, "expected": found.expected, "found": found.found, "equal": found.equal,
        "lacking": found.lacking, "foreign": found.foreign,
    }  # fmt: skip
    return entry | ({"evicted_triples": given_up} if given_up else {})


async def report(worker: InterestWorker, names: Iterable[str] | None = None) -> list[Entry]:
    """Return the state of a worker's interests; ``names``: only of these.

    ``as_of`` and ``position``: the time, and the changeset, up to which the target has the dataset;
    ``lag_seconds``: the age of that time. ``evicted_triples``, if there are any: potentially interesting
    triples evicted because of the bound; ``whole_as_of``: the time up to which the target is complete despite
    that.
    """
    wanted = None if names is None else frozenset(names)
    kept = {name: each for name, each in worker.kept.items() if wanted is None or name in wanted}
    sizes: dict[str, Sizes] = {}
    for dataset in {each.registration.dataset for each in kept.values()}:
        if dataset in worker.passes:
            here = [name for name, each in kept.items() if each.registration.dataset == dataset]
            sizes.update(await worker.passes[dataset].sizes(here))
    entries = [_state(worker, name, each, sizes) for name, each in sorted(kept.items())]
    for name, (registration, reason) in sorted(worker.refused.items()):
        if wanted is None or name in wanted:
            entries.append({"name": name, "state": "refused", "error": reason, **_what(registration)})
    return entries


def _state(worker: InterestWorker, name: str, kept: Maintained, sizes: Mapping[str, Sizes]) -> Entry:
    target, dataset = kept.target, worker.passes.get(kept.registration.dataset)
    error = target.error or (None if dataset is None else dataset.error)
    if target.paused:
        state = "paused"
    elif error is not None:
        state = "failing"
    elif not target.as_of:
        state = "reading"
    else:
        state = "current" if target.is_current else "behind"
    entry: Entry = {"name": name, "state": state, **_what(kept.registration), "pending_triples": target.pending}
    if target.reached:
        reached = target.reached / 1000
        entry |= {"as_of": reached, "lag_seconds": round(max(0.0, worker.now() - reached), 3)}
    if target.reached_position is not None:
        entry["position"] = target.reached_position
    if name in sizes:
        entry |= {"target_triples": sizes[name].target, "potential_triples": sizes[name].potential}
        if sizes[name].given_up:
            entry["evicted_triples"] = sizes[name].given_up
            if dataset is not None and dataset.whole_as_of is not None:
                entry["whole_as_of"] = dataset.whole_as_of / 1000
    if error is not None:
        entry["error"] = error
    return entry


def _what(registration: Registration | None) -> Entry:
    if registration is None:
        return {}
    graph = None if registration.graph is None else registration.graph[1:-1]
    return {"dataset": registration.dataset[1:-1], "target": registration.target, "graph": graph}
