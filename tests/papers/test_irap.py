"""Interest-based update propagation: sentences of seed 003 (iRap), and the product's behaviour for each.

K. M. Endris, S. Faisal, F. Orlandi, S. Auer, S. Scerri: *Interest-based RDF update propagation*, ISWC 2015.  Quotations
and sections are those of the notes on the paper.  Section 5.3 numbers defects of the printed definitions; the product
does not have them.  The printed definitions themselves are a competitor in the laboratory.

In the notes tau is the target, rho the potentially interesting triples, S all triples that match some pattern, D the
deletions and A the additions of a changeset.
"""

from __future__ import annotations

import pytest
from athletes import ADDED, INTEREST, POTENTIAL, REMOVED, START, TARGET, athlete, changes, goals, home, triple

from p2prdf.errors import QueryRefused
from p2prdf.interest import Change, Changeset, Interests, Triple, parse_interest


def replica(*triples: Triple) -> Interests:
    found = Interests()
    found.add("athletes", INTEREST)
    found.apply(Changeset(added=triples))
    return found


def holds(interests: Interests, name: str = "athletes") -> tuple[set[Triple], set[Triple]]:
    """Return the target and the potentially interesting triples."""
    return set(interests.target(name)), set(interests.potential(name))


# --- definitions -----------------------------------------------------------------------------------


def test_the_running_example_of_the_paper() -> None:
    """Section 9.3: "iRap Examples 1-9 (goals 10, dbp:goals): tau = Ronaldo{type, goals 216, homepage}, ..."."""
    interests = replica(*START)
    change = interests.apply(Changeset.of(REMOVED, ADDED)).changes["athletes"]
    assert holds(interests) == (TARGET, POTENTIAL)
    assert set(change.removed) == {goals("Marcel", 1), goals("Cristiano_Ronaldo", 96)}
    assert change.demoted == (athlete("Marcel"),)
    assert set(change.added) == {goals("Cristiano_Ronaldo", 216), athlete("Rio_Ferdinand"), goals("Rio_Ferdinand", 10)}
    assert change.promoted == ()


def test_a_changeset_deletes_first_and_inserts_then() -> None:
    """Section 5.1: "Changeset <D,A>: delete D first, then insert A"."""
    interests = replica(athlete("x"), goals("x", 1))
    change = interests.apply(changes((goals("x", 1), home("y")), (goals("x", 1), athlete("x"))))
    assert not change.changes
    assert holds(interests) == ({athlete("x"), goals("x", 1)}, set())


def test_a_changeset_is_the_same_in_two_parts() -> None:
    """Section 9.2: "splitting a changeset in two consecutive ones = same tau, rho"."""
    one, two = replica(*START), replica(*START)
    one.apply(Changeset.of(REMOVED, ADDED))
    two.apply(Changeset.of(REMOVED))
    two.apply(Changeset.of((), ADDED))
    assert holds(one) == holds(two)


def test_target_and_potentially_interesting_triples_are_apart_and_together_everything_that_matches() -> None:
    """Section 5.2: "Invariants: tau and rho disjoint; tau u rho = S_t"."""
    interests = replica(*START)
    interests.apply(Changeset.of(REMOVED, ADDED))
    target, potential = holds(interests)
    after = (set(START) - set(REMOVED)) | set(ADDED)
    matching = {each for each in after if each[1].endswith(("goals>", "homepage>")) or each[2].endswith("Athlete>")}
    assert target & potential == set()
    assert target | potential == matching


def test_a_homepage_belongs_to_the_target_of_a_full_match_only() -> None:
    """Section 5.2: "plus op-group triples joined to a full match (= CONSTRUCT of b OPTIONAL op)"."""
    interests = replica(home("x"), athlete("x"))
    assert holds(interests) == (set(), {home("x"), athlete("x")})
    interests.apply(changes((), (goals("x", 1),)))
    assert holds(interests) == ({home("x"), athlete("x"), goals("x", 1)}, set())


# --- defects of the printed definitions ------------------------------------------------------------


def test_additions_do_not_bring_back_a_type_that_the_same_changeset_deletes() -> None:
    """Section 5.3, 1: "D={x a Athlete, x goals 1}, A={x goals 2} resurrects 'x a Athlete'"."""
    interests = replica(athlete("x"), goals("x", 1))
    interests.apply(changes((athlete("x"), goals("x", 1)), (goals("x", 2),)))
    assert holds(interests) == (set(), {goals("x", 2)})


def test_a_type_stays_as_long_as_one_of_two_values_supports_it() -> None:
    """Section 5.3, 2: "x with goals 1 and 2, delete goals 1 -> 'x a Athlete' leaves tau although goals 2 still supports
    it"."""
    interests = replica(athlete("x"), goals("x", 1), goals("x", 2))
    change = interests.apply(changes((goals("x", 1),))).changes["athletes"]
    assert change == Change(removed=(goals("x", 1),))
    assert holds(interests) == ({athlete("x"), goals("x", 2)}, set())


def test_a_deleted_optional_triple_takes_no_mandatory_match_along() -> None:
    """Section 5.3, 3: "Deleting an *optional* triple puts the mandatory match c'_0 into r' and evicts it from tau"."""
    interests = replica(athlete("x"), goals("x", 1), home("x"))
    assert interests.apply(changes((home("x"),))).changes["athletes"] == Change(removed=(home("x"),))
    assert holds(interests) == ({athlete("x"), goals("x", 1)}, set())


def test_a_promoted_triple_is_not_potentially_interesting_any_more() -> None:
    """Section 5.3, 4: "Promoted triples are not removed from rho by Def 17/18"."""
    interests = replica(athlete("x"))
    change = interests.apply(changes((), (goals("x", 1),))).changes["athletes"]
    assert change == Change(added=(goals("x", 1),), promoted=(athlete("x"),))
    assert holds(interests) == ({athlete("x"), goals("x", 1)}, set())


def test_a_potentially_interesting_triple_is_deleted_together_with_an_absent_partner() -> None:
    """Section 5.3, 5: "A deleted triple that sits in rho but is part of a full match inside D ... stays in rho"."""
    interests = replica(athlete("x"))
    assert not interests.apply(changes((athlete("x"), goals("x", 1)))).changes
    assert holds(interests) == (set(), set())


def test_a_triple_that_loses_its_only_partner_leaves_the_target() -> None:
    """Section 5.3, 6: "D={type, goals 2} ... `type` is never asserted against goals 1, which stays orphaned in tau"."""
    interests = replica(athlete("x"), goals("x", 1), goals("x", 2))
    interests.apply(changes((athlete("x"), goals("x", 2))))
    assert holds(interests) == (set(), {goals("x", 1)})


def test_partial_matches_of_the_dataset_before_the_first_changeset_are_promoted() -> None:
    """Section 5.3, 7: "partial matches that exist in the source at time 0 are never promoted"; here they are."""
    interests = Interests()
    interests.add("athletes", INTEREST)
    interests.apply(Changeset(added=(athlete("x"), goals("y", 1))))
    assert holds(interests) == (set(), {athlete("x"), goals("y", 1)})
    interests.apply(changes((), (goals("x", 1), athlete("y"))))
    assert holds(interests) == ({athlete("x"), goals("x", 1), athlete("y"), goals("y", 1)}, set())


def test_an_optional_group_matches_as_a_whole() -> None:
    """Section 5.3, 12: "SPARQL OPTIONAL is all-or-nothing per group ... separate OPTIONALs are separate groups"."""
    base = triple("x type Athlete")
    name, page = triple("x name 'X"), home("x")
    type_of, name_of, page_of = base[1], name[1], page[1]
    together = f"SELECT * {{ ?a {type_of} {base[2]} OPTIONAL {{ ?a {name_of} ?n ; {page_of} ?p }} }}"
    apart = f"SELECT * {{ ?a {type_of} {base[2]} OPTIONAL {{ ?a {name_of} ?n }} OPTIONAL {{ ?a {page_of} ?p }} }}"
    interests = Interests()
    interests.add("together", parse_interest(together))
    interests.add("apart", parse_interest(apart))
    interests.apply(changes((), (base, name)))
    assert holds(interests, "together") == ({base}, {name})
    assert holds(interests, "apart") == ({base, name}, set())
    interests.apply(changes((), (page,)))
    assert holds(interests, "together") == holds(interests, "apart") == ({base, name, page}, set())


def test_patterns_are_connected_by_variables_and_not_by_constants() -> None:
    """Section 5.3, 13: "Connected = shared variables (any position)"."""
    parse_interest("SELECT * { ?a ?p <urn:c> . ?b ?p <urn:d> }")
    with pytest.raises(QueryRefused, match="variable"):
        parse_interest("SELECT * { ?a <urn:p> <urn:c> . ?b <urn:q> <urn:c> }")


def test_a_new_triple_finds_its_partner_among_those_kept_earlier() -> None:
    """Section 5.3, 14: "a new triple plus stored partner is not found" by the released code."""
    interests = replica(goals("x", 1), home("x"))
    interests.apply(changes((), (athlete("x"),)))
    assert holds(interests) == ({athlete("x"), goals("x", 1), home("x")}, set())


def test_absent_triples_are_ignored_and_repeated_ones_count_once() -> None:
    """Section 5.3, 15: "D and A may overlap or name absent triples | delete-then-insert; ignore absent"."""
    interests = replica(athlete("x"), goals("x", 1))
    assert not interests.apply(changes((goals("y", 9),), (goals("x", 1),))).changes
    interests.apply(changes((goals("x", 1),)))
    assert holds(interests) == (set(), {athlete("x")})


def test_a_triple_that_one_interest_loses_stays_for_another() -> None:
    """Section 5.3, 16: "deleting for one may remove a triple another needs | Per-interest support, tau = union"."""
    interests = replica(athlete("x"), goals("x", 1))
    interests.add("goals", parse_interest(f"SELECT * {{ ?a {goals('x', 1)[1]} ?g }}"))
    interests.apply(changes((athlete("x"),)))
    assert holds(interests) == (set(), {goals("x", 1)})
    assert holds(interests, "goals") == ({goals("x", 1)}, set())
    assert set(interests.union()) == {goals("x", 1)}
