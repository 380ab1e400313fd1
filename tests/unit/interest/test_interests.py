"""Targets equal the answer to CONSTRUCT after each changeset; other matches of single patterns are kept beside."""

from __future__ import annotations

import os
import random

import pytest
from athletes import INTEREST, START, athlete, changes, goals
from interest_histories import UNIVERSE, changesets, random_interest, slice_of

from p2prdf.errors import InterestOverflow, LocalProtocolError
from p2prdf.interest import Change, Changeset, Interests, Triple, parse_interest
from p2prdf.interest.core import Core

HISTORIES = int(os.environ.get("HISTORIES", "100"))
STEPS = 20


def _replica(*triples: Triple) -> Interests:
    found = Interests()
    found.add("athletes", INTEREST)
    found.apply(Changeset(added=triples))
    return found


def _holds(interests: Interests, name: str = "athletes") -> tuple[set[Triple], set[Triple]]:
    return set(interests.target(name)), set(interests.potential(name))


# --- against pyoxigraph --------------------------------------------------------------------------------


@pytest.mark.parametrize("block", range(5))
def test_random_interests_over_random_histories(block: int) -> None:
    """Stars, chains, circles, filters and optional groups: the changes reported add up to the triples held."""
    for seed in range(block * HISTORIES // 5, (block + 1) * HISTORIES // 5):
        written = random_interest(seed)
        interests = Interests()
        interests.add("it", parse_interest(written.text))
        target: set[Triple] = set()
        potential: set[Triple] = set()
        for changeset, dataset in changesets(seed, STEPS):
            made = interests.apply(changeset)
            change = made.changes.get("it", Change())
            gone, new = made.potential("it")
            target = (target - set(change.deletions)) | set(change.insertions)
            potential = (potential - set(gone)) | set(new)
            told = f"seed {seed}, changeset {changeset.sequence}: {written.text}"
            assert (target, potential) == slice_of(dataset, written), told
            assert _holds(interests, "it") == (target, potential), told
            assert interests.potential_size("it") == len(potential), told
            assert interests.target_size("it") == len(target), told
            assert {*change.promoted, *change.demoted} <= dataset, told
            assert not dataset.intersection(change.removed), told


def test_the_random_interests_are_of_all_kinds() -> None:
    """Optional groups with trees of their own, and patterns in a circle, are among them."""
    trees, cores = 0, 0
    for seed in range(HISTORIES):
        interests = Interests()
        interests.add("it", parse_interest(random_interest(seed).text))
        evaluation = interests._evaluations["it"]
        trees += len(evaluation._trees) > 1
        cores += any(isinstance(nodes[0].source, Core) for nodes in evaluation._trees)
    assert trees >= HISTORIES / 10
    assert cores >= HISTORIES / 20


def test_interests_come_and_go_and_each_is_as_if_it_were_alone() -> None:
    for seed in range(5):
        rng = random.Random(seed)
        interests, written, before = Interests(), {}, set[Triple]()
        for changeset, dataset in changesets(1000 + seed, 30):
            number = rng.randrange(40)
            if str(number) in interests and rng.random() < 0.5:
                whole = set(interests.union())
                lost = interests.remove(str(number)).deletions
                assert whole - set(interests.union()) == set(lost)
                assert whole == set(interests.union()).union(lost)
            elif str(number) not in interests:
                written[str(number)] = random_interest(number)
                interests.add(str(number), parse_interest(written[str(number)].text))
                # Triples that no interest needed before have to be fetched; present ones are not taken twice.
                interests.apply(Changeset(added=tuple(sorted(before))))
            assert all(_holds(interests, name) == slice_of(before, written[name]) for name in interests)
            interests.apply(changeset)
            before = dataset
            for name in interests:
                assert _holds(interests, name) == slice_of(dataset, written[name]), (seed, name)
        for name in list(interests):
            interests.remove(name)
        assert interests.triples == 0
        interests.apply(Changeset())
        assert len(interests._holdings.terms) == 0, "terms are given back"
        assert not interests._holdings.owners


def test_a_new_interest_begins_with_the_triples_held_for_others() -> None:
    interests = _replica(*START)
    change = interests.add("goals", parse_interest("SELECT * { ?a <http://dbpedia.org/property/goals> ?g }"))
    assert set(change.insertions) == {goals("Marcel", 1), goals("Cristiano_Ronaldo", 96)}


def test_the_answer_is_the_same_for_any_order_of_patterns() -> None:
    body = ["?a <urn:p0> ?b", "?b <urn:p1> ?c", "?a <urn:p2> ?d", "?c <urn:p3> ?a"]
    found = []
    for seed in range(6):
        random.Random(seed).shuffle(body)
        interests = Interests()
        interests.add("it", parse_interest(f"SELECT * {{ {' . '.join(body)} }}"))
        interests.apply(Changeset(added=tuple(random.Random(1).sample(UNIVERSE, 180))))
        for changeset, _ in changesets(3, 10):
            interests.apply(changeset)
        found.append(_holds(interests, "it"))
    assert all(each == found[0] for each in found)
    assert found[0][0]


# --- bounds --------------------------------------------------------------------------------------------


def test_many_values_of_one_thing_are_not_multiplied() -> None:
    """30 values of each of five properties would be 24 million matches; one value more is one step."""
    body = " . ".join(f"?x <urn:q{p}> ?v{p}" for p in range(5))
    interests = Interests()
    interests.add("it", parse_interest(f"SELECT * {{ {body} }}"))
    values = [("<urn:x>", f"<urn:q{p}>", f'"{value}"') for p in range(5) for value in range(30)]
    change = interests.apply(Changeset(added=tuple(values))).changes["it"]
    assert len(change.added) == 150
    assert len(interests.apply(Changeset(added=(("<urn:x>", "<urn:q0>", '"new"'),))).changes["it"].added) == 1


def test_subjects_that_share_an_object_are_not_multiplied() -> None:
    interests = Interests()
    interests.add("it", parse_interest("SELECT * { ?a <urn:in> ?p . ?b <urn:at> ?p . ?b <urn:has> ?c }"))
    crowd = [(f"<urn:a{n}>", "<urn:in>", "<urn:p>") for n in range(3000)]
    crowd += [(f"<urn:b{n}>", "<urn:at>", "<urn:p>") for n in range(3000)]
    crowd += [(f"<urn:b{n}>", "<urn:has>", "<urn:c>") for n in range(3000)]
    assert len(interests.apply(Changeset(added=tuple(crowd))).changes["it"].added) == 9000  # of 9 million matches


def test_a_circle_with_too_many_matches_is_refused_and_stays_refused() -> None:
    interests = Interests(matches_max=50)
    interests.add("it", parse_interest("SELECT * { ?a <urn:p> ?b . ?b <urn:q> ?c . ?c <urn:r> ?a }"))
    links = [(f"<urn:{a}>", f"<urn:{p}>", f"<urn:{b}>") for a in range(4) for b in range(4) for p in "pqr"]
    with pytest.raises(InterestOverflow, match="more than 50 matches"):
        interests.apply(Changeset(added=tuple(links)))
    with pytest.raises(InterestOverflow, match="build the interests again"):
        interests.apply(Changeset())
    others = Interests(matches_max=50)
    pairs = "SELECT * { ?a <urn:p> ?b OPTIONAL { ?a <urn:q> ?b } OPTIONAL { ?a <urn:r> ?b } }"
    others.add("pairs", parse_interest(pairs))
    others.apply(Changeset(added=tuple(links)))
    with pytest.raises(InterestOverflow):
        others.add("it", parse_interest("SELECT * { ?a <urn:p> ?b . ?b <urn:q> ?c . ?c <urn:r> ?a }"))
    assert list(others) == ["pairs"]
    assert others.target_size("pairs") == len(links)


def test_names_are_taken_once_and_unknown_ones_refused() -> None:
    interests = _replica()
    with pytest.raises(LocalProtocolError, match="already"):
        interests.add("athletes", INTEREST)
    for call in (interests.remove, interests.interest, interests.target_size, interests.potential_size):
        with pytest.raises(LocalProtocolError, match="no interest 'other'"):
            call("other")
    for wrong in ({"potential_max": -1}, {"matches_max": 0}):
        with pytest.raises(LocalProtocolError):
            Interests(**wrong)


@pytest.mark.parametrize("potential_max", [0, 3, 10])
def test_a_bound_on_potentially_interesting_triples_costs_triples_and_adds_none(potential_max: int) -> None:
    lacking = 0
    for seed in range(30):
        written = random_interest(seed)
        interests = Interests(potential_max=potential_max)
        interests.add("it", parse_interest(written.text))
        for changeset, dataset in changesets(seed, STEPS):
            interests.apply(changeset)
            exact, _ = slice_of(dataset, written)
            target, _ = _holds(interests, "it")
            assert target <= exact, (seed, written.text)
            lacking += len(exact - target)
        interests.apply(Changeset())
        assert interests.potential_size("it") <= potential_max
    assert lacking > 0, "a bound that costs nothing was not reached"


def test_the_oldest_triple_goes_first_and_a_deleted_one_makes_room() -> None:
    interests = Interests(potential_max=2)
    interests.add("athletes", INTEREST)
    for who in ("a", "b", "c"):
        interests.apply(changes((), (athlete(who),)))
    interests.apply(changes((athlete("c"),)))
    interests.apply(changes((), (athlete("d"),)))
    interests.apply(changes((), (goals("a", 1), goals("b", 1), goals("d", 1))))
    target, _ = _holds(interests)
    assert target == {athlete("b"), goals("b", 1), athlete("d"), goals("d", 1)}
    assert interests.evicted == 1


def test_evicted_triples_are_counted_by_pattern_until_the_dataset_is_complete_again() -> None:
    interests = Interests(potential_max=1)
    interests.add("athletes", INTEREST)
    interests.add("goals", parse_interest("SELECT * { ?a <http://dbpedia.org/property/goals> ?g }"))
    interests.apply(changes((), (athlete("a"), athlete("b"), athlete("c"), goals("x", 1))))
    assert interests.triples == 4
    interests.trim()
    assert interests.triples == 2, "at once, and what is in a target stays"
    assert (interests.given_up, interests.given_up_of("athletes"), interests.given_up_of("goals")) == (2, 2, 0)
    interests.note_whole()
    change = interests.apply(changes((), (athlete("a"), athlete("b"), goals("a", 1))))
    assert set(change.changes["athletes"].added) == {athlete("a"), goals("a", 1)}
    assert (interests.given_up, interests.evicted) == (0, 2)
    interests.trim()
    assert (interests.given_up, interests.given_up_of("athletes"), interests.evicted) == (1, 1, 3)
    with pytest.raises(LocalProtocolError, match="no interest 'other'"):
        interests.given_up_of("other")
