"""The recursive multisend: messages for many keys travel together and split on the way.

In multiSend(M, I) of Idreos, Tryfonopoulos and Koubarakis (ICDE 2006) messages find their way without lookups: a peer
keeps the part that it owns and forwards the rest.  Keys with a common path share messages.  For each key a peer decides
by its own knowledge:

1. This peer is proven to own the key: the key stays.
2. Another peer is proven to own it (address cache): the key goes there directly.
3. Otherwise the key goes to the contact nearest to the owner: in Chord the last one before the key, in Kademlia the
   closest one.
4. If no contact is nearer than this peer, the key is looked up.

Rule 3 shortens the distance at each hop, in Kademlia by at least one bit, so 64 hops are enough.  Longer paths mean
that views disagree: such a message stays at its receiver and is traced.  Design: docs/explanation/design/routing.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2prdf.keys import U64
    from p2prdf.overlay.address_cache import AddressCache
    from p2prdf.overlay.ownership import I64

__all__ = ["next_hops", "next_hops_list"]


def next_hops(cache: AddressCache, keys: U64, *, learned: bool = True) -> I64:
    """Return the next hop of each key as a contact number: 0 is this peer, -1 needs a lookup.

    ``learned``: use all known owners (rule 2).  Otherwise contacts serve as a mere routing table, and known owners are
    used in the last step only.
    """
    owners = cache.resolve(keys) if learned else cache.proven(keys)
    ways = cache.toward(keys)
    if learned:
        return np.where((owners < 0) & (ways > 0), ways, owners)
    return np.where((owners != 0) & (ways > 0), ways, owners)


def next_hops_list(cache: AddressCache, keys: Sequence[int], *, learned: bool = True) -> list[int]:
    """Apply :func:`next_hops` to a few keys in a plain list."""
    owners = cache.resolve_list(keys) if learned else cache.proven_list(keys)
    ways = cache.toward_list(keys)
    return [
        way if way > 0 and (owner < 0 or (owner > 0 and not learned)) else owner
        for owner, way in zip(owners, ways, strict=True)
    ]
