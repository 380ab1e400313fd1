"""The seed paper's workload at any scale, run through a fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf_lab.fleets.fleet import Fleet, Listener
from p2prdf_lab.fleets.tables import KEY_ENCODINGS
from p2prdf_lab.workloads.paths import PathSchema, path_queries, path_triples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.rdf.query import Algorithm
    from p2prdf_lab.fleets.fleet import Ring

__all__ = ["BATCH", "Progress", "Setting", "quiet", "run_fleet", "stages"]

BATCH = 4096
"""Triples published at once."""

Progress = Callable[[float], None]
"""Callback with the part of a run that is done, 0 to 1."""


def quiet(done: float) -> None:
    """Ignore progress."""


def stages(progress: Progress, count: int) -> list[Progress]:
    """Return ``count`` callbacks for runs of about equal length, which share one callback."""

    def stage(at: int) -> Progress:
        return lambda done: progress((at + done) / count)

    return [stage(at) for at in range(count)]


@dataclass(frozen=True, slots=True)
class Setting:
    """Sizes of one run, with the schema's ``instances`` per class and ``values`` per literal domain.

    ``key_encoding``: ``paper`` hashes constant parts without the index, ``typed`` is the daemon's.
    """

    peers: int = 20_000
    queries: int = 100_000
    triples: int = 600_000
    instances: int = 1000
    values: int = 1000
    key_encoding: str = "paper"
    seed: int = 1

    def scaled(self, scale: float, keep: Sequence[str] = ()) -> Setting:
        """Return the setting at ``scale`` times its size, except for the sizes in ``keep``.

        All sizes shrink alike, so the probability that a triple meets a partial result is that of the full size, and
        so are partial results and answers per triple.
        """
        if not 0 < scale <= 4:
            raise LocalProtocolError(f"scale: {scale!r} is not above 0 and at most 4")

        peers, queries, triples, instances, values = (
            size if name in keep else max(4, round(size * scale))
            for name, size in (
                ("peers", self.peers), ("queries", self.queries), ("triples", self.triples),
                ("instances", self.instances), ("values", self.values),
            )
        )  # fmt: skip
        return replace(self, peers=peers, queries=queries, triples=triples, instances=instances, values=values)

    def validate(self) -> None:
        """Raise LocalProtocolError for a setting that cannot be run."""
        for name in ("peers", "queries", "triples", "instances", "values"):
            size = getattr(self, name)
            if not 1 <= size <= 100_000_000:
                raise LocalProtocolError(f"{name}: {size} is not between 1 and 100,000,000")
        if self.key_encoding not in KEY_ENCODINGS:
            raise LocalProtocolError(f"key encoding: {self.key_encoding!r} is none of {', '.join(KEY_ENCODINGS)}")

    @property
    def schema(self) -> PathSchema:
        """The schema of this size."""
        return PathSchema(instances=self.instances, values=self.values)

    def as_dict(self) -> dict[str, str | int | float]:
        """Return the sizes under stable names."""
        return {
            "peers": self.peers, "queries": self.queries, "triples": self.triples, "instances": self.instances,
            "values": self.values, "key_encoding": self.key_encoding, "seed": self.seed,
        }  # fmt: skip


def run_fleet(
    setting: Setting,
    algorithm: Algorithm,
    rings: Sequence[Ring],
    *,
    order: str = "rarest",
    indexes: str = "paper",
    batch: int = BATCH,
    checkpoints: Sequence[int] = (),
    on_checkpoint: Callable[[Fleet], None] | None = None,
    on_messages: Listener | None = None,
    progress: Progress = quiet,
) -> Fleet:
    """Install the setting's queries in a fleet, publish its triples, and return the fleet.

    Answers are counted, not listed.  A setting has the same queries and triples for all algorithms and rings.
    ``on_checkpoint`` is called after each number of triples in ``checkpoints``.
    """
    setting.validate()
    dictionary = TermDictionary()
    fleet = Fleet(
        dictionary, rings, algorithm, order=order, indexes=indexes, encoding=setting.key_encoding, list_answers=False,
        on_messages=on_messages,
    )  # fmt: skip
    progress(0.0)
    fleet.subscribe(path_queries(setting.queries, schema=setting.schema, seed=setting.seed))
    s, p, o = path_triples(dictionary, setting.triples, schema=setting.schema, seed=setting.seed + 1)
    wanted = {at for at in checkpoints if at <= setting.triples}
    ends = sorted({*range(batch, setting.triples, batch), *wanted, setting.triples})
    start = 0
    for end in ends:
        fleet.publish(s[start:end], p[start:end], o[start:end])
        start = end
        progress(end / setting.triples)
        if on_checkpoint is not None and end in wanted:
            on_checkpoint(fleet)
    return fleet
