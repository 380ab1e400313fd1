"""Rules as texts that are left standing in an overlay, one for each (:mod:`p2prdf.rdf.standing.insertion`).

What they conclude is in one named graph.  A predicate that some rule concludes is read there by all of them, so what
is published of it in the default graph is concluded, too, from itself.  All other predicates are read in the default
graph.
"""

from __future__ import annotations

from collections.abc import Iterable

from p2prdf.rdf.algebra import InferenceRule
from p2prdf.rdf.standing.inference import check_rules
from p2prdf.reasoning.rule import Rule
from p2prdf.reasoning.ruled_query import rule_forms

__all__ = ["insertions"]


def insertions(rules: Iterable[Rule], graph: str) -> list[str]:
    """Return the texts of rules that conclude into a graph, in order, each once.

    ``graph``: an IRI, canonical.  Raises QueryRefused for rules that no query may bring: a predicate that is a
    variable, a body too long.
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
