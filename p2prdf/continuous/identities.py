"""Identities of groups, leaves and subscriptions, and the ring keys of their coordinators.

The ring key of a coordinator is a hash of the query's canonical form.  The identities of a query's groups, leaves and
subscriptions are this key with other low bits, so the key follows from the identity.
"""

from __future__ import annotations

import hashlib

from p2prdf import keys
from p2prdf.rdf.algebra import LEAVES_MAX, StandingQuery
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.form import canonical_bytes
from p2prdf.wire.messages import Query

__all__ = [
    "GROUP_BITS", "LEAF_BITS", "SUBSCRIPTION_BITS", "canonical_text", "digest_of", "group_home", "group_of", "home_key",
    "key_of_text", "subscription_home",
]  # fmt: skip

GROUP_BITS = 20
"""Low bits of a leaf's identity: they distinguish the generations of its group and, below these, the leaves."""
LEAF_BITS = (LEAVES_MAX - 1).bit_length()
"""Low bits that distinguish the leaves of a group; a group has the identity of its first leaf."""

SUBSCRIPTION_BITS = 20
"""Low bits of a subscription's number that distinguish the subscriptions of one query."""


def home_key(query: Query, algorithm: Algorithm, *, per_event: bool = False, salt: int = 0) -> keys.Key:
    """Return the key of a query's coordinator: equal queries of equal salt share it; variable names do not count."""
    return key_of_text(canonical_text(query, algorithm, salt, per_event=per_event))


def key_of_text(canonical: str) -> keys.Key:
    """Return the ring key of a canonical text."""
    return keys.Key(keys.text_key(canonical) >> SUBSCRIPTION_BITS << SUBSCRIPTION_BITS)


def canonical_text(query: Query, algorithm: Algorithm, salt: int, *, per_event: bool) -> str:
    """Return a text that is equal exactly for the queries that are evaluated together."""
    if isinstance(query, StandingQuery):
        canonical = repr((canonical_bytes(query), algorithm.value, per_event))
    else:
        canonical = repr((
            query.patterns, query.constants, query.answer, query.distinct,
            [(f.text, f.variables) for f in query.filters], algorithm.value, per_event,
            *([int(query.concludes)] if query.concludes else ()),
        ))  # fmt: skip
    return f"{canonical} {salt}" if salt else canonical


def digest_of(canonical: str) -> bytes:
    """Return a digest of a canonical text, long enough to identify it."""
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def group_home(group_id: int) -> int:
    """Return the ring key of the coordinator of a group or of one of its leaves."""
    return group_id >> GROUP_BITS << GROUP_BITS


def group_of(leaf: int) -> int:
    """Return the identity of a leaf's group."""
    return leaf >> LEAF_BITS << LEAF_BITS


def subscription_home(subscription: int) -> int:
    """Return the ring key of a subscription's coordinator."""
    return subscription >> SUBSCRIPTION_BITS << SUBSCRIPTION_BITS
