"""Chord rings stay one ordered ring while peers come and go, and two ways of not correcting Chord show."""

from __future__ import annotations

from collections import Counter

import pytest

from p2prdf.overlay.chord import Chord, between
from p2prdf.sim.chord_world import RingBroken, main, run_seed

SEEDS = 120


def _run(seeds, machine=Chord):
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        counts += run_seed(seed, machine)
    return counts


def test_the_invariant_holds_in_every_step_and_the_ring_becomes_ideal():
    """Zave 2017: OneLiveSuccessor and SufficientPrincipals, and what follows from them."""
    counts = _run(SEEDS)
    # Runs in which little happens prove little.
    for happened, least in {"joins": 1500, "crashes": 1000, "leaves": 400, "checks": 10_000, "lookups": 10_000}.items():
        assert counts[happened] >= least, happened
    for met in ("RingBusy", "NotMember", "forbidden"):
        assert counts[met] > 100, met


class AsPublished(Chord):
    """Stabilises as in Stoica et al. 2001, figure 6: what the successor calls its predecessor is the new successor."""

    def _read_closer(self, query, told):
        closer = self._closer(told)
        if closer is not None:
            self._set_successors((closer, *self.successors[1:]))
        self._stabilised(query)


class WithoutPing(Chord):
    """Rectifies as published: a notifier is held against the predecessor without asking whether that one lives."""

    def _rectify(self):
        if self._query is None and self._notifier is not None:
            notifier, self._notifier = self._notifier, None
            if self.predecessor is None or between(self.predecessor.key, notifier.key, self.own.key):
                self._set_predecessor(notifier)


@pytest.mark.parametrize(
    ("mutant", "symptom"), [(AsPublished, "principals are not enough"), (WithoutPing, "rounds of rest")]
)
def test_chord_as_published_does_not_pass(mutant, symptom):
    with pytest.raises(RingBroken, match=symptom):
        _run(40, mutant)


def test_a_broken_ring_is_drawn_and_names_its_seed():
    with pytest.raises(RingBroken, match=r"seed 1, ChordOptions\(.*principals.*\n  [0-9a-f]{4}:\d+: predecessor"):
        run_seed(1, AsPublished)


def test_runs_are_repeatable():
    assert run_seed(11) == run_seed(11)


def test_the_command_counts_what_happened(capsys):
    assert main(["--seeds", "2", "--start", "3"]) == 0
    assert "crashes" in capsys.readouterr().out
