"""Validation of the fleet: the same workload in a World of real peers, compared peer by peer.

The other experiments take their loads from a fleet.  Here every peer runs the daemon's code, on a Chord ring with
messages, lookups and acknowledgements.  Afterwards each peer's own counts of received and stored items must equal the
fleet's counts for its position, and subscribers must have got as many answers as the fleet counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from p2prdf.peer import PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.experiments.results import Claim, Panel, Result, Table, by_rank
from p2prdf_lab.experiments.setting import Progress, Setting, quiet, stages
from p2prdf_lab.fleets.fleet import Fleet
from p2prdf_lab.fleets.places import Places
from p2prdf_lab.workloads.paths import path_queries, path_triples

if TYPE_CHECKING:
    import numpy.typing as npt

    from p2prdf.rdf.query import ConjunctiveQuery

__all__ = ["SETTING", "agreement"]

SETTING: Final = Setting(queries=1000, triples=20_000, instances=30, values=30, key_encoding="typed")

_BATCH: Final = 2000
_ENTRIES: Final = 50
"""Peers at which queries enter; triples enter at one peer."""

Triples = list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of the fleet or of the World, with peers in order of position."""

    arrivals: npt.NDArray[np.int64]
    storage: npt.NDArray[np.int64]
    answers: int
    hops: int = 0


def agreement(setting: Setting, progress: Progress = quiet) -> Result:
    """Run fleet and World for both algorithms, and compare them."""
    setting.validate()
    queries, triples = _workload(setting)
    result = Result("agreement", "A fleet against real peers", setting.as_dict())
    rows: list[tuple[str | int | float, ...]] = []
    for algorithm, stage in zip(Algorithm, stages(progress, 2), strict=True):
        name = algorithm.value.upper()
        world, real = _through_peers(setting, algorithm, queries, triples, stage)
        told = _through_fleet(world, algorithm, queries, triples)
        rows.append((
            name, len(real.arrivals), int(real.arrivals.sum()), int(told.arrivals.sum()), int(real.storage.sum()),
            int(told.storage.sum()), real.answers, told.answers, real.hops,
        ))  # fmt: skip
        for what, ours, theirs in (
            ("processing load", real.arrivals, told.arrivals), ("storage load", real.storage, told.storage)
        ):  # fmt: skip
            curves = (by_rank("real peers", ours), by_rank("fleet", theirs))
            result.panels.append(Panel(f"{name}: {what}", "peers, busiest first", f"{what}, cumulative", curves))
            same = int(np.count_nonzero(ours == theirs))
            result.claims.append(
                Claim(f"{name}: {what} is equal at every peer", f"{same:,} of {len(ours):,}", same == len(ours))
            )
        result.claims.append(
            Claim(
                f"{name}: the numbers of answers are equal",
                f"{real.answers:,} and {told.answers:,}",
                real.answers == told.answers > 0,
            )
        )
    columns = (
        "algorithm", "peers", "received: peers", "received: fleet", "held: peers", "held: fleet", "answers: peers",
        "answers: fleet", "hops of the peers",
    )  # fmt: skip
    result.tables = [Table("Both ways", columns, tuple(rows))]
    return result


def _workload(setting: Setting) -> tuple[list[ConjunctiveQuery], Triples]:
    """Return distinct queries and triples, because real peers evaluate equal queries once."""
    dictionary = TermDictionary()
    columns = path_triples(dictionary, setting.triples, schema=setting.schema, seed=setting.seed + 1)
    texts = [dictionary.texts(column.tolist()) for column in columns]
    queries = path_queries(setting.queries, schema=setting.schema, seed=setting.seed)
    once = {query.constants: query for query in queries}
    return list(once.values()), list(dict.fromkeys(zip(*texts, strict=True)))


def _through_peers(
    setting: Setting, algorithm: Algorithm, queries: list[ConjunctiveQuery], triples: Triples, progress: Progress
) -> tuple[World, _Counts]:
    indexes = "csbv" if algorithm is Algorithm.CSBV else "cqc"
    config = PeerConfig(indexes=indexes, group_lease_seconds=1e9)
    world = World(WorldOptions(peers=setting.peers, seed=setting.seed, overlay="chord", config=config))
    for at, query in enumerate(queries):
        world.subscribe(0.0, at % min(_ENTRIES, setting.peers), query, algorithm)
    world.run_until_quiet()
    for at in range(0, len(triples), _BATCH):
        world.publish(0.0, 0, triples[at : at + _BATCH])
        world.run_until_quiet()
        progress(min(1.0, (at + _BATCH) / len(triples)))
    status = [node.peer.status() for node in sorted(world.nodes, key=lambda node: node.contact.key)]

    def column(name: str) -> npt.NDArray[np.int64]:
        return np.array([each[name] for each in status], np.int64)

    answers = sum(len(subscriber.rows) for subscriber in world.subscribers)
    return world, _Counts(column("processing_load"), column("storage_load"), answers, world.counts.hops)


def _through_fleet(
    world: World, algorithm: Algorithm, queries: list[ConjunctiveQuery], triples: Triples
) -> _Counts:
    dictionary = TermDictionary()
    fleet = Fleet(
        dictionary, [Places(node.contact.key for node in world.nodes)], algorithm, list_answers=False
    )
    fleet.subscribe(queries)
    fleet.publish(*(np.array(dictionary.intern_all(column), np.uint32) for column in zip(*triples, strict=True)))
    return _Counts(fleet.loads[0].arrivals, fleet.loads[0].storage, fleet.answers)
