"""Whatever fails while streams are published, each report has what another engine finds in the windows, once."""

from __future__ import annotations

import pytest
from stream_days.day import run_seed

from p2prdf.peer.watermarks import Watermarks

SEEDS = [1, 13, 18, 53, 109]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_report_is_told_as_it_should_be(seed: int) -> None:
    verdict = run_seed(seed)
    assert not verdict.problems, verdict.report()
    assert verdict.counts["rows told"]


def test_elements_that_are_under_way_are_missed_if_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The days are of use: they show what goes wrong where publishers alone are listened to, who promise nothing."""
    monkeypatch.setattr(Watermarks, "upto", lambda self, stream: max(self._upto.get(stream, -1), 1_091_944_900_000))
    assert any(run_seed(seed).problems for seed in SEEDS[:2])
