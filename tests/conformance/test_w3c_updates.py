"""W3C's cases of SPARQL 1.1 Update, executed by the client over statements in memory.

Queries are evaluated by the parser and the dataflow of nodes. tests/daemon/test_updates.py runs them through a node.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from held_graphs import HeldGraphs
from w3c_updates import ARCHIVE, UpdateCase, cases, same_dataset

from p2prdf.errors import QueryRefused
from p2prdf.rdf.update import parse_update

pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"the shared W3C suites are not at {ARCHIVE}")

REFUSED: dict[str, str] = {}
"""Cases that are refused, with the construct that the refusal names.  The table is exact."""
COUNTS = {"evaluation": 94, "accepted": 42, "refused": 21}


def outcome(case: UpdateCase, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return ``right``, ``wrong`` or the construct that was refused."""
    if case.kind != "evaluation":
        try:
            parse_update(case.text, scope="s")
        except QueryRefused as error:
            return "right" if case.kind == "refused" else error.construct
        return "right" if case.kind == "accepted" else "wrong"
    held = HeldGraphs(case.before)
    monkeypatch.setattr("p2prdf.client.update.answer_once", held.answer_once)
    try:
        asyncio.run(held.update(case.text))
    except QueryRefused as error:
        return error.construct
    return "right" if same_dataset(held.statements, case.after) else "wrong"


def test_all_cases_are_right_or_refused_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    found = cases()
    assert Counter(case.kind for case in found) == COUNTS
    outcomes = {case.name: outcome(case, monkeypatch) for case in found}
    wrong = [name for name, each in outcomes.items() if each == "wrong"]
    refused = {name: each for name, each in outcomes.items() if each not in ("right", "wrong")}
    right = len(outcomes) - len(wrong) - len(refused)
    with capsys.disabled():
        print(f"\nW3C updates: {right} right, {len(refused)} refused by name, {len(wrong)} wrong of {len(found)}")
    assert wrong == []
    assert refused == REFUSED
    assert right >= 0.98 * len(found)
