"""Parts of the detection of hot keys: depths, a sampler, a counter of frequent keys, and the decision.

They are pure and bounded; :mod:`p2prdf.peer.joins.hot_keys` combines them.
"""

from __future__ import annotations

from itertools import count

import numpy as np

from p2prdf import keys
from p2prdf.columns import Column, as_array

__all__ = ["Depths", "Frequent", "Sampler", "depth_for"]


class Depths:
    """Depths of keys by index: at most ``limit`` keys; a new key replaces the oldest one."""

    def __init__(self, limit: int):
        self._limit = limit
        self._by_role: dict[int, dict[int, int]] = {}
        self._order: dict[tuple[int, int], None] = {}
        self._arrays: dict[int, tuple[keys.U64, keys.U64]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def depth(self, role: int, key: int) -> int:
        """Return the depth of a key; 0 if none is known."""
        table = self._by_role.get(role)
        return table.get(key, 0) if table else 0

    def raise_to(self, role: int, key: int, depth: int) -> bool:
        """Set the depth of a key unless it is as great already; return whether it changed."""
        if depth <= self.depth(role, key):
            return False
        if (role, key) not in self._order and len(self._order) >= self._limit:
            self.forget(*next(iter(self._order)))
        self._by_role.setdefault(role, {})[key] = depth
        self._order[role, key] = None
        self._arrays.pop(role, None)
        return True

    def forget(self, role: int, key: int) -> None:
        """Drop a key."""
        if self._order.pop((role, key), 0) is None:
            del self._by_role[role][key]
            self._arrays.pop(role, None)

    def find(self, role: int, ring: Column) -> Column | None:
        """Return the depth of each key, 0 for an unknown one; None if all are 0."""
        table = self._by_role.get(role)
        if not table:
            return None
        if isinstance(ring, list):
            depths = [table.get(key, 0) for key in ring]
            return depths if any(depths) else None
        arrays = self._arrays.get(role)
        if arrays is None:
            known = as_array(sorted(table))
            arrays = self._arrays[role] = known, as_array([table[key] for key in known.tolist()])
        at = np.minimum(np.searchsorted(arrays[0], ring), len(arrays[0]) - 1)
        found = np.where(arrays[0][at] == ring, arrays[1][at], np.uint64(0))
        return found if found.any() else None


class Sampler:
    """Samples one in ``mean`` rows on average, at pseudo-random gaps, so that no pattern in the data biases it."""

    def __init__(self, mean: int):
        self._mean = mean
        self._drawn = count(1)
        self._left = self._gap() - 1

    def _gap(self) -> int:
        """Return a number from 1 to 2 * mean - 1."""
        return 1 + keys.fmix(next(self._drawn)) % (2 * self._mean - 1)

    def places(self, rows: int) -> list[int]:
        """Return the places of the sampled rows among the next ``rows`` rows."""
        at = self._left
        found = []
        while at < rows:
            found.append(at)
            at += self._gap()
        self._left = at - rows
        return found


class Frequent:
    """Counts of frequent keys in bounded space: every key with more than 1 / ``limit`` of all counts is kept.

    A count is at most total / ``limit`` too small (Misra and Gries 1982).
    """

    def __init__(self, limit: int):
        self._limit = limit
        self.counts: dict[tuple[int, int], int] = {}

    def add(self, role: int, key: int) -> None:
        """Count a key once."""
        place = (role, key)
        held = self.counts.get(place)
        if held is not None:
            self.counts[place] = held + 1
        elif len(self.counts) < self._limit:
            self.counts[place] = 1
        else:
            self.counts = {each: times - 1 for each, times in self.counts.items() if times > 1}


def depth_for(rate: float, fair: float, *, depth: int, depth_max: int) -> int:
    """Return the depth at which no sub-key carries more than ``fair``, if each carries ``rate`` at ``depth``."""
    while rate > fair and depth < depth_max:
        rate /= 2
        depth += 1
    return depth
