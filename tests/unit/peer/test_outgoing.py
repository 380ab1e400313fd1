"""Rows gathered for another peer in a turn: one message, which counts once for each pending acknowledgement."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from peer_pair import LOW, QUERY, Pair

from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer.network.batches import TripleBatch
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.network.send_buffers import SendBuffers
from p2prdf.rdf.query import Algorithm
from p2prdf.wire.contract import Subscribe
from p2prdf.wire.messages import Answers


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])
def test_parts_of_one_publication_in_one_message_are_waited_for_once(columns):
    """A re-routed message is split by indexes; with all counters in each part, they multiply (schedule 5000970)."""
    sent, released = [], []
    messenger = SimpleNamespace(
        own=SimpleNamespace(key=1), view=5, addressed=lambda number: number, release=released.extend,
        send=lambda _, message, tokens: sent.append((message, tokens)),
    )  # fmt: skip
    tables, chunker = SimpleNamespace(columns=columns), SimpleNamespace(slices=lambda count, _: [(0, count)])
    out = SendBuffers(messenger, tables, chunker, lambda: 0)
    for tokens in ((7, 8), (8, 7), (9,)):
        row = [columns.column([1], kind) for kind in ("uint32", "uint32", "uint32", "uint64", "uint64", "uint32")]
        out.add_triples(2, TripleBatch(*row, 0, tokens))
    out.send()
    ((message, tokens),) = sent
    assert len(message.s) == 3
    assert tokens == (7, 8, 9)
    assert sorted(released) == [7, 7, 8, 8, 9], "as often as they were held"


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])
def test_solutions_that_stay_at_the_peer_are_stored_in_messages_of_bounded_size(columns, monkeypatch):
    """One recomputation can derive more solutions than a message holds; the peer failed then (schedule 41033)."""
    stored = []
    persist = Messenger.persist

    def note(self, message):
        if isinstance(message, Answers):
            stored.append(len(message.rows))
        persist(self, message)

    monkeypatch.setattr(Messenger, "persist", note)
    pair = Pair(columns, replicas=2, copies_min=2, durable=True, batch_rows_max=4)
    pair.pass_time(30.0)
    pair.submit(LOW, Subscribe(1, QUERY, Algorithm.CSBV, lease_seconds=60.0))
    pair.pass_time(5.0)
    pair.publish(LOW, *((f"<urn:{number}>", "<p>", "<o>") for number in range(50)))
    pair.pass_time(5.0)
    assert sum(stored) == 2 * 50, "at both replicas of the coordinator"
    assert max(stored) <= 4
