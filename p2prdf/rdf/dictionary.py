"""Terms as integers inside one process.

A term is interned once, by its canonical N-Triples string; from then on it is a small integer.
Beside the string the dictionary keeps what matching and routing need without touching the
string again: the 64-bit term hash and whether the term is a literal (a literal can be neither
subject nor predicate, so a partial result that would put one there is dropped).

Identifiers are dense from 0 and never reused; the dictionary only grows, up to ``terms_max``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.errors import Busy

__all__ = ["TERMS_MAX", "TermDictionary"]

TERMS_MAX = 1 << 31
"""Identifiers fit 32 bits with room for marks."""


class TermDictionary:
    """Canonical term strings to dense integers and back."""

    __slots__ = (
        "_array_size", "_flags_array", "_hash_array", "_hashing", "_ids", "_texts", "hashes", "literals", "longest",
        "terms_max",
    )  # fmt: skip

    def __init__(self, terms_max: int = TERMS_MAX, *, hashing: bool = True):
        """Make an empty dictionary; without ``hashing`` it only names terms, as a client needs."""
        self.terms_max = terms_max
        self._hashing = hashing
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []
        self.hashes: list[int] = []
        self.literals = bytearray()
        self.longest = 0
        self._array_size = 0
        self._hash_array = np.empty(0, np.uint64)
        self._flags_array = np.empty(0, np.bool_)

    def __len__(self) -> int:
        return len(self._texts)

    def intern(self, text: str) -> int:
        """Return the identifier of a canonical term, taking it in if new.

        Raises Busy when ``terms_max`` terms are held.
        """
        known = self._ids.get(text)
        if known is not None:
            return known
        self.add([text])
        return len(self._texts) - 1

    def intern_all(self, texts: Iterable[str]) -> list[int]:
        """Return the identifiers of canonical terms, taking in the new ones."""
        wanted = texts if isinstance(texts, (list, tuple)) else list(texts)
        found = self.find_all(wanted)
        missing = found.count(None)
        if not missing:
            return found  # type: ignore[return-value]  # no None is left
        first = len(self._texts)
        self.add(text for text, known in zip(wanted, found, strict=True) if known is None)
        if len(self._texts) - first < missing:  # some new term is named twice
            return self.find_all(wanted)  # type: ignore[return-value]  # all are known now
        fresh = iter(range(first, first + missing))
        return [next(fresh) if known is None else known for known in found]

    def find_all(self, texts: Iterable[str]) -> list[int | None]:
        """Return the identifiers of canonical terms, None where a term is not known."""
        return list(map(self._ids.get, texts))

    def find_array(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the identifiers of canonical terms, -1 where a term is not known."""
        return np.fromiter(map(self._ids.get, texts, repeat(-1)), np.int64, len(texts))

    def intern_missing(self, texts: Sequence[str], found: npt.NDArray[np.int64]) -> None:
        """Take in the terms that :meth:`find_array` did not find, and fill in their identifiers."""
        missing = np.flatnonzero(found < 0)
        wanted = [texts[place] for place in missing.tolist()]
        first = len(self._texts)
        self.add(wanted)
        if len(self._texts) - first == len(wanted):
            found[missing] = np.arange(first, first + len(wanted))
        else:  # some new term is named twice
            found[missing] = self.find_array(wanted)

    def add(self, texts: Iterable[str]) -> None:
        """Take in terms that are not known yet (but may be named twice here)."""
        fresh = list(dict.fromkeys(texts))
        first = len(self._texts)
        if first + len(fresh) > self.terms_max:
            raise Busy(f"the term dictionary holds its maximum of {self.terms_max} terms", retry_after=60)
        self._ids.update(zip(fresh, range(first, first + len(fresh)), strict=True))
        self._texts += fresh
        self.longest = max(self.longest, max(map(len, fresh), default=0))
        if not self._hashing:
            return
        self.hashes += keys.term_hashes(fresh)
        self.literals += bytes([text[:1] == '"' for text in fresh])

    def find(self, text: str) -> int | None:
        """Return the identifier of a term if it is known."""
        return self._ids.get(text)

    def text(self, identifier: int) -> str:
        """Return the canonical string of a term."""
        return self._texts[identifier]

    def texts(self, identifiers: Iterable[int]) -> list[str]:
        """Return the canonical strings of terms."""
        known = self._texts
        return [known[i] for i in identifiers]

    def hash_array(self) -> npt.NDArray[np.uint64]:
        """Return the hashes of all terms as an array indexed by identifier."""
        self._refresh()
        return self._hash_array[: self._array_size]

    def literal_array(self) -> npt.NDArray[np.bool_]:
        """Return whether each term is a literal, indexed by identifier."""
        self._refresh()
        return self._flags_array[: self._array_size]

    def _refresh(self) -> None:
        size = len(self._texts)
        done = self._array_size
        if size == done:
            return
        if size > len(self._hash_array):
            room = max(1024, size * 2)
            self._hash_array = np.concatenate((self._hash_array[:done], np.empty(room - done, np.uint64)))
            self._flags_array = np.concatenate((self._flags_array[:done], np.empty(room - done, np.bool_)))
        self._hash_array[done:size] = self.hashes[done:]
        self._flags_array[done:size] = np.frombuffer(bytes(self.literals[done:]), np.bool_)
        self._array_size = size
