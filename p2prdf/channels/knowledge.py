"""The knowledge base of channels: what was published, and all that follows.

Facts are triples of numbers, as the materialiser has them (:mod:`p2prdf.reasoning`).  Queries read the same nested
dictionaries as its rules, by predicate and then by subject or object; nothing is held twice.

An ontology is known from the beginning and comes to rules of data alone (:mod:`p2prdf.reasoning.instances`).  What is
published must therefore not be about the ontology: such triples are refused, for they would not have their meaning.
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
"""Most statements of one published graph."""
TERMS_MAX: Final = 1 << 31
"""Most terms that are told apart."""
_BUSY_SECONDS: Final = 60.0


class Numbers:
    """Canonical terms as numbers from 0, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []

    def intern(self, text: str) -> int:
        """Return the number of a term, taking it in if new.  Raises Busy if there are too many."""
        found = self._numbers.get(text)
        if found is None:
            if len(self.texts) >= TERMS_MAX:
                raise Busy(f"{TERMS_MAX:,} terms are held, and no more are taken in", retry_after=_BUSY_SECONDS)
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def find(self, text: str) -> int | None:
        """Return the number of a term, None if it never came."""
        return self._numbers.get(text)

    def text(self, identifier: int) -> str:
        """Return the term of a number."""
        return self.texts[identifier]

    def is_literal(self, identifier: int) -> bool:
        """Tell whether a number is that of a literal."""
        return self.texts[identifier].startswith('"')


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """A graph that was taken in: its statements, each once, and what came to hold by it."""

    statements: tuple[Triple, ...]
    change: Change


class KnowledgeBase:
    """Explicit facts, rules, and what follows, kept up to date."""

    def __init__(self, rules: Iterable[Rule] = (), facts: Iterable[Triple] = (), *, refuse_schema: bool = False):
        """``facts``: what holds beside the data, and is not deleted.

        ``refuse_schema``: triples of a schema's kind are refused, for the rules are those of one schema.
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
        """Return a knowledge base with an ontology and what it means by some rules: those of OWL 2 RL, if not given."""
        instances = instantiate(owl_rl() if rule_set is None else rule_set, ontology)
        return cls(instances.rules, instances.facts, refuse_schema=True)

    def __len__(self) -> int:
        """Return how many facts hold."""
        return len(self._closure)

    @property
    def facts(self) -> Facts:
        """All that holds, in the orders ``pso`` and ``pos`` at least: to be read."""
        return self._closure.facts

    def triples(self) -> Iterator[Triple]:
        """Yield all that holds."""
        text = self.numbers.text
        for (s, p, o), _ in self._closure:
            yield text(s), text(p), text(o)

    def is_explicit(self, triple: Triple) -> bool:
        """Tell whether a triple was published and not deleted since, whatever follows."""
        numbers = [self.numbers.find(term) for term in triple]
        s, p, o = (-1 if number is None else number for number in numbers)
        return self._closure.is_given((s, p, o))

    # --- changes ---------------------------------------------------------------------------------

    def add(self, graph: Iterable[Triple]) -> Published:
        """Take in a graph of canonical terms, blank nodes as IRIs that stand for them; it may be there in part.

        Raises DataRefused, before anything is taken in, for what is no triple, is about the ontology, or is too much.
        """
        statements = check_graph(graph, refuse_schema=self._refuse_schema)
        number = self.numbers.intern
        facts = {(number(s), number(p), number(o)): FOREVER for s, p, o in statements}
        return Published(statements, self._closure.step(0, facts))

    def remove(self, pattern: Triple) -> tuple[int, Change]:
        """Remove the explicit facts that match a pattern, with what followed from them alone; return how many.

        ``pattern``: canonical terms and variables (``?name``); one that stands twice takes the same term both times.
        What is inferred and matches stays while it follows from what is left.  Raises LocalProtocolError for what is
        no pattern.
        """
        check_pattern(pattern)
        return self._take_back(self.matching(pattern))

    def remove_all(self, triples: Iterable[Triple]) -> tuple[int, Change]:
        """Remove those of some triples that are explicit, as :meth:`remove` does."""
        find = self.numbers.find
        facts = [(find(s), find(p), find(o)) for s, p, o in triples]
        return self._take_back([(s, p, o) for s, p, o in facts if s is not None and p is not None and o is not None])

    def _take_back(self, facts: Iterable[Fact]) -> tuple[int, Change]:
        closure = self._closure
        gone = [fact for fact in facts if fact not in self._lasting and closure.is_given(fact)]
        return len(gone), closure.step(0, taken_back=gone)

    def matching(self, pattern: Triple) -> list[Fact]:
        """Return the facts that hold and match a pattern."""
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

    Raises DataRefused for what is no triple of canonical terms, is about an ontology (if that is refused), or is too
    much.
    """
    statements = tuple(dict.fromkeys(graph))
    if len(statements) > GRAPH_TRIPLES_MAX:
        raise DataRefused(f"a graph of {len(statements):,} statements: at most {GRAPH_TRIPLES_MAX:,} are published")
    for number, statement in enumerate(statements, 1):
        if not _is_sound(statement) or (refuse_schema and is_schema(statement)):
            _check(statement, number, refuse_schema=refuse_schema)
    return statements


def _is_sound(statement: tuple[str, ...]) -> bool:
    """Tell of nearly every statement that is a triple of canonical terms that it is one: each published one is asked
    about, and ``_check``, which knows what is wrong, takes several times as long."""
    if len(statement) != 3:
        return False
    s, p, o = statement
    if not (type(s) is type(p) is type(o) is str and s[:1] == p[:1] == "<" and s[-1:] == p[-1:] == ">"):
        return False
    sound = o.rfind('"') > 0 if o[:1] == '"' else len(o) > 2 and o[0] == "<" and o[-1] == ">"
    return sound and len(s) > 2 and len(p) > 2


def _check(statement: tuple[str, ...], number: int, *, refuse_schema: bool) -> None:
    if len(statement) != 3 or not all(isinstance(term, str) for term in statement):
        raise DataRefused(f"statement {number} of a graph is no triple of terms: {_excerpt(statement)}")
    s, p, o = statement
    for term, what in ((s, "subject"), (p, "predicate")):
        if not _is_iri(term):
            raise DataRefused(f"the {what} of statement {number} of a graph is no IRI: {_excerpt(term)}")
    if not (_is_iri(o) or (o.startswith('"') and o.rfind('"') > 0)):
        raise DataRefused(f"the object of statement {number} of a graph is no canonical term: {_excerpt(o)}")
    if refuse_schema and is_schema((s, p, o)):
        reason = "is about classes or properties: the ontology is given at the start and stays"
        raise DataRefused(f"statement {number} of a graph {reason}: {_excerpt(statement)}")


def check_pattern(pattern: Triple) -> None:
    """Raise LocalProtocolError for what is no pattern of a triple."""
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
