"""The delivered set of a subscriber follows from the identities in its log, on every replica."""

from __future__ import annotations

from random import Random

import pytest

from p2prdf import keys
from p2prdf.continuous.incarnations import Incarnations
from p2prdf.wire.messages import WITHDRAWN

ROWS = [(1,), (2,), (1, 2), (2, 1), ()]


def told() -> Incarnations:
    return Incarnations(keys.fmix)


def recalled(log: dict[int, None]) -> Incarnations:
    found = told()
    found.recall(ROWS, lambda names: [name in log for name in names])
    return found


def note(log: dict[int, None], changes: list[tuple[int, bool]]) -> None:
    """Record changes; each is reported once."""
    for identity, _ in changes:
        assert identity not in log
        log[identity] = None


def test_a_row_that_comes_again_has_another_identity_and_one_bit_marks_its_retraction():
    one = told()
    [(first, over)] = one.change((1,), 1)
    assert not over
    assert one.change((1,), 1) == []
    assert one.change((1,), 0) == [(first ^ WITHDRAWN, True)]
    [(second, over)] = one.change((1,), 1)
    assert (second != first, over) == (True, False)
    assert one.change((1,), 0) == [(second ^ WITHDRAWN, True)]


def test_copies_of_a_row_and_rows_of_the_same_terms_have_identities_of_their_own():
    one = told()
    names = [identity for row in ROWS for identity, _ in one.change(row, 3)]
    assert len(set(names)) == 3 * len(ROWS)
    assert [one.count(row) for row in ROWS] == [3] * len(ROWS)


def test_the_copy_that_came_last_goes_first():
    one = told()
    names = [identity for identity, _ in one.change((1,), 3)]
    assert one.change((1,), 1) == [(names[2] ^ WITHDRAWN, True), (names[1] ^ WITHDRAWN, True)]
    assert one.count((1,)) == 1


@pytest.mark.parametrize("seed", range(30))
def test_the_delivered_set_recalled_from_a_log_is_the_original(seed):
    """A replica that recalls the set goes on as its writer would have."""
    rng = Random(f"told {seed}")
    one, log = told(), {}
    for _ in range(60):
        note(log, one.change(rng.choice(ROWS), rng.choice((0, 0, 1, 1, 2, 4))))
        if rng.random() < 0.2:
            other = recalled(log)
            assert [other.count(row) for row in ROWS] == [one.count(row) for row in ROWS]
            row, wanted = rng.choice(ROWS), rng.randrange(5)
            changes = other.change(row, wanted)
            assert changes == one.change(row, wanted)
            note(log, changes)
            one = rng.choice((one, other))


@pytest.mark.parametrize("seed", range(30))
def test_a_replica_that_recalls_nothing_repeats_nothing(seed):
    """Known solutions are left out, and a solution that came and went is reported under its next name."""
    rng = Random(f"told nothing {seed}")
    one, log, rows = told(), {}, ROWS[:3]
    for _ in range(40):
        note(log, one.change(rng.choice(rows), rng.choice((0, 1, 1, 2))))
    other = told()
    wanted = {row: one.count(row) + rng.randrange(3) for row in rows}
    changes = other.changes(wanted, lambda names: [name in log for name in names])
    expected = [(row, *each) for row in rows for each in one.change(row, wanted[row])]
    assert sorted(changes) == sorted(expected)
    assert [sorted(other.names(row)) for row in rows] == [sorted(one.names(row)) for row in rows]
    one.forget()
    assert [one.names(row) for row in rows] == [[]] * 3
