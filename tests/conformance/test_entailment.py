"""W3C entailment cases: the rules derive each conclusion that a case states, and none that it excludes.

Cases of regimes of OWL are closed by the rules of OWL 2 RL, others by those of RDFS, of both by each; with the
trivial rules and axioms, which many cases are about.  A case has a conclusion, or a query that is answered over
the closure. Conclusions that the rules do not derive are listed beside this file, by reason; no case is left
out.  The closures of owlrl, another implementation of the same rules, come with the cases: ours contain all of
them except the ones listed here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from entailment import CASES, RULE_SETS, cases, gives, rule_sets_of

needs_cases = pytest.mark.skipif(not CASES.exists(), reason=f"the shared W3C cases are not at {CASES}")
NOT_GIVEN = {
    name: reason
    for reason, names in json.loads(Path(__file__).with_name("entailment_not_given.json").read_text("utf-8")).items()
    for name in names
}
"""Names of cases that the rules do not give, and why."""

GIVEN_BY_OWLRL = {
    "literals have no types": "owlrl closes generalised triples, of which a literal may be the subject",
    "owl:hasKey": "owlrl compares lists of values in code",
    "the axioms of container membership": "owlrl adds those of the properties that the graph mentions",
}
"""Why owlrl gives cases that are not given here, by how the reason of these begins."""


@needs_cases
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_a_stated_conclusion_is_derived_or_listed(case: dict[str, Any]) -> None:
    given = all(gives(case, RULE_SETS[name]) for name in rule_sets_of(case))
    assert given == (case["name"] not in NOT_GIVEN), NOT_GIVEN.get(case["name"], "it is not given, and not listed")
    if case["kind"] not in ("inconsistent", "consistent"):
        by_owlrl = all(case["closure"][name] for name in rule_sets_of(case))
        excuses = [why for begins, why in GIVEN_BY_OWLRL.items() if NOT_GIVEN.get(case["name"], "").startswith(begins)]
        assert given == by_owlrl or (by_owlrl and excuses), "owlrl gives something else"


@needs_cases
def test_all_cases_are_there_and_listed_ones_are_among_them() -> None:
    found = cases()
    assert len(found) == 213
    assert {case["name"] for case in found} >= NOT_GIVEN.keys()
    kinds = [case["kind"] for case in found if case["name"] not in NOT_GIVEN]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {"entails": 81, "not-entails": 10, "query": 22}
