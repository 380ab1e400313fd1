"""A subscriber's log: a set by identity, delivered in numbered epochs, bounded, with a count of dropped answers."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.hlc import GONE
from p2prdf.store.result_log import ResultLog
from p2prdf.wire.messages import SURE, WITHDRAWN

BOTH = pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])


class Log(ResultLog):
    """A log of answers: one number is identity, time and binding of each."""

    def __init__(self, columns, rows_max=100, **bounds):
        super().__init__(columns, rows_max, **bounds)
        self.make = columns.column

    def add(self, *values: int, characters: int = 0) -> int:
        column = self.make(values)
        return self.append(column, column, (column,), characters)

    def over(self, *values: int) -> int:
        """Retract answers, at stamp 7."""
        names, times = [each ^ WITHDRAWN for each in values], [GONE | 7] * len(values)
        return self.withdraw(self.make(names), self.make(times), (self.make(values),))

    def told(self) -> list[tuple[str, int]]:
        """Deliver everything: answers, retractions and confirmed retractions, with their numbers."""
        found = []
        for chunk in self.take(100, 100):
            for at, (identity, time) in enumerate(zip(as_list(chunk.identity), as_list(chunk.born), strict=True)):
                sign = "+" if time < GONE else "sure" if time & SURE else "-"
                found.append((sign, identity ^ (WITHDRAWN if time >= GONE else 0)))
                assert time < GONE or time & ~SURE == GONE | 7
                assert chunk.first + at == self.sent - len(chunk) + at + 1
        return found

    def done(self, *values: int) -> list[int]:
        return as_list(self.acknowledge(self.make(values)))

    def taken(self, window: int = 100, chunk_max: int = 100) -> list[tuple[int, int, list[int]]]:
        """Deliver chunks as (first, lost, values)."""
        chunks = list(self.take(window, chunk_max))
        assert all(as_list(chunk.bindings[0]) == as_list(chunk.identity) for chunk in chunks if len(chunk))
        return [(chunk.first, chunk.lost, as_list(chunk.identity)) for chunk in chunks]


@BOTH
def test_answers_are_numbered_from_one_and_handed_out_once(columns):
    log = Log(columns)
    assert log.add(10, 11) == 2
    assert log.taken() == [(1, 0, [10, 11])]
    assert log.add(11, 12, 10) == 1
    assert log.taken() == [(3, 0, [12])]
    assert log.taken() == []


@BOTH
def test_the_window_counts_unacknowledged_answers_in_any_order(columns):
    log = Log(columns)
    log.add(1, 2, 3, 4, 5, 6)
    assert log.taken(window=2) == [(1, 0, [1, 2])]
    assert log.taken(window=2) == []
    assert log.done(2) == [2]
    assert log.taken(window=2) == [(3, 0, [3])]
    assert log.done(1, 2, 3) == [1, 3]
    assert log.taken(window=2, chunk_max=1) == [(4, 0, [4]), (5, 0, [5])]


@BOTH
def test_half_of_the_window_is_delivered_at_a_time_while_more_answers_wait(columns):
    log = Log(columns)
    log.add(*range(1, 13))
    assert log.taken(window=6) == [(1, 0, [1, 2, 3, 4, 5, 6])]
    assert [log.done(each) and log.taken(window=6) for each in (1, 2, 3)] == [[], [], [(7, 0, [7, 8, 9])]]
    log.done(4, 5, 6)
    assert log.taken(window=6) == [(10, 0, [10, 11, 12])]


@BOTH
def test_the_last_answers_that_wait_are_delivered_as_soon_as_the_window_has_room_for_all(columns):
    log = Log(columns)
    log.add(*range(1, 9))
    log.taken(window=6)
    assert [log.done(each) and log.taken(window=6) for each in (1, 2)] == [[], [(7, 0, [7, 8])]]


@BOTH
@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_single_acknowledgements_in_any_order_lead_to_the_delivery_of_all_answers(columns, window):
    log, rng = Log(columns), Random(window)
    log.add(*range(1, 51))
    sent, open_, deliveries = [], [], 0
    while new := log.taken(window=window):
        deliveries += len(new)
        for _, _, rows in new:
            sent += rows
            open_ += rows
        assert len(open_) <= window
        while open_ and not (window - len(open_) >= max(1, window // 2)):
            log.done(open_.pop(rng.randrange(len(open_))))
        if len(sent) == 50:
            break
    assert sent == list(range(1, 51))
    assert deliveries <= 50 // max(1, window // 2) + 1


@BOTH
def test_another_epoch_hands_out_all_that_is_not_acknowledged_from_one(columns):
    log = Log(columns)
    log.add(1, 2, 3, 4)
    log.taken(window=3)
    log.done(2)
    log.restart()
    assert log.taken() == [(1, 0, [1, 3, 4])]


@BOTH
def test_an_answer_acknowledged_before_it_comes_is_never_delivered(columns):
    """Another replica delivered it; the acknowledgement was faster than the answer."""
    log = Log(columns)
    assert log.done(7, 8) == [7, 8]
    assert log.add(6, 7, 8, 9) == 2
    assert [each for _, _, values in log.taken() for each in values] == [6, 9]
    assert log.done(7) == []


@BOTH
def test_the_memory_of_acknowledgements_without_answers_is_bounded(columns):
    log = Log(columns, early_max=10)
    for at in range(100):
        log.done(*range(5 * at, 5 * at + 5))
    assert log.known <= 10 + 5


@BOTH
def test_all_that_another_replica_remembers_is_remembered(columns):
    log = Log(columns, early_max=10)
    log.acknowledge(columns.column(range(100)), surely=True)
    assert log.known == 100
    assert len(log.done(*range(200, 210))) == 10
    assert log.add(99, 100) == 1


@BOTH
def test_a_full_log_drops_the_oldest_and_counts_them(columns):
    log = Log(columns, rows_max=3)
    log.add(1, 2)
    log.add(3, 4, 5)
    assert log.taken() == [(3, 2, [3, 4, 5])]
    assert log.lost_total == 2


@BOTH
def test_an_answer_delivered_and_then_dropped_is_lost_only_in_another_epoch(columns):
    """It is on its way to the subscriber, which may yet acknowledge it."""
    log = Log(columns, rows_max=3)
    log.add(1, 2)
    assert log.taken() == [(1, 0, [1, 2])]
    log.add(3, 4, 5, 6, 7)
    assert log.taken() == [(5, 2, [5, 6, 7])]
    log.done(1)
    log.restart()
    assert log.taken() == [(4, 3, [5, 6, 7])]


@BOTH
def test_a_loss_is_reported_until_an_answer_that_came_with_it_is_acknowledged(columns):
    log = Log(columns, rows_max=2)
    log.add(1, 2, 3, 4)
    assert log.taken() == [(3, 2, [3, 4])]
    log.restart()
    assert log.taken() == [(3, 2, [3, 4])]
    assert sorted(log.done(3)) == [1, 2, 3]
    log.restart()
    assert log.taken() == [(1, 0, [4])]


@BOTH
def test_a_loss_is_reported_even_if_nothing_is_left(columns):
    log = Log(columns)
    log.add(1, 2, 3)
    log.expire(before=10)
    assert log.taken() == [(4, 3, [])]
    assert log.taken() == []
    log.add(20)
    assert log.taken() == [(4, 0, [20])]
    assert sorted(log.done(20)) == [1, 2, 3, 20]


@BOTH
def test_a_window_is_not_used_up_by_answers_dropped_before_their_delivery(columns):
    """A subscriber that stopped reading gets a window of the newest answers; the unread ones still count."""
    log = Log(columns, rows_max=5)
    log.add(*range(1, 21))
    assert log.taken(window=2) == [(16, 15, [16, 17])]
    log.add(*range(21, 31))
    assert log.taken(window=2) == []
    log.done(16)
    assert log.taken(window=2) == [(26, 8, [26])]


@BOTH
def test_text_is_bounded_too(columns):
    log = Log(columns, characters_max=1000)
    for at in range(1, 11):
        log.add(at, characters=300)
    assert log.characters <= 1000
    assert log.taken() == [(8, 7, [8]), (9, 0, [9]), (10, 0, [10])]


@BOTH
def test_an_answer_dropped_by_another_replica_is_lost_unless_held_or_acknowledged_here(columns):
    log = Log(columns)
    log.add(1)
    log.done(2)
    log.lose(log.make([1, 2, 3]))
    assert log.taken() == [(2, 1, [1])]


@BOTH
def test_one_answer_that_is_never_acknowledged_does_not_keep_the_others(columns):
    log = Log(columns, rows_max=100_000)
    log.add(0)
    log.taken()
    for start in range(1, 50_000, 100):
        log.add(*range(start, start + 100), characters=1000)
        log.taken()
        log.done(*range(start, start + 100))
    assert len(log) == 1
    assert log.characters < 100_000
    log.restart()
    assert log.taken() == [(1, 0, [0])]


@BOTH
def test_everything_known_is_exported_for_another_replica(columns):
    log = Log(columns, rows_max=3)
    log.add(1, 2)
    log.add(3, 4, 5)
    log.taken(window=1)
    log.done(4, 9)
    identities, acknowledged = log.state()
    assert dict(zip(as_list(identities), as_list(acknowledged), strict=True)) == {1: 0, 2: 0, 3: 0, 4: 1, 5: 0, 9: 1}
    done, lost, chunks = log.export(list(range(6)))
    assert (as_list(done), as_list(lost)) == ([4, 9], [1, 2])
    assert [each for chunk in chunks for each in as_list(chunk.bindings[0])] == [3, 5]
    assert as_list(log.export([1, 2])[1]) == [2]


OPERATION = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(1, 30), min_size=1, max_size=6)),
    st.tuples(st.just("done"), st.lists(st.integers(1, 30), min_size=1, max_size=6)),
    st.tuples(st.just("take"), st.integers(1, 7)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("expire"), st.integers(1, 30)),
)


@BOTH
@given(script=st.lists(OPERATION, max_size=40), rows_max=st.integers(1, 12))
def test_every_answer_is_delivered_or_reported_lost_or_acknowledged(columns, script, rows_max):
    """In any order of calls: numbers have no unexplained hole, nothing comes twice in an epoch, the log is bounded."""
    log = Log(columns, rows_max)
    added: set[int] = set()
    acknowledged: set[int] = set()
    epoch: list[int] = []
    expected = 1

    def take(window: int) -> int:
        lost_in_all = 0
        nonlocal expected
        for first, lost, values in log.taken(window, 3):
            assert first == expected + lost
            assert not acknowledged & set(values)
            assert not set(epoch) & set(values)
            epoch.extend(values)
            expected = first + len(values)
            lost_in_all += lost
        return lost_in_all

    for verb, given_ in script:
        if verb == "add":
            added.update(given_)
            log.add(*dict.fromkeys(given_))
        elif verb == "done":
            acknowledged.update(given_)
            assert set(given_) <= set(log.done(*given_)) | acknowledged
        elif verb == "take":
            take(given_)
        elif verb == "restart":
            log.restart()
            epoch, expected = [], 1
        else:
            log.expire(given_)
        assert len(log) <= rows_max
    log.restart()
    epoch, expected = [], 1
    lost = take(1000)
    assert set(epoch) <= added - acknowledged
    assert len(epoch) + lost <= len(added - acknowledged)
    if not any(verb in ("expire", "done") for verb, _ in script):
        assert len(epoch) + lost == len(added)


@given(st.data())
def test_replicas_that_hear_the_same_in_any_order_hold_the_same(data):
    """Answers and acknowledgements commute."""
    heard = data.draw(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=20))
    states = []
    for columns, number in zip((LISTS, ARRAYS, LISTS), count()):
        log = Log(columns)
        for is_answer, value in heard if number == 0 else data.draw(st.permutations(heard)):
            if is_answer:
                log.add(value)
            else:
                log.done(value)
        log.restart()
        states.append((
            dict(zip(*map(as_list, log.state()), strict=True)),
            sorted(each for _, _, values in log.taken() for each in values),
        ))  # fmt: skip
    assert states[0] == states[1] == states[2]


@BOTH
def test_all_is_delivered_when_nothing_waits_and_no_loss_is_to_be_reported(columns):
    log = Log(columns, 3)
    assert log.handed_out
    log.add(1, 2)
    log.add(3)
    assert not log.handed_out
    log.taken(window=2)
    assert not log.handed_out
    log.done(3)  # it was acknowledged elsewhere
    assert log.handed_out
    assert log.taken() == []
    log.restart()
    assert not log.handed_out
    assert log.taken() == [(1, 0, [1, 2])]
    log.add(4, 5, 6)
    log.taken()
    log.restart()  # the dropped answers are lost in this epoch, and no others are left
    log.done(4, 5, 6)
    assert not log.handed_out
    assert [lost for _, lost, _ in log.taken()] == [2]
    assert log.handed_out


@BOTH
@given(st.lists(st.tuples(st.sampled_from(["add", "done", "lose", "take", "restart", "expire"]), st.integers(1, 9))))
def test_the_version_changes_with_state_that_other_replicas_should_have(columns, script):
    """Of the answers known, and which of them are acknowledged: how far they are on their way is not for others."""
    log = Log(columns, 3)
    for what, number in script:
        version, state = log.version, [as_list(each) for each in log.state()]
        match what:
            case "add":
                log.add(number, number + 1)
            case "done":
                log.done(number)
            case "lose":
                log.lose(log.make([number]))
            case "take":
                log.taken(window=2)
            case "restart":
                log.restart()
            case "expire":
                log.expire(number)
        assert (log.version != version) == ([as_list(each) for each in log.state()] != state)
        assert log.version >= version


# --- taken back -----------------------------------------------------------------------------------


@BOTH
def test_an_answer_that_waits_is_not_handed_out_once_it_is_taken_back(columns):
    """Its retraction is: another replica may have delivered the answer."""
    log = Log(columns)
    log.add(1, 2)
    assert log.over(1) == 1
    assert len(log) == 2
    assert log.told() == [("+", 2), ("-", 1)]
    assert log.over(1) == 0
    assert log.add(1) == 0
    assert log.told() == []


@BOTH
def test_a_retraction_before_its_answer_keeps_it_from_being_delivered(columns):
    log = Log(columns)
    assert log.over(5) == 1
    assert log.add(5, 6) == 1
    assert log.told() == [("-", 5), ("+", 6)]


@BOTH
def test_a_retraction_shows_whether_the_answer_is_known_to_be_acknowledged(columns):
    log = Log(columns)
    log.add(1, 2)
    log.told()
    log.done(1)
    log.over(1, 2)
    assert log.told() == [("sure", 1), ("-", 2)]
    assert as_list(log.acknowledge(log.make([1 ^ WITHDRAWN, 2 ^ WITHDRAWN, 2]))) == [1 ^ WITHDRAWN, 2 ^ WITHDRAWN, 2]
    assert len(log) == 0
    log.restart()
    assert log.told() == []


@BOTH
def test_an_answer_taken_back_by_another_replica_before_it_is_acknowledged_may_still_be(columns):
    """The replica that reported it knows more: so its retraction is confirmed here, too."""
    log = Log(columns)
    log.over(3)
    assert log.done(3) == [3]
    assert log.told() == [("sure", 3)]


@BOTH
def test_another_epoch_does_not_deliver_answers_retracted_meanwhile(columns):
    log = Log(columns)
    log.add(1, 2, 3)
    log.told()
    log.over(2)
    log.told()
    log.restart()
    assert log.told() == [("+", 1), ("+", 3), ("-", 2)]
    assert len(log) == 3


@BOTH
@pytest.mark.parametrize("acknowledged", [True, False], ids=["acknowledged", "dropped"])
def test_an_answer_is_exported_when_its_retraction_is_acknowledged_or_dropped(columns, acknowledged):
    """No other record of it is left then: a log restored from a snapshot delivered the answer when it came again."""
    log = Log(columns)
    log.add(1)
    log.over(1)
    version = log.version
    if acknowledged:
        log.told()
        assert log.done(1 ^ WITHDRAWN) == [1 ^ WITHDRAWN, 1]
    else:
        assert log.expire(8)
    assert log.version > version, "replicas compare it"
    done, lost, chunks = log.export([0, 1])
    assert as_list(done) == ([1, 1 ^ WITHDRAWN] if acknowledged else [1])
    assert as_list(lost) == ([] if acknowledged else [1 ^ WITHDRAWN])
    assert chunks == []
    restored = Log(columns)
    restored.acknowledge(done, surely=True)
    assert restored.add(1) == 0
    assert restored.told() == []


@BOTH
def test_an_answer_with_a_pending_retraction_is_exported_with_it(columns):
    log = Log(columns)
    log.add(1)
    log.over(1)
    log.told()
    done, lost, (chunk,) = log.export([0, 1])
    assert (as_list(done), as_list(lost), as_list(chunk.identity)) == ([], [], [1 ^ WITHDRAWN])


@BOTH
def test_retractions_are_dropped_like_answers_when_they_are_too_old(columns):
    log = Log(columns)
    log.add(1)
    log.told()
    log.done(1)
    log.over(1)
    assert not log.expire(7)
    assert log.expire(8)
    log.restart()
    (chunk,) = log.take(10, 10)
    assert (chunk.lost, len(chunk)) == (1, 0)
