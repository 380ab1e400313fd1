"""Rows gathered for another peer in a turn: one message, which counts once for each pending acknowledgement."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer.network.batches import TripleBatch
from p2prdf.peer.network.send_buffers import SendBuffers


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])
def test_parts_of_one_publication_in_one_message_are_waited_for_once(columns):
    """A re-routed message is split by indexes; with all counters in each part, they multiply (schedule 5000970)."""
    sent, released = [], []
    messenger = SimpleNamespace(
        own=SimpleNamespace(key=1), view=5, contact=lambda number: number, release=released.extend,
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
