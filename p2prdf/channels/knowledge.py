"""The knowledge base of channels: published facts and all derived facts.

Facts are triples of numbers, as in the materialiser (:mod:`p2prdf.reasoning`). Queries and rules read the same
nested dictionaries, by predicate and then by subject or object; nothing is stored twice.

The ontology is fixed at the start and compiled to rules about data (:mod:`p2prdf.reasoning.instances`).
Published triples about the ontology are therefore refused: they would not have their meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from p2prdf.errors import Busy, DataRefused, LocalProtocolError
from p2prdf.reasoning import FOREVER, Change, Fact, Materialiser, Rule, RuleSet, Triple, instantiate, is_schema, owl_rl
from p2prdf.reasoning.facts import Facts

__all__ = ["GRAPH_TRIPLES_MAX", "KnowledgeBase", "Numbers", "check_graph", "check_pattern"]

GRAPH_TRIPLES_MAX: Final = 100_000
"""Bound on the statements of one published graph."""
TERMS_MAX: Final = 1 << 31
"""Bound on the number of distinct terms."""
_BUSY_SECONDS: Final = 60.0


class Numbers:
    """Canonical terms as numbers from 0, in the order of their arrival."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []

    def intern(self, text: str) -> int:
        """Return the number of a term, assigned on first use.  Raises Busy if there are too many."""
        found = self._numbers.get(text)
        if found is None:
            if len(self.texts) >= TERMS_MAX:
                raise Busy(f"the knowledge base is full: it holds {TERMS_MAX:,} terms", retry_after=_BUSY_SECONDS)
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def find(self, text: str) -> int | None:
        """Return the number of a term, None if it is unknown."""
        return self._numbers.get(text)

    def text(self, identifier: int) -> str:
        """Return the term of a number."""
        return self.texts[identifier]

    def is_literal(self, identifier: int) -> bool:
        """Return whether a number is that of a literal."""
        return self.texts[identifier].startswith('"')


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """A graph that was taken in: its statements, each once, and the facts that became true."""

    statements: tuple[Triple, ...]
    change: Change


class KnowledgeBase:
    """Base facts, rules, and derived facts, kept up to date."""

    def __init__(self, rules: Iterable[Rule] = (), facts: Iterable[Triple] = (), *, refuse_schema: bool = False):
        """``facts``: permanent facts besides the data; they are never deleted.

        ``refuse_schema``: refuse triples about classes and properties, because the rules belong to one fixed
        schema.
        """
        self.numbers = Numbers()
        self._closure = Materialiser(
            rules, self.numbers.intern, is_literal=self.numbers.is_literal, orders=("pso", "pos")
        )
        self._refuse_schema = refuse_schema
        self._lasting = {self._fact(triple): FOREVER for triple in facts}
        self._closure.step(0, self._lasting)

    @classmethod
    def of_ontology(cls, ontology: Iterable[Triple], rule_set: RuleSet | None = None) -> KnowledgeBase:
        """Return a knowledge base of an ontology, with its meaning by some rules (default: OWL 2 RL)."""
        instances = instantiate(owl_rl() if rule_set is None else rule_set, ontology)
        return cls(instances.rules, instances.facts, refuse_schema=True)

    def __len__(self) -> int:
        """Return the number of facts."""
        return len(self._closure)

    @property
    def facts(self) -> Facts:
        """All facts, in the orders ``pso`` and ``pos`` at least; read-only."""
        return self._closure.facts

    def triples(self) -> Iterator[Triple]:
        """Yield all facts."""
        text = self.numbers.text
        for (s, p, o), _ in self._closure:
            yield text(s), text(p), text(o)

    def is_explicit(self, triple: Triple) -> bool:
        """Return whether a triple is a base fact: published and not deleted since."""
        numbers = [self.numbers.find(term) for term in triple]
        s, p, o = (-1 if number is None else number for number in numbers)
        return self._closure.is_given((s, p, o))

    # --- changes ---------------------------------------------------------------------------------

    def add(self, graph: Iterable[Triple]) -> Published:
        """Take in a graph of canonical terms, with IRIs for blank nodes; parts may be known already.

        Raises DataRefused, before any change, for an invalid triple, a triple about the ontology, and too many
        triples.
        """
        statements = check_graph(graph, refuse_schema=self._refuse_schema)
        number = self.numbers.intern
        facts = {(number(s), number(p), number(o)): FOREVER for s, p, o in statements}
        return Published(statements, self._closure.step(0, facts))

    def remove(self, pattern: Triple) -> tuple[int, Change]:
        """Delete the base facts that match a pattern, and the facts derived from them alone.

        ``pattern``: canonical terms and variables (``?name``); a repeated variable matches equal terms. A
        matching derived fact stays while it follows from other facts. Returns the number of base facts and the
        change. Raises LocalProtocolError for an invalid pattern.
        """
        check_pattern(pattern)
        return self._take_back(self.matching(pattern))

    def remove_all(self, triples: Iterable[Triple]) -> tuple[int, Change]:
        """Delete those of some triples that are base facts; see :meth:`remove`."""
        find = self.numbers.find
        facts = [(find(s), find(p), find(o)) for s, p, o in triples]
        return self._take_back([(s, p, o) for s, p, o in facts if s is not None and p is not None and o is not None])

    def _take_back(self, facts: Iterable[Fact]) -> tuple[int, Change]:
        closure = self._closure
        gone = [fact for fact in facts if fact not in self._lasting and closure.is_given(fact)]
        return len(gone), closure.step(0, taken_back=gone)

    def matching(self, pattern: Triple) -> list[Fact]:
        """Return the facts that match a pattern."""
        numbers = [None if part.startswith("?") else self.numbers.find(part) for part in pattern]
        if any(number is None and not part.startswith("?") for number, part in zip(numbers, pattern, strict=True)):
            return []
        found = self._candidates(*numbers)
        repeated = [
            (one, other) for one in range(3) for other in range(one) if pattern[one][:1] == "?"
            if pattern[one] == pattern[other]
        ]  # fmt: skip
        return [fact for fact in found if all(fact[one] == fact[other] for one, other in repeated)]

    def _candidates(self, s: int | None, p: int | None, o: int | None) -> list[Fact]:
        orders = self.facts.orders
        predicates = list(orders["pso"]) if p is None else [p]
        found: list[Fact] = []
        for each in predicates:
            subjects, objects = orders["pso"].get(each, {}), orders["pos"].get(each, {})
            if s is not None:
                row = subjects.get(s, {})
                found += [(s, each, other) for other in row if o is None or other == o]
            elif o is not None:
                found += [(other, each, o) for other in objects.get(o, {})]
            else:
                found += [(one, each, other) for one, row in subjects.items() for other in row]
        return found

    def _fact(self, triple: Iterable[str]) -> Fact:
        s, p, o = map(self.numbers.intern, triple)
        return s, p, o


def check_graph(graph: Iterable[Triple], *, refuse_schema: bool) -> tuple[Triple, ...]:
    """Return the statements of a graph, each once.

    Raises DataRefused for an invalid triple, for a triple about an ontology (if that is refused), and for too
    many statements.
    """
    statements = tuple(dict.fromkeys(graph))
    if len(statements) > GRAPH_TRIPLES_MAX:
        raise DataRefused(f"a graph of {len(statements):,} statements, more than {GRAPH_TRIPLES_MAX:,}")
    for number, statement in enumerate(statements, 1):
        if not _is_sound(statement) or (refuse_schema and is_schema(statement)):
            _check(statement, number, refuse_schema=refuse_schema)
    return statements


def _is_sound(statement: tuple[str, ...]) -> bool:
    """Return True for nearly all valid triples of canonical terms: a quick check before ``_check``.

    It runs for each published statement; ``_check``, which finds the error, takes several times as long.
    """
    if len(statement) != 3:
        return False
    s, p, o = statement
    if not (type(s) is type(p) is type(o) is str and s[:1] == p[:1] == "<" and s[-1:] == p[-1:] == ">"):
        return False
    sound = o.rfind('"') > 0 if o[:1] == '"' else len(o) > 2 and o[0] == "<" and o[-1] == ">"
    return sound and len(s) > 2 and len(p) > 2


def _check(statement: tuple[str, ...], number: int, *, refuse_schema: bool) -> None:
    if len(statement) != 3 or not all(isinstance(term, str) for term in statement):
        raise DataRefused(f"statement {number} of a graph is not a triple of terms: {_excerpt(statement)}")
    s, p, o = statement
    for term, what in ((s, "subject"), (p, "predicate")):
        if not _is_iri(term):
            raise DataRefused(f"the {what} of statement {number} of a graph is not an IRI: {_excerpt(term)}")
    if not (_is_iri(o) or (o.startswith('"') and o.rfind('"') > 0)):
        raise DataRefused(f"the object of statement {number} of a graph is not a canonical term: {_excerpt(o)}")
    if refuse_schema and is_schema((s, p, o)):
        reason = "is about classes or properties: the ontology is fixed at the start"
        raise DataRefused(f"statement {number} of a graph {reason}: {_excerpt(statement)}")


def check_pattern(pattern: Triple) -> None:
    """Raise LocalProtocolError for an invalid triple pattern."""
    if len(pattern) != 3 or not all(isinstance(part, str) for part in pattern):
        raise LocalProtocolError(f"a pattern has three terms or variables: {_excerpt(pattern)}")
    for part in pattern:
        if not (_is_iri(part) or part.startswith('"') or (part.startswith("?") and len(part) > 1)):
            raise LocalProtocolError(f"neither a canonical term nor a variable: {_excerpt(part)} in a pattern")


def _is_iri(term: str) -> bool:
    return len(term) > 2 and term[0] == "<" and term[-1] == ">"


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
