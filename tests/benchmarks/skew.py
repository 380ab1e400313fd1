"""How much busier than the mean the busiest peer is on skewed data, with hot keys split and without.

Simulated peers of the daemon's own code, Zipf data (exponent 1.1), queries on the hottest keys, indexes as
advertised for them (mostly p and po, where the skew is worst).  The bar is for peers at even positions on the
ring; at random positions the longest arc alone is several times the mean.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from p2prdf.peer import PeerConfig
from p2prdf.sim.world import WorldOptions
from p2prdf_lab.fleets.skew import hot_queries, run_skew

BAR = 3.0


def run(console: Console, quick: bool) -> bool:
    """Print loads; return whether the bar is met and all answers are right."""
    table = Table(title="busiest peer in times of the mean; whole: with the time in which depths settle")
    for column in ("peers", "places", "rdf:type", "split", "busiest", "whole", "keys split", "deepest", "answers"):
        table.add_column(column, justify="right")
    worst, wrong = 0.0, 0
    for peers in (64,) if quick else (64, 200):
        for places in ("even", "random"):
            for typed in (0.25, 0.75):
                for split in (False, True):
                    config = PeerConfig(
                        indexes="on-demand", hot_keys=split, hot_interval_seconds=1.0, hot_rate_min=20, hot_sample=4
                    )
                    options = WorldOptions(peers=peers, seed=1, places=places, config=config)  # type: ignore[arg-type]
                    done = run_skew(
                        options, hot_queries(), typed=typed, round_triples=30 * peers,
                        settling_rounds=12 if split else 2,
                    )  # fmt: skip
                    table.add_row(
                        str(peers), places, f"{typed:.0%}", "yes" if split else "no", f"{done.settled.worst:.1f}",
                        f"{done.whole.worst:.1f}", str(done.keys_split), str(done.depth_max),
                        f"{done.answers:,}" if not done.wrong else f"{done.wrong} wrong",
                    )  # fmt: skip
                    wrong += done.wrong
                    if split and places == "even":
                        worst = max(worst, done.settled.worst)
    console.print(table)
    console.print(f"bar: {worst:.1f} times the mean on even places with splitting (at most {BAR:.0f}), {wrong} wrong")
    return worst <= BAR and not wrong
