"""Ring positions and index keys: 64 bits, distinct for each index, computed by the column.

The seed paper hashes the bare concatenation of the constant parts.  That confuses ``ab+c`` with ``a+bc`` and the
``sp`` of one triple with the ``s`` of another.  Here a term is hashed once (64 bits of BLAKE2b of its canonical
N-Triples form, stored in the dictionary), and a key is an ordered mix of the *index* and the hashes of the parts.
Equal keys mean equal indexes and equal parts up to a 64-bit collision.  A collision costs load but no correctness:
patterns are joined on exact terms.  Since term hashes are memoised, the keys of a batch take a handful of vector
operations.

An index (``role``) is a bit mask of the constant positions: S=1, P=2, O=4; ``ANY`` = 0 is the index of patterns
without constants (wildcard buckets).
"""

from __future__ import annotations

import hashlib
from typing import Final, NewType

import numpy as np
import numpy.typing as npt

__all__ = [
    "ANY", "BUCKETS", "BUCKET_KEYS", "CQC_ROLES", "CSBV_ROLES", "DEPTH_MAX", "EVENT_SHIFT", "MARK_SHIFT",
    "PRIMARY_SHIFT", "ROLES", "ROLE_NAMES", "SPLIT_ROLES", "SPO", "U64", "Key", "O", "P", "S", "bucket_key",
    "contribution", "contributions", "even_key", "event_id", "event_ids", "event_ids_by_content", "fmix", "fmix_array",
    "item_identities", "item_identity", "node_key", "role_bit", "role_key", "role_keys", "role_name", "sub_key",
    "sub_keys", "term_hash", "text_key", "triple_id", "triple_ids", "triple_keys",
]  # fmt: skip

Key = NewType("Key", int)
U64 = npt.NDArray[np.uint64]

S: Final = 1
P: Final = 2
O: Final = 4  # noqa: E741 - RDF's own letter
SPO: Final = 7
ANY: Final = 0

ROLES: Final = (1, 2, 4, 3, 5, 6, 7, 0)
"""All indexes in the papers' order: s, p, o, sp, so, po, spo, then the wildcard."""

ROLE_NAMES: Final = {0: "any", 1: "s", 2: "p", 3: "sp", 4: "o", 5: "so", 6: "po", 7: "spo"}

BUCKETS: Final = 8
"""Number of wildcard buckets: a pattern without constants is stored in all of them, a triple in one."""

EVENT_SHIFT: Final = 8
"""A set of indexes is an integer: bit ``role`` for set semantics, bit ``role + 8`` for per-event."""

MARK_SHIFT: Final = 16
"""On the wire, bit ``role + 16`` of a set of indexes sends the triple to a sub-key under that index."""

PRIMARY_SHIFT: Final = 24
"""On the wire, bit ``role + 24`` of a set of indexes is set if the receiver is the primary."""

SPLIT_ROLES: Final = (1, 2, 4, 3, 5, 6)
"""Indexes with possible hot keys.

Under spo each key has one triple, and the wildcard has its buckets.
"""

DEPTH_MAX: Final = 8
"""Largest depth of a hot key: it has at most 2^8 sub-keys."""

CSBV_ROLES: Final = sum(1 << role for role in (1, 2, 3, 4, 5, 6, 7))
CQC_ROLES: Final = (1 << S) | (1 << P) | (1 << O)

_MASK: Final = (1 << 64) - 1
_M1: Final = 0xBF58476D1CE4E5B9
_M2: Final = 0x94D049BB133111EB
_GOLDEN: Final = 0x9E3779B97F4A7C15
_TRIPLE_SEED: Final = 0xD1B54A32D192ED03
_SEEDS: Final = tuple((role + 1) * _GOLDEN & _MASK for role in range(8))

_SWAPS: Final = tuple(
    (np.uint64(1 << at), np.uint64(_MASK // ((1 << (1 << at)) + 1))) for at in range(6)
)
"""Shifts and masks that swap neighbouring bits, pairs, bytes...: together they reverse 64 bits."""

_U30, _U27, _U31 = np.uint64(30), np.uint64(27), np.uint64(31)
_A1, _A2 = np.uint64(_M1), np.uint64(_M2)


def role_bit(role: int, *, per_event: bool) -> int:
    """Return the bit of an index in a set of indexes."""
    return 1 << (role + EVENT_SHIFT if per_event else role)


def role_name(bits: int) -> str:
    """Spell a set of indexes, such as ``s,p,po`` or ``po,events:po``; ``sub:po``: to a sub-key under po."""
    plain = [ROLE_NAMES[role] for role in ROLES if bits >> role & 1]
    events = ["events:" + ROLE_NAMES[role] for role in ROLES if bits >> (role + EVENT_SHIFT) & 1]
    marks = ["sub:" + ROLE_NAMES[role] for role in ROLES if bits >> (role + MARK_SHIFT) & 1]
    marks += ["primary:" + ROLE_NAMES[role] for role in ROLES if bits >> (role + PRIMARY_SHIFT) & 1]
    return ",".join(plain + events + marks)


def fmix(x: int) -> int:
    """Mix 64 bits so that each input bit moves half of the output (SplitMix64's finaliser)."""
    x = (x ^ (x >> 30)) * _M1 & _MASK
    x = (x ^ (x >> 27)) * _M2 & _MASK
    return x ^ (x >> 31)


def fmix_array(x: U64) -> U64:
    """Mix a column as :func:`fmix` does one number."""
    x = (x ^ (x >> _U30)) * _A1
    x = (x ^ (x >> _U27)) * _A2
    return x ^ (x >> _U31)


def term_hash(canonical: str) -> int:
    """Return the 64-bit hash of a term in canonical N-Triples form: the upper half of its digest."""
    data = canonical.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=16).digest()[:8], "big")


def node_key(identifier: bytes) -> Key:
    """Return the 64-bit ring position of a 160-bit node identifier."""
    return Key(int.from_bytes(identifier[:8], "big"))


def even_key(ordinal: int) -> Key:
    """Return the ring position of the ``ordinal``-th of evenly placed peers: its 64 bits reversed.

    Each position bisects one of the longest gaps, so for any number of peers, no peer owns more than twice as much as
    another.  (Of N random positions the busiest owns about ln N times the mean.)
    """
    return Key(int(f"{ordinal:064b}"[::-1], 2))


def text_key(text: str) -> Key:
    """Return the ring position of any other name, such as a query or a subscription."""
    return Key(fmix(term_hash(text)))


def role_key(role: int, s: int, p: int, o: int) -> Key:
    """Return the index key of the parts that ``role`` names; the other hashes are ignored."""
    h = _SEEDS[role]
    if role & S:
        h = fmix(h ^ s)
    if role & P:
        h = fmix((h + _GOLDEN & _MASK) ^ p)
    if role & O:
        h = fmix((h + 2 * _GOLDEN & _MASK) ^ o)
    return Key(h)


def role_keys(role: int, s: U64, p: U64, o: U64) -> U64:
    """Return the index keys of columns of term hashes, as :func:`role_key` does for one triple."""
    h = np.full(max(len(s), len(p), len(o)), _SEEDS[role], np.uint64)
    if role & S:
        h = fmix_array(h ^ s)
    if role & P:
        h = fmix_array((h + np.uint64(_GOLDEN)) ^ p)
    if role & O:
        h = fmix_array((h + np.uint64(2 * _GOLDEN & _MASK)) ^ o)
    return h


def triple_keys(roles: int, s: int, p: int, o: int) -> list[tuple[int, int]]:
    """Return each index of a set, of either kind, with the ring key of a triple of term hashes under it."""
    roles = (roles | roles >> EVENT_SHIFT) & 0xFF
    found = []
    for role in range(1, 8):
        if roles >> role & 1:  # role_key() and fmix() inlined: this runs for every triple that is published alone
            x = _SEEDS[role]
            if role & S:
                x ^= s
                x = (x ^ (x >> 30)) * _M1 & _MASK
                x = (x ^ (x >> 27)) * _M2 & _MASK
                x ^= x >> 31
            if role & P:
                x = (x + _GOLDEN & _MASK) ^ p
                x = (x ^ (x >> 30)) * _M1 & _MASK
                x = (x ^ (x >> 27)) * _M2 & _MASK
                x ^= x >> 31
            if role & O:
                x = (x + 2 * _GOLDEN & _MASK) ^ o
                x = (x ^ (x >> 30)) * _M1 & _MASK
                x = (x ^ (x >> 27)) * _M2 & _MASK
                x ^= x >> 31
            found.append((role, x))
    if roles & 1 << ANY:
        found.append((ANY, BUCKET_KEYS[triple_id(s, p, o) % BUCKETS]))
    return found


def sub_key(key: int, index: int) -> Key:
    """Return sub-key ``index`` of a key; number 0 is the key itself.

    The last d bits of ``index * odd`` take all values, as the last d bits of the index do.  Reversed, they are the
    first d bits of the change to the key.  So for every d, the sub-keys below 2^d fall into different parts of the
    ring's 2^d equal parts, and stay in place when d grows.  The odd number, different for each key, randomises their
    places within the parts.
    """
    product = index * (fmix(key) | 1) & _MASK
    return Key(key ^ int(f"{product:064b}"[::-1], 2))


def sub_keys(ring: U64, indexes: U64) -> U64:
    """Return :func:`sub_key` of a column of keys and indexes."""
    x = indexes * (fmix_array(ring) | np.uint64(1))
    for shift, mask in _SWAPS:
        x = (x & mask) << shift | (x >> shift) & mask
    return ring ^ x


def bucket_key(bucket: int) -> Key:
    """Return the key of a wildcard bucket."""
    return Key(fmix(_SEEDS[ANY] ^ fmix(bucket + 1)))


BUCKET_KEYS: Final = tuple(bucket_key(each) for each in range(BUCKETS))
"""The keys of all wildcard buckets."""


def triple_id(s: int, p: int, o: int) -> int:
    """Return the identity of a triple from the hashes of its terms."""
    x = _SEEDS[SPO] ^ s  # role_key() and fmix() inlined: this runs for every triple that is joined
    x = (x ^ (x >> 30)) * _M1 & _MASK
    x = (x ^ (x >> 27)) * _M2 & _MASK
    x = ((x ^ (x >> 31)) + _GOLDEN & _MASK) ^ p
    x = (x ^ (x >> 30)) * _M1 & _MASK
    x = (x ^ (x >> 27)) * _M2 & _MASK
    x = ((x ^ (x >> 31)) + 2 * _GOLDEN & _MASK) ^ o
    x = (x ^ (x >> 30)) * _M1 & _MASK
    x = (x ^ (x >> 27)) * _M2 & _MASK
    return x ^ (x >> 31) ^ _TRIPLE_SEED


def triple_ids(s: U64, p: U64, o: U64) -> U64:
    """Return the identities of a column of triples."""
    return role_keys(SPO, s, p, o) ^ np.uint64(_TRIPLE_SEED)


def event_id(publisher: int, number: int) -> int:
    """Return the identity of a publication event, from the publisher and its own event number."""
    return fmix(publisher ^ fmix(number + 1))


def event_ids(publisher: int, first: int, count: int) -> U64:
    """Return the identities of ``count`` consecutive events of one publisher."""
    numbers = np.arange(first + 1, first + 1 + count, dtype=np.uint64)
    return fmix_array(np.uint64(publisher) ^ fmix_array(numbers))


def event_ids_by_content(publisher: int, s: U64, p: U64, o: U64) -> U64:
    """Return the identities of one publisher's events by content, from the hashes of their terms.

    They differ from the identities of numbered events of the same publisher, except for collisions.
    """
    return fmix_array(np.uint64(publisher) ^ fmix_array(triple_ids(s, p, o)))


def item_identity(identity: int, *stamps: int) -> int:
    """Return an identity of an item in one state, from its identity and the stamps of the state."""
    for stamp in stamps:
        identity = fmix(identity ^ stamp)
    return identity


def item_identities(identities: U64, *stamps: U64) -> U64:
    """Return :func:`item_identity` of columns."""
    for stamp in stamps:
        identities = fmix_array(identities ^ stamp)
    return identities


def contribution(identity: int, position: int) -> int:
    """Return the share of a triple in a solution's identity when it matches the pattern at ``position``.

    A solution's identity is the sum (mod 2^64) of these shares over its patterns.  The position keeps self-joins
    apart.  The sum is independent of the order of evaluation, so retries, replicas and other plans derive the same
    identity.
    """
    x = identity + (position + 1) * _GOLDEN & _MASK  # fmix() inlined: this runs once per pair joined
    x = (x ^ (x >> 30)) * _M1 & _MASK
    x = (x ^ (x >> 27)) * _M2 & _MASK
    return x ^ (x >> 31)


def contributions(identities: U64, position: int) -> U64:
    """Return :func:`contribution` of a column."""
    return fmix_array(identities + np.uint64((position + 1) * _GOLDEN & _MASK))
