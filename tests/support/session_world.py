"""Sessions of clients in memory: connections that record all messages, and a peer that does nothing by itself."""

from __future__ import annotations

import asyncio

import numpy as np

from p2prdf.errors import Busy, QueryRefused
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.standing.query import parse_query
from p2prdf.tls import Identity
from p2prdf.wire import contract, messages
from p2prdf.wire.messages import CLIENT_VERSION, Contact
from p2prdf_node.clients import Clients
from p2prdf_node.config import NodeConfig
from p2prdf_node.permissions_file import read_permissions
from p2prdf_node.session import ClientSession

__all__ = ["OTHERS", "OWN", "QUERY", "Parser", "Wire", "World", "identity"]

QUERY = ConjunctiveQuery(((0, ~0, 1),), ("<urn:p>",), (0,), ("s",))
OWN = Contact(1, "127.0.0.1", 7400)
OTHERS = (messages.Contact(2, "127.0.0.1", 2),)


class Wire:
    """A connection that records the messages written."""

    def __init__(self):
        self.sent = []
        self.holds = set()
        self.received = self.frame_bytes = 0
        self.identity = None
        self.address = "test"
        self.handler = None

    def send(self, parts):
        self.sent += parts

    def hold(self, reason):
        self.holds.add(reason)

    def release(self, reason):
        self.holds.discard(reason)

    def close(self):
        self.handler.closed("closed")

    def take(self, message):
        """Have the session process a message, and return the messages that it wrote."""
        before = len(self.sent)
        self.handler.take(self, message)
        return self.sent[before:]


class Parser:
    """A parser that accepts one query and refuses another."""

    pending = 0

    async def parse(self, text, *, ordered=False):
        if text == "bad":
            raise QueryRefused("no good", line=1, column=2)
        return QUERY if text == "good" else parse_query(text)


class World:
    """Clients at a peer that does nothing by itself."""

    def __init__(self, *, permissions=None, **settings):
        """``permissions``: the text of a file."""
        self.requests = []
        self.is_busy = self.short = False
        self.refusal = self.merging = None
        self.work = []
        self.turns_due = 0
        self.terms = TermDictionary()
        self.iri = self.terms.intern("<urn:a>")
        self.table = None if permissions is None else read_permissions(permissions)
        self.clients = Clients(
            NodeConfig(**settings), OWN, Parser(), self.terms, submit=self.requests.append,
            schedule=self.schedule, busy=self.busy, refusal=lambda: self.refusal, short=lambda: self.short,
            merging=lambda: self.merging,
            status=lambda: '{"fine": true}', spawn=lambda work, _: self.work.append(work),
            others=lambda: OTHERS, permissions=lambda: self.table, listed=lambda after: f'{{"after": {after}}}',
        )  # fmt: skip

    def busy(self):
        return Busy("no room", retry_after=7) if self.is_busy else None

    def schedule(self):
        self.turns_due += 1

    def turn(self):
        """Do the driver's next turn after a request."""
        self.turns_due = 0
        self.clients.admit()

    def client(self, who=None, speaks_for=""):
        """Return a connected client with the identity of a certificate, or none."""
        wire = Wire()
        wire.identity = who
        ClientSession(self.clients, wire, messages.ClientHello(CLIENT_VERSION, "test", speaks_for))
        return wire

    def hold_to(self, permissions):
        """Replace the permissions file."""
        self.table = read_permissions(permissions)
        self.clients.permissions_changed()

    def publication(self, request, rows=1):
        column = np.full(rows, self.iri, np.uint32)
        return messages.ClientPublish(request, 7, 100 * request, column, column, column)

    def complete(self, request, outcome):
        self.clients.completed(contract.Completed(request.request, outcome))

    def taken(self, kind):
        """Return and forget the requests of one kind that the peer was given."""
        while self.turns_due:
            self.turn()
        found = [request for request in self.requests if isinstance(request, kind)]
        self.requests[:] = [request for request in self.requests if not isinstance(request, kind)]
        return found

    def subscribed(self, wire, number=50):
        """Make a subscription."""
        wire.take(messages.ClientSubscribe(1, "good", "csbv", False, 60.0))
        while self.work:
            asyncio.run(self.work.pop())
        (request,) = self.taken(contract.Subscribe)
        self.complete(request, contract.Subscribed(number, 1, (0,)))
        return wire.sent[-1]

    def notify(self, first, rows, *, number=50, lost=0):
        column = np.arange(first, first + rows, dtype=np.uint64)
        self.clients.notify(contract.Notify(number, first, lost, column, column, (column,)))


def identity(name, role="client"):
    """Return the identity in a certificate."""
    return Identity(role, name, 1, 4e9)
