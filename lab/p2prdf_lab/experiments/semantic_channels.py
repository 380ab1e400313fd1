"""Semantic channels: lead time of notifications, and graphs published per second.

The SENS paper's evaluation, on descriptions of a university benchmark in random order.  All descriptions but the last
1,000 are loaded, the benchmark's 14 queries become channels, and the last ones are published one by one.  All runs use
the same knowledge base, from which the graphs of a run are deleted before the next run.  Times are processor time,
without other load on the machine.
"""

from __future__ import annotations

import dataclasses
import gc
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from p2prdf.channels import BEYOND_PAPER, PAPER, Categories, Channels, Evaluation, Kind, KnowledgeBase, Settings
from p2prdf.errors import LocalProtocolError
from p2prdf.reasoning import owl_rl
from p2prdf_lab.experiments.results import Result
from p2prdf_lab.experiments.semantic_channels_result import Measured, Run, Told, result_of
from p2prdf_lab.experiments.setting import Progress, quiet
from p2prdf_lab.workloads.universities import Graph, read_universities

__all__ = ["ChannelsSetting", "semantic_channels"]

_LOADED_AT_ONCE: Final = 50_000

_RUNS: Final[dict[str, Settings]] = {
    "reference": Settings(heuristics=(), skip_max=1),
    "heuristic": dataclasses.replace(PAPER, skip_max=1),
    "skipping": PAPER,
    "by shape": dataclasses.replace(PAPER, heuristics=(Categories.SHAPE,)),
    "by signature": dataclasses.replace(PAPER, heuristics=(Categories.SIGNATURE,)),
    "by change": dataclasses.replace(PAPER, heuristics=(Categories.CHANGE,)),
    "competing": BEYOND_PAPER,
    "competing, each": dataclasses.replace(BEYOND_PAPER, skip_max=1),
    "incremental": Settings(evaluation=Evaluation.INCREMENTAL, heuristics=()),
    "incremental, heuristic": dataclasses.replace(BEYOND_PAPER, evaluation=Evaluation.INCREMENTAL),
}
"""Runs: without and with the paper's heuristic, with skipping, with the other heuristics, with all of them and the
query run at each graph, and with the other evaluator."""
_ALONE: Final = ("reference", "skipping", "competing")
"""Runs that are repeated for each channel alone."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelsSetting:
    """Sizes: number of universities, and of measured graphs."""

    folder: Path
    universities: int = 1
    last: int = 1000
    seed: int = 1

    def validate(self) -> None:
        """Raise LocalProtocolError for a setting that cannot be run."""
        if self.universities not in (1, 10):
            raise LocalProtocolError(f"{self.universities} universities: there is data of 1 and of 10")
        if not 20 <= self.last <= 10_000:
            raise LocalProtocolError(f"{self.last} graphs measured: there are 20 to 10,000")

    def as_dict(self) -> dict[str, str | int | float]:
        """Return the setting as plain values."""
        return {"universities": self.universities, "graphs measured": self.last, "seed": self.seed}


def semantic_channels(setting: ChannelsSetting, progress: Progress = quiet) -> Result:
    """Run the paper's evaluation, and the same with other heuristics and the other evaluator.

    Raises LocalProtocolError for a setting that cannot be run, DataRefused for data that cannot be read.
    """
    setting.validate()
    collects = gc.isenabled()
    gc.disable()
    try:
        found = _measured(setting, progress)
    finally:
        if collects:
            gc.enable()
    progress(1.0)
    return result_of(setting.as_dict(), found)


def _measured(setting: ChannelsSetting, progress: Progress) -> Measured:
    data = read_universities(setting.folder, setting.universities)
    graphs = list(data.graphs)
    random.Random(setting.seed).shuffle(graphs)
    loaded, measured = graphs[: -setting.last], graphs[-setting.last :]
    knowledge = KnowledgeBase.of_ontology(data.ontology, owl_rl(equality=False))
    statements = [triple for graph in loaded for triple in graph]
    for start in range(0, len(statements), _LOADED_AT_ONCE):
        knowledge.add(statements[start : start + _LOADED_AT_ONCE])
    new = [triple for graph in measured for triple in graph if not knowledge.is_explicit(triple)]
    begun = len(knowledge)
    progress(0.2)
    runs: dict[str, Run] = {}
    held: dict[str, int] = {}
    alone: dict[str, dict[str, float]] = {}
    parts = len(_RUNS) + len(data.queries)

    def undo(done: int) -> None:
        knowledge.remove_all(new)
        assert len(knowledge) == begun, "what a run published is deleted again"
        gc.collect()
        progress(0.2 + 0.8 * done / parts)

    for at, (kind, settings) in enumerate(_RUNS.items()):
        runs[kind], held = _run(knowledge, data.queries, measured, settings)
        undo(at)
    for at, (name, query) in enumerate(data.queries.items()):
        alone[name] = {}
        for kind in _ALONE:
            alone[name][kind] = _rate_alone(knowledge, query, measured, _RUNS[kind])
            undo(len(_RUNS) + at)
    sizes = Counter(map(len, graphs))
    return Measured(len(graphs), sum(map(len, graphs)), (min(sizes), max(sizes)), begun, runs, held, alone)


def _rate_alone(knowledge: KnowledgeBase, query: str, graphs: Sequence[Graph], settings: Settings) -> float:
    """Return the graphs per second that can be published to a single channel, with all costs."""
    channels = Channels(knowledge, time.process_time)
    channels.create("alone", query, settings)
    begun = time.process_time()
    for graph in graphs:
        channels.publish(graph)
        channels.evaluate()
    return len(graphs) / max(1e-9, time.process_time() - begun)


def _run(
    knowledge: KnowledgeBase, queries: dict[str, str], graphs: Sequence[Graph], settings: Settings
) -> tuple[Run, dict[str, int]]:
    """Publish graphs; return the notifications and costs of each channel, and the number of bindings at the end."""
    channels = Channels(knowledge, time.process_time)
    for name, query in queries.items():
        channels.create(name, query, settings)
    run = Run(len(graphs), tuple(queries))
    before = {each.name: each for each in channels.statistics()}
    first = before
    for number, graph in enumerate(graphs):
        begun = time.process_time()
        early = channels.publish(graph)
        published = time.process_time() - begun
        found = channels.evaluate()
        run.total += time.process_time() - begun
        after = {each.name: each for each in channels.statistics()}
        tested = {name: after[name].testing - before[name].testing for name in queries}
        ran = {name: after[name].running - before[name].running for name in queries}
        run.publishing += published - sum(tested.values())
        for each in (*early, *found):
            if each.first:
                tentative = each.kind is Kind.TENTATIVE
                own = tested[each.channel] + (0.0 if tentative else ran[each.channel])
                run.told[each.channel].append(Told(each.binding, number, tentative, own))
        for name in queries:
            run.recent[name].append(after[name].recently_foreseen)
        before = after
    for each in channels.settle():
        if each.first:
            run.told[each.channel].append(Told(each.binding, len(graphs), False, 0.0))
    for name in queries:
        run.note(name, first[name], before[name])
    return run, {each.name: each.bindings for each in channels.statistics()}
