"""Configurations of the peers of a run, and the features that its schedules exercise; every run prints both.

A result of fault schedules is valid for the drawn configurations and features.  A schedule *shows* a feature by its
failures (the names in the world's ``happened``), by keywords of its queries, or by an option such as texts.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Final, Literal

from p2prdf.columns import ARRAYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from p2prdf.sim.world import World, WorldOptions

__all__ = [
    "DAEMON", "DAEMON_SHARE", "FEATURES", "Configurations", "Feature", "Shares", "as_daemons", "configurations",
    "draws_daemons", "shown_by_queries",
]  # fmt: skip

DAEMON: Final = "the daemon's (indexes all, columnar tables, wire codec, 3 copies, durable)"
"""The label of peers with the default configuration of daemons."""

DAEMON_SHARE: Final = 0.95
"""Share of schedules in which all peers have this configuration."""

Configurations = Literal["daemon", "varied", "forgetting"]
"""``daemon``: the daemon's configuration for ``DAEMON_SHARE`` of the seeds, a varied one for the others.  ``varied``:
indexes, tables, codec and copies differ by seed; seeds that were pinned before ``daemon`` existed need this.
``forgetting``: as ``daemon``, with the setting ``forget_intervals``."""

_KEYWORDS: Final = re.compile(r"\b(GRAPH|WINDOW|ASK|CONSTRUCT|INSERT)\b")
_DAEMON: Final = "all", True, True, 3, 2, True


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of schedules: names that show it, and the command that draws it."""

    shown_by: tuple[str, ...]
    drawn_by: str


FEATURES: Final[dict[str, Feature]] = {
    "removals": Feature(("removals", "withdrawn"), "make faults"),
    "named graphs": Feature(("GRAPH",), "make faults"),
    "windows": Feature(("WINDOW",), "make faults"),
    "rules": Feature(("rules",), "make faults"),
    "full text": Feature(("texts",), "make faults"),
    "ASK": Feature(("ASK",), "make faults"),
    "CONSTRUCT": Feature(("CONSTRUCT",), "make faults"),
    "clock steps of hours": Feature(("clock-step-hours",), "make clock-steps"),
    "late bootstrap": Feature(("late-bootstrap",), "make late-bootstrap"),
    "islands": Feature(("islands",), "make islands"),
    "slow processors": Feature(("slow-processor",), "make slow-processors"),
}
"""Features by name.  A new feature is one line here; its failures are counted in ``happened`` as ``shown_by`` names."""


def draws_daemons(kind: str, seed: int) -> bool:
    """Return whether a seed of a kind of schedules has the configuration of daemons.

    The choice has a random stream of its own, so it does not change the other properties of a seed.
    """
    return Random(f"p2prdf {kind} {seed} configuration").random() < DAEMON_SHARE


def as_daemons(options: WorldOptions) -> WorldOptions:
    """Return a world of the same peers with the configuration of daemons."""
    config = replace(
        options.config, indexes="all", replicas=3, copies_min=2, durable=True, hot_keys=True, address_cache=True,
        multisend="direct", audit_seconds=20.0,
    )  # fmt: skip
    return replace(options, tables="arrays", through_codec=True, config=config)


def configurations(world: World) -> Counter[str]:
    """Count the peers of a world by their configurations."""
    config = world.options.config
    counts: Counter[str] = Counter()
    for node in world.nodes:
        arrays, codec = node.columns is ARRAYS, node.codec is not None
        parts = config.indexes, arrays, codec, config.replicas, config.copies_min, config.durable
        if parts == _DAEMON:
            counts[DAEMON] += 1
            continue
        tables = "columnar tables" if arrays else "lists"
        copies = f"{config.replicas} {'copy' if config.replicas == 1 else 'copies'} (least {config.copies_min})"
        ends = ("", ", wire codec")[codec], ("", ", durable")[config.durable]
        counts[f"indexes {config.indexes}, {tables}{ends[0]}, {copies}{ends[1]}"] += 1
    return counts


def shown_by_queries(texts: Iterable[str]) -> set[str]:
    """Return the keywords in query texts that show features."""
    return {keyword for text in texts for keyword in _KEYWORDS.findall(text)}


@dataclass(slots=True)
class Shares:
    """Sums over the schedules of a run, printed at the end."""

    schedules: int = 0
    peers: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)

    def add(self, peers: Counter[str], shown: Iterable[str]) -> None:
        """Count one schedule: its peers by configuration, and the features that it showed."""
        self.schedules += 1
        self.peers += peers
        names = set(shown)
        self.features.update(name for name, feature in FEATURES.items() if not names.isdisjoint(feature.shown_by))

    def lines(self) -> list[str]:
        """Return the lines to print: shares of configurations, then schedules by feature."""
        total = max(1, self.peers.total())
        ordered = sorted(self.peers.items(), key=lambda each: (each[0] != DAEMON, -each[1], each[0]))
        lines = [f"{total} peers by configuration:"]
        lines += [f"  {count / total:6.1%}  {name}" for name, count in ordered]
        if not self.peers[DAEMON]:
            lines.append(f"  {0:6.1%}  {DAEMON}")
        shown = ", ".join(
            f"{name} {self.features[name]}" + ("" if self.features[name] else f" ({feature.drawn_by})")
            for name, feature in FEATURES.items()
        )
        lines.append(f"{self.schedules} schedules, of which with: {shown}")
        return lines
