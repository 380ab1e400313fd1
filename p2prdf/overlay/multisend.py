"""Multisend in its recursive form: messages for many keys travel together and part on the way.

The problem
-----------
A triple is indexed under up to seven keys, a batch under thousands.  Each owner that is not known
costs a lookup of O(log N) requests and as many replies, and lookups of different keys ask the same
peers over and over.  Idreos, Tryfonopoulos and Koubarakis (ICDE 2006) let the messages find the way
themselves: multiSend(M, I) hands the whole list to a peer on the way, which takes out what it owns
and hands on the rest.  As long as ways are shared, so are the transfers.

The idea
--------
Each peer decides for each key by itself, from what it knows, and keys with the same next hop leave
as one list (the list splits by fingers).  For a key,

1. if this peer is proven to own it, it stays;
2. if another peer is proven to own it (the address cache), it goes straight there;
3. else it goes to the contact nearest to the owner among those on the way: in Chord the last one
   before the key, in Kademlia the closest to it;
4. if no contact is nearer than this peer itself, the key must be looked up.

It ends at the owner
--------------------
By 3 the holder's distance to the key shrinks with every hop: in Chord the way left clockwise, which
a finger halves and which never oversteps the key, until the last peer before it knows its own
successor to be the owner (2); in Kademlia the XOR, by at least one bit.  By 2 it can be wrong only
if a peer joined unheard; the receiver knows better and passes it on.  As after 64 hops there is no
bit left to gain, a message that has gone on for longer than that stays where it is (and is traced):
views of the ring disagree.

On an ideal Chord ring of N peers a key takes about (log2 N) / 2 + 1 hops.

What the sender learns
----------------------
Acknowledgements come back the way that the list went, and with them the owners: whoever passed
something on then knows them, tells the peer before it, and that one the peer before.  When a
publication is acknowledged its entry peer knows the owners, and sends the next one directly.  An
owner could tell the entry peer itself, but then each row would have to carry its entry's address,
and rows of different entries are joined on the way.

Rejected: to sort the keys clockwise and send all of them along to the first, its owner on to the
second, and so on.  Fewer transfers, but as many one after the other as there are owners.
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
    """Return where each key goes from here, as contact numbers: 0 is here, -1 needs a lookup.

    ``learned``: use the owners known (step 2).  Otherwise keys follow the contacts as if they were a
    routing table alone, and only the last step uses what is known.
    """
    owners = cache.resolve(keys) if learned else cache.proven(keys)
    ways = cache.toward(keys)
    if learned:
        return np.where((owners < 0) & (ways > 0), ways, owners)
    return np.where((owners != 0) & (ways > 0), ways, owners)


def next_hops_list(cache: AddressCache, keys: Sequence[int], *, learned: bool = True) -> list[int]:
    """Do what :func:`next_hops` does, for a few keys in a plain list."""
    owners = cache.resolve_list(keys) if learned else cache.proven_list(keys)
    ways = cache.toward_list(keys)
    return [
        way if way > 0 and (owner < 0 or (owner > 0 and not learned)) else owner
        for owner, way in zip(owners, ways, strict=True)
    ]
