"""Queries with rules of their own.

::

    PREFIX : <http://example.org/>
    RULES {
      ?x :isIn ?z :- ?x :isIn ?y , ?y :isIn ?z .
    }
    SELECT ?x ?y { ?x :isIn ?y }

The block stands between the declarations, which apply to both, and the query; its rules are those of
:mod:`p2prdf.reasoning.rule_text`.  It is an extension of SPARQL.  Other queries do not see the conclusions, and equal
queries with equal rules are evaluated once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from p2prdf.rdf import tokens
from p2prdf.rdf.algebra import Form, InferenceRule, StandingQuery
from p2prdf.rdf.code_points import as_written, without_mark
from p2prdf.rdf.execution import NO_EXECUTION, Execution
from p2prdf.rdf.standing.descriptions import Description, parse_description
from p2prdf.rdf.standing.inference import canonical_rules
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.tokens import Token
from p2prdf.reasoning.rule import Rule
from p2prdf.reasoning.rule_text import parse_rules, write_rules

__all__ = [
    "RULED_BYTES_MAX", "parse_ruled", "parse_ruled_description", "result_form", "rule_forms", "with_rules",
]  # fmt: skip

RULED_BYTES_MAX: Final = 256 << 10
"""Longest text of a query with its rules, in UTF-8 bytes."""
_FIRST: Final = frozenset(("PREFIX", "BASE", "RULES"))


def rule_forms(rules: Iterable[Rule]) -> tuple[InferenceRule, ...]:
    """Return rules in the form of queries: without names, variables numbered, in order."""
    return canonical_rules(
        (_parts(rule.head), tuple(map(_parts, rule.body))) for rule in rules
    )  # fmt: skip


def _parts(atom: Iterable[str]) -> tuple[str, str, str]:
    s, p, o = atom
    return s, p, o


def with_rules(query: str, rules: Iterable[Rule]) -> str:
    """Return the text of a query with rules; the query must not contain any itself."""
    spelled = write_rules(Rule(rule.head, rule.body) for rule in rules)
    return f"RULES {{\n{spelled}}}\n{without_mark(query)}" if spelled else query


@as_written
def parse_ruled(text: str, *, ordered: bool = False, execution: Execution = NO_EXECUTION) -> StandingQuery:
    """Return the standing query of a text, with or without rules; ``ordered`` and ``execution`` as in parse_query.

    Raises QueryRefused, with the construct and its place in the text, as :func:`parse_query` and :func:`parse_rules`
    do.
    """
    if "rules" not in text.lower():
        return parse_query(text, ordered=ordered, execution=execution)
    block = _block(text, tokens.scan(text, RULED_BYTES_MAX))
    if block is None:
        return parse_query(text, ordered=ordered, execution=execution)
    start, opened, closed = block
    rules = parse_rules(text[:start] + _nothing(text[start : opened + 1]) + text[opened + 1 : closed])
    without = text[:start] + _nothing(text[start : closed + 1]) + text[closed + 1 :]
    return parse_query(without, ordered=ordered, rules=rule_forms(rules), execution=execution)


@as_written
def parse_ruled_description(text: str) -> Description | None:
    """Return the DESCRIBE query of a text, with or without rules; None for a text of another form.

    Rules concern its WHERE only.  Raises QueryRefused as :func:`parse_ruled` does.
    """
    if "rules" not in text.lower() or "describe" not in text.lower():
        return parse_description(text)
    block = _block(text, tokens.scan(text, RULED_BYTES_MAX))
    if block is None:
        return parse_description(text)
    start, _, closed = block
    found = parse_description(text[:start] + _nothing(text[start : closed + 1]) + text[closed + 1 :])
    if found is None or not found.query:
        return found
    lines = len(_nothing(text[start : closed + 1]))
    return dataclasses.replace(found, query=text[: closed + 1] + found.query[start + lines :])


def result_form(text: str) -> Form:
    """Return the form of a one-time query by its result: that of DESCRIBE is a graph, as for CONSTRUCT.

    Raises QueryRefused for a query that is malformed or cannot be evaluated once.
    """
    return Form.CONSTRUCT if parse_ruled_description(text) else parse_ruled(text, ordered=True).form


def _block(text: str, found: list[Token]) -> tuple[int, int, int] | None:
    """Return the places of RULES and of its braces; None if there is none before the query."""
    for number, token in enumerate(found):
        word = token.text.upper() if token.kind == "word" else ""
        if word == "RULES":
            if number + 1 == len(found) or found[number + 1].text != "{":
                raise tokens.refusal(text, token.at, "RULES", "rules stand in braces behind it")
            return token.at, found[number + 1].at, _closing(found[number + 1 :])
        if word and word not in _FIRST:
            return None
    return None


def _closing(found: list[Token]) -> int:
    """Return the place of the brace that closes the first one; the scanner has checked that there is one."""
    depth = 0
    for token in found:
        depth += (token.text == "{") - (token.text == "}") if token.kind == "mark" else 0
        if not depth:
            return token.at
    raise AssertionError("brackets were not checked")


def _nothing(text: str) -> str:
    """Return white space with the line breaks and the last column of a text."""
    lines = text.split("\n")
    return "\n" * (len(lines) - 1) + " " * len(lines[-1])
