"""Resume tokens: the position of a subscriber, as bytes to store with the effects of its solutions.

::

    magic (8) | version (1) | query (8) | subscription (8) | delivered (8) | lost (8) | count (4)
    | identities (8 each) | checksum (16)

All numbers are big-endian. ``version`` is 1, or 2 for a subscription with settled delivery. ``query``
distinguishes tokens of different queries (:func:`query_mark`; 0 for an attachment by number, which knows no
query). The checksum detects damage. It is no secret: a forged token names a subscription, which the node either
knows or refuses.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import QueryRefused, TokenMismatch, TokenRefused
from p2prdf.rdf import tokens

__all__ = ["IDENTITIES_MAX", "Token", "canonical_query", "query_mark"]

IDENTITIES_MAX: Final = 1 << 20
"""Bound on the identities of a token; a client leaves fewer unstable."""

_MAGIC: Final = b"p2prdf\r\n"
_VERSIONS: Final = (1, 2)
"""Of immediate and of settled delivery."""
_HEAD: Final = struct.Struct(">8sBQQQQI")
_CHECKSUM_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Token:
    """The content of a token; fields as in :class:`p2prdf.client.ledger.Ledger`."""

    query: int
    subscription: int
    delivered: int
    lost: int
    unstable: tuple[int, ...]
    settled: bool = False

    def encode(self) -> bytes:
        """Return the token as bytes: 61, and eight for each identity."""
        head = _HEAD.pack(
            _MAGIC, _VERSIONS[self.settled], self.query, self.subscription, self.delivered, self.lost,
            len(self.unstable),
        )  # fmt: skip
        body = head + struct.pack(f">{len(self.unstable)}Q", *self.unstable)
        return body + _checksum(body)

    @classmethod
    def decode(cls, data: bytes) -> Token:
        """Read a token.  Raises TokenRefused for all bytes that :meth:`encode` has not made."""
        if len(data) < _HEAD.size or not data.startswith(_MAGIC):
            raise TokenRefused(f"not a resume token: {len(data)} bytes with another beginning")
        _, version, query, subscription, delivered, lost, count = _HEAD.unpack_from(data)
        if version not in _VERSIONS:
            raise TokenRefused(f"a resume token of version {version}; this client reads versions 1 and 2")
        size = _HEAD.size + 8 * count + _CHECKSUM_BYTES
        if count > IDENTITIES_MAX or len(data) != size:
            raise TokenRefused(f"a resume token of {len(data)} bytes instead of {size}: it was truncated or extended")
        body = data[:-_CHECKSUM_BYTES]
        if _checksum(body) != data[-_CHECKSUM_BYTES:]:
            raise TokenRefused("the resume token is damaged: its checksum does not match")
        unstable = struct.unpack_from(f">{count}Q", data, _HEAD.size)
        return cls(query, subscription, delivered, lost, unstable, version == _VERSIONS[True])

    def check(self, query: str, algorithm: str, *, per_event: bool) -> None:
        """Raise TokenMismatch if this token belongs to another query, algorithm or way of counting.

        A token without a query passes. A token of version 0.1 has a mark of the query's exact text, so it
        passes with the same text only.
        """
        marks = (0, query_mark(query, algorithm, per_event=per_event), _mark(query, algorithm, per_event=per_event))
        self.check_mark(*marks)

    def check_mark(self, *marks: int) -> None:
        """Raise TokenMismatch if the query of this token has none of these marks (:func:`query_mark`)."""
        if self.query not in marks:
            raise TokenMismatch(
                f"the resume token belongs to subscription {self.subscription:016x} of another query: resume with the"
                " query that the token was made for, or subscribe to this query without a token"
            )


def query_mark(query: str, algorithm: str, *, per_event: bool) -> int:
    """Return a number, never 0, that distinguishes tokens of this query from those of others.

    Two spellings of one query have the same mark (:func:`canonical_query`).
    """
    return _mark(canonical_query(query), algorithm, per_event=per_event)


@functools.lru_cache(maxsize=64)
def canonical_query(query: str) -> str:
    """Return a query without comments, white space and prefixes; invalid SPARQL is returned unchanged.

    Very long text is returned unchanged, too. Equal results mean equal queries. The reverse does not hold:
    patterns in another order, or other variables, make another query here.
    """
    try:
        found = tokens.scan(query)
    except QueryRefused:
        return query
    try:
        symbols, base = tokens.symbols(query, found)
    except QueryRefused:  # rules stand before the query: their grammar is another one
        return repr([each.text for each in found])
    words = [(each.kind, each.value.upper() if each.kind == "word" else each.value) for each in symbols]
    return repr((base, words))


def _mark(text: str, algorithm: str, *, per_event: bool) -> int:
    marked = f"{algorithm}\n{per_event}\n{text}".encode()
    return int.from_bytes(hashlib.blake2b(marked, digest_size=8).digest(), "big") | 1


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES, person=b"p2prdf-token").digest()
