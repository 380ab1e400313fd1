"""The order of a publication's messages, its record and its acknowledgement among the effects of its entry node."""

from __future__ import annotations

import pytest
from peer_pair import LOW, Pair

from p2prdf.columns import ARRAYS, LISTS
from p2prdf.wire.contract import Completed, Persist, Publish, Published, Send
from p2prdf.wire.messages import IndexTriples


class Recorded(Pair):
    """Two peers with records, and the effects of the first one during a publication."""

    def __init__(self, columns):
        super().__init__(columns, replicas=2, copies_min=2, durable=True)

    def publish(self, subject, *, removed=False):
        """Publish a triple at the first peer; return the kinds of effects that concern it."""
        self.requests += 1
        terms = [(subject,), ("<urn:p>",), ("<urn:o>",)]
        s, p, o = (self.columns.column(self.dictionary.intern_all(each), "uint32") for each in terms)
        peer = self.peers[LOW.key]
        submit, wake, receive = peer.submit, peer.wake, peer.receive
        found = []

        def noted(call):
            def called(*arguments, **named):
                effects = call(*arguments, **named)
                found.extend(filter(None, map(kind_of, effects)))
                return effects

            return called

        peer.submit, peer.wake, peer.receive = noted(submit), noted(wake), noted(receive)
        self.submit(LOW, Publish(self.requests, 9, self.requests, s, p, o, removed=removed))
        del peer.submit, peer.wake, peer.receive
        assert isinstance(self.completed[self.requests], Published)
        return found


def kind_of(effect):
    """Return the kind of an effect of a publication; "" for other effects."""
    match effect:
        case Send(_, envelope) if isinstance(envelope.message, IndexTriples):
            return "send" if any(envelope.message.roles) else "stage"
        case Persist(message) if isinstance(message, IndexTriples):
            return "persist" if any(message.roles) else "persist staged"
        case Completed(_, Published()):
            return "acknowledge"
        case _:
            return ""


@pytest.fixture(params=[ARRAYS, LISTS], ids=["arrays", "lists"])
def pair(request):
    made = Recorded(request.param)
    made.compare()
    return made


def test_publication_leaves_before_its_record_and_is_acknowledged_after_it(pair):
    assert pair.publish("<urn:a>") == ["send", "persist", "acknowledge"]


def test_deletion_is_on_the_disk_of_its_entry_before_it_takes_effect(pair):
    pair.publish("<urn:a>")
    assert pair.publish("<urn:a>", removed=True) == ["persist staged", "stage", "send", "persist", "acknowledge"]
