"""The shared state of all interests in one dataset: terms, triples, selections and relations, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from p2prdf.interest.changeset import Triple
from p2prdf.interest.expression import Pattern
from p2prdf.interest.pattern_index import PatternIndex
from p2prdf.interest.relation import Columns, Fact, Key, Relation, Selection, Terms, Test, identity_of
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.query import Filter
from p2prdf.rdf.standing.syntax import is_variable

if TYPE_CHECKING:
    from p2prdf.interest.evaluation import Evaluation
    from p2prdf.interest.node import Node

__all__ = ["Holdings"]


class Holdings:
    """The triples that match some pattern of some interest, and their changes in this round."""

    def __init__(self, matches_max: int):
        self.matches_max = matches_max
        self.terms = Terms()
        self.facts: dict[Fact, int] = {}
        """By triple, the number of interests that have it in their targets."""
        self.owners: dict[Node, Evaluation] = {}
        self.touched: dict[Relation, None] = {}
        self.selected: dict[Selection, None] = {}
        """Selections that gained or lost triples in this round."""
        self.gone: dict[Fact, int] = {}
        """Triples that left in this round, with the number of targets that had them; their terms keep their numbers."""
        self.new: dict[Fact, None] = {}
        """Triples that came in this round."""
        self._index = PatternIndex()
        self._selections: dict[tuple[object, ...], Selection] = {}
        self._relations: dict[tuple[object, ...], Relation] = {}

    # --- selections and relations --------------------------------------------------------------------

    def cost(self, pattern: Pattern) -> tuple[int, ...]:
        """Return the expected cost of a pattern, for comparison: by its constants, then by the present triples.

        A pattern that many interests share is a bad root: each would look at all its triples.
        """
        s, p, o = (not is_variable(part) for part in pattern)
        rank = 0 if s else 1 if p and o else 2 if o else 3 if p else 4
        known = self._selections.get(identity_of(pattern))
        return (rank, 0, 0) if known is None else (rank, sum(each.users for each in known.relations), len(known.facts))

    def relation(self, pattern: Pattern, columns: Columns, tests: Sequence[tuple[Filter, Columns]]) -> Relation:
        """Return the relation of a pattern and count one more use; a new one is filled with the present triples."""
        identity = (identity_of(pattern), columns, tuple((each.text, at) for each, at in tests))
        relation = self._relations.get(identity)
        if relation is None:
            selection = self._selection(pattern)
            made = tuple(Test(compile_filter(each), at) for each, at in tests)
            relation = self._relations[identity] = Relation(identity, selection, columns, made)
            for fact in selection.facts:
                relation.put(fact, self.triple(fact))
            relation.touched.clear()  # the interest is new, not the triples
            selection.relations.append(relation)
        relation.users += 1
        return relation

    def _selection(self, pattern: Pattern) -> Selection:
        identity = identity_of(pattern)
        found = self._selections.get(identity)
        if found is None:
            found = self._selections[identity] = Selection(pattern)
            self._index.add(found)
            for fact in self.facts:
                if found.matches(self.triple(fact)):
                    found.facts[fact] = None
        return found

    def release(self, relations: Iterable[Relation]) -> None:
        """Release one use of each relation; the last one removes the triples that no interest needs."""
        for relation in relations:
            relation.users -= 1
            if relation.users:
                continue
            selection = relation.selection
            selection.relations.remove(relation)
            del self._relations[relation.identity]
            if not selection.relations:
                del self._selections[selection.identity]
                self._index.remove(selection)
                for fact in selection.facts:
                    if fact in self.facts and not self._index.matching(self.triple(fact)):
                        self.gone[fact] = self.facts.pop(fact)

    # --- triples ---------------------------------------------------------------------------------------

    def triple(self, fact: Fact) -> Triple:
        """Return a triple in canonical terms; also one that left in this round."""
        text = self.terms.text
        s, p, o = fact
        return text(s), text(p), text(o)

    def find(self, triple: Triple) -> Fact | None:
        """Return a triple in numbers, None if it is not held."""
        find = self.terms.find
        s, p, o = find(triple[0]), find(triple[1]), find(triple[2])
        if s is None or p is None or o is None:
            return None
        return (s, p, o) if (s, p, o) in self.facts else None

    def begin(self) -> None:
        """Begin a round: forget the changes of the last one."""
        for relation in self.touched:
            relation.touched.clear()
        for selection in self.selected:
            selection.added.clear()
            selection.removed.clear()
        release = self.terms.release
        for fact in self.gone:
            for number in fact:
                release(number)
        self.touched.clear()
        self.selected.clear()
        self.gone.clear()
        self.new.clear()

    def put(self, triple: Triple) -> Fact | None:
        """Add a triple that some pattern matches and that is not held; return it if it was added."""
        selections = self._index.matching(triple)
        if not selections or self.find(triple) is not None:
            return None
        use = self.terms.use
        fact = (use(triple[0]), use(triple[1]), use(triple[2]))
        self.facts[fact] = 0
        self.new[fact] = None
        for selection in selections:
            selection.facts[fact] = None
            selection.added.append(fact)
            self.selected[selection] = None
            for relation in selection.relations:
                if relation.put(fact, triple):
                    self.touched[relation] = None
        return fact

    def drop(self, fact: Fact, triple: Triple, *, given_up: bool = False) -> None:
        """Remove a held triple; ``given_up``: for a bound."""
        self.gone[fact] = self.facts.pop(fact)
        for selection in self._index.matching(triple):
            del selection.facts[fact]
            selection.removed.append(fact)
            selection.given_up += given_up
            self.selected[selection] = None
            for relation in selection.relations:
                if relation.drop(fact):
                    self.touched[relation] = None

    def nothing_given_up(self) -> None:
        """Record that all triples are held."""
        for selection in self._selections.values():
            selection.given_up = 0

    def concerned(self) -> dict[Evaluation, dict[Node, dict[Relation, list[Key]]]]:
        """Return the nodes that the keys touched in this round concern, by interest."""
        found: dict[Evaluation, dict[Node, dict[Relation, list[Key]]]] = {}
        for relation in self.touched:
            by_node: dict[Node, list[Key]] = {node: list(relation.touched) for node in relation.roots}
            for watch in relation.watches.values():
                wanted, joint_of = watch.wanted, watch.joint_of
                for key in relation.touched:
                    for node in wanted.get(joint_of(key), ()):
                        by_node.setdefault(node, []).append(key)
            for node, keys in by_node.items():
                found.setdefault(self.owners[node], {}).setdefault(node, {})[relation] = keys
        return found

    def __iter__(self) -> Iterator[Triple]:
        """Yield all triples."""
        return map(self.triple, self.facts)
