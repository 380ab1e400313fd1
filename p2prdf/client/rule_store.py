"""Rules stored in the overlay by name, for use in queries.

They are triples of a graph of their own: the name, ``<urn:p2prdf:rule>``, and the text of one rule. The overlay
stores and replicates them like all triples. A standing query keeps the rules of its registration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from p2prdf.errors import LocalProtocolError
from p2prdf.rdf import terms
from p2prdf.reasoning import Rule, parse_rules, write_rules

if TYPE_CHECKING:
    from p2prdf.client.client import Client

__all__ = ["RULES_GRAPH", "add_rules", "named_rules", "remove_rules"]

RULES_GRAPH: Final = "<urn:p2prdf:rules>"
_RULE: Final = "<urn:p2prdf:rule>"
_ALL: Final = f"SELECT ?name ?rule {{ GRAPH {RULES_GRAPH} {{ ?name {_RULE} ?rule }} }}"


def _triple(name: str, rule: Rule) -> tuple[str, str, str]:
    return name, _RULE, terms.literal(write_rules([rule]).strip())


async def add_rules(client: Client, name: str, rules: Iterable[Rule]) -> int:
    """Store rules under a name; see :meth:`p2prdf.client.Client.add_rules`."""
    made = [_triple(name, rule) for rule in rules]
    if not made:
        raise LocalProtocolError("there are no rules")
    await client.publish(made, graph=RULES_GRAPH)
    return len(made)


async def named_rules(client: Client, *, timeout_seconds: float) -> dict[str, tuple[Rule, ...]]:
    """Return all stored rules, by name; see :meth:`p2prdf.client.Client.rules`."""
    found: dict[str, list[Rule]] = {}
    result = await client.query(_ALL, timeout_seconds=timeout_seconds)
    for name, text in result.rows:
        found.setdefault(str(name), []).extend(parse_rules(terms.lexical(str(text))))
    return {name: tuple(sorted(found[name], key=str)) for name in sorted(found)}


async def remove_rules(client: Client, name: str, *, timeout_seconds: float) -> int:
    """Delete the rules of a name; see :meth:`p2prdf.client.Client.remove_rules`."""
    kept = (await named_rules(client, timeout_seconds=timeout_seconds)).get(name, ())
    if kept:
        await client.retract([_triple(name, rule) for rule in kept], graph=RULES_GRAPH)
    return len(kept)
