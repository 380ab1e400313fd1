"""A socket's unacknowledged notifications are bounded, whichever acknowledgements its client sends."""

from __future__ import annotations

from p2prdf.gateway.sockets import _UNDER_WAY_MAX, _Held


class Told:
    """A subscription that records the sequence number of its last acknowledgement."""

    id = 7

    def __init__(self):
        self.upto = 0

    def acknowledge(self, upto):
        self.upto = upto


def test_repeating_an_acknowledgement_makes_no_room():
    held = _Held(Told(), None, acknowledges=True)
    held.sent.extend((number, 10 * number) for number in range(1, _UNDER_WAY_MAX + 1))
    held.room.clear()
    held.acknowledge(0)
    assert (held.room.is_set(), held.subscription.upto) == (False, 0)
    held.acknowledge(2)
    assert (held.room.is_set(), held.subscription.upto, len(held.sent)) == (True, 20, _UNDER_WAY_MAX - 2)
