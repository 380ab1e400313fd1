"""Saved state is restored as it was, and damaged state is refused."""

from __future__ import annotations

import pytest
from athletes import ADDED, INTEREST, REMOVED, START, athlete, changes, goals
from interest_histories import changesets, random_interest, slice_of

from p2prdf.errors import DataRefused
from p2prdf.interest import Changeset, Interests, parse_interest
from p2prdf.interest.saved import restore, save


def test_a_history_goes_on_after_a_restart_at_any_changeset() -> None:
    for seed in range(20):
        written = random_interest(seed)
        interests = Interests()
        interests.add("it", parse_interest(written.text))
        for changeset, dataset in changesets(seed, 12):
            told = (f"2014/{changeset.sequence}", "a note")
            interests, *found = restore(save(interests, position=told[0], note=told[1]))
            assert tuple(found) == told
            interests.apply(changeset)
            assert (set(interests.target("it")), set(interests.potential("it"))) == slice_of(dataset, written)


def test_equal_states_are_equal_bytes_after_being_read_and_written() -> None:
    interests = Interests()
    interests.add("athletes", INTEREST)
    interests.apply(Changeset(added=START))
    interests.apply(Changeset.of(REMOVED, ADDED))
    once = save(restore(save(interests))[0])
    assert save(restore(once)[0]) == once


def test_the_order_of_giving_up_survives() -> None:
    interests = Interests(potential_max=2)
    interests.add("athletes", INTEREST)
    for who in ("a", "b"):
        interests.apply(changes((), (athlete(who),)))
    again, *_ = restore(save(interests))
    for each in (interests, again):
        each.apply(changes((), (athlete("c"),)))
        each.apply(changes((), (goals("a", 1), goals("b", 1), goals("c", 1))))
    assert set(again.target("athletes")) == set(interests.target("athletes"))
    assert athlete("a") not in set(again.target("athletes"))


def test_literals_survive_as_they_are() -> None:
    interests = Interests()
    interests.add("it", parse_interest("SELECT * { ?s <urn:p> ?o }"))
    values = ['"a\\"b\\\\c\\nd"', '"é\u2028\U0001f600"@en-gb', '"\\t\\r"', '"01"^^<http://www.w3.org/2001/XMLSchema#integer>']
    interests.apply(Changeset(added=tuple(("<urn:s>", "<urn:p>", value) for value in values)))
    again, *_ = restore(save(interests))
    assert {o for _, _, o in again.target("it")} == set(values)


@pytest.mark.parametrize("at", [0, 25, 120, -70, -2])
def test_damage_is_reported(at: int) -> None:
    interests = Interests()
    interests.add("athletes", INTEREST)
    interests.apply(Changeset(added=START))
    data = bytearray(save(interests))
    data[at] ^= 1
    with pytest.raises(DataRefused, match=r"replica\.state: "):
        restore(bytes(data), source="replica.state")
    with pytest.raises(DataRefused, match="damaged"):
        restore(bytes(save(interests)[:-3]))
