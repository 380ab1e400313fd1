"""The membership of a worker group, from a stream of added and removed triples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from p2prdf.workers.group import WorkerGroup

__all__ = ["CurrentTriples", "Membership", "Triple"]

Triple: TypeAlias = tuple[str, str, str]


class CurrentTriples:
    """The current triples of some predicates."""

    def __init__(self, predicates: Iterable[str]):
        self._counts: Counter[Triple] = Counter()
        self._by_predicate: dict[str, dict[Triple, None]] = {each: {} for each in predicates}

    def take(self, triple: Triple, *, removed: bool) -> bool:
        """Count an addition or a removal, in any order; return whether the triple exists now."""
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
        """Return the current triples of a predicate, sorted."""
        return sorted(self._by_predicate[predicate])


class Membership:
    """The workers that triples announce, except those with an expired lease."""

    def __init__(self, group: WorkerGroup, triples: CurrentTriples):
        self._group = group
        self._triples = triples
        self.expired: set[str] = set()
        """Workers with an expired lease; their triples may still exist."""

    def announced(self) -> list[Triple]:
        """Return the triples that announce live workers, sorted."""
        return [
            triple for triple in self._triples.of(self._group.predicate)
            if self._group.number(triple[0]) is not None and triple[0] not in self.expired
        ]  # fmt: skip

    def workers(self) -> list[str]:
        """Return the live workers, each once."""
        return list(dict.fromkeys(s for s, _, _ in self.announced()))

    def announcements(self, worker: str) -> list[Triple]:
        """Return the triples that announce a worker, whether it is alive or not."""
        return [triple for triple in self._triples.of(self._group.predicate) if triple[0] == worker]
