"""Rules as insertion texts for an overlay, one per rule (:mod:`p2prdf.rdf.standing.insertion`).

The conclusions go into one named graph.  All rules read a predicate that some rule concludes in that graph; one more
insertion copies its triples from the default graph there.  All other predicates are read in the default graph.
"""

from __future__ import annotations

from collections.abc import Iterable

from p2prdf.rdf.algebra import InferenceRule
from p2prdf.rdf.standing.inference import check_rules
from p2prdf.reasoning.rule import Rule
from p2prdf.reasoning.ruled_query import rule_forms

__all__ = ["insertions"]


def insertions(rules: Iterable[Rule], graph: str) -> list[str]:
    """Return the insertion texts of rules that conclude into a graph, in order, each once.

    ``graph``: a canonical IRI.  Raises QueryRefused for rules that a query may not contain: a variable as predicate,
    a body that is too long.
    """
    forms = rule_forms(rules)
    check_rules(forms)
    concluded = dict.fromkeys(head[1] for head, _ in forms)
    given = [_text(f"?s {predicate} ?o", f"?s {predicate} ?o", graph) for predicate in concluded]
    return [*given, *(_of(form, concluded, graph) for form in forms)]


def _of(form: InferenceRule, concluded: Iterable[str], graph: str) -> str:
    head, body = form
    plain = [" ".join(atom) for atom in body if atom[1] not in concluded]
    inside = [" ".join(atom) for atom in body if atom[1] in concluded]
    parts = [*plain, *([f"GRAPH {graph} {{ {' . '.join(inside)} }}"] if inside else [])]
    return _text(" ".join(head), " . ".join(parts), graph)


def _text(head: str, body: str, graph: str) -> str:
    return f"INSERT {{ GRAPH {graph} {{ {head} }} }} WHERE {{ {body} }}"
