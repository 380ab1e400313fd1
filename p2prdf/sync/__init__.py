"""Blocking client of a node, for notebooks and scripts without an event loop.

::

    with p2prdf.sync.connect("127.0.0.1:7400") as client:
        client.publish([("<urn:a>", "<urn:goals>", 3)])
        print(client.query("SELECT ?s ?o { ?s <urn:goals> ?o }").to_pandas())
        subscription = client.subscribe("SELECT ?s ?o { ?s <urn:goals> ?o }", since="beginning")
        for solution in subscription.solutions(timeout_seconds=5):
            print(solution["s"], solution.value("o"))

Every method has the arguments, results and errors of its namesake in :mod:`p2prdf.client`.
"""

from __future__ import annotations

from p2prdf.sync.client import ChannelStore, Client, Concluding, InterestStore, connect
from p2prdf.sync.facade import Items
from p2prdf.sync.publishing import Export, Stream, Transaction
from p2prdf.sync.subscription import ChannelSubscription, Cohort, Subscription

__all__ = [
    "ChannelStore", "ChannelSubscription", "Client", "Cohort", "Concluding", "Export", "InterestStore", "Items",
    "Stream", "Subscription", "Transaction", "connect",
]  # fmt: skip
