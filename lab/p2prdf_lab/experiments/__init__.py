"""The seed paper's experiments (Liarou, Idreos, Koubarakis, ISWC 2007), as functions of a setting.

``EXPERIMENTS`` is the registry.  An experiment takes a :class:`~p2prdf_lab.experiments.setting.Setting`, reports its
progress, and returns a :class:`~p2prdf_lab.experiments.results.Result` of plain values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf_lab.experiments import agreement, balance, caches, loads
from p2prdf_lab.experiments.results import Result
from p2prdf_lab.experiments.setting import Progress, Setting, quiet

__all__ = ["EXPERIMENTS", "Experiment"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment: summary, full size, measuring function.

    ``keep``: sizes that are not scaled.  ``least``: smallest sizes with a meaningful result.
    """

    summary: str
    setting: Setting
    measure: Callable[[Setting, Progress], Result]
    keep: tuple[str, ...] = ()
    least: tuple[tuple[str, int], ...] = ()

    def at(self, scale: float) -> Setting:
        """Return the setting at a scale; 1 is the paper's size."""
        return self.setting if scale == 1 else self.setting.scaled(scale, self.keep)

    def check(self, setting: Setting) -> None:
        """Raise LocalProtocolError for a setting that cannot be run, or is too small for this experiment."""
        setting.validate()
        for name, least in self.least:
            size = getattr(setting, name)
            if size < least:
                raise LocalProtocolError(f"{name}: this experiment needs at least {least}, not {size}")

    def run(self, setting: Setting, progress: Progress = quiet) -> Result:
        """Run at a setting; raises LocalProtocolError for one that :meth:`check` refuses."""
        self.check(setting)
        return self.measure(setting, progress)


EXPERIMENTS: Final = {
    "load-distribution": Experiment("E1: how load spreads over peers", Setting(), loads.load_distribution),
    "address-cache": Experiment(
        "E2: hops per triple with and without a cache of addresses", caches.SETTING, caches.address_cache,
        ("queries",),  # they determine the fan-out of a result, which the cache serves
        (("peers", 4), ("triples", 60)),
    ),
    "triple-rate": Experiment(
        "E3: load as more triples come", Setting(), loads.triple_rate, least=(("triples", 4),)
    ),
    "query-count": Experiment(
        "E4: load as queries are added", Setting(triples=1_000_000), loads.query_count, least=(("queries", 4),)
    ),
    "network-size": Experiment(
        "E5: load as peers are added", Setting(triples=1_000_000), loads.network_size, least=(("peers", 2),)
    ),
    "hot-keys": Experiment(
        "beyond the paper: skewed data, hot keys split and not", balance.SETTING, balance.hot_keys, ("peers", "triples")
    ),
    "agreement": Experiment(
        "the numbers of these experiments against real peers, peer by peer", agreement.SETTING, agreement.agreement
    ),
}
"""The experiments, by their command's name."""
