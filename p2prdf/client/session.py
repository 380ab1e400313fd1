"""The client's end of a connection to a node: requests out, answers and solutions in.

It uses the peers' wire format (:mod:`p2prdf.wire.codec`). A client keeps no term dictionary between frames, so
publishing a file of any size takes constant memory.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from p2prdf.client.window import Window
from p2prdf.columns import LISTS
from p2prdf.errors import P2PRDFError, RemoteProtocolError, TlsRefused, Unavailable
from p2prdf.rdf.dictionary import TermNames
from p2prdf.tls import Tls, node_in, refusal, speaks_tls
from p2prdf.wire import messages
from p2prdf.wire.codec import FrameReader
from p2prdf.wire.decoding import Decoder
from p2prdf.wire.encoding import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Session", "Silent", "open_session"]

AGENT: Final = "p2prdf-python"
LINGER_SECONDS: Final = 2.0
KEEPALIVE: Final = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 8_000}
"""TCP options, where the system has them: they detect a vanished machine after 8 to 11 s of silence.

TCP_KEEPIDLE and TCP_KEEPINTVL are seconds, TCP_USER_TIMEOUT milliseconds; nodes use the same values. A busy
machine is not lost: its kernel answers.
"""

_ANSWERS: Final = (
    messages.ClientPublished, messages.ClientSubscribed, messages.ClientDone, messages.ClientReply,
    messages.ClientExportPage,
)


class Silent(Unavailable):
    """A node did not answer in time: it hangs or is unreachable, though the connection stands."""


class Session(asyncio.Protocol):
    """One connection to a node.

    ``on_rows`` is called with solutions and the dictionary of their terms, ``on_bookmark`` with bookmarks,
    ``on_ended`` with a subscription that has ended, ``on_lost`` at the end of the connection.

    ``publications``: the slots for publications in flight, valid after the welcome. ``opened_at``: when it was
    made (monotonic seconds). ``answered``: whether a request was answered without error. ``heard_at``: when
    data arrived last.
    """

    def __init__(self, speaks_for: str = "") -> None:
        self._speaks_for = speaks_for
        self.welcome: asyncio.Future[messages.ClientWelcome] = asyncio.get_running_loop().create_future()
        self.on_rows: Callable[[messages.ClientRows, TermNames], None] = lambda _rows, _terms: None
        self.on_bookmark: Callable[[messages.ClientBookmark], None] = lambda _message: None
        self.on_ended: Callable[[messages.ClientEnded], None] = lambda _message: None
        self.on_lost: Callable[[P2PRDFError], None] = lambda _error: None
        self.lost: P2PRDFError | None = None
        self.publications = Window(1)
        self.opened_at = self.heard_at = time.monotonic()
        self.answered = False
        self._reader = FrameReader()
        self._requests: dict[int, asyncio.Future[Any]] = {}
        self._next_request = 0
        self._transport: asyncio.Transport | None = None
        self._gone = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    # --- out -------------------------------------------------------------------------------------

    def start(
        self, make: Callable[[int], Any], terms: TermNames | None = None, *, traceparent: str = ""
    ) -> asyncio.Future[Any]:
        """Send the request that ``make`` builds from its number; return the future of its answer.

        ``traceparent``: the trace of a publication, if it is traced. The future's exception is always
        retrieved, so it may be dropped. Raises Unavailable.
        """
        if self.lost is not None:
            raise self.lost
        self._next_request += 1
        request = self._next_request
        frame = encode(make(request), terms)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_look_at)
        self._requests[request] = answer
        if traceparent:
            self._write(encode(messages.ClientTrace(request, traceparent)))
        self._write(frame)
        return answer

    async def ask(self, make: Callable[[int], Any], *, timeout_seconds: float) -> Any:
        """Send a request and return its answer.

        Raises Silent if there is none in time, Unavailable, or the error in the answer.
        """
        answer = self.start(make)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await answer
        except TimeoutError:
            raise Silent(f"no answer within {timeout_seconds:g} s") from None

    def tell(self, message: Any) -> None:
        """Send a message that has no answer; do nothing if the connection is lost."""
        if self.lost is None:
            self._write(encode(message))

    async def room(self) -> None:
        """Wait until the socket accepts more data, or the connection is lost."""
        await self._room.wait()

    def close(self) -> None:
        """Close the connection."""
        self._lose(Unavailable("the client was closed"))
        if self._transport is not None:
            self._transport.close()

    def drop(self, error: P2PRDFError) -> None:
        """Abort the connection; unsent data is dropped."""
        self._lose(error)
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        """Wait until the socket is closed, at most ``LINGER_SECONDS`` for a node that does not read."""
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await self._gone.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()
            await self._gone.wait()

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame)

    # --- in --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check the node's certificate, and send the hello."""
        self._transport = cast("asyncio.Transport", transport)
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None:
            try:
                node_in(encrypted.getpeercert())
            except TlsRefused as error:
                self.drop(error)
                return
        _keep_alive(transport.get_extra_info("socket"))
        self._write(encode(messages.ClientHello(messages.CLIENT_VERSION, AGENT, self._speaks_for)))

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        self.heard_at = time.monotonic()
        if not self.welcome.done() and speaks_tls(data):
            self.drop(TlsRefused("this node accepts TLS only: connect with a certificate", reason="not-tls"))
            return
        try:
            for body in self._reader.feed(data):
                terms = TermNames()
                for message in Decoder(terms, LISTS).decode(body):
                    self._take(message, terms)
        except P2PRDFError as error:
            self.drop(error)

    def _take(self, message: Any, terms: TermNames) -> None:
        if isinstance(message, messages.ClientRows):
            self.on_rows(message, terms)
        elif isinstance(message, messages.ClientBookmark):
            self.on_bookmark(message)
        elif isinstance(message, messages.ClientEnded):
            self.on_ended(message)
        elif isinstance(message, _ANSWERS):
            self.answered = True
            answer = self._requests.pop(message.request, None)
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif isinstance(message, messages.ClientError):
            self._fail(message)
        elif isinstance(message, messages.ClientWelcome) and not self.welcome.done():
            self.publications = Window(message.publications_max)
            self.welcome.set_result(message)
        else:
            raise RemoteProtocolError(f"the node sent {type(message).__name__}, which a client does not expect")

    def _fail(self, message: messages.ClientError) -> None:
        error = messages.error_of(message)
        if message.request == 0:
            self._lose(error)
            return
        answer = self._requests.pop(message.request, None)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def pause_writing(self) -> None:
        """Note that the socket is full."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Note that the socket has room again."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""
        self._transport = None
        self._gone.set()
        if isinstance(exc, ssl.SSLError):  # mostly an alert
            self._lose(refusal(exc))
        self._lose(Unavailable(f"the node closed the connection{f': {exc}' if exc else ''}"))

    def _lose(self, error: P2PRDFError) -> None:
        if self.lost is not None:
            return
        self.lost = error
        self.publications.close()
        self._room.set()
        for answer in [self.welcome, *self._requests.values()]:
            if not answer.done():
                answer.set_exception(error)
        self.welcome.exception() if self.welcome.done() and not self.welcome.cancelled() else None
        self._requests.clear()
        self.on_lost(error)


async def open_session(
    host: str, port: int, *, connect_seconds: float, tls: Tls | ssl.SSLContext | None = None, speaks_for: str = ""
) -> Session:
    """Connect to a node, with TLS if ``tls`` is given, and await its welcome.

    ``speaks_for``: the client in whose place to act. Raises TlsRefused if either side does not trust the other,
    Unavailable, or the node's error.
    """
    loop = asyncio.get_running_loop()
    context = tls.context() if isinstance(tls, Tls) else tls
    try:
        async with asyncio.timeout(connect_seconds):
            _, session = await loop.create_connection(partial(Session, speaks_for), host, port, ssl=context)
            try:
                await session.welcome
            except BaseException as error:
                session.drop(error if isinstance(error, P2PRDFError) else Unavailable("the node did not answer"))
                await session.closed()  # the loop may end with this error, so leave no open socket behind
                raise
            return session
    except (ssl.SSLError, TlsRefused) as error:
        found = refusal(error)
        raise TlsRefused(f"{host}:{port}: {found}", reason=found.reason) from error
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no welcome within {connect_seconds:g} s"
        raise Unavailable(f"{host}:{port}: {reason}") from error


def encode(message: Any, terms: TermNames | None = None) -> bytes:
    """Return the frame of one message; ``terms`` holds the terms of its columns."""
    return Encoder(terms if terms is not None else TermNames()).encode([message])


def _keep_alive(connection: Any) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _look_at(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()
