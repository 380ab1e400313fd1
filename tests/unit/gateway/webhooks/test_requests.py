"""Cutting and naming of requests, and permitted URLs."""

from __future__ import annotations

import json
from collections import deque

import pytest

from p2prdf.client import Solution
from p2prdf.errors import TargetRefused
from p2prdf.gateway.webhooks.message import BODY_CHARACTERS_MAX, Mark, cut, gap_request, request_of
from p2prdf.gateway.webhooks.registration import WebhookRegistration
from p2prdf.gateway.webhooks.sender import Sender
from p2prdf.replica.hosts import Hosts

ONE = WebhookRegistration("1" * 32, "", "orders", "https://h/", "SELECT ...", "00000000000000ff", 2, 100, 1, "k")


def answer(number, *, removed=False, text="x", identity=None):
    return Solution(
        ("a", "b"), (f'"{text}"', None), sequence=number, identity=number if identity is None else identity, born=0.0,
        lost=0, removed=removed,
    )  # fmt: skip


def test_requests_have_as_many_answers_as_they_may_and_end_at_gaps():
    rows = deque([*map(answer, range(1, 6)), 7, answer(13)])
    sizes = []
    while rows:
        if isinstance(rows[0], int):
            sizes.append(f"gap {rows.popleft()}")
        else:
            sizes.append([each.sequence for each in cut(rows, 3)])
    assert sizes == [[1, 2, 3], [4, 5], "gap 7", [13]]
    assert cut(deque(), 3) == []


def test_requests_end_at_marks_and_have_the_same_name_with_and_without():
    rows = deque([answer(1), answer(2), Mark(7.5), answer(3)])
    found = cut(rows, 3)
    assert ([each.sequence for each in found], rows[0]) == ([1, 2], Mark(7.5))
    one, other = (request_of(ONE, ("a", "b"), found, session="s", sequence=0, mark=mark) for mark in (None, 7.5))
    assert one.name == other.name
    assert ["mark" in json.loads(each.body)["notification"] for each in (one, other)] == [False, True]
    alone = [request_of(ONE, ("a", "b"), [], session="s", sequence=0, mark=mark) for mark in (7.5, 8.5)]
    assert alone[0].name != alone[1].name
    assert (alone[0].answers, alone[0].upto) == (0, 0)


def test_requests_do_not_grow_beyond_their_bytes_but_for_an_answer_that_does_alone():
    large, half = "x" * (BODY_CHARACTERS_MAX + 1), "x" * (BODY_CHARACTERS_MAX // 2)
    rows = deque([answer(1, text=large), answer(2), answer(3, text=half), answer(4, text=half), answer(5)])
    assert [[each.sequence for each in cut(rows, 100)] for _ in range(3)] == [[1], [2, 3], [4, 5]]


def test_a_request_has_additions_and_removals_with_their_identities():
    request = request_of(
        ONE, ("a", "b"), [answer(1), answer(2, removed=True), answer(9, identity=255)], session="s", sequence=4
    )
    told = json.loads(request.body)["notification"]
    assert (told["alias"], told["session"], told["sequence"]) == ("orders", "s", 4)
    assert told["spuid"] == "p2prdf://subscription/00000000000000ff"
    assert told["addedIds"] == ["2.0000000000000001", "2.00000000000000ff"]
    assert told["removedIds"] == ["2.0000000000000002"]
    row = {"a": {"type": "literal", "value": "x"}}
    assert told["addedResults"] == {"head": {"vars": ["a", "b"]}, "results": {"bindings": [row, row]}}
    assert told["removedResults"]["results"]["bindings"] == [row]
    assert (request.answers, request.upto) == (3, 9)


def test_equal_answers_have_the_same_request_name_from_any_gateway():
    def name(rows, **how):
        return request_of(ONE, ("a", "b"), rows, **{"session": "s", "sequence": 0, **how}).name

    rows = [answer(1), answer(2)]
    assert name(rows) == name(rows, session="other", sequence=9)
    others = [
        [answer(1)], [answer(2), answer(1)], [answer(1), answer(2, removed=True)], [answer(1), answer(3)],
        [*rows, answer(3)],
    ]  # fmt: skip
    assert len({name(each) for each in [rows, *others]}) == 6


def test_a_gap_says_how_many_answers_are_missing_if_that_is_known():
    for lost in (12, None):
        request = gap_request(ONE, lost, session="s", sequence=3)
        assert json.loads(request.body)["gap"] == {
            "spuid": "p2prdf://subscription/00000000000000ff", "alias": "orders", "session": "s", "sequence": 3,
            "lost": lost,
        }  # fmt: skip
    assert request.name != gap_request(ONE, None, session="s", sequence=4).name


@pytest.mark.parametrize(("url", "told"), [
    ("https://other.example.org/", "not on the list"), ("https://hooks.example.org:444/", "not on the list"),
    ("http://hooks.example.org/", "not on the list"), ("http://plain.example.org/", "over https"),
    ("https://127.0.0.1/", "a non-public address"), ("https://[::1]/", "not on the list"),
    ("https://169.254.169.254/latest", "not on the list"), ("https://2130706433/", "not on the list"),
    ("https://a:b@hooks.example.org/", "credentials do not belong"), ("ftp://hooks.example.org/", "http://"),
    ("https://hooks.example.org:99999/", "not the URL"), ("https:///x", "not the URL"), ("", "not the URL"),
])  # fmt: skip
def test_a_forbidden_url_is_refused(url, told):
    sender = Sender(Hosts(["hooks.example.org:443", "plain.example.org", "127.0.0.1"]))
    sender.check("https://hooks.example.org/x?y=z")
    with pytest.raises(TargetRefused, match=told):
        sender.check(url)


async def test_a_name_that_leads_to_where_nothing_may_be_posted_is_refused_before_anything_is_sent():
    sender = Sender(Hosts(["localhost"]), plain=True)
    request = gap_request(ONE, 1, session="s", sequence=0)
    outcome = await sender.post("http://localhost:9/", request, "whsec_a2tr")
    assert not outcome.taken
    assert "a non-public address" in outcome.error
    assert sender.outcomes == {"refused": 1}
    await sender.close()
