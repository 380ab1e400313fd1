"""The mapping table of one learner: which bindings graphs of a category bring, and how to build them.

An entry says that the key elements of a binding (category, key positions) stood at certain positions of a graph
(category). The rest of the binding is structure and is copied: the *skeleton* is the text with holes for the
keys. If structure varied there are several skeletons, and the most frequent ones are tried first (the paper
leaves this open). Entries compete by hit rate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from p2prdf.channels.elements import Cut

__all__ = ["ENTRIES_MAX", "Entry", "MappingTable", "Skeleton", "skeleton_of"]

ENTRIES_MAX: Final = 1024
"""Bound on the entries of a table; the quarter with the lowest hit rates makes room for a new one."""
_SKELETONS_MAX: Final = 32
"""Bound on the skeletons of an entry; the least frequent makes room for a new one."""

Skeleton: TypeAlias = tuple[str, ...]
"""The texts around the holes: one more than there are holes."""


class _Key(NamedTuple):
    binding: Hashable
    keys: tuple[int, ...]
    places: tuple[int, ...]


_Wanted: TypeAlias = "Callable[[_Key, Entry], bool]"


class Entry:
    """One entry, with its numbers of tries and hits."""

    __slots__ = ("binding", "hits", "keys", "places", "skeletons", "tries")

    def __init__(self, binding: Hashable, keys: tuple[int, ...], places: tuple[int, ...]):
        self.binding = binding
        """The category of the bindings."""
        self.keys = keys
        """Key positions of these bindings."""
        self.places = places
        """The position in the graph of each key."""
        self.skeletons: dict[Skeleton, int] = {}
        """The frequency of each skeleton."""
        self.tries = 0
        self.hits = 0

    @property
    def rate(self) -> float:
        """The hit rate; an entry with few tries gets the benefit of the doubt."""
        return (self.hits + 1) / (self.tries + 2)

    def note(self, skeleton: Skeleton) -> None:
        """Count a binding's skeleton."""
        count = self.skeletons.get(skeleton)
        if count is None and len(self.skeletons) >= _SKELETONS_MAX:
            del self.skeletons[min(self.skeletons, key=self.skeletons.__getitem__)]
        self.skeletons[skeleton] = (count or 0) + 1

    def texts(self, elements: Sequence[str], alternatives: int) -> Iterator[str]:
        """Yield candidate texts for a graph, from the most frequent skeletons."""
        filling = [elements[place] for place in self.places]
        for skeleton in sorted(self.skeletons, key=lambda each: -self.skeletons[each])[:alternatives]:
            yield "".join([part for pair in zip(skeleton, filling, strict=False) for part in pair]) + skeleton[-1]


class MappingTable:
    """The entries by the category of the graph."""

    def __init__(self, entries_max: int = ENTRIES_MAX):
        self._entries: dict[Hashable, dict[_Key, Entry]] = {}
        self._count = 0
        self._entries_max = entries_max
        self.given_up = 0
        """Number of entries dropped so far."""

    def __len__(self) -> int:
        return self._count

    def entries(self, graph: Hashable) -> list[Entry]:
        """Return the entries for a category of graphs, those with the highest hit rates first."""
        found = self._entries.get(graph)
        if not found:
            return []
        return sorted(found.values(), key=lambda entry: -entry.rate) if len(found) > 1 else list(found.values())

    def entry(self, graph: Hashable, binding: Hashable, keys: tuple[int, ...], places: tuple[int, ...]) -> Entry:
        """Return an entry, created if necessary."""
        key = _Key(binding, keys, places)
        entry = self._entries.get(graph, {}).get(key)
        if entry is None:
            if self._count >= self._entries_max:
                self.prune()
            entry = self._entries.setdefault(graph, {})[key] = Entry(*key)
            self._count += 1
        return entry

    def known(self, graph: Hashable, bindings: Iterable[Hashable]) -> bool:
        """Return whether a category of graphs has an entry for one of some categories of bindings."""
        wanted = set(bindings)
        return any(key.binding in wanted for key in self._entries.get(graph, ()))

    def forget(self, binding: Hashable) -> None:
        """Drop the entries for a category of bindings: its key positions have changed."""
        self._keep(lambda key, _: key.binding != binding)

    def prune(self) -> None:
        """Drop the quarter with the lowest hit rates, at least one entry; the oldest of equal ones."""
        every = [(entry.rate, at, entry) for at, entry in enumerate(self)]
        doomed = {id(entry) for _, _, entry in sorted(every, key=lambda each: each[:2])[: max(1, len(every) // 4)]}
        self._keep(lambda _, entry: id(entry) not in doomed)

    def __iter__(self) -> Iterator[Entry]:
        for entries in self._entries.values():
            yield from entries.values()

    def _keep(self, wanted: _Wanted) -> None:
        before = self._count
        kept = {
            graph: {key: entry for key, entry in entries.items() if wanted(key, entry)}
            for graph, entries in self._entries.items()
        }
        self._entries = {graph: entries for graph, entries in kept.items() if entries}
        self._count = sum(map(len, self._entries.values()))
        self.given_up += before - self._count


def skeleton_of(binding: Cut, keys: Sequence[int]) -> Skeleton:
    """Return the text of a binding with holes at some positions."""
    pieces, start = [], 0
    for key in keys:
        parts = [part for at in range(start, key) for part in (binding.gaps[at], binding.elements[at])]
        pieces.append("".join(parts) + binding.gaps[key])
        start = key + 1
    rest = [part for at in range(start, len(binding.elements)) for part in (binding.gaps[at], binding.elements[at])]
    return (*pieces, "".join(rest) + binding.gaps[-1])
