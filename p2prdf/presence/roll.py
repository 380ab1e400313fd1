"""What is said of a group and its work now, from triples that come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from p2prdf.presence.group import Group

__all__ = ["CurrentTriples", "Roll", "Triple"]

Triple: TypeAlias = tuple[str, str, str]


class CurrentTriples:
    """The triples of some predicates that are true now."""

    def __init__(self, predicates: Iterable[str]):
        self._counts: Counter[Triple] = Counter()
        self._by_predicate: dict[str, dict[Triple, None]] = {each: {} for each in predicates}

    def take(self, triple: Triple, *, removed: bool) -> bool:
        """Take account of a triple that came or went, in any order; return whether it is there now."""
        known = self._by_predicate.get(triple[1])
        if known is None:
            return False
        self._counts[triple] += -1 if removed else 1
        count = self._counts[triple]
        if count == 0:
            del self._counts[triple]
        if count > 0:
            known[triple] = None
        else:
            known.pop(triple, None)
        return count > 0

    def of(self, predicate: str) -> list[Triple]:
        """Return those of a predicate, in order."""
        return sorted(self._by_predicate[predicate])


class Roll:
    """The members of a group that are said to be there, but for those that were found gone."""

    def __init__(self, group: Group, triples: CurrentTriples):
        self._group = group
        self._triples = triples
        self.gone: set[str] = set()
        """Members that were found to be gone."""

    def said(self) -> list[Triple]:
        """Return the triples of members that are there, in order."""
        return [
            triple for triple in self._triples.of(self._group.predicate)
            if self._group.number(triple[0]) is not None and triple[0] not in self.gone
        ]  # fmt: skip

    def members(self) -> list[str]:
        """Return who is there, each once."""
        return list(dict.fromkeys(s for s, _, _ in self.said()))

    def signs(self, member: str) -> list[Triple]:
        """Return the triples by which a member is said to be there."""
        return [triple for triple in self._triples.of(self._group.predicate) if triple[0] == member]
