"""Graphs derived by recursive rules: the closure of the default graph, kept in a named graph.

A derived CONSTRUCT (:mod:`p2prdf.client.derived`) never reads its own results: once published, they would
support each other. Recursive rules therefore run here, in the client. It subscribes to the predicates in the
rules' bodies, computes the closure, and publishes the derived triples that are not base facts. A deletion also
deletes the triples that no longer follow, cycles included (:class:`p2prdf.reasoning.Materialiser`).

As with other derived graphs, the client stores no state: a restart computes the closure again and compares.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from p2prdf.client.derived import Answered, Derived, keep
from p2prdf.errors import LocalProtocolError
from p2prdf.rdf.terms import is_object_only
from p2prdf.reasoning import FOREVER, Materialiser, Rule, predicates_of

if TYPE_CHECKING:
    from p2prdf.client.client import Client
    from p2prdf.client.pieces import Triple
    from p2prdf.client.solutions import Solution
    from p2prdf.reasoning import Fact

__all__ = ["PREDICATES_MAX", "derive_by_rules"]

PREDICATES_MAX: Final = 32
"""Bound on the predicates in the bodies of all rules; each one is a leaf of the standing query."""

_SAME_AS: Final = "<http://www.w3.org/2002/07/owl#sameAs>"


async def derive_by_rules(
    client: Client, rules: Sequence[Rule], graph: str, *, facts: Iterable[Triple], unsaid: Iterable[str],
    algorithm: str, timeout_seconds: float, settled: bool | None,
) -> AsyncGenerator[Derived, None]:  # fmt: skip
    """Keep derived triples in a graph; see :meth:`p2prdf.client.Client.derive_by_rules`."""
    goal_of = partial(_Closure, rules, list(facts), frozenset(unsaid))
    steps = keep(
        client, _query(rules), graph, goal_of, algorithm=algorithm, timeout_seconds=timeout_seconds, settled=settled
    )
    async with contextlib.aclosing(steps):
        async for step in steps:
            yield step


def _query(rules: Sequence[Rule]) -> str:
    """Return the query for all triples that the bodies of the rules can match."""
    if not rules:
        raise LocalProtocolError("there are no rules")
    predicates = predicates_of(rules)
    if predicates is None:
        first = next(rule for rule in rules if any(atom.p.startswith("?") for atom in rule.body))
        raise LocalProtocolError(f"{first}: a predicate of its body is a variable, so it could match any triple")
    if len(predicates) > PREDICATES_MAX:
        raise LocalProtocolError(f"the rules' bodies have {len(predicates)} predicates, more than {PREDICATES_MAX}")
    parts = (f"{{ ?s {p} ?o BIND({p} AS ?p) }}" for p in sorted(predicates))
    return f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ {' UNION '.join(parts)} }}"


class _Closure:
    """The goal of a graph that holds the closure of a query's results, without the results themselves."""

    def __init__(self, rules: Sequence[Rule], facts: Sequence[Triple], unsaid: frozenset[str], held: Iterable[Triple]):
        self._unsaid = unsaid
        self._terms: list[str] = []
        self._numbers: dict[str, int] = {}
        self._all = Materialiser(rules, self._number, is_literal=lambda number: is_object_only(self._terms[number]))
        self._all.step(0, dict.fromkeys(map(self._fact, facts), FOREVER))
        self._facts = frozenset(facts)
        self._held = set(held)
        self._touched: dict[Triple, None] = dict.fromkeys([*self._held, *(self._triple(fact) for fact, _ in self._all)])
        self._answered = Answered()
        self._given: set[Triple] = set()

    def take(self, solutions: Iterable[Solution]) -> None:
        self._answered.take(solutions)

    def due(self) -> tuple[list[Triple], list[Triple]]:
        self._step()
        missing = [each for each in self._touched if each not in self._held and self._follows(each)]
        return missing, [each for each in self._touched if each in self._held and not self._follows(each)]

    def reached(self) -> None:
        for each in self._touched:
            if self._follows(each):
                self._held.add(each)
            else:
                self._held.discard(each)
        self._touched.clear()

    def _step(self) -> None:
        """Update the closure with the changed results."""
        answered, given = self._answered, self._given
        come = [each for each in answered.touched if each in answered and each not in given]
        gone = [each for each in answered.touched if each not in answered and each in given]
        back = [self._fact(each) for each in gone if each not in self._facts]
        change = self._all.step(0, dict.fromkeys(map(self._fact, come), FOREVER), back)
        given.update(come)
        given.difference_update(gone)
        answered.forget_touched()
        self._touched |= dict.fromkeys([*come, *gone, *map(self._triple, [*change.added, *change.removed])])

    def _follows(self, triple: Triple) -> bool:
        s, p, o = triple
        if p == _SAME_AS and s == o:  # every term is the same as itself; rules for functional properties derive it
            return False
        if not self._unsaid.isdisjoint(triple):
            return False
        return triple not in self._given and self._all.label(self._fact(triple)) is not None

    def _number(self, term: str) -> int:
        number = self._numbers.setdefault(term, len(self._terms))
        if number == len(self._terms):
            self._terms.append(term)
        return number

    def _fact(self, triple: Triple) -> Fact:
        s, p, o = map(self._number, triple)
        return s, p, o

    def _triple(self, fact: Fact) -> Triple:
        s, p, o = (self._terms[number] for number in fact)
        return s, p, o
