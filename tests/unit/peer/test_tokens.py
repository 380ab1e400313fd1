"""Completion counters end when all their acknowledgements have come, and no sooner."""

from __future__ import annotations

import pytest

from p2prdf.peer.network.completions import Completions


class Undertaking:
    """A completion counter, and the number of peers that may be outstanding."""

    def __init__(self, spare: int):
        self.spare = spare
        self.tokens = Completions(lambda: self.spare)
        self.done = 0
        self.number = self.tokens.token(self._finish, sparing=True)

    def _finish(self) -> None:
        self.done += 1

    def send(self, *peers: int) -> None:
        for peer in peers:
            self.tokens.hold((self.number,), peer)
        self.tokens.release((self.number,))

    def acknowledge(self, peer: int) -> None:
        self.tokens.release((self.number,), peer)


@pytest.mark.parametrize(("spare", "needed"), [(0, 3), (1, 2), (2, 1)])
def test_as_many_peers_as_may_be_are_not_waited_for(spare: int, needed: int):
    work = Undertaking(spare)
    work.send(1, 2, 3)
    for peer in range(1, 4):
        work.acknowledge(peer)
        assert work.done == (peer >= needed)
    assert len(work.tokens) == 0


def test_with_fewer_peers_there_is_less_to_spare_also_when_they_come_back():
    work = Undertaking(2)
    work.send(1, 2, 3)
    work.spare = 1
    work.tokens.fewer()  # the message to a fourth peer has gone to these
    work.spare = 2
    work.acknowledge(1)
    assert work.done == 0
    work.acknowledge(2)
    assert work.done == 1


def test_a_counter_begun_with_fewer_peers_gains_nothing_when_more_come():
    work = Undertaking(0)
    work.spare = 2
    work.send(1, 2)
    work.acknowledge(1)
    assert work.done == 0
    work.acknowledge(2)
    assert work.done == 1
