"""Chord rings stay one ordered ring while peers come and go, and two ways of not correcting Chord show."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from p2prdf.overlay.chord import Chord
from p2prdf.overlay.chord_lookup import between
from p2prdf.overlay.membership import Create, Introduce
from schedules.chord_world import ChordOptions, ChordWorld, RingBroken, main, run_seed

SEEDS = 100


def _run(seeds, machine=Chord):
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        counts += run_seed(seed, machine)
    return counts


@pytest.mark.long
def test_the_invariant_holds_in_every_step_and_the_ring_becomes_ideal():
    """Zave 2017: OneLiveSuccessor and SufficientPrincipals, and their consequences."""
    counts = _run(SEEDS)
    # Runs in which little happens prove little.
    for happened, least in {"joins": 1200, "crashes": 800, "leaves": 300, "checks": 10_000, "lookups": 10_000}.items():
        assert counts[happened] >= least, happened
    for met in ("RingBusy", "NotMember", "forbidden"):
        assert counts[met] > 100, met


class AsPublished(Chord):
    """Stabilises as in Stoica et al. 2001, figure 6: the successor's predecessor becomes the new successor."""

    def _read_closer(self, query, told):
        closer = self._closer(told)
        if closer is not None:
            self._set_successors((closer, *self.successors[1:]))
        self._stabilised(query)


class WithoutPing(Chord):
    """Rectifies as published: a notifier is compared with the predecessor without a check that the latter is alive."""

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


def rings_that_meet(seed):
    """Some peers make a ring each, others join these; then the rings are introduced to each other, along a tree."""
    random = Random(seed)
    options = ChordOptions(successors=random.randint(2, 4), delay_seconds_max=random.choice([0.02, 0.1, 0.4]))
    world = ChordWorld(seed, options)
    nodes = [world.start() for _ in range(random.randint(2, 16))]
    founders = nodes[: random.randint(1, len(nodes))]
    for founder in founders:
        world.submit(founder, Create())
    for node in nodes[len(founders) :]:
        world.submit(node, Introduce(random.choice(founders).chord.own))
    world.run_for(random.choice([0.0, 0.05, 5.0]))
    pairs = [random.sample((founder, founders[random.randrange(at)]), 2) for at, founder in enumerate(founders) if at]
    for _ in range(20):
        for node, door in pairs:
            world.submit(node, Introduce(door.chord.own))
        for node in world.joining:
            world.submit(node, Introduce(random.choice(founders).chord.own))
        world.run_for(5.0)
        if not world.joining and not world.not_ideal():
            return len(founders)
    raise AssertionError(f"seed {seed}: {world.not_ideal()}\n{world.picture()}")


def test_rings_that_began_apart_become_one():
    """Beyond the theory, which has one ring; no peer fails here."""
    assert sum(rings_that_meet(seed) for seed in range(25)) > 100


def test_runs_are_repeatable():
    assert run_seed(11) == run_seed(11)


def test_the_command_counts_events(capsys):
    assert main(["--seeds", "2", "--start", "3"]) == 0
    assert "crashes" in capsys.readouterr().out
