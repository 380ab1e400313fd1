"""The outbox: repetition until acknowledgement, a window per receiver, no message lost."""

from __future__ import annotations

from p2prdf.overlay.outbox import Outbox
from p2prdf.wire.messages import Contact, Fetch, IdentityList, IndexesRequest, KeepGroups

HERE, THERE = Contact(1, "h", 1), Contact(2, "h", 2)


def test_a_transfer_is_sent_again_until_it_is_acknowledged():
    """Waits double up to the maximum; acknowledging ends it."""
    outbox = Outbox(retry_seconds=1, retry_max_seconds=2)
    transfer = outbox.put(HERE, IndexesRequest(), (), 0.0)
    assert transfer is not None
    assert outbox.deadline == 1.0
    assert outbox.overdue(0.9) == []
    assert outbox.overdue(1.0) == [transfer]
    assert outbox.deadline == 3.0
    assert outbox.overdue(3.0) == [transfer]
    assert outbox.deadline == 5.0
    assert outbox.acknowledge(HERE, [transfer.number], 3.5) == ([transfer], [])
    assert outbox.deadline is None
    assert outbox.acknowledge(HERE, [transfer.number], 3.5) == ([], [])
    assert len(outbox) == 0


def test_a_window_per_receiver():
    """Beyond the window transfers wait in order; each acknowledgement lets one follow."""
    outbox = Outbox(window=2)
    first, second = (outbox.put(HERE, IndexesRequest(), (at,), 0.0) for at in range(2))
    assert outbox.put(HERE, IndexesRequest(), (2,), 0.0) is None
    assert outbox.put(HERE, IndexesRequest(), (3,), 0.0) is None
    assert outbox.put(THERE, IndexesRequest(), (4,), 0.0) is not None
    assert len(outbox) == 5
    _, started = outbox.acknowledge(HERE, [second.number], 1.0)
    assert [each.tokens for each in started] == [(2,)]
    _, started = outbox.acknowledge(HERE, [first.number], 1.0)
    assert [each.tokens for each in started] == [(3,)]


def test_offers_do_not_wait_behind_messages_that_a_leaving_peer_does_not_take_in():
    outbox = Outbox(window=1)
    outbox.put(HERE, IndexesRequest(), (), 0.0)
    assert outbox.put(HERE, IndexesRequest(), (), 0.0) is None
    assert outbox.put(HERE, Fetch(1, 16, False, [5]), (), 0.0) is not None
    assert outbox.put(HERE, IdentityList(2, 16, False, False, [0], [5]), (), 0.0) is None  # a window of one
    assert outbox.put(THERE, IdentityList(2, 16, False, False, [0], [5]), (), 0.0) is not None


def test_of_a_channel_that_nobody_uses_nothing_stays():
    """Receivers and hops come and go; the tables hold only the messages in flight."""
    outbox = Outbox(window=1)
    groups = [1]
    for hops in range(70):
        outbox.put(HERE, KeepGroups(THERE, groups, hops=hops), (), 0.0)
        outbox.put(HERE, KeepGroups(THERE, groups, hops=hops), (), 0.0)
    waiting = True
    while waiting:
        waiting = len(outbox) > 0
        outbox.acknowledge(HERE, list(range(141)), 1.0)
    assert not outbox._under_way
    assert not outbox._waiting


def test_a_message_that_was_passed_on_does_not_wait_for_those_of_fewer_hops():
    """Otherwise peers in a circle could wait for each other's windows for ever."""
    outbox = Outbox(window=1)
    groups = [1]
    assert outbox.put(HERE, KeepGroups(THERE, groups), (0,), 0.0) is not None
    assert outbox.put(HERE, KeepGroups(THERE, groups), (1,), 0.0) is None
    passed_on = outbox.put(HERE, KeepGroups(THERE, groups, hops=1), (2,), 0.0)
    assert passed_on is not None
    assert outbox.put(HERE, KeepGroups(THERE, groups, hops=1), (3,), 0.0) is None
    _, started = outbox.acknowledge(HERE, [passed_on.number], 1.0)
    assert [each.tokens for each in started] == [(3,)]
    assert [each.tokens for each in outbox.lost(HERE)] == [(0,), (3,), (1,)]
    assert len(outbox) == 0


def test_giving_up_a_receiver_returns_all_that_was_meant_for_it():
    """Messages in flight and waiting ones alike, to be re-routed."""
    outbox = Outbox(window=1)
    for at in range(3):
        outbox.put(HERE, IndexesRequest(), (at,), 0.0)
    outbox.put(THERE, IndexesRequest(), (9,), 0.0)
    assert [each.tokens for each in outbox.lost(HERE)] == [(0,), (1,), (2,)]
    assert len(outbox) == 1
    assert outbox.put(HERE, IndexesRequest(), (), 0.0) is not None


def test_a_busy_receiver_is_given_time():
    """Where acknowledgements take long, the first repetition waits four times as long."""
    outbox = Outbox(retry_seconds=1, retry_max_seconds=4)
    transfer = outbox.put(HERE, IndexesRequest(), (), 0.0)
    outbox.acknowledge(HERE, [transfer.number], 0.9)
    assert outbox.put(HERE, IndexesRequest(), (), 10.0) is not None
    assert outbox.deadline == 13.6
    assert outbox.put(THERE, IndexesRequest(), (), 10.0) is not None
    assert outbox.deadline == 11.0


def test_only_the_receiver_can_acknowledge():
    """An acknowledgement from another peer, or for another incarnation's number, closes nothing."""
    outbox = Outbox(first=1000)
    transfer = outbox.put(HERE, IndexesRequest(), (), 0.0)
    assert transfer.number == 1001
    assert outbox.acknowledge(THERE, [1001], 0.5) == ([], [])
    assert outbox.acknowledge(HERE, [1], 0.5) == ([], [])
    assert outbox.acknowledge(HERE, [1001], 0.5) == ([transfer], [])


def test_messages_in_flight_are_known_by_receiver_message_and_keys():
    """Until acknowledgement, or until the receiver is given up; also while a message waits for the window."""
    outbox = Outbox(window=1)
    one, other = IndexesRequest(), IndexesRequest()
    transfer = outbox.put(HERE, one, (1,), 0.0)
    outbox.put(HERE, other, (1,), 0.0)
    assert transfer is not None
    assert outbox.holds(HERE, one, (1,))
    assert outbox.holds(HERE, other, (1,))
    assert not outbox.holds(HERE, one, (2,))
    assert not outbox.holds(THERE, one, (1,))
    outbox.acknowledge(HERE, [transfer.number], 1.0)
    assert not outbox.holds(HERE, one, (1,))
    assert outbox.holds(HERE, other, (1,))
    outbox.lost(HERE)
    assert not outbox.holds(HERE, other, (1,))
