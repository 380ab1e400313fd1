"""The core of a join tree: patterns in a cycle, and their matches.

Its keys are matches: the values of all variables that other patterns, or a condition across patterns, use.  When a
key of a pattern appears, its matches are enumerated by looking up the other patterns, the most constrained first;
when a key goes, its matches go, without a join.  More than ``matches_max`` matches refuse the changeset, and the
interest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from p2prdf.errors import InterestOverflow
from p2prdf.interest.relation import Columns, Key, Projection, Relation, projection

__all__ = ["MATCHES_MAX", "Core"]

MATCHES_MAX: Final = 1_000_000
"""Bound on the matches of a core (about 500 bytes of memory each)."""

Match = tuple[int, ...]


class Core:
    """The matches of several relations."""

    def __init__(
        self, members: Sequence[tuple[Relation, tuple[str, ...]]], variables: tuple[str, ...],
        holds: Callable[[Match], bool], matches_max: int = MATCHES_MAX,
    ):  # fmt: skip
        """``members``: relations with the variables of their keys; ``holds``: the conditions across them."""
        assert len(variables) > 1, "patterns of one variable are no circle"
        self.columns: Columns = tuple(range(len(variables)))
        self.keys: dict[Key, None] = {}
        self._gone: dict[Key, None] = {}
        self._new: dict[Key, None] = {}
        self._relations = [relation for relation, _ in members]
        self._holds = holds
        self._matches_max = matches_max
        self._places = [tuple(variables.index(name) for name in key) for _, key in members]
        self.key_of: list[Projection] = [projection(self.columns, places) for places in self._places]
        """For each member, the function from a match to the member's key."""
        self._by_key: list[dict[Key, dict[Key, None]]] = [{} for _ in members]
        self._indexes: dict[Columns, tuple[Projection, dict[Key, dict[Key, None]]]] = {}
        self._ways = [self._way(start) for start in range(len(members))]

    def _way(self, start: int) -> list[tuple[int, Columns, tuple[int, ...], tuple[int, ...]]]:
        """Return the order in which to look up the other members.

        Each comes with its known columns, their places, and all its places.
        """
        known = set(self._places[start])
        rest = [at for at in range(len(self._places)) if at != start]
        found = []
        while rest:
            at = max(rest, key=lambda each: (len(known.intersection(self._places[each])), -len(self._places[each])))
            rest.remove(at)
            relation, places = self._relations[at], self._places[at]
            columns = tuple(c for c, place in zip(relation.columns, places, strict=True) if place in known)
            relation.index(columns)
            found.append((at, columns, tuple(place for place in places if place in known), places))
            known.update(places)
        return found

    def with_joint(self, columns: Columns, joint: Key) -> Iterable[Key]:
        """Return the matches with a value in some columns, which must be indexed."""
        return self._indexes[columns][1].get(joint, ())

    def index(self, columns: Columns) -> None:
        """Index matches by the values in some columns too; before there are any."""
        if columns not in self._indexes:
            assert not self.keys, "an index is made with the core"
            self._indexes[columns] = (projection(self.columns, columns), {})

    def settle(self, touched: Mapping[Relation, Sequence[Key]], *, fresh: bool = False) -> Iterable[Key]:
        """Determine the matches that came and went with keys of members; return these.

        ``fresh``: all keys are new here, whenever they appeared.
        """
        self._gone, self._new = {}, {}
        mine = [(at, key) for at, relation in enumerate(self._relations) for key in touched.get(relation, ())]
        for member, key in mine:
            if key not in self._relations[member].keys:
                for match in list(self._by_key[member].get(key, ())):
                    self._forget(match)
        for member, key in mine:
            relation = self._relations[member]
            if key in relation.keys and (fresh or not relation.was_there(key)):
                for match in self._joined(member, key):
                    if match not in self.keys and self._holds(match):
                        self._take(match)
        return [*self._gone, *self._new]

    def _joined(self, start: int, key: Key) -> Iterator[Match]:
        values: list[int] = [-1] * len(self.columns)
        _bind(values, self._places[start], key)
        way = self._ways[start]

        def down(depth: int) -> Iterator[Match]:
            if depth == len(way):
                yield tuple(values)
                return
            at, columns, known, places = way[depth]
            joint: Key = values[known[0]] if len(known) == 1 else tuple(values[place] for place in known)
            for found in self._relations[at].with_joint(columns, joint):
                _bind(values, places, found)
                yield from down(depth + 1)

        return down(0)

    def _take(self, match: Match) -> None:
        if len(self.keys) >= self._matches_max:
            raise InterestOverflow(
                f"patterns in a cycle, or connected by a condition, have more than"
                f" {self._matches_max:,} matches"
            )
        self.keys[match] = self._new[match] = None
        for key_of, by_key in zip(self.key_of, self._by_key, strict=True):
            by_key.setdefault(key_of(match), {})[match] = None
        for joint_of, index in self._indexes.values():
            index.setdefault(joint_of(match), {})[match] = None

    def _forget(self, match: Key) -> None:
        del self.keys[match]
        self._gone[match] = None
        for key_of, by_key in zip(self.key_of, self._by_key, strict=True):
            _unfile(by_key, key_of(match), match)
        for joint_of, index in self._indexes.values():
            _unfile(index, joint_of(match), match)


def _bind(values: list[int], places: tuple[int, ...], key: Key) -> None:
    if isinstance(key, int):
        values[places[0]] = key
    else:
        for place, value in zip(places, key, strict=True):
            values[place] = value


def _unfile(index: dict[Key, dict[Key, None]], joint: Key, match: Key) -> None:
    found = index[joint]
    del found[match]
    if not found:
        del index[joint]
