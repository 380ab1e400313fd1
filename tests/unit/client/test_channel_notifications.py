"""Notifications of a subscriber from the solutions of a channel's query, in any order of arrival."""

from __future__ import annotations

from p2prdf.channels.registration import CONFIRMED, INITIAL, TENTATIVE, binding_literal
from p2prdf.client import channel_store
from p2prdf.client.channel_store import Notifications
from p2prdf.client.solutions import Solution


def solution(kind: str, *binding: str, removed: bool = False, literal: str | None = None) -> Solution:
    terms = (kind, binding_literal(binding) if literal is None else literal)
    return Solution(("kind", "binding"), terms, sequence=1, identity=1, born=0.0, lost=0, removed=removed)


def said(heard: Notifications, *solutions: Solution) -> list[tuple[str, tuple[str, ...], bool]]:
    found = [heard.of(each) for each in solutions]
    return [(each.kind, tuple(each.binding.values()), each.removed) for each in found if each is not None]


def test_notifications_name_kind_and_binding_and_removals_are_optional() -> None:
    told = (solution(INITIAL, "<urn:a>", "<urn:b>"), solution(INITIAL, "<urn:a>", "<urn:b>", removed=True))
    both = ("initial", ("<urn:a>", "<urn:b>"))
    assert said(Notifications(("x", "y"), removed=True), *told) == [(*both, False), (*both, True)]
    assert said(Notifications(("x", "y"), removed=False), *told) == [(*both, False)]
    found = Notifications(("x", "y"), removed=False).of(told[0])
    assert found is not None
    assert found.binding == {"x": "<urn:a>", "y": "<urn:b>"}


def test_solutions_not_written_by_a_channel_worker_are_left_out() -> None:
    heard = Notifications(("x",), removed=False)
    for literal in ("<urn:a>", '"["', '"{}"', '"[1]"', '"' + "[" * 100_000 + '"'):
        assert heard.of(solution(CONFIRMED, literal=literal)) is None
    assert heard.of(solution(CONFIRMED, "<urn:a>", "<urn:b>")) is None
    assert heard.of(solution("<urn:other>", "<urn:a>")) is None


def test_a_tentative_binding_behind_its_confirmation_is_left_out_and_so_is_its_removal() -> None:
    heard = Notifications(("x",), removed=True)
    early, sure = solution(TENTATIVE, "<urn:a>"), solution(CONFIRMED, "<urn:a>")
    early_gone, sure_gone = solution(TENTATIVE, "<urn:a>", removed=True), solution(CONFIRMED, "<urn:a>", removed=True)
    assert [kind for kind, _, _ in said(heard, sure, early, sure_gone, early_gone)] == ["confirmed"] * 2
    assert [kind for kind, _, _ in said(heard, sure, early, early_gone, sure_gone)] == ["confirmed"] * 2
    again = said(heard, early, sure, early_gone, sure_gone, early)
    assert [kind for kind, _, _ in again] == ["tentative", "confirmed", "tentative", "confirmed", "tentative"]


def test_remembered_confirmations_are_bounded() -> None:
    heard = Notifications(("x",), removed=False)
    for number in range(channel_store._CONFIRMED_MAX + 10):
        heard.of(solution(CONFIRMED, f"<urn:{number}>"))
    assert len(heard._confirmed) == channel_store._CONFIRMED_MAX
