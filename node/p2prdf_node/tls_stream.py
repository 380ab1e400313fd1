"""One connection's TLS: between the socket, whose protocol it is, and a ``Connection``, whose transport it is.

The standard library has this, too.  It is done again here, on :class:`ssl.SSLObject`, for three things that the
standard one has not: a connection counts, and has its deadline, from the moment it is accepted, not only after its
handshake; whoever is refused is told why (the standard one drops the alert), as is the log; and who is at the other end
is looked at before a single byte of what it says is decoded.

The connection is told of the socket at once, and of bytes once the other side is known.  What it writes before that is
dropped: it does so to say why it closes, and a stranger is told by the handshake's alert.  Reading stops where the
connection wants it to: what is decrypted is handed on piece by piece, and what waits is no more than one read of the
socket.
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
"""Most that is handed on at once, but for a record."""
RECORD_BYTES: Final = 16 << 10
"""Most that a record holds; to ask for more would allocate it each time."""
NO_TLS: Final = bytes.fromhex("15030300020246")
"""An alert, "protocol version": OpenSSL sends none to who speaks without TLS, who then would not know what is wrong."""


class TlsStream(asyncio.Protocol):
    """The TLS of a connection.

    ``admit`` is asked about the other side when the handshake is done, and raises TlsRefused.  ``done``: the outcome
    of the handshake, for who waits for it.
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

    # --- the socket's side -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._socket = cast("asyncio.Transport", transport)
        assert self._connection is not None
        self._connection.connection_made(cast("asyncio.BaseTransport", self))
        if not self.is_closing():
            self._shake()

    def data_received(self, data: bytes) -> None:
        """Take in what the socket brings."""
        self._in.write(data)
        if self._shaken:
            self._read()
        elif not self.is_closing():
            self._shake()

    def pause_writing(self) -> None:
        """The socket is full."""
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The socket has room again."""
        if self._connection is not None:
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
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
        """Go on with the handshake as far as what has come in allows."""
        try:
            self._tls.do_handshake()
            identity = identity_in(self._tls.getpeercert())
            self._admit(identity)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._flush()
        except (ssl.SSLError, ConnectionError) as error:
            self._fail(refusal(error))
        except TlsRefused as error:
            self._shaken = True  # so the connection can say why
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
        """Hand on what can be decrypted."""
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
        """Return what there is, up to ``READ_BYTES`` or a little more, and why there is no more."""
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

    # --- the connection's side: what it needs of a transport -------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes, or drop them if the other side is not known yet, or TLS has failed."""
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
        """Hand nothing on until :meth:`resume_reading`."""
        self._paused = True
        if self._shaken and self._socket is not None:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Hand on what waits, and read again."""
        self._paused = False
        if self._socket is not None and not self._socket.is_closing():
            self._socket.resume_reading()
            if self._shaken and self._again is None:
                self._again = asyncio.get_running_loop().call_soon(self._read)

    def close(self) -> None:
        """Say that nothing more comes, and close when that is sent."""
        if self._socket is None or self._socket.is_closing():
            return
        if self._shaken:
            with contextlib.suppress(ssl.SSLError):  # the other side has not said so yet, or broke off
                self._tls.unwrap()
            self._flush()
        self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        """Tell whether it is closed, or about to be."""
        return self._socket is None or self._socket.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the connection is told that there is no room."""
        assert self._socket is not None
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the socket."""
        return default if self._socket is None else self._socket.get_extra_info(name, default)


def _look_at(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
