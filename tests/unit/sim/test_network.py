"""The network applies its faults to envelopes, and counts them."""

from __future__ import annotations

import dataclasses
import random

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.sim.faults import CALM, HARSH, Faults
from p2prdf.sim.network import Network
from p2prdf.wire.messages import Acknowledge, FindNode, IndexesRequest, Nodes


def test_a_calm_network_delivers_once_after_the_same_delay():
    network = Network(CALM, random.Random(1))
    assert [network.fate(IndexesRequest()) for _ in range(5)] == [[0.005]] * 5
    assert network.counts.hops == 5


def test_faults_happen_about_as_often_as_said():
    faults = Faults(0.0, 0.1, straggler_probability=0.1, straggler_seconds=5.0, loss_probability=0.2,
                    duplicate_probability=0.3)  # fmt: skip
    network = Network(faults, random.Random(2))
    fates = [network.fate(IndexesRequest()) for _ in range(10_000)]
    counts = network.counts
    assert counts.lost == pytest.approx(2_000, rel=0.1)
    assert counts.duplicated == pytest.approx(3_000, rel=0.1)
    assert sum(map(len, fates)) == 10_000 - counts.lost + counts.duplicated
    assert counts.delayed == sum(delay >= 5 for fate in fates for delay in fate)
    assert counts.delayed == pytest.approx(1_100, rel=0.1)


def test_counts_tell_the_way_there_from_the_way_back():
    network = Network(CALM, random.Random(3))
    for message in (FindNode(1, 2), Nodes(1, ()), Acknowledge([1]), IndexesRequest(), IndexesRequest()):
        network.fate(message)
    counts = network.counts
    assert (counts.hops, counts.hops_without_replies, counts.data_transfers) == (5, 3, 2)
    assert (counts.lookup_requests, counts.lookup_replies, counts.acknowledgements) == (1, 1, 1)
    assert counts.as_dict()["messages"] == {"Acknowledge": 1, "IndexesRequest": 2, "FindNode": 1, "Nodes": 1}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"loss_probability": 1.5}, "loss_probability=1.5"),
        ({"loss_probability": 0.95}, "no chance"),
        ({"delay_min_seconds": -1.0}, "delay_min_seconds=-1.0"),
        ({"delay_min_seconds": 2.0}, "is above"),
    ],
)
def test_meaningless_faults_are_refused_by_name(change: dict[str, float], named: str):
    with pytest.raises(LocalProtocolError, match=named):
        dataclasses.replace(HARSH, **change).validate()
