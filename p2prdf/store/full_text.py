"""Full-text conditions in front of the rows that wait.

The problem.  Queries that differ in their full-text conditions have plans of their own, for conditions are in filters
and filters in plans.  A hundred thousand of them about one predicate are as many rows under one key, and a triple that
comes would be joined with each of them, only for nearly all of their filters to be false.

The idea.  A row whose filters have a full-text condition on the very object that the triple it waits for brings is
filed by that condition.  Of the conditions that wait under a key, a triple is told which its object's text satisfies,
and meets their rows alone.  Up to ``FEW_MAX`` conditions are tried one by one; more are found by what is in the text
(:class:`p2prdf.text.FullTextIndex`).  Rows with equal conditions are found together, however many they are.

The invariant: *what a triple does not meet are rows that one of their filters would have kept from it*, however old
the triple is and whether it is going on or over, for its object is the same all that time.  All filters are asked of
what it meets, as without any of this: what is found here decides about time, never about answers.

The other way stays as it is: a row that comes, and one that is joined again, has one condition and meets all triples
of its key, which its filter looks at one by one.  An index over the texts held would make that faster, and take as much
memory as the texts.

Of several conditions on the object the one that asks for most words is the one to file by.  What is within ``||`` or
``!`` or about a variable that an earlier pattern binds is a filter like others.
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
"""Conditions under one key that are tried one by one: about as many as finding one takes."""
NO_CONDITION: Final = -1


class FullText:
    """The conditions of a peer's tables, each with a number.

    Loads :mod:`p2prdf.text` for the first of them.
    """

    def __init__(self, dictionary: TermDictionary):
        self._dictionary = dictionary
        self._conditions: list[Condition] = []
        self._numbers: dict[str, int] = {}

    def condition_of(self, plan: Plan, step: Step) -> int:
        """Return the number of the condition that rows waiting at a step are filed by, NO_CONDITION if there is none.

        A step has the filters that it is the first to decide, so a condition on its object is about what it binds.
        Raises QueryRefused if a filter has something for a condition that is none.
        """
        texts = [plan.filters[each].text for each in step.filters]
        calls = [sole_condition(text) for text in texts if text.startswith(FULL_TEXT)]
        found = [call[1] for call in calls if call is not None and call[0] == step.pattern[2]]
        if not found:
            return NO_CONDITION
        condition = max(found, key=_asked)
        number = self._numbers.setdefault(str(condition), len(self._conditions))
        if number == len(self._conditions):
            self._conditions.append(condition)
        return number

    def text(self, term: int) -> Text | None:
        """Return the text of a term; None if it has none, so that no condition holds."""
        return recent_text_of(self._dictionary.text(term)) if self._dictionary.literals[term] else None

    def holds(self, number: int, text: Text) -> bool:
        """Tell whether a condition holds of a text."""
        return condition_holds(self._conditions[number], text)

    @staticmethod
    def satisfied(index: FullTextIndex, text: Text) -> list[int]:
        """Return what an index calls the conditions that hold of a text, ascending."""
        from p2prdf.text import Publication

        return index.match(Publication.of_text(text))

    def index(self, waiting: Iterable[tuple[int, int]]) -> FullTextIndex:
        """Return an index that holds conditions: by what they are to be called, and their numbers."""
        from p2prdf.text import FullTextIndex

        index = FullTextIndex()
        for name, number in waiting:
            index.add(name, self.query(number))
        return index

    def query(self, number: int) -> TextQuery:
        """Return a condition as what an index holds: one pattern, of which the key has decided all but the text."""
        from p2prdf.text import ANY, TextPattern, TextQuery

        return TextQuery((TextPattern(ANY, ANY, "?text", self._conditions[number]),))


def _asked(condition: Condition) -> int:
    """Return how many words a text has to have at least."""
    from p2prdf.text.alternatives import alternatives, count, required
    from p2prdf.text.index import PATHS_MAX

    choices = alternatives(condition) if count(condition) <= PATHS_MAX else (required(condition),)
    return min(len(each.words) + len(each.globs) for each in choices)
