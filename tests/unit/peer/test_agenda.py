"""The agenda of a peer: a turn wakes the components that have work, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from peer_pair import LOW, Pair

from p2prdf.peer.network.component import Component


def _counted(woken: Counter[str], name: str, wake: Callable[[], None]) -> None:
    woken[name] += 1
    wake()


@pytest.fixture
def pair() -> Pair:
    """Two peers that have compared all data."""
    made = Pair(replicas=2, copies_min=1, durable=True)
    made.pass_time(60.0)
    made.publish(LOW, ("<s>", "<p>", '"1"'))
    made.pass_time(60.0)
    return made


def test_a_publication_wakes_no_component_that_has_nothing_to_do_with_it(pair, monkeypatch):
    woken: Counter[str] = Counter()
    for peer in pair.peers.values():
        for each in peer._timed:
            monkeypatch.setattr(each, "wake", partial(_counted, woken, type(each).__name__, each.wake))
    pair.publish(LOW, ("<s>", "<p>", '"2"'))
    assert woken["Redelivery"], "the publication has to be reported as complete"
    assert not woken.keys() & {"Explanations", "Opening", "Unresolved", "Cluster", "LateIndexes", "DerivedFacts"}


def test_a_component_that_forgets_to_mark_itself_is_found_by_the_check(pair):
    peer = pair.peers[LOW.key]
    redelivery = peer._engine.redelivery
    redelivery._strangers[7] = pair.now + 1.0  # without marking it as dirty
    with pytest.raises(AssertionError, match=r"Redelivery is due .* has to mark itself as dirty"):
        pair.publish(LOW, ("<s>", "<p>", '"2"'))


def test_a_marked_component_is_woken_by_the_next_turn_and_once():
    class Counting(Component):
        woken = 0

        def wake(self) -> None:
            self.woken += 1

        @property
        def deadline(self) -> float | None:
            return None

    pair = Pair()
    peer, counting = pair.peers[LOW.key], Counting()
    peer._wake([("upkeep", counting)])
    peer._wake([("upkeep", counting)])
    assert counting.woken == 1
    counting.mark_dirty()
    peer._wake([("upkeep", counting)])
    assert counting.woken == 2
