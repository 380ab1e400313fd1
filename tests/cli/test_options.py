"""Options as people spell them."""

from __future__ import annotations

import time

import pytest

from p2prdf_cli.options import point_in_time


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "now"),
        ("beginning", "beginning"),
        ("1763805600", 1_763_805_600.0),
        ("1763805600.25", 1_763_805_600.25),
        ("2025-11-22T10:00:00Z", 1_763_805_600.0),
        ("2025-11-22T12:00:00.250+02:00", 1_763_805_600.25),
        ("2025-11-22 05:00-05:00", 1_763_805_600.0),
    ],
)
def test_points_in_time_are_words_iso_8601_or_seconds(text: str, meant: float | str) -> None:
    assert point_in_time(text) == meant


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "neither now, nor beginning"),
        ("yesterday", "neither now, nor beginning"),
        ("-1", "neither now, nor beginning"),
        ("nan", "neither now, nor beginning"),
        ("2025-13-22T10:00:00Z", "neither now, nor beginning"),
        ("2025-11-22T10:00:00", "offset from UTC"),
        ("2025-11-22", "offset from UTC"),
        ("0", "before all times"),
        ("1960-01-01T00:00:00Z", "before all times"),
        ("9999-01-01T00:00:00Z", "still to come"),
        ("1763805600000", "still to come"),  # milliseconds
        ("9" * 400, "still to come"),
    ],
)
def test_a_bad_past_time_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        point_in_time(text)


def test_a_moment_ago_is_past() -> None:
    now = int(time.time())
    assert point_in_time(str(now)) == now
