"""Incremental reasoning on streams: sentences of seed 001 (IMaRS), and the product's behaviour for each.

D. F. Barbieri, D. Braga, S. Ceri, E. Della Valle, M. Grossniklaus: *Incremental Reasoning on Streams and Rich
Background Knowledge*, ESWC 2010.  Quotations and sections are those of the notes on the paper.  Section 4.3 numbers
defects of the printed program, which itself is a competitor in the laboratory.

In the notes T is the expiration time of a fact, E(f) the largest one of any derivation of f, w the range of the window.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from rule_histories import ANEW, MENDED, Always

from p2prdf.reasoning import FOREVER, Atom, Materialiser, Rule, rdfs

IS_IN = "<urn:isIn>"
TRANSITIVE = Rule(Atom("?x", IS_IN, "?z"), (Atom("?x", IS_IN, "?y"), Atom("?y", IS_IN, "?z")))
RANGE = 10
FIGURE = {
    1: "AB11",
    2: "AB11 BC12 AC11",
    3: "AB11 BC12 AC11 CD13 BD12 AD11",
    4: "AB11 BC12 AC11 CD13 BD12 AE14 ED14 AD14",
    12: "BC12 CD13 BD12 AE14 ED14 AD14",
    13: "CD13 AE14 ED14 AD14",
    14: "AE14 ED14 AD14",
    15: "",
}
"""Figure 4 of the paper: the pairs that hold at each second, with their expiration times."""
STREAM = {1: ["AB"], 2: ["BC"], 3: ["CD"], 4: ["AE", "ED"]}


class Places:
    """A transitive relation over places A to E, with a window over its statements."""

    def __init__(self, effort: Always) -> None:
        self.numbers: dict[str, int] = {}
        self.program = Materialiser([TRANSITIVE], self.number, effort=effort)

    def number(self, term: str) -> int:
        return self.numbers.setdefault(term, len(self.numbers))

    def fact(self, pair: str) -> tuple[int, int, int]:
        return self.number(f"<urn:{pair[0]}>"), self.number(IS_IN), self.number(f"<urn:{pair[1]}>")

    def step(self, now: int, given: Iterable[str] = (), back: Iterable[str] = (), until: int | None = None):
        label = now + RANGE if until is None else until
        return self.program.step(now, {self.fact(each): label for each in given}, [self.fact(each) for each in back])

    @property
    def held(self) -> set[str]:
        names = {number: term[5:-1] for term, number in self.numbers.items()}
        return {f"{names[s]}{names[o]}{label if label != FOREVER else ''}" for (s, _, o), label in self.program}


@pytest.fixture(params=[MENDED, ANEW], ids=["maintained", "recomputed"])
def places(request: pytest.FixtureRequest) -> Places:
    """Return no places yet; each step maintains the closure, or recomputes it."""
    return Places(request.param)


# --- definitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("skipped", [(), (12,), (13, 14), (12, 13, 14)], ids=str)
def test_figure_4_second_by_second(places: Places, skipped: tuple[int, ...]) -> None:
    """Section 9.3: "IMaRS Fig 4 (w=10, closed): now1 AB11; now2 +BC12, AC11; ... Repeat with a skipped tick"."""
    for now in range(1, 16):
        if now not in skipped:
            places.step(now, STREAM.get(now, ()))
            if now in FIGURE:
                assert places.held == set(FIGURE[now].split()), now


def test_a_statement_holds_up_to_and_including_its_expiration_time(places: Places) -> None:
    """Section 4.1: "Valid at now iff T >= now (... ts=1, w=10 -> T=11, dropped when now=12)"."""
    places.step(1, ["AB"])
    places.step(11)
    assert places.held == {"AB11"}
    places.step(12)
    assert places.held == set()


def test_background_knowledge_never_expires(places: Places) -> None:
    """Section 4.1: "Background facts: T = infinity"."""
    places.step(1, ["AB", "BC"], until=FOREVER)
    places.step(10**9)
    assert places.held == {"AB", "BC", "AC"}


def test_a_conclusion_expires_with_the_first_of_its_premises(places: Places) -> None:
    """Section 4.1: "Rule H[T] :- B1[T1]..Bn[Tn], T = min Ti"."""
    places.step(1, ["AB"])
    places.step(3, ["BC"])
    assert places.held == {"AB11", "BC13", "AC11"}


def test_of_two_derivations_the_later_expiration_time_counts(places: Places) -> None:
    """Section 4.1: "One copy per fact, the maximal T"."""
    places.step(1, ["AB", "BD"])
    places.step(5, ["AC", "CD"])
    assert places.held == {"AB11", "BD11", "AC15", "CD15", "AD15"}


def test_a_fact_holds_until_a_moment_iff_it_follows_from_the_facts_that_last_that_long(places: Places) -> None:
    """Section 4.1: "for every tau >= now, f is in closure({facts with T >= tau}) iff E(f) >= tau"."""
    given = {"AB": 3, "BC": 5, "CA": 4, "CD": 9, "DE": 2, "AE": 1}
    for pair, label in given.items():
        places.step(0, [pair], until=label)
    labels = {each[:2]: int(each[2:]) for each in places.held}
    for tau in range(11):
        lasting = {pair for pair, label in given.items() if label >= tau}
        while more := {a[0] + b[1] for a, b in itertools.product(lasting, lasting) if a[1] == b[0]} - lasting:
            lasting |= more
        assert {pair for pair, label in labels.items() if label >= tau} == lasting


# --- defects of the printed program ----------------------------------------------------------------


def test_a_renewed_conclusion_moves_to_its_new_expiration_time(places: Places) -> None:
    """Section 4.3, 1: "the Fig 4 fact A isIn D would disappear instead of moving 11 -> 14"."""
    for now in (1, 2, 3):
        places.step(now, STREAM[now])
    assert "AD11" in places.held
    change = places.step(4, STREAM[4])
    assert "AD14" in places.held
    assert change.removed == []
    assert set(change.added) == {places.fact("AE"), places.fact("ED")}


def test_skipped_seconds_leave_no_dead_facts(places: Places) -> None:
    """Section 4.3, 2: "any skipped tick, step > 1, or late evaluation leaves dead facts for ever"."""
    for now in (1, 2, 3, 4):
        places.step(now, STREAM[now])
    change = places.step(40)
    assert places.held == set()
    assert len(change.removed) == 8


def test_superseded_copies_join_with_nothing(places: Places) -> None:
    """Section 4.3, 5: "Delta-New-1 keeps superseded copies in New ... | New = valid, non-superseded"."""
    places.step(1, ["AB", "BC"])
    change = places.step(2, ["AB", "BC"])
    assert places.held == {"AB12", "BC12", "AC12"}
    assert (change.added, change.removed) == ({}, [])


def test_rules_with_trivial_conclusions_are_off_by_default() -> None:
    """Section 4.3, 8: "rdf1and4 and the Resource rules create 3 trivial triples per triple ... off by default"."""
    names = {rule.name for rule in rdfs(trivial=True).rules} - {rule.name for rule in rdfs().rules}
    assert {"rdf1", "rdfs4a", "rdfs4b"} <= names


# --- the algorithm ---------------------------------------------------------------------------------


def test_late_statements_are_absorbed_or_ignored(places: Places) -> None:
    """Section 4.4: "T below the stored E are absorbed; items already expired are ignored"."""
    places.step(5, ["AB"])
    change = places.step(6, ["AB"], until=9)
    assert (places.held, change.added, change.removed, change.relabelled) == ({"AB15"}, {}, [], {})
    places.step(7, ["BC"], until=6)
    assert places.held == {"AB15"}


def test_a_statement_of_background_and_stream_is_background(places: Places) -> None:
    """Section 4.4: "Same fact in background and stream: infinity wins"."""
    places.step(1, ["AB"])
    places.step(1, ["AB"], until=FOREVER)
    places.step(2, ["AB"])
    places.step(100)
    assert places.held == {"AB"}


def test_a_step_reports_the_facts_that_begin_and_end(places: Places) -> None:
    """Section 4.4: "P+ = facts whose E was absent or rose ..., P- = Expired minus P+"."""
    places.step(1, ["AB"])
    places.step(2, ["BC"])
    change = places.step(12, ["AB"])
    assert places.held == {"AB22", "BC12", "AC12"}
    assert change.removed == []
    change = places.step(13)
    assert (set(change.removed), change.added) == ({places.fact("BC"), places.fact("AC")}, {})


# --- retraction and windows ------------------------------------------------------------------------


def test_a_fact_that_is_also_given_stays_when_its_derivation_is_deleted(places: Places) -> None:
    """Section 9.3: "DRed: explicit isIn(a,c) plus (a,b),(b,c); delete (a,b): (a,c) stays"."""
    places.step(0, ["AC", "AB", "BC"], until=FOREVER)
    change = places.step(0, back=["AB"])
    assert places.held == {"AC", "BC"}
    assert change.removed == [places.fact("AB")]
    places.step(0, back=["AC"])
    assert places.held == {"BC"}


def test_a_retraction_leaves_the_best_expiration_time_of_the_rest(places: Places) -> None:
    """Section 4.5: "set E(h) to the best value from X and non-deleted bodies; then raise"."""
    places.step(1, ["AB"])
    places.step(2, ["BC", "AC"])
    change = places.step(3, back=["AC"])
    assert places.held == {"AB11", "BC12", "AC11"}
    assert change.removed == []


def test_facts_that_support_only_each_other_are_retracted(places: Places) -> None:
    """Section 8.3: "Retraction through recursive rules | No (cyclic support survives counting)"."""
    places.step(0, ["AB", "BA"], until=FOREVER)
    assert places.held == {"AB", "BA", "AA", "BB"}
    places.step(0, back=["AB"])
    assert places.held == {"BA"}


def test_a_renewal_around_a_cycle_raises_all_its_members(places: Places) -> None:
    """Section 9.3: "isIn(a,b), isIn(b,a) terminates; expT renewal around a cycle raises all members"."""
    places.step(1, ["AB", "BA"])
    places.step(2, ["AB"])
    assert places.held == {"AB12", "BA11", "AA11", "BB11"}
    places.step(2, ["BA"])
    assert places.held == {"AB12", "BA12", "AA12", "BB12"}


def test_one_materialisation_serves_windows_of_several_ranges(places: Places) -> None:
    """Section 4.6: "f is valid iff oldest(f)+w >= now ... one materialisation serves all ranges up to w_max"."""
    widest, published = 9, {"AB": 2, "BC": 4, "CD": 7, "AC": 8}
    for pair, at in published.items():
        places.program.step(max(0, at - widest), {places.fact(pair): at})
    now = 10
    for width in range(widest + 1):
        alone = Places(MENDED)
        for pair, at in published.items():
            alone.program.step(0, {alone.fact(pair): at + width})
        alone.program.step(now)
        names = {number: term[5:-1] for term, number in places.numbers.items()}
        found = {f"{names[s]}{names[o]}" for s, _, o in places.program.since(max(0, now - width))}
        assert found == {each[:2] for each in alone.held}, width
