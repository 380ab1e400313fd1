"""Reported and valid bindings: written once, compared at bookmarks, corrected after anybody's mistake."""

from __future__ import annotations

from p2prdf.channels.notification_state import NotificationState
from p2prdf.channels.registration import BEGUN, CONFIRMED, INITIAL, TENTATIVE, binding_literal, subject_of
from p2prdf.reasoning import Triple

BASE = "<urn:base>"
NEWS = subject_of("news")
A, B, C = ("<urn:a>",), ("<urn:b>",), ("<urn:c>",)


def said(kind: str, binding: tuple[str, ...], channel: str = NEWS) -> Triple:
    return channel, kind, binding_literal(binding)


def come(told: NotificationState, *triples: Triple, at: int = 1, removed: bool = False) -> None:
    for each in triples:
        told.take(each, at << 16, removed=removed)


def test_a_binding_is_reported_once_of_each_kind() -> None:
    told = NotificationState(BASE)
    assert not told.take_up(NEWS)
    assert told.tell(NEWS, TENTATIVE, [A, A]).added == [said(TENTATIVE, A)]
    assert told.tell(NEWS, TENTATIVE, [A]).added == []
    assert told.tell(NEWS, CONFIRMED, [A]).added == [said(CONFIRMED, A)]


def test_a_successor_reports_missing_bindings_and_retracts_invalid_ones() -> None:
    told = NotificationState(BASE)
    come(told, (BASE, BEGUN, NEWS), said(INITIAL, A), said(TENTATIVE, B), said(TENTATIVE, C), said(CONFIRMED, C))
    assert told.take_up(NEWS)
    writes = told.equal(NEWS, [A, B])
    assert writes.added == [said(CONFIRMED, B)]
    assert set(writes.removed) == {said(TENTATIVE, C), said(CONFIRMED, C)}
    assert told.equal(NEWS, [A, B]) == ([], [])


def test_foreign_reports_and_retractions_are_corrected_at_a_bookmark_and_not_before() -> None:
    told = NotificationState(BASE)
    told.take_up(NEWS)
    told.tell(NEWS, CONFIRMED, [A])
    told.wrote([said(CONFIRMED, A)], 100.0)
    assert told.differences(50, 101.0) == ([], []), "it has not come back yet"
    assert told.differences(50, 106.0) == ([said(CONFIRMED, A)], []), "it was lost"
    come(told, said(CONFIRMED, A))
    assert told.differences(50, 106.0) == ([], [])
    come(told, said(CONFIRMED, B), at=60)
    assert told.differences(60, 106.0) == ([], []), "what it is of may not have come yet"
    assert told.differences(61, 106.0) == ([], [said(CONFIRMED, B)])
    told.wrote([said(CONFIRMED, B)], 106.0)
    assert told.differences(61, 107.0) == ([], []), "its removal is under way"
    come(told, said(CONFIRMED, A), at=70, removed=True)
    assert told.differences(71, 120.0).added == [said(CONFIRMED, A)]


def test_of_a_channel_that_was_dropped_all_goes_and_of_others_nothing() -> None:
    told = NotificationState(BASE)
    other = subject_of("other")
    come(told, said(CONFIRMED, A, other), said(CONFIRMED, B))
    told.take_up(NEWS)
    assert told.differences(99, 1.0) == ([], []), "the other's host knows"
    assert told.forget(NEWS).removed == [said(CONFIRMED, B)]
    assert told.differences(99, 1.0).removed == [said(CONFIRMED, B)], "until it is gone"
    come(told, said(CONFIRMED, B), removed=True)
    assert told.differences(99, 1.0) == ([], [])


def test_a_removal_may_come_before_its_report() -> None:
    told = NotificationState(BASE)
    come(told, said(CONFIRMED, A), removed=True)
    come(told, said(CONFIRMED, A))
    told.take_up(NEWS)
    assert told.differences(99, 1.0) == ([], [])


def test_a_report_too_large_for_any_node_is_counted() -> None:
    told = NotificationState(BASE)
    told.take_up(NEWS)
    assert told.tell(NEWS, CONFIRMED, [(f'"{"x" * (5 << 20)}"',), A]).added == [said(CONFIRMED, A)]
    assert told.too_large == 1
