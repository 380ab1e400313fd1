"""Random standing queries over random insertions and removals: every step is what pyoxigraph answers anew.

The same with more queries: ``make algebra QUERIES=5000``.
"""

from __future__ import annotations

from algebra.compare import Tally, play

QUERIES = 300


def test_every_step_of_every_history_is_what_evaluation_from_scratch_gives() -> None:
    tally = Tally()
    for seed in range(QUERIES):
        play(seed, tally)
    assert tally.wrong == []
    assert tally.queries > QUERIES * 0.95
    assert tally.changed > tally.steps / 4  # or the queries would ask for what is never there
