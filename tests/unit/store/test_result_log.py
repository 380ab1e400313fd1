"""A subscriber's log: numbered, windowed, bounded, and honest about what it dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from p2prdf.store.result_log import ResultLog


def add(log: ResultLog, *values: int) -> None:
    """Append solutions whose binding is their value."""
    log.append(list(values), list(values), (list(values),))


def taken(log: ResultLog, window: int = 100, chunk_max: int = 100) -> list[tuple[int, int, list[int]]]:
    """Hand out chunks as (first, lost, values)."""
    return [(chunk.first, chunk.lost, list(chunk.bindings[0])) for chunk in log.take(window, chunk_max)]


def test_solutions_are_numbered_from_one_and_handed_out_once():
    """What was handed out is not handed out again."""
    log = ResultLog(100)
    add(log, 10, 11)
    assert taken(log) == [(1, 0, [10, 11])]
    add(log, 12)
    assert taken(log) == [(3, 0, [12])]
    assert taken(log) == []


def test_the_window_counts_from_the_last_acknowledgement():
    """Not more than the window is under way; acknowledging part of a chunk makes room for as much."""
    log = ResultLog(100)
    add(log, 1, 2, 3, 4, 5)
    assert taken(log, window=2) == [(1, 0, [1, 2])]
    assert taken(log, window=2) == []
    log.acknowledge(1)
    assert taken(log, window=2) == [(3, 0, [3])]
    log.acknowledge(3)
    assert taken(log, window=2, chunk_max=1) == [(4, 0, [4]), (5, 0, [5])]


def test_rewinding_hands_out_again_what_was_not_acknowledged():
    """A subscriber that comes back after n gets n+1 next."""
    log = ResultLog(100)
    add(log, 1, 2, 3)
    taken(log)
    log.rewind(1)
    assert taken(log) == [(2, 0, [2, 3])]


def test_a_full_log_drops_the_oldest_and_says_how_many():
    """The gap is told by the first chunk after it."""
    log = ResultLog(3)
    add(log, 1, 2)
    add(log, 3, 4, 5)
    assert taken(log) == [(3, 2, [3, 4, 5])]
    assert log.lost_total == 2


def test_what_was_handed_out_and_then_dropped_is_no_gap_unless_asked_for_again():
    """Lost is what the subscriber never gets: not what is on its way to it."""
    log = ResultLog(3)
    add(log, 1, 2)
    assert taken(log) == [(1, 0, [1, 2])]
    add(log, 3, 4, 5, 6, 7)
    assert taken(log) == [(5, 2, [5, 6, 7])]
    log.rewind(1)
    assert taken(log) == [(5, 3, [5, 6, 7])]


def test_a_window_is_not_used_up_by_what_was_dropped():
    """A subscriber that slept gets a window of the newest, not silence."""
    log = ResultLog(5)
    add(log, *range(1, 21))
    assert taken(log, window=2) == [(16, 15, [16, 17])]


@given(st.lists(st.one_of(
    st.tuples(st.just("add"), st.integers(1, 5)),
    st.tuples(st.just("take"), st.integers(1, 7)),
    st.tuples(st.just("acknowledge"), st.integers(0, 60)),
    st.tuples(st.just("rewind"), st.integers(0, 60)),
), max_size=40), st.integers(1, 12))  # fmt: skip
def test_every_solution_is_handed_out_or_told_to_be_lost(script, rows_max):
    """In any order of calls the sequence has no unexplained hole and the log stays bounded."""
    log = ResultLog(rows_max)
    expected = 1
    for verb, number in script:
        if verb == "add":
            add(log, *range(log.last + 1, log.last + 1 + number))
        elif verb == "take":
            for chunk in log.take(number, 3):
                assert chunk.first - chunk.lost <= expected
                assert list(chunk.bindings[0]) == list(range(chunk.first, chunk.first + len(chunk)))
                expected = chunk.first + len(chunk)
        elif verb == "acknowledge":
            log.acknowledge(min(number, log.sent))
        else:
            log.rewind(min(number, log.sent))
            expected = min(expected, log.sent + 1)
        assert len(log) <= rows_max
    for chunk in log.take(1000, 1000):
        assert chunk.first - chunk.lost <= expected
        expected = chunk.first + len(chunk)
    assert expected == log.last + 1
