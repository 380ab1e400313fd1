"""Bookmarks that a subscription wants of a peer with nothing else to do."""

from random import Random

from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.wire.contract import Bookmark, Completed, FindOwner, OwnersFound, Subscribe, Subscribed, WantBookmarks
from p2prdf.wire.messages import Contact

QUERY = ConjunctiveQuery(((0, ~0, 1),), ("<p>",), (0, 1), ("s", "o"))
OWN = Contact(1, "10.0.0.1", 7400)


class Idle:
    """A peer with one copy, woken only when it is due."""

    def __init__(self):
        self.now, self.effects = 1000.0, []
        self.peer = Peer(OWN, PeerConfig(replicas=1, copies_min=1), TermDictionary(), entropy=Random(1))

    def submit(self, request):
        self._carry_out(self.peer.submit(request, now=self.now))

    def run(self, seconds):
        end = self.now + seconds
        while (due := self.peer.deadline) is not None and due <= end:
            self.now = max(self.now, due)
            self._carry_out(self.peer.wake(now=self.now))
        self.now = end

    def _carry_out(self, effects):
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, FindOwner):
                self.submit(OwnersFound(effect.key, (OWN,), complete=True))


def test_an_idle_peer_sends_bookmarks_as_soon_as_a_subscription_wants_them():
    idle = Idle()
    idle.submit(Subscribe(1, QUERY, Algorithm.CSBV, lease_seconds=86_400.0))
    idle.run(60.0)
    outcome = next(each.outcome for each in idle.effects if isinstance(each, Completed))
    assert isinstance(outcome, Subscribed)
    assert not any(isinstance(each, Bookmark) for each in idle.effects)
    idle.submit(WantBookmarks(outcome.subscription))
    assert idle.peer.deadline == idle.now
    idle.run(10.0)
    assert any(isinstance(each, Bookmark) for each in idle.effects)
