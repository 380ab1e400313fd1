"""Terms as integers inside one process.

The dictionary assigns a small integer to each canonical N-Triples string.  The dominant cost on a busy node is
recognising terms: each frame names a few thousand, and a ``dict`` of strings misses the processor's caches for each.
Terms are therefore recognised by their *digest*, 128 bits of BLAKE2b, a whole frame at a time.  The upper half finds
the identifier in a vectorised index and is the term's hash for routing (:mod:`p2prdf.keys`); the lower half is
compared.  Peers send digests along with the strings, so a known term costs no digest.  A node computes and compares
the digest of each term that is new to it, so a peer cannot make it mistake one term for another.

Terms with equal upper and different lower halves collide: the newer one is refused by name.  Terms with equal digests
are treated as equal; constructing such a pair is infeasible.

Identifiers are dense from 0 and never reused; the dictionary only grows, up to ``terms_max``.  :class:`TermNames` is
the plain dictionary of a frame or a client, without digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from p2prdf.errors import Busy, DataRefused, FalseDigest
from p2prdf.grow import GrowingColumn
from p2prdf.hash_index import HashIndex
from p2prdf.rdf.terms import is_object_only

__all__ = ["DIGEST_BYTES", "TERMS_MAX", "UNBOUND_TEXT", "TermDictionary", "TermNames", "digests_of"]

TERMS_MAX = 1 << 31
"""Most terms: identifiers fit into 32 bits and leave room for marks."""

UNBOUND_TEXT = ""
"""The unbound value in rows of terms on the wire."""

DIGEST_BYTES = 16
_AT_ONCE = 8192
"""Terms per vectorised step.

It is enough for speed, and it bounds the memory for a frame that contains only terms.
"""

_DIGEST = np.dtype((np.void, DIGEST_BYTES))

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]


def digests_of(texts: Iterable[str]) -> bytes:
    """Return the digests of canonical terms, one after the other."""
    blake2b = hashlib.blake2b
    return b"".join([blake2b(text.encode(), digest_size=DIGEST_BYTES).digest() for text in texts])


def _halves(digests: bytes) -> tuple[U64, U64]:
    pairs = np.frombuffer(digests, ">u8").reshape(-1, 2).astype(np.uint64)
    return pairs[:, 0], pairs[:, 1]


class TermDictionary:
    """Canonical term strings to dense integers and back."""

    __slots__ = (
        "_check", "_digests", "_flags_array", "_flags_size", "_hashes", "_index", "_texts", "literals", "longest",
        "terms_max",
    )  # fmt: skip

    def __init__(self, terms_max: int = TERMS_MAX):
        self.terms_max = terms_max
        self._index = HashIndex()
        self._check = GrowingColumn(np.uint64)
        self._digests = GrowingColumn(_DIGEST)
        self._texts: list[str] = []
        self._hashes: list[int] = []
        self._flags_array = np.empty(0, np.bool_)
        self._flags_size = 0
        self.literals = bytearray()
        """Whether each term is a literal or a triple term, which is neither subject nor predicate."""
        self.longest = 0
        """Characters of the longest term."""

    def __len__(self) -> int:
        return len(self._texts)

    def intern(self, text: str) -> int:
        """Return the identifier of a canonical term; a new term is added.

        Raises Busy when ``terms_max`` terms are held.
        """
        return int(self.take([text])[0])

    def intern_all(self, texts: Iterable[str]) -> list[int]:
        """Return the identifiers of canonical terms; new terms are added."""
        return self.take(list(texts)).tolist()  # type: ignore[no-any-return]  # numpy's typing

    def find(self, text: str) -> int | None:
        """Return the identifier of a term if it is known."""
        found = self._index.find_one(int(_halves(digests_of([text]))[0][0]))
        return found if found >= 0 and self._texts[found] == text else None

    def take(
        self, texts: Sequence[str], digests: bytes = b"", check: Callable[[Iterable[str]], None] | None = None,
        *, verified: bool = False,
    ) -> I64:  # fmt: skip
        """Return the identifiers of canonical terms; new terms are added.

        ``digests``: the digests received with the terms; computed if absent.  Those of new terms are computed and
        compared, unless this node has ``verified`` them before.  ``check`` is called with the new terms before any is
        added, and may raise.  Raises TypeError if an element is not a string, Busy, FalseDigest, and DataRefused for
        a collision.
        """
        if len(texts) <= _AT_ONCE:
            return self._take(texts, digests, check, verified=verified)
        parts = []
        for start in range(0, len(texts), _AT_ONCE):
            end = start + _AT_ONCE
            part = digests[start * DIGEST_BYTES : end * DIGEST_BYTES]
            parts.append(self._take(texts[start:end], part, check, verified=verified))
        return np.concatenate(parts)

    def _take(
        self, texts: Sequence[str], digests: bytes, check: Callable[[Iterable[str]], None] | None, *, verified: bool
    ) -> I64:
        verified = verified or not digests
        digests = digests or _encoded(texts)
        upper, lower = _halves(digests)
        found = self._index.find(upper)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            new = [texts[place] for place in missing.tolist()]
            if check is not None:
                check(new)
            if not verified:
                _verify(new, np.frombuffer(digests, _DIGEST)[missing].tobytes())
            found[missing] = self._add(new, upper[missing], lower[missing], np.frombuffer(digests, _DIGEST)[missing])
        same = self._check.values[found] == lower
        if not same.all():
            text = texts[int(same.argmin())]
            raise DataRefused(f"the term {text[:100]!r} has the hash of another term and cannot be stored here")
        return found

    def _add(self, texts: list[str], upper: U64, lower: U64, digests: npt.NDArray[np.void]) -> I64:
        """Add terms that are all unknown; a term may occur twice."""
        if len(self._texts) + len(texts) > self.terms_max:
            raise Busy(f"the term dictionary holds its maximum of {self.terms_max} terms", retry_after=60)
        longest = max(map(len, texts))
        flags = bytes(map(is_object_only, texts))
        ordinals, fresh = self._index.insert(upper)
        if not fresh.all():
            places = np.flatnonzero(fresh).tolist()
            texts, lower, digests = [texts[place] for place in places], lower[fresh], digests[fresh]
            flags = bytes([flags[place] for place in places])
        self._texts += texts
        self._check.append(lower)
        self._digests.append(digests)
        self.literals += flags
        self.longest = max(self.longest, longest)
        return ordinals

    def text(self, identifier: int) -> str:
        """Return the canonical string of a term."""
        return self._texts[identifier]

    def texts(self, identifiers: Iterable[int]) -> list[str]:
        """Return the canonical strings of terms."""
        return list(map(self._texts.__getitem__, identifiers))

    def digests(self, identifiers: Sequence[int]) -> bytes:
        """Return the digests of terms, one after the other."""
        return self._digests.values[np.asarray(identifiers, np.intp)].tobytes()

    @property
    def hashes(self) -> list[int]:
        """The hashes of all terms by identifier, as a list."""
        done = len(self._hashes)
        if done < len(self._texts):
            self._hashes += self._index.keys[done:].tolist()
        return self._hashes

    def hash_array(self) -> U64:
        """Return the hashes of all terms as an array indexed by identifier."""
        return self._index.keys

    def literal_array(self) -> npt.NDArray[np.bool_]:
        """Return whether each term is a literal, indexed by identifier."""
        size, done = len(self.literals), self._flags_size
        if size > len(self._flags_array):
            grown = np.empty(max(1024, size * 2), np.bool_)
            grown[:done] = self._flags_array[:done]
            self._flags_array = grown
        if size > done:
            self._flags_array[done:size] = np.frombuffer(bytes(self.literals[done:]), np.bool_)
            self._flags_size = size
        return self._flags_array[:size]


def _encoded(texts: Sequence[Any]) -> bytes:
    try:
        return digests_of(texts)
    except AttributeError:
        raise TypeError("a term is not a string") from None
    except UnicodeEncodeError:
        raise DataRefused("a term with a lone surrogate has no canonical form") from None


def _verify(texts: Sequence[str], digests: bytes) -> None:
    """Raise FalseDigest unless the digests belong to the terms."""
    computed = _encoded(texts)
    if computed == digests:
        return
    ours, theirs = np.frombuffer(computed, _DIGEST), np.frombuffer(digests, _DIGEST)
    false = tuple(text for text, one, other in zip(texts, ours, theirs, strict=True) if bytes(one) != bytes(other))
    shown = false[0] if len(false[0]) <= 100 else false[0][:100] + "..."
    raise FalseDigest(f"the term {shown!r} has the digest of another term ({len(false)} such terms)", false)


class TermNames:
    """Numbers for the terms of a frame or a client, in order of first occurrence.

    ``texts``: the initial terms, each once.
    """

    __slots__ = ("_ids", "_texts")

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._ids: dict[str, int] = dict(zip(texts, range(len(texts)), strict=True))
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._ids)

    def intern_all(self, texts: Iterable[str]) -> list[int]:
        """Return the numbers of terms, giving new ones numbers."""
        ids = self._ids
        give = ids.setdefault
        return [give(text, len(ids)) for text in texts]

    def take(
        self, texts: Sequence[str], digests: bytes = b"", check: Callable[[Iterable[str]], None] | None = None,
        *, verified: bool = False,
    ) -> I64:  # fmt: skip
        """Return the numbers of terms as :meth:`TermDictionary.take` does, ignoring the digests."""
        del digests, verified
        if check is not None:
            check(texts)
        return np.array(self.intern_all(texts), np.int64)

    def texts(self, numbers: Iterable[int]) -> list[str]:
        """Return the strings of terms."""
        if len(self._texts) < len(self._ids):
            self._texts = list(self._ids)
        return list(map(self._texts.__getitem__, numbers))

    @property
    def literals(self) -> list[bool]:
        """Whether each term is a literal or a triple term."""
        return list(map(is_object_only, self._ids))
