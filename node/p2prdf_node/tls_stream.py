"""TLS of one connection: the protocol of the socket, and the transport of a ``Connection``.

It is built on :class:`ssl.SSLObject` because asyncio's TLS lacks three properties: a connection counts, and has its
deadline, from the moment it is accepted; a refused side receives the alert (asyncio drops it), and the log the
reason; and the identity of the other side is checked before its first byte is decoded.

The connection learns of the socket at once, and receives bytes after the handshake.  Its output before that is
dropped: it could only be the reason of a close, for which the other side receives the handshake's alert.  A held
connection is not read: decrypted data is passed on piece by piece, and at most one read of the socket waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

from p2prdf.errors import TlsRefused
from p2prdf.tls import identity_in, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf.tls import Identity
    from p2prdf_node.connection import Connection

__all__ = ["TlsStream"]

READ_BYTES: Final = 256 << 10
"""Most bytes passed on at once, apart from the rest of a record."""
RECORD_BYTES: Final = 16 << 10
"""Most bytes of a record; a larger buffer would be allocated for each read."""
NO_TLS: Final = bytes.fromhex("15030300020246")
"""Alert "protocol version" for a client without TLS; OpenSSL sends none, and the client would not learn the reason."""


class TlsStream(asyncio.Protocol):
    """The TLS layer of a connection.

    ``admit`` receives the other side's identity after the handshake, and may raise TlsRefused.  ``done``: outcome of
    the handshake.
    """

    def __init__(
        self, connection: Connection, context: ssl.SSLContext, *, server: bool, admit: Callable[[Identity], None]
    ):
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_look_at)
        self._connection: Connection | None = connection
        self._admit = admit
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._server = server
        self._tls = context.wrap_bio(self._in, self._out, server_side=server)
        self._socket: asyncio.Transport | None = None
        self._shaken = False
        self._paused = False
        self._again: asyncio.Handle | None = None

    # --- calls of the socket -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._socket = cast("asyncio.Transport", transport)
        assert self._connection is not None
        self._connection.connection_made(cast("asyncio.BaseTransport", self))
        if not self.is_closing():
            self._shake()

    def data_received(self, data: bytes) -> None:
        """Process bytes of the socket."""
        self._in.write(data)
        if self._shaken:
            self._read()
        elif not self.is_closing():
            self._shake()

    def pause_writing(self) -> None:
        """Tell the connection that the socket is full."""
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Tell the connection that the socket has room again."""
        if self._connection is not None:
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection about the end."""
        self._socket = None
        connection, self._connection = self._connection, None
        assert connection is not None
        if not self.done.done():
            error = refusal(exc or ConnectionError("the other side closed it"))
            connection.unsecured(error)
            self.done.set_exception(error)
        if self._again is not None:
            self._again.cancel()
        connection.connection_lost(exc)

    # --- TLS -------------------------------------------------------------------------------------

    def _shake(self) -> None:
        """Continue the handshake with the bytes received so far."""
        try:
            self._tls.do_handshake()
            identity = identity_in(self._tls.getpeercert())
            self._admit(identity)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._flush()
        except (ssl.SSLError, ConnectionError) as error:
            self._fail(refusal(error))
        except TlsRefused as error:
            self._shaken = True  # so that the connection can send the reason
            self._fail(error)
        else:
            self._shaken = True
            self._flush()
            assert self._connection is not None
            self._connection.secured(identity)
            self.done.set_result(None)
            self._read()

    def _fail(self, error: TlsRefused) -> None:
        if error.reason == "not-tls" and self._server and not self._out.pending:
            self._out.write(NO_TLS)
        self._flush()  # the alert
        if not self.done.done():
            self.done.set_exception(error)
        if self._connection is not None:
            self._connection.refuse(error)

    def _read(self) -> None:
        """Pass decrypted bytes to the connection."""
        self._again = None
        while not self._paused and self._connection is not None and not self.is_closing():
            data, error = self._decrypted()
            if data:
                self._connection.data_received(data)
            if error is not None:
                self._flush()
                if isinstance(error, ssl.SSLZeroReturnError):
                    self.close()
                elif not isinstance(error, ssl.SSLWantReadError) and self._connection is not None:
                    self._connection.refuse(refusal(error))
                return

    def _decrypted(self) -> tuple[bytes, ssl.SSLError | None]:
        """Return decrypted bytes, up to ``READ_BYTES`` and the rest of a record, and the reason why there are no
        more."""
        parts: list[bytes] = []
        size = 0
        while size < READ_BYTES:
            try:
                part = self._tls.read(RECORD_BYTES)
            except ssl.SSLError as error:
                return b"".join(parts), error
            if not part:
                return b"".join(parts), ssl.SSLZeroReturnError()
            parts.append(part)
            size += len(part)
        return b"".join(parts), None

    def _flush(self) -> None:
        if self._out.pending and self._socket is not None and not self._socket.is_closing():
            self._socket.write(self._out.read())

    # --- calls of the connection: its transport ------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes; drops them before the handshake and after a failure of TLS."""
        if not self._shaken or self.is_closing():
            return
        left = memoryview(data)
        try:
            while left:
                left = left[self._tls.write(left) :]
        except ssl.SSLError:
            self.abort()
        self._flush()

    def pause_reading(self) -> None:
        """Pass nothing on until :meth:`resume_reading`."""
        self._paused = True
        if self._shaken and self._socket is not None:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Pass waiting bytes on, and read again."""
        self._paused = False
        if self._socket is not None and not self._socket.is_closing():
            self._socket.resume_reading()
            if self._shaken and self._again is None:
                self._again = asyncio.get_running_loop().call_soon(self._read)

    def close(self) -> None:
        """Send TLS's close notification, and close when it is sent."""
        if self._socket is None or self._socket.is_closing():
            return
        if self._shaken:
            with contextlib.suppress(ssl.SSLError):  # the other side has not sent its notification yet, or broke off
                self._tls.unwrap()
            self._flush()
        self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        """Tell whether the socket is closed or closing."""
        return self._socket is None or self._socket.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits at which the connection is told that the socket is full."""
        assert self._socket is not None
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a property of the socket."""
        return default if self._socket is None else self._socket.get_extra_info(name, default)


def _look_at(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
