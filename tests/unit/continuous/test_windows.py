"""Answers enter and leave a window between reports as the definition of the window requires."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from p2prdf.continuous.windows import NEVER, WindowQueue, next_multiple
from p2prdf.rdf.algebra import Window

TIMES = st.integers(0, 40)
WINDOWS = st.builds(Window, st.one_of(st.none(), st.integers(1, 15)), st.integers(1, 7), TIMES)


def holds(window: Window, oldest: int, youngest: int, report: int) -> bool:
    """Whether elements of these times are in the window of a report, by its definition."""
    end = report // window.step * window.step
    begins = oldest >= window.start if window.range is None else oldest > end - window.range
    return begins and youngest <= end


@given(WINDOWS, st.integers(1, 5), st.lists(st.tuples(TIMES, TIMES, TIMES)), st.sets(st.integers(0, 20)))
def test_an_answer_is_in_the_windows_that_have_all_its_elements(
    window: Window, every: int, answers: list[tuple[int, int, int]], made: set[int]
) -> None:
    """``answers``: two times, and the report before which they come; only some of the reports are ``made``."""
    queue = WindowQueue(window, every)
    held: dict[tuple[int, ...], int] = {}
    waiting = [(came, number, min(a, b), max(a, b)) for number, (a, b, came) in enumerate(answers)]
    for report in sorted(every * each for each in made):
        for each in [each for each in waiting if each[0] <= report]:
            waiting.remove(each)
            first = queue.add((each[1],), each[2], each[3])
            reports = [at for at in range(0, 200, every) if holds(window, each[2], each[3], at)]
            assert first == (reports[0] if reports else NEVER)
        for row, weight in queue.at(report):
            held[row] = held.get(row, 0) + weight
        came = [number for number in range(len(answers)) if number not in {each[1] for each in waiting}]
        times = {number: sorted(answers[number][:2]) for number in came}
        inside = {(number,): 1 for number, (a, b) in times.items() if holds(window, a, b, report)}
        assert {row: count for row, count in held.items() if count} == inside


@given(WINDOWS, st.integers(1, 5), st.lists(st.tuples(TIMES, TIMES), min_size=1))
def test_nothing_changes_before_the_next_report(window: Window, every: int, answers: list[tuple[int, int]]) -> None:
    queue = WindowQueue(window, every)
    for number, times in enumerate(answers):
        queue.add((number,), min(times), max(times))
    for report in range(0, 100, every):
        following = queue.next
        changes = list(queue.at(report))
        assert not changes or following <= report
    assert window.range is None or len(queue) == 0


@given(st.integers(0, 1000), st.integers(1, 50))
def test_the_next_multiple_is_the_first_that_is_not_before(time: int, step: int) -> None:
    assert next_multiple(time, step) == next(each for each in range(0, 2000, step) if each >= time)
