"""Transitive places, real and made up, under a sliding window: every second against expected counts and digests.

A statement published at t holds up to and including t + range, and the latest publication counts; a consequence
holds as long as the best of its derivations.  Per second the test compares the number of statements and of all
facts that hold, and the digest of the sorted lines "subject, object, expiration".
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path

import pytest
from rule_histories import Numbers

from p2prdf.reasoning import Atom, Materialiser, Rule
from p2prdf_lab.competitors.reasoning.counting import Counting
from p2prdf_lab.competitors.reasoning.naive import Naive
from p2prdf_lab.competitors.reasoning.paper import Paper
from p2prdf_lab.competitors.reasoning.volz import Volz

DATA = Path(__file__).parents[2] / "../shared/data/closure"
EXPECTED = ("paper-figure4.range10", "places.range10", "places.range40", "trees.range15")
LABELLED = (Materialiser, Paper)

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the closures of shared/data are not beside the repository")


def _published(name):
    """Return the statements published at each second, as subject and object."""
    found = defaultdict(list)
    for line in (DATA / f"{name}.tsv").read_text("utf-8").splitlines():
        second, statement = line.split("\t")
        s, p, o, _ = statement.split()
        found[int(second)].append((s, p, o))
    return found


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("program", [*LABELLED, Naive, Volz, Counting])
def test_every_second_has_the_expected_facts(name, program):
    expected = json.loads((DATA / f"{name}.json").read_text())
    published, numbers, span = _published(name.partition(".")[0]), Numbers(), expected["range"]
    p = f"<{expected['property']}>"
    rule = Rule(Atom("?x", p, "?z"), (Atom("?x", p, "?y"), Atom("?y", p, "?z")))
    both = program([rule], numbers)
    with_labels = both if program in LABELLED else Materialiser([rule], numbers)
    for step in expected["steps"]:
        now = step["now"]
        given = {numbers.fact(*each): now + span for each in published.get(now, ())}
        change = both.step(now, given)
        told = (len(both), len(change.added), len(change.removed))
        assert told == (step["closure"], step["added"], step["removed"]), now
        if with_labels is not both:
            with_labels.step(now, given)
            assert {fact for fact, _ in both} == {fact for fact, _ in with_labels}, now
        assert _digest(with_labels, numbers) == step["sha256"], now


def _digest(labelled, numbers):
    terms = {number: term.strip("<>") for term, number in numbers.known.items()}
    lines = sorted(f"{terms[s]}\t{terms[o]}\t{label}\n" for (s, _, o), label in labelled)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
