"""Backfill completion: all answers that were true at the opening of a subscription have come."""

from __future__ import annotations

from p2prdf.peer.progress.backfill import Backfill
from p2prdf.peer.progress.low_watermark import Known

HOME, OTHER = 7 << 44, 8 << 44
OPENED = 100


def busy(upto: int, at: int) -> Known:
    return Known(upto, at, frozenset({HOME}))


def test_it_is_at_the_first_mark_after_it_with_nothing_under_way_for_the_query():
    seeking = Backfill(HOME, OPENED, 3)
    assert not seeking.over(Known(OPENED, 101))
    assert not seeking.over(busy(101, 102))
    assert not seeking.over(Known(101, 102))
    assert seeking.over(Known(103, 105, frozenset({OTHER})))


def test_too_many_messages_in_flight_to_report_are_not_none():
    assert not Backfill(HOME, OPENED, 3).over(Known(120, 130, None))


def test_else_each_link_takes_a_mark_past_the_cut_of_the_one_before():
    """The query, two links between three patterns, to the coordinator, and to its replicas."""
    seeking = Backfill(HOME, OPENED, 3)
    told = [seeking.over(busy(upto, at)) for upto, at in ((101, 110), (105, 115), (111, 120), (121, 130), (131, 140))]
    assert told == [False] * 5
    assert not seeking.over(busy(140, 150)), "a mark at the cut before is not past it"
    assert seeking.over(busy(141, 150))
