"""Bookmarks in the client library."""

from __future__ import annotations

import time

import pytest

from p2prdf import hlc
from p2prdf.client.ledger import Ledger
from p2prdf.client.subscription import Subscription


async def test_bookmarks_never_go_back_and_of_several_the_last_is_given_out():
    subscription = Subscription(None, 1, ("s",), 0.0, (0,), Ledger())  # type: ignore[arg-type]  # it asks nothing
    batches = subscription.batches()
    for seconds in (5.0, 6.0):
        subscription.take_bookmark(hlc.from_seconds(seconds))
    assert (await anext(batches)).bookmark == 6.0
    subscription.start_over()  # at another node
    for seconds in (4.0, 6.0, 7.0):
        subscription.take_bookmark(hlc.from_seconds(seconds))
    batch = await anext(batches)
    assert (len(batch), batch.bookmark, subscription.bookmark) == (0, 7.0, 7.0)
    assert not subscription.waiting


async def test_a_bookmark_from_the_future_does_not_hide_those_of_nodes_with_right_clocks():
    now = time.time()
    subscription = Subscription(None, 1, ("s",), 0.0, (0,), Ledger(), opened=now + 3500)  # type: ignore[arg-type]
    batches = subscription.batches()
    subscription.take_bookmark(hlc.from_seconds(now + 3600))
    assert (await anext(batches)).bookmark == pytest.approx(now + 3600, abs=0.01)
    subscription.start_over()  # the node has started again, with a right clock
    subscription.attached_again(now - 5)
    for seconds in (-1, -2, 1, 0):
        subscription.take_bookmark(hlc.from_seconds(now + seconds))
    given = (await anext(batches)).bookmark
    assert given is not None
    assert given > subscription.opened == pytest.approx(now - 5)
    subscription.take_bookmark(hlc.from_seconds(now - 3))
    assert not subscription.waiting, "from then on bookmarks do not go back"


def test_a_subscription_that_is_attached_again_is_live_since_it_was_opened():
    subscription = Subscription(None, 1, ("s",), 0.0, (0,), Ledger(), opened=5.0)  # type: ignore[arg-type]
    subscription.attached_again(9.0)
    assert subscription.opened == 5.0
