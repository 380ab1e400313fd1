"""Random histories: each binding is true when it is reported, and the bindings are the same without heuristics."""

from __future__ import annotations

import os

import pytest
from channel_histories import problems, random_history, random_settings, run, without_heuristics

HISTORIES = int(os.environ.get("HISTORIES", "50"))


@pytest.mark.parametrize("block", range(5))
def test_bindings_are_true_and_the_same_with_any_speculation_and_skipping(block: int) -> None:
    """Against pyoxigraph; no binding waits longer than is promised, and each tentative one is confirmed once."""
    early = 0
    for seed in range(block * HISTORIES // 5, (block + 1) * HISTORIES // 5):
        history, settings = random_history(seed), random_settings(seed)
        wrong, tentative = problems(history, settings, seed)
        assert not wrong, f"seed {seed}, {settings}: {wrong}"
        early += tentative
    assert early >= HISTORIES, "hardly anything was told early"


def test_without_heuristics_the_same_bindings_are_reported() -> None:
    for seed in range(HISTORIES // 10):
        history, settings = random_history(seed), random_settings(seed)
        reference = run(history, without_heuristics(settings), seed)
        assert reference.first() == run(history, settings, seed).first(), f"seed {seed}, {settings}"
        assert all(each.first for _, each in reference.told), f"seed {seed}: there is nothing tentative to confirm"


def test_the_same_history_and_timer_give_the_same_notifications_in_order() -> None:
    for seed in range(5):
        history, settings = random_history(seed), random_settings(seed)
        assert run(history, settings, seed).told == run(history, settings, seed).told
