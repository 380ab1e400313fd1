"""A set of 64-bit keys with dense ordinals, with vectorised lookup and insertion.

Tables find rows by identities and by packed join keys, thousands at a time.  A ``dict`` costs an object per key and
some 100 bytes; sorted columns cost a merge per batch.

The index uses open addressing with linear probing in one ``int32`` array of ordinals; the keys are in an array by
ordinal.  All keys of a batch probe at once; keys with a hit or an empty slot are done, the others continue with the
next slot, and the last few are probed one by one.  A round costs some ten numpy calls, independent of its size, so
the load is kept at or below 3/8, where six rounds suffice.  (At one half, a batch of a thousand took ten rounds and
twice the time; wide probes of several slots per round gained nothing.)

The slot of a key is the top of a two-round multiplicative mix, so regular keys (counters, packed pairs) spread.

Memory is 8 to 16 bytes of keys and 11 to 22 bytes of slots per key held; KEYS_MAX keys at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from p2prdf.errors import Busy

if TYPE_CHECKING:
    from p2prdf.keys import U64

__all__ = ["KEYS_MAX", "HashIndex"]

KEYS_MAX = (1 << 31) - 1
"""Most keys: ordinals have 32 bits, and -1 marks an empty slot."""

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_SLOTS_MIN = 64
_SCALAR_MAX = 12
"""Most keys for which a loop is faster than the fixed cost of a vectorised round."""

_MASK = (1 << 64) - 1
_M1, _M2 = 0xD6E8FEB86659FD93, 0x9E3779B97F4A7C15
_A1, _A2, _U32 = np.uint64(_M1), np.uint64(_M2), np.uint64(32)


class HashIndex:
    """Keys (any unsigned 64-bit value) to ordinals 0, 1, 2, ... in order of insertion."""

    __slots__ = ("_keys", "_keys_view", "_mask", "_shift", "_size", "_slots", "_slots_view")

    def __init__(self, room: int = 0):
        """Reserve room for ``room`` keys."""
        self._size = 0
        self._keys: U64 = np.empty(0, np.uint64)
        self._keys_view = self._keys.data
        self._slots: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._reserve(max(room, 1))

    def __len__(self) -> int:
        return self._size

    @property
    def keys(self) -> U64:
        """The keys held, by ordinal: a view, valid until the next insertion."""
        return self._keys[: self._size]

    @property
    def nbytes(self) -> int:
        """Bytes allocated for slots and keys, used or not."""
        return self._slots.nbytes + self._keys.nbytes

    def find_one(self, key: int) -> int:
        """Return the ordinal of one key, or -1."""
        return self._seek(key)[0]

    def insert_one(self, key: int) -> tuple[int, bool]:
        """Return the ordinal of one key and whether it is new."""
        ordinal, slot = self._seek(key)
        if ordinal >= 0:
            return ordinal, False
        ordinal = self._size
        if ordinal == len(self._keys):
            self._reserve(1)
            slot = self._seek(key)[1]
        self._keys_view[ordinal] = key
        self._slots_view[slot] = ordinal
        self._size += 1
        return ordinal, True

    def find(self, keys: U64) -> I64:
        """Return the ordinal of each key, -1 for unknown keys."""
        if len(keys) <= _SCALAR_MAX:
            return np.array([ordinal for ordinal, _ in map(self._seek, keys.tolist())], np.int64)
        return self._probe(keys)[0]

    def insert(self, keys: U64) -> tuple[I64, Bools]:
        """Add keys; return their ordinals, and flags for those that are new.

        Of equal new keys in the batch, only the first counts as new.  Raises Busy, with nothing added, if more than
        KEYS_MAX keys would be held.
        """
        if len(keys) <= _SCALAR_MAX:
            each = map(self.insert_one, keys.tolist())
            found, new = zip(*each, strict=True) if len(keys) else ((), ())
            return np.array(found, np.int64), np.array(new, np.bool_)
        ordinals, slots = self._probe(keys)
        missing = np.flatnonzero(ordinals < 0)
        fresh = np.zeros(len(keys), np.bool_)
        if len(missing) == 0:
            return ordinals, fresh
        if self._size + len(missing) > len(self._keys):
            # Room is made for distinct keys only, or a batch of duplicates would double the slots.
            missing = missing[np.sort(np.unique(keys[missing], return_index=True)[1])]
            if self._reserve(len(missing)):
                slots[missing] = self._probe(keys[missing])[1]
            self._admit(keys[missing], slots[missing])
            fresh[missing] = True
            return self._probe(keys)[0], fresh
        ordinals[missing], fresh[missing] = self._admit(keys[missing], slots[missing])
        return ordinals, fresh

    def _seek(self, key: int) -> tuple[int, int]:
        """Return the ordinal of a key and its slot, or -1 and the empty slot at the end of its probe sequence."""
        mixed = (key ^ (key >> 32)) * _M1 & _MASK
        slot = ((mixed ^ (mixed >> 32)) * _M2 & _MASK) >> self._shift
        slots, keys, mask = self._slots_view, self._keys_view, self._mask
        ordinal: int
        while (ordinal := slots[slot]) >= 0:  # _walk() inlined: this runs for each key of a small batch
            if keys[ordinal] == key:
                return ordinal, slot
            slot = (slot + 1) & mask
        return -1, slot

    def _slots_of(self, keys: U64) -> I64:
        mixed = keys >> _U32
        mixed ^= keys
        mixed *= _A1
        mixed ^= mixed >> _U32
        mixed *= _A2
        mixed >>= np.uint64(self._shift)
        return mixed.view(np.int64)

    def _walk(self, key: int, slot: int) -> tuple[int, int]:
        """Do the same as :meth:`_seek`, from a slot in the probe sequence."""
        slots, keys, mask = self._slots_view, self._keys_view, self._mask
        ordinal: int
        while (ordinal := slots[slot]) >= 0:
            if keys[ordinal] == key:
                return ordinal, slot
            slot = (slot + 1) & mask
        return -1, slot

    def _probe(self, keys: U64) -> tuple[I64, I64]:
        """Do the same as :meth:`_walk` for a column of keys."""
        slots = self._slots_of(keys)
        ordinals = self._slots.take(slots, mode="wrap")
        pending = self._mismatches(ordinals, keys)
        at, wanted = slots.take(pending), keys.take(pending)
        while len(pending) > _SCALAR_MAX:
            at += 1
            at &= self._mask
            seen = self._slots.take(at, mode="wrap")
            slots[pending] = at
            ordinals[pending] = seen
            on = self._mismatches(seen, wanted)
            pending, at, wanted = pending.take(on), at.take(on), wanted.take(on)
        for row, key, slot in zip(pending.tolist(), wanted.tolist(), at.tolist(), strict=True):
            ordinals[row], slots[row] = self._walk(key, slot)
        return ordinals.astype(np.int64), slots

    def _mismatches(self, seen: npt.NDArray[np.int32], wanted: U64) -> I64:
        """Return the rows with a slot that holds another key: neither empty nor a hit."""
        # An empty slot's -1 reads an arbitrary key; its sign excludes it.  ``wrap`` is the cheapest mode of take; all
        # indices are in range anyway.
        apart = self._keys.take(seen, mode="wrap") != wanted
        apart &= seen >= 0
        rows: I64 = apart.nonzero()[0]
        return rows

    def _admit(self, absent: U64, slots: I64) -> tuple[I64, Bools]:
        """Insert absent keys, probing from ``slots``; return ordinals, and flags for the first of equal keys.

        Winners are renumbered densely in order of first occurrence.
        """
        base, count = self._size, len(absent)
        self._keys[base : base + count] = absent
        given = np.arange(base, base + count, dtype=np.int64)
        won = np.zeros(count, np.bool_)
        home = self._claim(absent, slots, given, won)
        if won.all():
            self._size += count
            return given, won
        winners = np.flatnonzero(won)
        rank = np.cumsum(won) - 1 + base
        self._slots[home[winners]] = rank[winners]
        self._keys[base : base + len(winners)] = absent[winners]
        self._size += len(winners)
        return rank[given - base], won

    def _claim(self, keys: U64, slots: I64, given: I64, won: Bools) -> I64:
        """Assign a slot to each distinct key, without locks and loops over rows.

        Every key writes a provisional ordinal (``given``) to its empty slot, *last key first*, so of several writers
        the first in the batch remains.  A key that reads its own number back has won the slot.  Equal keys find their
        winner there, and other losers continue with the next slot.

        ``given[i]`` is the provisional ordinal of row i; a row that equals an earlier one gets its ordinal.  ``won``
        is set for the others.  Returns each row's slot.
        """
        home = slots.copy()
        pending = np.arange(len(keys))
        while len(pending):
            at = home[pending]
            empty = np.flatnonzero(self._slots.take(at) < 0)[::-1]
            self._slots[at[empty]] = given[pending[empty]]
            holder = self._slots.take(at).astype(np.int64)
            mine = holder == given[pending]
            won[pending[mine]] = True
            equal = self._keys.take(holder) == keys[pending]
            given[pending[equal]] = holder[equal]
            pending = pending[~equal]
            home[pending] = (home[pending] + 1) & self._mask
        return home

    def _reserve(self, more: int) -> bool:
        """Make room for ``more`` keys, doubling as needed; return whether slots moved.

        Growing moves keys in slot order, which keeps its writes nearly sequential.
        """
        size = self._size + more
        if size <= len(self._keys):
            return False
        if size > KEYS_MAX:
            raise Busy(f"a hash index holds {self._size} keys of at most {KEYS_MAX}", retry_after=60)
        slots = max(_SLOTS_MIN, 1 << (size * 8 // 3).bit_length())
        keys = np.empty(slots * 3 // 8, np.uint64)
        keys[: self._size] = self.keys
        old = self._slots[self._slots >= 0].astype(np.int64)
        self._keys, self._keys_view = keys, keys.data
        self._slots = np.full(slots, -1, np.int32)
        self._slots_view = self._slots.data
        self._mask = slots - 1
        self._shift = 65 - slots.bit_length()
        if len(old):
            moved = keys.take(old)
            self._claim(moved, self._slots_of(moved), old, np.zeros(len(old), np.bool_))
        return True
