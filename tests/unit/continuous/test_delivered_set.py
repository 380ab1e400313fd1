"""The delivered set of a subscriber, at each replica, is the same for any order of events.

Events are answers, retractions, and acknowledgements of both.
"""

from __future__ import annotations

from random import Random

import pytest

from p2prdf.columns import ARRAYS, LISTS
from p2prdf.continuous.delivered_set import DeliveredSet
from p2prdf.hlc import GONE
from p2prdf.store.result_log import ResultLog
from p2prdf.wire.messages import WITHDRAWN

MATERIALS = pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])


class Told:
    """A log with its delivered set, used as a coordinator does."""

    def __init__(self, columns, early_max: int = 1000):
        self.columns = columns
        self.log = ResultLog(columns, 1000, early_max=early_max)
        self.contents = DeliveredSet()

    def take(self, identity: int, row: tuple[int, ...], *, over: bool = False) -> int:
        """Take in an answer, or its retraction."""
        make, time = self.columns.column, 9 | GONE if over else 9
        name = identity ^ WITHDRAWN if over else identity
        bindings = tuple(make([term], "uint32") for term in row)
        into = self.log.withdraw if over else self.log.append
        into(make([name]), make([time]), bindings)
        return self.contents.take(self.log, make([name]), [time], bindings)

    def acknowledge(self, *names: int) -> None:
        self.contents.acknowledge(self.log, self.columns.column(names))


@MATERIALS
def test_a_reported_answer_is_held_until_it_is_retracted(columns):
    told = Told(columns)
    assert told.take(1, (5, 6)) == 1
    assert told.take(1, (5, 6)) == 0
    told.acknowledge(1)
    assert (told.contents.rows, told.contents.bare) == ({1: (5, 6)}, [])
    assert told.take(1, (5, 6), over=True) == 1
    assert told.take(1, (5, 6)) == 0
    told.acknowledge(1 ^ WITHDRAWN)
    assert (told.contents.rows, told.contents.bare) == ({}, [])


@MATERIALS
def test_an_answer_acknowledged_before_it_came_is_bare_until_it_comes(columns):
    told = Told(columns)
    told.acknowledge(1)
    assert told.contents.bare == [1]
    before = told.contents.version
    assert told.take(1, (5, 6)) == 1
    assert (told.contents.rows, told.contents.bare) == ({1: (5, 6)}, [])
    assert told.contents.version != before


@MATERIALS
@pytest.mark.parametrize("names", [(1, 1 ^ WITHDRAWN), (1 ^ WITHDRAWN, 1)])
def test_an_answer_with_both_acknowledgements_is_over(columns, names):
    told = Told(columns)
    for name in names:
        told.acknowledge(name)
    assert (told.contents.rows, told.contents.bare) == ({}, [])
    assert told.take(1, (5, 6)) == 0
    told = Told(columns)
    told.take(1, (5, 6))
    told.acknowledge(*names)
    assert (told.contents.rows, told.contents.bare) == ({}, [])


@MATERIALS
def test_an_answer_acknowledged_and_retracted_before_it_came_is_over(columns):
    told = Told(columns)
    told.acknowledge(1)
    told.take(1, (5, 6), over=True)
    assert (told.contents.rows, told.contents.bare) == ({}, [])


@MATERIALS
def test_an_answer_with_both_acknowledgements_at_once_is_over(columns):
    """A replica that was not there hears of it in this way."""
    told = Told(columns)
    told.acknowledge(1, 1 ^ WITHDRAWN)
    assert told.contents.bare == []


@MATERIALS
def test_an_early_acknowledgement_beyond_the_bound_is_not_remembered(columns):
    """Acknowledgements of answers that were never sent do not fill the memory."""
    told = Told(columns, early_max=2)
    for identity in range(1, 10):
        told.acknowledge(identity)
    assert told.contents.bare == [1, 2]


@MATERIALS
def test_rows_without_columns_are_held_too(columns):
    told = Told(columns)
    told.take(1, ())
    assert told.contents.rows == {1: ()}


@MATERIALS
@pytest.mark.parametrize("seed", range(20))
def test_the_delivered_set_does_not_depend_on_the_order(columns, seed):
    """One replica hears of some answers by reports alone, another by acknowledgements as well."""
    rng = Random(f"contents {seed}")
    story = []
    for identity in range(1, 13):
        row = (rng.randrange(3), rng.randrange(3))
        story.append((identity, row, "told"))
        if rng.random() < 0.6:
            story.append((identity, row, "acknowledged"))
        if rng.random() < 0.5:
            story.append((identity, row, "withdrawn"))
            if story[-2][2] == "acknowledged" and rng.random() < 0.6:
                story.append((identity, row, "withdrawal acknowledged"))
    held = []
    for _ in range(4):
        told = Told(columns)
        for identity, row, what in rng.sample(story, len(story)):
            match what:
                case "told" | "withdrawn":
                    told.take(identity, row, over=what == "withdrawn")
                case "acknowledged":
                    told.acknowledge(identity)
                case _:
                    told.acknowledge(identity ^ WITHDRAWN)
        assert told.contents.bare == []
        held.append(told.contents.rows)
    assert all(rows == held[0] for rows in held)
    assert len(held[0]) == 12 - sum(what == "withdrawn" for _, _, what in story)
