"""Full-text conditions as an index of waiting rows.

Queries with different full-text conditions have different plans, because conditions are filters and filters belong to
plans.  A hundred thousand such queries about one predicate are as many rows under one key, and a new triple would be
joined with each of them although nearly all filters reject it.

A row with a full-text condition on the object of the triple it waits for is filed by that condition.  A triple meets
only the rows filed by a condition that its object's text satisfies.  Up to ``FEW_MAX`` conditions under a key are
tried one by one; for more there is an index of their words (:class:`p2prdf.text.FullTextIndex`).

The invariant: *a filter would have rejected every row that a triple does not meet*, independently of the triple's age
and end, for its object is constant.  All filters are still evaluated on the rows that it meets, so the index changes
the cost and never the solutions.

In the other direction nothing changes: a new row meets all triples of its key, and its filter decides on each.
Rejected: an index over the stored texts, which would take as much memory as the texts.

Of several conditions on the object, the one with most required words files the row.  Conditions within ``||`` or
``!``, or on a variable bound by an earlier pattern, are ordinary filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from p2prdf.rdf.fulltext import FULL_TEXT, Condition, Text, condition_holds, recent_text_of, sole_condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.rdf.query import Plan, Step
    from p2prdf.text import FullTextIndex, TextQuery

__all__ = ["FEW_MAX", "NO_CONDITION", "FullText"]

FEW_MAX: Final = 8
"""Number of conditions under one key that are tried one by one: about the cost of one index look-up."""
NO_CONDITION: Final = -1


class FullText:
    """The conditions of a peer's tables, each with a number.  Imports :mod:`p2prdf.text` for the first of them."""

    def __init__(self, dictionary: TermDictionary):
        self._dictionary = dictionary
        self._conditions: list[Condition | None] = []
        """The conditions by number; None: a free number."""
        self._numbers: dict[str, int] = {}
        self._uses: list[int] = []
        """By number of a condition, how many steps have it."""
        self._free: list[int] = []

    def use(self, plan: Plan, step: Step) -> int:
        """Return the number of the condition that files the rows waiting at a step; NO_CONDITION if there is none.

        :meth:`release` it when the step is released.

        A step has the filters that it is the first to decide, so a condition on its object concerns the variable it
        binds.  Raises QueryRefused if a filter contains an invalid condition.
        """
        texts = [plan.filters[each].text for each in step.filters]
        calls = [sole_condition(text) for text in texts if text.startswith(FULL_TEXT)]
        found = [call[1] for call in calls if call is not None and call[0] == step.pattern[2]]
        if not found:
            return NO_CONDITION
        condition = max(found, key=_asked)
        number = self._numbers.get(str(condition))
        if number is None:
            if not self._free:
                self._free.append(len(self._conditions))
                self._conditions.append(None)
                self._uses.append(0)
            number = self._numbers[str(condition)] = self._free.pop()
            self._conditions[number] = condition
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        """Release a condition for one step; the last one frees its number."""
        if number == NO_CONDITION:
            return
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[str(self._conditions[number])]
            self._conditions[number] = None
            self._free.append(number)

    def _condition(self, number: int) -> Condition:
        condition = self._conditions[number]
        assert condition is not None, "a step has it"
        return condition

    def text(self, term: int) -> Text | None:
        """Return the text of a term; None if the term is not a literal, so no condition holds."""
        return recent_text_of(self._dictionary.text(term)) if self._dictionary.literals[term] else None

    def holds(self, number: int, text: Text) -> bool:
        """Return whether a condition holds for a text."""
        return condition_holds(self._condition(number), text)

    @staticmethod
    def satisfied(index: FullTextIndex, text: Text) -> list[int]:
        """Return the names, in an index, of the conditions that hold for a text, ascending."""
        from p2prdf.text import Publication

        return index.match(Publication.of_text(text))

    def index(self, waiting: Iterable[tuple[int, int]]) -> FullTextIndex:
        """Return an index of conditions, given as pairs of name and condition number."""
        from p2prdf.text import FullTextIndex

        index = FullTextIndex()
        for name, number in waiting:
            index.add(name, self.query(number))
        return index

    def query(self, number: int) -> TextQuery:
        """Return a condition as an entry of an index: one pattern, in which the key has decided all but the text."""
        from p2prdf.text import ANY, TextPattern, TextQuery

        return TextQuery((TextPattern(ANY, ANY, "?text", self._condition(number)),))


def _asked(condition: Condition) -> int:
    """Return the minimum number of words that a text must contain."""
    from p2prdf.text.alternatives import alternatives, count, required
    from p2prdf.text.index import PATHS_MAX

    choices = alternatives(condition) if count(condition) <= PATHS_MAX else (required(condition),)
    return min(len(each.words) + len(each.globs) for each in choices)
