"""A client's quota of triples and bytes per second."""

from __future__ import annotations

import math

import pytest

from p2prdf_node.quota import Bucket


def test_without_a_quota_nobody_waits():
    bucket = Bucket(math.inf, 0.0)
    bucket.take(1e18)
    assert bucket.wait(0.0) == 0.0


def test_one_publication_of_any_size_gets_in_and_its_debt_is_paid():
    bucket = Bucket(10, 0.0)
    assert bucket.wait(0.0) == 0.0
    bucket.take(110)
    assert bucket.wait(0.0) == pytest.approx(10.1)
    assert bucket.wait(9.0) == pytest.approx(1.1)
    assert bucket.wait(10.1) == 0.0


@pytest.mark.parametrize("size", [1, 7, 50])
def test_over_time_a_client_gets_its_rate(size):
    bucket, now, taken = Bucket(20, 0.0), 0.0, 0
    while now < 100:
        wait = bucket.wait(now)
        if wait:
            now += wait
        else:
            bucket.take(size)
            taken += size
    assert 1950 <= taken <= 2020 + size


def test_a_pause_saves_up_one_second_at_most():
    bucket = Bucket(10, 0.0)
    bucket.wait(1000.0)
    for _ in range(10):
        assert bucket.wait(1000.0) == 0.0
        bucket.take(1)
    assert bucket.wait(1000.0) > 0
