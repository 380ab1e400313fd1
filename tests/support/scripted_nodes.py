"""Nodes by script: real sockets on loopback that welcome a client and then follow a test's instructions."""

from __future__ import annotations

import asyncio
import contextlib

from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermNames
from p2prdf.wire import messages
from p2prdf.wire.codec import FrameCodec, FrameReader

__all__ = ["ScriptedNode", "Visit", "nodes"]


class Visit:
    """One connection of a client; ``heard`` are its messages, after the hello."""

    def __init__(self, writer):
        self.heard = []
        self.terms = {}
        """The terms of each publication's frame."""
        self.news = asyncio.Event()
        self._writer = writer

    def send(self, *parts, terms=None):
        """Send messages in one frame."""
        self._writer.write(FrameCodec(terms if terms is not None else TermNames(), LISTS).encode(list(parts)))

    def rows(self, subscription, first, values, *, lost=0, epoch=1):
        """Send answers of one variable; the identity of each is its value."""
        terms = TermNames()
        column = terms.intern_all([f'"{value}"' for value in values])
        count = len(values)
        self.send(
            messages.ClientRows(subscription, first, lost, list(values), [0] * count, (column,), epoch), terms=terms
        )

    def abort(self):
        """Break the connection."""
        self._writer.transport.abort()

    async def first_of(self, kind):
        """Wait for a message of one kind; return the first."""
        while not self.of(kind):
            self.news.clear()
            await self.news.wait()
        return self.of(kind)[0]

    def of(self, kind):
        """Return the received messages of one kind."""
        return [message for message in self.heard if isinstance(message, kind)]


class ScriptedNode:
    """Answers by ``on``, a map from a message's type to a function of the visit and the message.

    Without such a function pings, publications, acknowledgements and ends of subscriptions and streams are
    confirmed, and nothing else. ``greet`` is called with each visit after the welcome.
    """

    def __init__(self, *, credit=64, others=(), on=None, greet=lambda _visit: None):
        self.visits = []
        self.credit, self.others, self.greet = credit, others, greet
        self.on = {
            messages.ClientPing: lambda visit, m: visit.send(messages.ClientDone(m.request)),
            messages.ClientEndStream: lambda visit, m: visit.send(messages.ClientDone(m.request)),
            messages.ClientPublish: lambda visit, m: visit.send(messages.ClientPublished(m.request, 1)),
            messages.ClientAcknowledge: lambda visit, m: visit.send(messages.ClientDone(m.request)),
            messages.ClientUnsubscribe: lambda visit, m: visit.send(
                messages.ClientDone(m.request)
            ),
            **(on or {}),
        }
        self.came = asyncio.Event()
        """Set when a client has connected."""
        self.port = 0
        self._server = None
        self._writers = {}
        """Connections, each with the task that reads."""

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def contact(self):
        return messages.Contact(self.port, "127.0.0.1", self.port)

    async def start(self):
        """Listen; at the same port as before, if there was one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        """Break all connections and listen no more."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        if self._writers:
            await asyncio.wait(self._writers.values())
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        self._writers[writer] = asyncio.current_task()
        visit, frames = Visit(writer), FrameReader()
        self.visits.append(visit)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                for body in frames.feed(data):
                    terms = TermNames()
                    for message in FrameCodec(terms, LISTS).decode(body):
                        if isinstance(message, messages.ClientPublish):
                            visit.terms[message.request] = terms
                        self._take(visit, message)
        del self._writers[writer]
        writer.close()

    def _take(self, visit, message):
        if isinstance(message, messages.ClientHello):
            others = tuple(node.contact for node in self.others)
            visit.send(messages.ClientWelcome(self.contact, self.credit, messages.CLIENT_VERSION, others))
            self.came.set()
            self.greet(visit)
            return
        visit.heard.append(message)
        visit.news.set()
        action = self.on.get(type(message))
        if action is not None:
            action(visit, message)


@contextlib.asynccontextmanager
async def nodes(*scripted):
    """Start nodes, and stop them in the end."""
    try:
        yield [await node.start() for node in scripted]
    finally:
        for node in scripted:
            if node.port:
                await node.stop()
