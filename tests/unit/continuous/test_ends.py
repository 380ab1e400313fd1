"""Ends of subscriptions and groups: the latest are remembered, by any order of arrival."""

from __future__ import annotations

from random import Random

from p2prdf import hlc
from p2prdf.continuous.ends import ENDED_SECONDS, Ends


def known(ends: Ends) -> set[tuple[int, int, bool]]:
    found = [ends.at(serial) for serial in ends.all().serials.tolist()]
    assert None not in found
    return {each for each in found if each is not None}


def test_the_latest_ends_are_remembered_under_serial_numbers_that_stay():
    random, ends, given, serials = Random(5), Ends(ended_max=20), [], {}
    for number in range(300):
        end = (random.getrandbits(64), number * 10 + random.randrange(60), bool(random.getrandbits(1)))
        given.append(end)
        ends.add(end[0], end[1], subscription=end[2])
        ends.add(end[0], 0, subscription=end[2])  # repetitions change nothing
        latest = set(sorted(given, key=lambda each: each[1])[-20:])
        assert {each[1] for each in known(ends)} == {each[1] for each in latest}
        assert len(ends) == len(known(ends)) == min(20, len(given))
        for serial in ends.all().serials.tolist():
            assert serials.setdefault(serial, ends.at(serial)) == ends.at(serial)
    for name, stamp, subscription in known(ends):
        assert ends.has(name, subscription=subscription)
        assert not ends.has(name, subscription=not subscription)
        assert ends.stamp(name, subscription=subscription) == stamp
    assert len(ends._stamps) <= 60
    assert ends.at(1) is None


def test_ends_expire_and_leave_nothing():
    ends = Ends()
    for number in range(100):
        ends.add(1000 + number, hlc.from_seconds(float(number)), subscription=number % 2 == 0)
    ends.expire(ENDED_SECONDS + 49.5)
    assert sorted(stamp for _, stamp, _ in known(ends)) == [hlc.from_seconds(float(each)) for each in range(50, 100)]
    ends.expire(ENDED_SECONDS + 1000.0)
    assert (len(ends), len(ends._stamps), known(ends)) == (0, 0, set())
    assert ends.stamp(1099, subscription=False) is None
