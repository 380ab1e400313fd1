"""Conditional transactions lose no update while peers crash, restart and are cut off."""

from __future__ import annotations

from collections import Counter

import pytest

from p2prdf.peer.replication.conditions import Conditions
from schedules.failures.counter import count_up

SEEDS = range(12)


def test_concurrent_increments_are_all_counted():
    heard: Counter[str] = Counter()
    for seed in SEEDS:
        end = count_up(seed)
        assert not end.lost, (seed, end)
        heard += end.heard
    assert heard["published"] > 20
    assert heard["changed-meanwhile"] > 20, "writers compete"


def test_with_one_copy_the_owner_loses_no_update():
    for seed in range(2):
        end = count_up(seed, replicas=1, failures=0)
        assert not end.lost, (seed, end)
        assert end.succeeded > 5


def test_without_grants_updates_are_lost(monkeypatch: pytest.MonkeyPatch):
    """The rule is needed: changes alone are noticed too late."""
    monkeypatch.setattr(Conditions, "_latest_grant", lambda *_: (0, 0))
    assert any(count_up(seed, failures=0).lost for seed in SEEDS)
