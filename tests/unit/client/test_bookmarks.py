"""Bookmarks as an application sees them."""

from __future__ import annotations

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
