"""The mapping table of one learner: which bindings a graph of some category has brought, and how to make the next one.

An entry says: the key elements of a binding (category, key positions) stood at these positions of a graph (category).
The rest of such a binding is structure, and is taken over as it was: its *skeleton*, the text with holes for the keys.
Where structure had several values there are several skeletons, and the one seen most often is tried first (the paper
leaves that open).  Entries compete by their hit rates.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from p2prdf.channels.elements import Cut

__all__ = ["ENTRIES_MAX", "Entry", "MappingTable", "Skeleton", "skeleton_of"]

ENTRIES_MAX: Final = 1024
"""Most entries of a table; the quarter with the lowest hit rates is given up for a new one."""
_SKELETONS_MAX: Final = 32
"""Most skeletons of an entry; the one seen least often is given up for a new one."""

Skeleton: TypeAlias = tuple[str, ...]
"""The texts around the holes: one more than there are."""


class _Key(NamedTuple):
    binding: Hashable
    keys: tuple[int, ...]
    places: tuple[int, ...]


_Wanted: TypeAlias = "Callable[[_Key, Entry], bool]"


class Entry:
    """One entry, with how often it was tried and was right."""

    __slots__ = ("binding", "hits", "keys", "places", "skeletons", "tries")

    def __init__(self, binding: Hashable, keys: tuple[int, ...], places: tuple[int, ...]):
        self.binding = binding
        """The category of the bindings."""
        self.keys = keys
        """Key positions of these bindings."""
        self.places = places
        """For each of them the position in the graph."""
        self.skeletons: dict[Skeleton, int] = {}
        """How often each was seen."""
        self.tries = 0
        self.hits = 0

    @property
    def rate(self) -> float:
        """The hit rate; an entry that was hardly tried is given credit."""
        return (self.hits + 1) / (self.tries + 2)

    def note(self, skeleton: Skeleton) -> None:
        """Take note of a binding of this kind."""
        count = self.skeletons.get(skeleton)
        if count is None and len(self.skeletons) >= _SKELETONS_MAX:
            del self.skeletons[min(self.skeletons, key=self.skeletons.__getitem__)]
        self.skeletons[skeleton] = (count or 0) + 1

    def texts(self, elements: Sequence[str], alternatives: int) -> Iterator[str]:
        """Yield the texts of candidates for a graph, made with the skeletons seen most often."""
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
        """Entries given up for others, or for nothing."""

    def __len__(self) -> int:
        return self._count

    def entries(self, graph: Hashable) -> list[Entry]:
        """Return the entries for a category of graphs, those with the highest hit rates first."""
        found = self._entries.get(graph)
        if not found:
            return []
        return sorted(found.values(), key=lambda entry: -entry.rate) if len(found) > 1 else list(found.values())

    def entry(self, graph: Hashable, binding: Hashable, keys: tuple[int, ...], places: tuple[int, ...]) -> Entry:
        """Return an entry, made if there is none."""
        key = _Key(binding, keys, places)
        entry = self._entries.get(graph, {}).get(key)
        if entry is None:
            if self._count >= self._entries_max:
                self.prune()
            entry = self._entries.setdefault(graph, {})[key] = Entry(*key)
            self._count += 1
        return entry

    def known(self, graph: Hashable, bindings: Iterable[Hashable]) -> bool:
        """Tell whether there is an entry for a category of graphs and one of some categories of bindings."""
        wanted = set(bindings)
        return any(key.binding in wanted for key in self._entries.get(graph, ()))

    def forget(self, binding: Hashable) -> None:
        """Give up the entries for a category of bindings: its key positions are others now."""
        self._keep(lambda key, _: key.binding != binding)

    def prune(self) -> None:
        """Give up the quarter with the lowest hit rates, one entry at least; of equal ones the oldest."""
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
