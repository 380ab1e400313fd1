"""Answers of a leaf: any order of answers and retractions leads to the same state."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from p2prdf import hlc
from p2prdf.continuous.leaf import LATE_MS, Change, ElementAnswers, LeafAnswers
from p2prdf.hlc import GONE
from p2prdf.rdf.algebra import Window

Told = tuple[int, int, int, tuple[int, ...]]
"""Identity, ``min_ts``, ``max_ts`` and row."""


def take(answers: LeafAnswers, *told: Told) -> list[Change]:
    identity, oldest, born, rows = zip(*told, strict=True)
    return answers.take(identity, oldest, born, list(zip(*rows, strict=True)))


def test_an_answer_counts_for_subscriptions_older_than_its_oldest_triple():
    answers = LeafAnswers()
    [change] = take(answers, (7, 20, 25, (1, 2)))
    assert [change.weight(since) for since in (10, 20, 21)] == [1, 1, 0]
    assert answers.since(20) == [((1, 2), 1)]
    assert answers.since(21) == []


def test_an_answer_that_comes_again_younger_counts_for_those_in_between_alone():
    answers = LeafAnswers()
    take(answers, (7, 20, 25, (1, 2)))
    assert take(answers, (7, 20, 25, (1, 2)), (7, 15, 25, (1, 2))) == []
    [change] = take(answers, (7, 30, 35, (1, 2)))
    assert [change.weight(since) for since in (10, 25, 31)] == [0, 1, 0]
    assert answers.since(25) == [((1, 2), 1)]


def test_a_retraction_applies_to_all_subscriptions_and_for_good():
    answers = LeafAnswers()
    take(answers, (7, 20, 25, (1, 2)))
    [change] = take(answers, (7, GONE, 40, (1, 2)))
    assert [change.weight(since) for since in (10, 20, 21)] == [-1, -1, 0]
    assert (answers.true, answers.youngest) == (0, 40)
    assert take(answers, (7, 50, 50, (1, 2)), (7, GONE, 60, (1, 2))) == []
    assert answers.withdraw([7], 50) == []
    assert answers.since(0) == []


def test_an_answer_after_its_retraction_never_counts():
    answers = LeafAnswers()
    assert answers.withdraw([7], 50) == []
    assert take(answers, (8, GONE, 40, (1, 2)), (7, 20, 25, (1, 2)), (8, 20, 25, (1, 2))) == []
    assert (answers.since(0), answers.true, len(answers), answers.youngest) == ([], 0, 2, 50)


def test_answers_without_columns_are_a_bag_all_the_same():
    answers = LeafAnswers()
    assert len(answers.take([1, 2], [20, 20], [20, 20], [])) == 2
    assert answers.since(10) == [((), 1), ((), 1)]


def test_the_version_changes_with_replicated_state_only():
    answers = LeafAnswers()
    seen = [answers.version]
    for told in [(7, 20, 25, (1,)), (7, 30, 35, (1,)), (7, GONE, 40, (1,)), (8, GONE, 40, (1,))]:
        take(answers, told)
        seen.append(answers.version)
        take(answers, told)
        assert answers.version == seen[-1]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("seed", range(20))
def test_answers_and_retractions_lead_to_the_same_state_in_any_order(seed):
    """The changes returned on the way add up to the final answers, for a subscription of any age."""
    rng = Random(f"leaf {seed}")
    story: list[Told] = []
    for identity in range(12):
        row = (rng.randrange(3), rng.randrange(3))
        story += [(identity, rng.randrange(10, 40), 40, row) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.4:
            story.append((identity, GONE, 50 + identity, row))
    states = []
    for _ in range(4):
        answers, sums = LeafAnswers(), {since: Counter() for since in (5, 20, 30)}
        for told in rng.sample(story, len(story)):
            bare = told[1] == GONE and rng.random() < 0.5
            for change in answers.withdraw([told[0]], 99) if bare else take(answers, told):
                for since, rows in sums.items():
                    rows[change.row] += change.weight(since)
        for since, rows in sums.items():
            assert +rows == Counter(row for row, _ in answers.since(since))
        ordinals = range(len(answers))
        held = sorted((identity, oldest, row) for identity, oldest, _, row in answers.held(ordinals))
        assert len(held) == answers.true
        states.append((held, sorted(answers.withdrawn(ordinals))))
    assert all(state == states[0] for state in states)


# --- elements of streams -------------------------------------------------------------------------


RANGE, EVERY = 5_000, 2_000
KEPT = RANGE + LATE_MS + 3 * EVERY


def elements(random: Random, count: int) -> list[Told]:
    """Answers of elements over several retention times."""
    found = []
    for number in range(count):
        oldest = random.randrange(0, 5 * LATE_MS, 1000)
        youngest = oldest + random.randrange(0, RANGE, 1000)
        found.append((number, hlc.element(oldest, 3), hlc.element(youngest, 3), (number, 1)))
    return found


def kept(answers: ElementAnswers) -> list[tuple[int, int]]:
    return sorted(zip(answers.identity, answers.oldest, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_elements_that_no_report_needs_are_dropped_in_any_order(seed):
    random = Random(seed)
    told, reports = elements(random, 400), sorted(random.sample(range(0, 5 * LATE_MS, EVERY), 5))
    states = []
    for _ in range(3):
        answers, left = ElementAnswers(Window(RANGE, 1000), EVERY), list(told)
        random.shuffle(left)
        for report in reports:
            some = [left.pop() for _ in range(min(len(left), 80))]
            take(answers, *some, *random.choices(some, k=2))
            answers.reported(report)
        if left:
            take(answers, *left)
        states.append(kept(answers))
        assert len(answers) == answers.true == len(answers.timed())
        assert answers.youngest == 0, "event times are no stamps"
    expected = [(each, oldest) for each, oldest, _, _ in told if hlc.element_ms(oldest) >= reports[-1] - KEPT]
    assert states == [sorted(expected)] * 3


def test_a_dropped_element_that_comes_again_changes_nothing_except_for_an_earlier_beginning():
    answers = ElementAnswers(Window(RANGE, 1000), EVERY)
    times = ((1, 10), (2, KEPT))
    old, young = ((number, hlc.element(at, 3), hlc.element(at, 3), (number, 1)) for number, at in times)
    take(answers, old, young)
    answers.reported(KEPT + 10)
    assert kept(answers) == [old[:2], young[:2]]
    answers.reported(KEPT + 11)
    assert kept(answers) == [young[:2]]
    version = answers.version
    assert take(answers, old) == []
    assert (answers.version, answers.held([0, 1, 7]), answers.withdrawn([0, 1, 7])) == (version, [young], [])
    answers.reported(-1)
    assert len(take(answers, old)) == 1


def test_nothing_is_forgotten_of_a_landmark_window():
    answers = ElementAnswers(Window(None, 1000), EVERY)
    told = elements(Random(1), 200)
    take(answers, *told)
    answers.reported(hlc.ELEMENT_MS_MAX)
    assert len(answers) == len(told)
