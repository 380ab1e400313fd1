"""How the proxy learns which node opened a stream."""

from __future__ import annotations

import pytest
from chaos.cluster import sender_of

from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermNames
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import ClientHello, Contact, PeerHello

FRONTS = {"127.0.0.1:20001": "n1"}


def frame(message):
    return FrameCodec(TermNames(), LISTS).encode([message])


@pytest.mark.parametrize(
    ("message", "sender"),
    [
        (PeerHello(Contact(5, "127.0.0.1", 20001), 7, 1), "n1"),
        (PeerHello(Contact(5, "127.0.0.1", 20002), 7, 1), ""),
        (ClientHello(1, "test"), ""),
    ],
)
def test_a_stream_is_known_by_its_hello_as_soon_as_that_is_complete(message, sender):
    whole = frame(message)
    assert [sender_of(whole[:size], FRONTS) for size in range(len(whole))] == [None] * len(whole)
    assert sender_of(whole, FRONTS) == sender
    assert sender_of(whole + whole[:7], FRONTS) == sender
