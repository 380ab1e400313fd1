"""W3C entailment cases, read from beside the repository, and a check that rules give their conclusions."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyoxigraph as ox
from solution_bags import rows_of
from w3c import triples

from p2prdf.rdf.standing.query import parse_query
from p2prdf.reasoning import RuleSet, Triple, closure, owl_rl, rdfs, without_auxiliary

__all__ = ["CASES", "RULE_SETS", "answers", "cases", "gives", "rule_sets_of"]

CASES = Path(__file__).parents[2] / "../shared/data/w3c/entailment-cases.json.gz"
RULE_SETS = {"rdfs": rdfs(trivial=True), "owl2rl": owl_rl(trivial=True)}


def cases() -> list[dict[str, Any]]:
    """Return all cases; none if they are not there."""
    if not CASES.exists():
        return []
    with gzip.open(CASES, "rt", encoding="utf-8") as stream:
        found: list[dict[str, Any]] = json.load(stream)
    return found


def rule_sets_of(case: dict[str, Any]) -> list[str]:
    """Return the rule sets of a case: OWL's if one of its regimes is OWL's, RDFS's if one is not."""
    regimes = case["regimes"]
    below = any(not regime.startswith("OWL") for regime in regimes)
    return [*(["rdfs"] if below else []), *(["owl2rl"] if any(regime.startswith("OWL") for regime in regimes) else [])]


def gives(case: dict[str, Any], rule_set: RuleSet) -> bool:
    """Tell whether the consequences by a rule set are those of a case."""
    closed = without_auxiliary(closure(rule_set.rules, {*rule_set.axioms, *triples(case["premise"])}))
    if case["kind"] == "query":
        found = answers(closed, {"": case["query"]})[""]
        return Counter(found) == Counter(rows_of(parse_query(case["query"]).names, case["results"]))
    if case["kind"] not in ("entails", "not-entails"):
        return False  # no rule finds a contradiction
    conclusion = triples(case["conclusion"])
    return _holds(conclusion, closed, {}) == (case["kind"] == "entails")


def _holds(conclusion: list[Triple], facts: list[Triple], known: dict[str, str]) -> bool:
    """Tell whether facts contain a conclusion; its blank nodes match any term."""
    if not conclusion:
        return True
    for fact in facts:
        bound = dict(known)
        for part, value in zip(conclusion[0], fact, strict=True):
            if (bound.setdefault(part, value) if part.startswith("<urn:bnode:") else part) != value:
                break
        else:
            if _holds(conclusion[1:], facts, bound):
                return True
    return False


def answers(facts: Iterable[Triple], queries: dict[str, str]) -> dict[str, list[tuple[str | None, ...]]]:
    """Return the rows of SELECT queries over facts, by their names, columns as the queries have them."""
    store, found = ox.Store(), dict[str, list[tuple[str | None, ...]]]()
    store.bulk_load("".join(f"{s} {p} {o} .\n" for s, p, o in facts).encode(), format=ox.RdfFormat.N_TRIPLES)
    for name, query in queries.items():
        rows = store.query(query)
        assert isinstance(rows, ox.QuerySolutions)
        found[name] = [tuple(None if value is None else str(value) for value in row) for row in rows]
    return found
