"""Hops on an ideal Chord ring, counted for millions of keys without sending anything.

The ring is ideal as in Chord's analysis (Stoica et al. 2001, section 4): every peer knows its
successor and, for each i below 64, the finger Successor(n + 2^i); there is no churn.

The recursive route of a key k from peer n (:mod:`p2prdf.overlay.multisend` without learned owners):
if n owns k, there is no hop.  Otherwise let q be the last peer before k.  While n is not q, the key goes to
the closest preceding finger of n: Successor(n + 2^i) with the largest i for which n + 2^i
is not beyond q.  The distance to q is d = q - n, so i = floor(log2 d), and the finger cannot pass q.
From q the key goes to the owner.  Each step is one hop.

A lookup asks the same peers iteratively (:mod:`p2prdf.overlay.chord_lookup`): n's own table names the
first, each peer names the next, and q names the owner.  So a recursive route of h hops is a lookup of
h - 1 requests.

The fingers are one table of N x 64 indexes, and a step is one access to it for all keys that are still under
way; with 20,000 peers, a million keys take about a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from p2prdf.keys import U64

__all__ = ["finger_table", "lookup_hops", "multisend_hops"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_BITS: Final = 64
_CHUNK: Final = 1 << 20
"""Keys walked at once: a few hundred megabytes at most."""


def finger_table(positions: U64) -> I32:
    """Return the index of Successor(n + 2^i) for each of N ascending positions n and each i: N x 64."""
    fingers = np.empty((len(positions), _BITS), np.int32)
    for bit in range(_BITS):
        fingers[:, bit] = _successors(positions, positions + np.uint64(1 << bit))
    return fingers


def multisend_hops(
    positions: U64, source: npt.NDArray[np.integer], keys: U64, batch: npt.NDArray[np.integer],
    fingers: I32 | None = None,
) -> tuple[I32, int]:  # fmt: skip
    """Return the hops of each key's own route, and the hops if each batch shares its routes.

    ``positions``: of all peers, ascending.  ``source`` and ``batch``: for each key the index of its first peer, and
    the number of its message set.  The first result is the cost of independent sends, by key; 0 for a key that its
    source owns.  The second counts each transfer between two peers once per batch, for any number of keys.
    ``fingers``: the finger table, if it exists already.
    """
    fingers = finger_table(positions) if fingers is None else fingers
    order = None
    if len(batch) and np.any(batch[1:] < batch[:-1]):
        order = np.argsort(batch, kind="stable")
        source, keys, batch = source[order], keys[order], batch[order]
    hops = np.empty(len(keys), np.int32)
    shared = 0
    for start, stop in _chunks(batch):
        walk = _Walk(positions, fingers, source[start:stop], keys[start:stop])
        sets = np.zeros(stop - start, np.int64)
        np.cumsum(batch[start + 1 : stop] != batch[start : stop - 1], out=sets[1:])
        size = len(positions)
        transfers = [(sets[at] * size + here) * size + there for at, here, there in walk]
        shared += _distinct(np.concatenate(transfers)) if transfers else 0
        hops[start:stop] = walk.hops
    if order is not None:
        hops[order] = hops.copy()
    return hops, shared


def lookup_hops(
    positions: U64, source: npt.NDArray[np.integer], keys: U64, fingers: I32 | None = None
) -> I32:
    """Return the transfers of each key with a lookup of its owner and a direct message.

    Two for each request with its reply, and one for the message: 2 (h - 1) + 1 for a recursive route of h hops; 0 for a
    key that its source owns.  Arguments as in :func:`multisend_hops`; keys share no transfers and no addresses.
    """
    fingers = finger_table(positions) if fingers is None else fingers
    hops = np.empty(len(keys), np.int32)
    for start in range(0, len(keys), _CHUNK):
        walk = _Walk(positions, fingers, source[start : start + _CHUNK], keys[start : start + _CHUNK])
        for _ in walk:
            pass
        hops[start : start + _CHUNK] = walk.hops
    return np.where(hops, 2 * hops - 1, 0).astype(np.int32)


class _Walk:
    """The routes of many keys, one hop further with each iteration; ``hops`` counts the hops made."""

    def __init__(
        self, positions: U64, fingers: I32, source: npt.NDArray[np.integer], keys: U64
    ):
        self.hops = np.zeros(len(keys), np.int32)
        self._positions = positions
        self._fingers = fingers.reshape(-1)
        self._source = source.astype(np.int64)
        self._owner = _successors(positions, keys)

    def __iter__(self) -> Iterator[tuple[I64, I64, I64]]:
        """Yield, for each round, the keys that hop, and the indexes of their peers before and after."""
        size = len(self._positions)
        at = np.flatnonzero(self._owner != self._source)
        here, owner = self._source[at], self._owner[at]
        last = np.where(owner == 0, size, owner) - 1  # the last peer before the key
        while len(at):
            there = owner.copy()
            on = np.flatnonzero(here != last)
            way = self._positions[last[on]] - self._positions[here[on]]
            there[on] = self._fingers[here[on] * _BITS + _log2(way)]
            self.hops[at] += 1
            yield at, here, there
            at, owner, last, here = at[on], owner[on], last[on], there[on]


def _successors(positions: U64, keys: U64) -> I64:
    """Return the index of the first position at or after each key, clockwise."""
    places = np.searchsorted(positions, keys)
    places[places == len(positions)] = 0
    return places


def _log2(numbers: U64) -> I64:
    """Return floor(log2) of numbers above 0."""
    exponents = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1
    np.minimum(exponents, _BITS - 1, out=exponents)
    # A number of more than 53 bits may have been rounded up to the next power of two.
    exponents -= np.left_shift(np.uint64(1), exponents.astype(np.uint64)) > numbers
    return exponents


def _distinct(numbers: I64) -> int:
    """Return the number of different numbers; sorts in place, which is much faster than hashing."""
    numbers.sort()
    return 1 + int(np.count_nonzero(numbers[1:] != numbers[:-1])) if len(numbers) else 0


def _chunks(batch: npt.NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    """Cut ascending batch numbers into ranges of about ``_CHUNK`` that leave every batch whole."""
    start = 0
    while start < len(batch):
        stop = start + _CHUNK
        if stop < len(batch):
            stop = int(np.searchsorted(batch, batch[stop - 1], side="right"))
        yield start, min(stop, len(batch))
        start = stop
