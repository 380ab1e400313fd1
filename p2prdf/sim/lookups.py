"""Lookups of simulated peers, message by message, over static ideal routing tables.

No peer fails here, so silence means a lost transfer: a request is repeated up to ``ATTEMPTS_MAX`` times.  Treating a
silent peer as dead would break the promise of OwnersFound that no closer peer is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from p2prdf.sim.routing import ROUTINGS
from p2prdf.wire.contract import OwnersFound
from p2prdf.wire.messages import Envelope, FindNode, Nodes

if TYPE_CHECKING:
    from p2prdf.overlay.search import Search
    from p2prdf.sim.world import Node, World
    from p2prdf.wire.messages import Contact

__all__ = ["ATTEMPTS_MAX", "TIMEOUT_SECONDS", "Lookups"]

TIMEOUT_SECONDS: Final = 0.5
ATTEMPTS_MAX: Final = 24
"""With 15 % loss in each direction, one request in 10^13 fails."""


@dataclass(slots=True, eq=False)
class _Question:
    """One FindNode on behalf of a lookup, repeated until answered."""

    number: int
    node: Node
    lookup: Search
    to: Contact
    attempts: int = 0


@dataclass(slots=True)
class _Open:
    """The lookup of one key at one peer, shared by all requests for the key meanwhile."""

    lookup: Search
    questions: list[int] = field(default_factory=list)


class Lookups:
    """All lookups that are under way in a world."""

    def __init__(self, world: World):
        self._world = world
        self.routing = ROUTINGS[world.options.overlay](world.ring, world.options.bucket)
        self._questions: dict[int, _Question] = {}
        self._open: dict[tuple[int, int], _Open] = {}
        self._next = 0

    def start(self, node: Node, key: int) -> None:
        """Look up the owners of ``key`` for a peer, which gets OwnersFound."""
        if (node.index, key) in self._open:
            return
        self._world.counts.lookups += 1
        lookup = self.routing.lookup(node.contact, key)
        self._open[node.index, key] = _Open(lookup)
        self._go_on(node, lookup)

    def receive(self, node: Node, message: FindNode | Nodes, sender: Contact) -> None:
        """Answer a question, or take in an answer."""
        if isinstance(message, FindNode):
            named = self.routing.answer(node.contact, message.key)
            self._world.send(node, sender, Envelope(0, 0, Nodes(message.request, named)))
            return
        question = self._questions.pop(message.request, None)
        if question is not None:
            question.lookup.answered(sender, message.contacts)
            self._go_on(question.node, question.lookup)

    def _go_on(self, node: Node, lookup: Search) -> None:
        """Send the lookup's pending requests, or report its outcome."""
        opened = self._open.get((node.index, lookup.target))
        if opened is None or opened.lookup is not lookup:
            return  # over; an answer came late
        for contact in lookup.requests():
            self._next += 1
            opened.questions.append(self._next)
            self._questions[self._next] = _Question(self._next, node, lookup, contact)
            self._ask(self._questions[self._next])
        if lookup.done:
            del self._open[node.index, lookup.target]
            for number in opened.questions:
                self._questions.pop(number, None)
            complete = lookup.complete or len(lookup.result) == len(self._world.nodes)
            found = OwnersFound(lookup.target, lookup.result, complete, lookup.before)
            # The requesting call must end before its result arrives; a lookup takes at least a millisecond.
            self._world.schedule(0.001, self._world.submit, node, found)

    def _ask(self, question: _Question) -> None:
        question.attempts += 1
        message = FindNode(question.number, question.lookup.target)
        self._world.send(question.node, question.to, Envelope(0, 0, message))
        self._world.schedule(TIMEOUT_SECONDS, self._timeout, question)

    def _timeout(self, question: _Question) -> None:
        if question.number not in self._questions:
            return  # answered, or no longer of interest
        self._world.counts.lookup_timeouts += 1
        if question.attempts < ATTEMPTS_MAX:
            self._ask(question)
            return
        del self._questions[question.number]
        question.lookup.failed(question.to)
        self._go_on(question.node, question.lookup)
