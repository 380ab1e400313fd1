"""Worker groups: equal processes that share registered work through an overlay, without a leader.

``group`` names a worker group and assigns work by rendezvous hashing.  ``membership`` tracks the live workers by a
stream of added and removed triples.  ``worker`` is the base class of a worker: it renews its own lease, watches the
leases of the others, reads the registry and does its share.  ``answering`` answers requests to workers, ``union``
writes the standing query of a registry, ``overlay`` is the client interface that workers need.

Interest workers (:mod:`p2prdf.replica.worker`) and channel workers (:mod:`p2prdf.channel_workers.worker`) build on
it.
"""
