"""Fault schedules that failed once, each with all its options, so that changes of the drawing do not affect them.

The seed still draws the failures and their times, the publications and the queries.  The seeds in
:mod:`schedules.failures.kept` are drawn as a whole, and test other things whenever the drawing changes.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from p2prdf.peer.network.config import PeerConfig
from p2prdf.sim.faults import Faults
from p2prdf.sim.world import WorldOptions
from schedules.failures.options import Failures
from schedules.failures.scenario import BadDay

__all__ = ["PINNED"]

_CALM: Final = Faults(delay_min_seconds=0.001, delay_max_seconds=0.02)
_LOSSY: Final = Faults(
    delay_min_seconds=0.001, delay_max_seconds=0.1, loss_probability=0.05, duplicate_probability=0.05,
    turn_seconds_max=0.005,
)  # fmt: skip
_BAD: Final = Faults(
    delay_min_seconds=0.001, delay_max_seconds=0.15, loss_probability=0.3, duplicate_probability=0.1,
    straggler_probability=0.05, straggler_seconds=1.5, turn_seconds_max=0.01, skew_seconds_max=0.4,
)  # fmt: skip
_EVENTS_MAX: Final = 400_000


def _config(**changed: Any) -> PeerConfig:
    chosen: dict[str, Any] = {
        "durable": True, "request_seconds": 6.0, "settle_seconds": 2.0, "retry_seconds": 1.0, "hot_keys": False,
        "has_seeds": True, "replicas": 3, "copies_min": 2, "clock_skew_seconds": 0.0,
    }  # fmt: skip
    return PeerConfig(**(chosen | changed))


def _options(
    seed: int, peers: int, overlay: str, tables: Literal["lists", "arrays", "mixed"], config: PeerConfig,
    faults: Faults, *, through_codec: bool = False,
) -> WorldOptions:  # fmt: skip
    return WorldOptions(
        peers=peers, seed=seed, overlay=overlay, tables=tables, config=config, faults=faults,
        through_codec=through_codec, events_max=_EVENTS_MAX,
    )


def _snapshot_after_a_withdrawal() -> BadDay:
    config = _config(indexes="csbv", settle_seconds=0.0, clock_skew_seconds=0.8, keyword_routing=True)
    options = _options(31000409, 4, "chord", "lists", config, _BAD, through_codec=True)
    failures = Failures(span_seconds=8.0, happenings_max=12, removals=True, standing=True, texts=True)
    return BadDay(31000409, "bad", options, failures, "csbv", per_event=False)


def _withdrawals_of_a_left_group() -> BadDay:
    config = _config(indexes="on-demand", solutions_window=6, keyword_routing=True)
    options = _options(31000582, 5, "chord", "mixed", config, _LOSSY)
    failures = Failures(
        span_seconds=3.0, happenings_max=2, handle_seconds_max=0.25, bookmarks=True, removals=True, standing=True,
        texts=True,
    )  # fmt: skip
    return BadDay(31000582, "lossy", options, failures, "cqc", per_event=True)


def _withdrawals_for_an_empty_disk() -> BadDay:
    config = _config(
        indexes="csbv", settle_seconds=0.0, retry_seconds=0.3, replicas=2, solutions_window=6, keyword_routing=True
    )
    options = _options(31500009, 3, "kademlia", "mixed", config, _CALM)
    failures = Failures(
        span_seconds=20.0, happenings_min=25, happenings_max=50,
        weights={"compaction": 10.0, "crash": 8.0, "disk-loss": 8.0, "cut": 8.0},
        down_max_seconds=2.0, detect_max_seconds=1.0, cut_min_seconds=0.5, cut_max_seconds=2.0,
        unnoticed_probability=1.0, handle_seconds_max=0.25, bookmarks=True, removals=True, standing=True, texts=True,
        living_only=True,
    )  # fmt: skip
    return BadDay(31500009, "calm", options, failures, "csbv", per_event=False)


def _rows_of_an_ended_group() -> BadDay:
    config = _config(indexes="csbv", replicas=5, copies_min=3)
    options = _options(31000296, 7, "kademlia", "arrays", config, _LOSSY, through_codec=True)
    failures = Failures(span_seconds=15.0, happenings_max=12)
    return BadDay(31000296, "lossy", options, failures, "csbv", per_event=True)


PINNED: Final[dict[str, BadDay]] = {
    # Its group had no subscription left at the other replicas, and a cut kept one from having compared since it began.
    # That replica refused withdrawals until all knew that the group was over, and all waited for it to have compared.
    "a withdrawal of an unknown group is kept and acknowledged": _withdrawals_of_a_left_group(),
    # The same, of a replica that had lost its disk.
    "a withdrawal that comes to an empty disk is kept and acknowledged": _withdrawals_for_an_empty_disk(),
    # The subscriber had acknowledged the withdrawal, and the message that it had the answer too was on its way.
    "a snapshot holds an answer whose withdrawal is acknowledged": _snapshot_after_a_withdrawal(),
    # A query had ended, and one peer that held rows of it had not heard.  All others asked it for these rows in each
    # comparison and dropped them.  The peer was leaving, and took each question for an answer to its offers.
    "a peer that sends rows of an ended query is told of the end": _rows_of_an_ended_group(),
}
"""The schedules by their violated rule."""
