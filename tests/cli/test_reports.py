"""The lines made from a node's report."""

from __future__ import annotations

import numpy as np
import pytest

from p2prdf_cli import subscriptions
from p2prdf_cli.reports import owned_share
from p2prdf_lab.fleets.places import Places, random_positions


def report(own: int, others: list[int], overlay: str) -> dict[str, object]:
    peers = [{"key": f"{key:016x}", "address": "127.0.0.1:1"} for key in [own, *others]]
    return {"key": f"{own:016x}", "peers": peers, "peer": {"overlay": overlay}}


@pytest.mark.parametrize("overlay", ["kademlia", "chord"])
@pytest.mark.parametrize("peers", [1, 2, 5, 20])
def test_shares_are_those_of_the_owners_of_many_keys(overlay, peers):
    positions = sorted(random_positions(peers, peers))
    keys = np.random.default_rng(1).integers(0, 1 << 64, size=200_000, dtype=np.uint64)
    owned = np.bincount(Places(positions, overlay).owners(keys), minlength=peers) / len(keys)
    shares = [
        owned_share(report(own, [key for key in positions if key != own], overlay)) for own in positions
    ]
    assert shares == pytest.approx(owned.tolist(), abs=0.005)
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("fenced", "settled", "in_sync", "said"),
    [
        ("the clock is off", True, True, "is fenced: the clock is off"),
        (None, False, True, "does not know its overlay"),
        (None, True, False, "compares its data"),
        (None, True, True, ""),
    ],
)
def test_the_reason_is_shown_if_a_node_does_not_do_all_of_its_work(
    fenced: str | None, settled: bool, in_sync: bool, said: str
) -> None:
    report = {"discovery": {"fenced": fenced}, "peer": {"settled": settled, "in_sync": in_sync}}
    told = subscriptions._out_of_sync(report) or ""
    assert subscriptions._unready(report) is None
    alone = {**report, "discovery": {"fenced": None, "joining": "nobody answers"}}
    assert subscriptions._out_of_sync(alone) == subscriptions._unready(alone) == "is not ready: nobody answers"
    assert told.startswith(said)
    assert bool(told) == bool(said)
