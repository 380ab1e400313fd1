"""A subscription read batch by batch, each of which can be read again, at real nodes."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

import p2prdf
from p2prdf.errors import SubscriptionGone, TokenMismatch, TokenRefused, Unavailable
from p2prdf.publish.following import BEGINNING, Follower
from p2prdf.publish.read_options import reading_options

_names = itertools.count()


@pytest.fixture
def overlay(keeping_all):
    """Nodes with retention of earlier triples."""
    return keeping_all


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:following{next(_names)}:"


@pytest.fixture
def follower(overlay, ns):
    """Make followers of one query; to the nodes each is a process of its own."""
    made = []

    def make(**options):
        given = {
            "peers": ",".join(node.address for node in overlay[:3]), "sign": "true", "leaseSeconds": "120",
            "query": f"SELECT ?s ?o WHERE {{ ?s <{ns}p> ?o }}", **options,
        }  # fmt: skip
        made.append(Follower(reading_options(given)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def publish(overlay, ns, numbers, *, remove=False):
    """Publish triples, or remove them, until they are acknowledged."""

    async def run():
        async with p2prdf.connect(overlay[4].address) as client:
            triples = [(f"<{ns}{number}>", f"<{ns}p>", f'"{number}"') for number in numbers]
            await (client.retract(triples) if remove else client.publish(triples))

    asyncio.run(run())


def told(rows):
    """Return the parts of rows that are the same at every reading: their time stamps may differ."""
    return [(row.terms, row.removed) for row in rows]


def numbers_of(rows):
    return [(-1 if row.removed else 1) * int(row.terms[1].strip('"')) for row in rows]


def read(follower, start, count, *, rows_max=None):
    """Read on until ``count`` rows have come; return the places and the rows between each and the next."""
    places, found, deadline = [start], [], time.monotonic() + 30
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline, found
        place = follower.advance(places[-1], rows_max)
        if place != places[-1]:
            found.append(follower.rows(places[-1], place))
            places.append(place)
    return places, found


def begin(follower):
    """Make the subscription; return its first place, before any row."""
    place = follower.advance(BEGINNING, None)
    assert place != BEGINNING
    assert follower.rows(BEGINNING, place) == []
    return place


def test_every_answer_is_in_one_batch_which_are_as_large_as_is_said(overlay, ns, follower):
    reading = follower()
    start = begin(reading)
    publish(overlay, ns, range(1, 26))
    places, found = read(reading, start, 25, rows_max=10)
    assert max(map(len, found)) == 10
    assert sorted(itertools.chain(*map(numbers_of, found))) == list(range(1, 26))
    assert reading.advance(places[-1], 10) == places[-1]
    assert all(abs(row.born - time.time()) < 60 for rows in found for row in rows)


def test_batches_not_done_are_read_again_by_another_process_and_the_stream_goes_on_behind_them(overlay, ns, follower):
    first = follower()
    start = begin(first)
    publish(overlay, ns, range(1, 31))
    places, found = read(first, start, 30, rows_max=7)
    first.done(places[1])
    first.close()
    publish(overlay, ns, range(31, 41))
    second = follower()
    for begun, ended, rows in zip(places[1:], places[2:], found[1:], strict=False):
        assert second.rows(begun, ended) == rows, "the same rows in the same order"
    _, more = read(second, places[-1], 10)
    assert sorted(itertools.chain(*map(numbers_of, more))) == list(range(31, 41))


def test_the_first_batch_of_all_is_read_again_too(overlay, ns, follower):
    publish(overlay, ns, range(1, 4))
    first = follower(since="beginning")
    begun, ended = BEGINNING, BEGINNING
    while not (rows := first.rows(begun, ended)):
        begun, ended = ended, first.advance(ended, None)
    places, more = read(first, ended, 3 - len(rows))
    first.close()
    again = follower(since="beginning")
    for start, end, expected in zip([begun, *places], places, [rows, *more], strict=False):
        assert again.rows(start, end) == expected
    _, rest = read(again, places[-1], 0)
    assert rest == []


def test_a_batch_marked_as_done_does_not_come_again(overlay, ns, follower):
    first = follower()
    start = begin(first)
    publish(overlay, ns, [1, 2])
    places, _ = read(first, start, 2)
    first.done(places[-1])
    first.close()
    publish(overlay, ns, [3])
    _, found = read(follower(), places[-1], 1)
    assert [numbers_of(rows) for rows in found] == [[3]]


def test_answers_taken_back_are_rows_and_read_again_like_others(overlay, ns, follower):
    first = follower()
    start = begin(first)
    publish(overlay, ns, [1, 2])
    places, found = read(first, start, 2)
    publish(overlay, ns, [1], remove=True)
    later, gone = read(first, places[-1], 1)
    assert sorted(itertools.chain(*map(numbers_of, found))) == [1, 2]
    assert list(map(numbers_of, gone)) == [[-1]]
    first.close()
    again = follower()
    for begun, ended, rows in zip([*places, *later[1:]], [*places[1:], *later[1:]], [*found, *gone], strict=False):
        assert told(again.rows(begun, ended)) == told(rows)


def test_rows_deleted_before_the_first_read_are_in_no_batch_and_delay_none(overlay, ns, follower):
    first = follower()
    start = begin(first)
    first.close()  # nobody reads
    publish(overlay, ns, [1, 2])
    publish(overlay, ns, [1], remove=True)
    second = follower()
    places, found = read(second, start, 1)
    assert {abs(number) for rows in found for number in numbers_of(rows)} >= {2}
    assert sum(number for rows in found for number in numbers_of(rows)) in (2, 3)
    again = follower(timeoutSeconds="10")
    second.close()
    for begun, ended, rows in zip(places, places[1:], found, strict=False):
        assert told(again.rows(begun, ended)) == told(rows)


def test_a_stream_that_is_to_end_reads_all_that_is_true_and_then_no_more(overlay, ns, follower):
    publish(overlay, ns, range(1, 21))
    reading = follower(since="beginning")
    reading.end_now()
    found, place = [], BEGINNING
    while (end := reading.advance(place, 8)) != place:
        found += numbers_of(reading.rows(place, end))
        reading.done(end)
        place = end
    assert sorted(found) == list(range(1, 21))
    publish(overlay, ns, [21])
    assert reading.advance(place, 8) == place


def test_places_that_are_none_and_subscriptions_that_are_gone_are_refused(overlay, ns, follower):
    reading = follower(leaseSeconds="1")
    start = begin(reading)
    for place in ("nonsense", "bm9uc2Vuc2U=", start[:-8]):
        with pytest.raises(TokenRefused):
            reading.advance(place, None)
    other = begin(follower())
    with pytest.raises(TokenRefused, match="ends in another"):
        reading.rows(other, start)
    elsewhere = follower(query=f"SELECT ?s ?o WHERE {{ ?s <{ns}q> ?o }}")
    with pytest.raises(TokenMismatch, match="of another query"):
        elsewhere.advance(start, None)
    spelled = follower(query=f"PREFIX x: <{ns}> SELECT ?s ?o {{ ?s x:p ?o }}".replace(" {", " WHERE {"))
    assert spelled.advance(start, 1) == start
    spelled.close()
    reading.close()
    number = p2prdf.client.token.Token.decode(__import__("base64").b64decode(start)).subscription

    async def end():
        async with p2prdf.connect(overlay[0].address) as client:
            await client.unsubscribe(number)

    asyncio.run(end())
    with pytest.raises((SubscriptionGone, Unavailable)):
        follower().advance(start, None)
