"""A peer that only acknowledges: ``python -m spark_check.acker`` prints its address and takes all publications."""

from __future__ import annotations

import asyncio

import msgpack
import uvloop

from p2prdf.columns import LISTS
from p2prdf.rdf.dictionary import TermNames
from p2prdf.wire import messages
from p2prdf.wire.codec import FrameCodec, FrameReader
from p2prdf.wire.fields import NUMBERS

PUBLISH = NUMBERS[messages.ClientPublish]


class Acker(asyncio.Protocol):
    """One connection."""

    own = messages.Contact(1, "127.0.0.1", 1)

    def connection_made(self, transport):
        self._transport, self._reader = transport, FrameReader()

    def data_received(self, data):
        for body in self._reader.feed(data):
            _, _, parts, *_ = msgpack.unpackb(body, raw=True)
            for part in parts:
                if part[0] == PUBLISH:
                    self._send(messages.ClientPublished(part[1], 1))
                else:
                    (message,) = FrameCodec(TermNames(), LISTS).decode(body)
                    if isinstance(message, messages.ClientHello):
                        self._send(messages.ClientWelcome(self.own, 64, messages.CLIENT_VERSION, ()))
                    elif isinstance(message, messages.ClientPing):
                        self._send(messages.ClientDone(message.request))

    def _send(self, message):
        self._transport.write(FrameCodec(TermNames(), LISTS).encode([message]))


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(Acker, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    Acker.own = messages.Contact(1, "127.0.0.1", port)
    print(f"ready 127.0.0.1:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
