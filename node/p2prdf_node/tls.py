"""A node's certificate, and whom it accepts: read from files, and read again when they change.

The files are looked at every ``tls_poll_seconds``; what has changed is read beside the loop and judged as a whole.  If
anything is wrong with it (half of it copied, a key of another certificate, a list that nobody trusted has signed) that
is told in the log once, and what was in use stays in use.  What is good serves all handshakes from then on, and open
connections are gone through: those whose certificate is revoked now, or has expired, are closed.

*Revoked* is looked up by number after the handshake, not left to OpenSSL: that asks for a list of every authority in
the bundle and refuses everybody if one is missing or past its date; and open connections have to be looked up anyway.
Numbers are random and long, so they need no issuer beside them.  Sessions are not resumed, so there is no way round it.

A node's certificate says its place on the ring, which cannot change while it runs.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from p2prdf.errors import LocalProtocolError, TlsRefused
from p2prdf.tls import CLIENT, NODE, Identity, context_of
from p2prdf_node import certificates
from p2prdf_node.tls_stream import TlsStream
from p2prdf_node.watched import mark_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from p2prdf_node.config import NodeConfig
    from p2prdf_node.connection import Connection

__all__ = ["NodeTls"]

EXPIRES_SECONDS: Final = 14 * 86_400.0
"""So long before a node's own certificate expires it begins to say so."""

log = structlog.get_logger("tls")


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files said when they were read last."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    own: Identity
    revoked: frozenset[int]
    barred: frozenset[int]
    """Ring positions of nodes whose certificates are revoked."""


class NodeTls:
    """The TLS of one node.  Raises LocalProtocolError when it is made, if its files do not do."""

    def __init__(self, config: NodeConfig):
        assert config.tls_cert is not None, "validate() asks for all three"
        assert config.tls_key is not None
        assert config.tls_ca is not None
        self._cert, self._key, self._ca, self._crl = config.tls_cert, config.tls_key, config.tls_ca, config.tls_crl
        self._seen = self._marks()
        self._problem = ""
        self._warned: Identity | None = None
        self.renewed = 0
        """How often files were taken up that had changed."""
        try:
            self._files = self._read()
        except TlsRefused as error:
            raise LocalProtocolError(f"settings tls_...: {error}") from error
        if self._files.own.role != NODE:
            raise LocalProtocolError(f"setting tls_cert: {self._cert} is of {self._files.own}: a node's is needed")

    @property
    def key(self) -> int:
        """Ring position that the certificate gives this node."""
        return self._files.own.key

    def barred(self, key: int) -> bool:
        """Tell whether the certificate of the node at a ring position is revoked."""
        return key in self._files.barred

    # --- connections -----------------------------------------------------------------------------

    def accepted(self, connection: Connection) -> TlsStream:
        """Return the socket's end of a connection that others make."""
        return TlsStream(connection, self._files.server, server=True, admit=self._admit)

    def made(self, connection: Connection, key: int) -> TlsStream:
        """Return the socket's end of a connection that is made to the node at a ring position."""
        return TlsStream(connection, self._files.client, server=False, admit=partial(self._admit_node, key))

    def check_peer(self, identity: Identity | None, key: int) -> None:
        """Raise TlsRefused unless a certificate is that of the node at a ring position."""
        assert identity is not None, "nothing is decoded before the handshake is done"
        if identity.role != NODE:
            raise TlsRefused(f"the certificate is of {identity}, which may not speak as a node", reason="role")
        if identity.key != key:
            raise TlsRefused(f"the certificate is of {identity}, not of node {key:016x}", reason="other-key")

    def refusal(self, identity: Identity, now: float) -> TlsRefused | None:
        """Tell why a certificate of a trusted authority is not accepted at a time (seconds since 1970), or None."""
        if identity.serial in self._files.revoked:
            return TlsRefused(f"the certificate {identity.serial:x} of {identity} is revoked", reason="revoked")
        if identity.role == NODE and identity.key in self._files.barred:
            return TlsRefused(f"the certificates of {identity} are revoked", reason="revoked")
        if identity.expires < now:
            return TlsRefused(f"the certificate {identity.serial:x} of {identity} has expired", reason="expired")
        return None

    def _admit(self, identity: Identity) -> None:
        assert identity.role in (NODE, CLIENT)
        if (error := self.refusal(identity, time.time())) is not None:
            raise error

    def _admit_node(self, key: int, identity: Identity) -> None:
        self._admit(identity)
        self.check_peer(identity, key)

    # --- files -----------------------------------------------------------------------------------

    async def poll(self) -> bool:
        """Look at the files, and take up what has changed.  Return whether something was taken up."""
        marks = await asyncio.to_thread(self._marks)
        self._warn_of_end()
        if marks == self._seen:
            return False
        self._seen = marks
        try:
            files = await asyncio.to_thread(self._read)
        except TlsRefused as error:
            return self._refused(str(error))
        if files.own.role != NODE or files.own.key != self.key:
            return self._refused(f"{self._cert} is of {files.own}, and this is node {self.key:016x}")
        self._files, self._problem = files, ""
        self.renewed += 1
        log.info(
            "tls_files_read", serial=f"{files.own.serial:x}", expires=_moment(files.own.expires),
            revoked=len(files.revoked),
        )  # fmt: skip
        return True

    def _refused(self, reason: str) -> bool:
        """Go on with what was in use."""
        self._problem = reason
        log.error("tls_files_refused", reason=reason)
        return False

    def close_refused(self, connections: Iterable[Connection]) -> None:
        """Close the connections whose certificates are not accepted any more."""
        now = time.time()
        for connection in connections:
            if connection.identity is not None and (error := self.refusal(connection.identity, now)) is not None:
                connection.refuse(error)

    def status(self) -> dict[str, Any]:
        """Return what is in use, for people and monitoring."""
        own = self._files.own
        return {
            "serial": f"{own.serial:x}",
            "expires": _moment(own.expires),
            "expires_seconds": round(own.expires - time.time()),
            "revoked": len(self._files.revoked),
            "renewed": self.renewed,
            "problem": self._problem or None,
        }

    def _read(self) -> _Files:
        """Read and judge everything.  Blocking.  Raises TlsRefused."""
        try:
            return self._judged()
        except (ValueError, TypeError, certificates.UnsupportedAlgorithm) as error:  # parts are read late
            raise TlsRefused(f"damaged, or of a kind that is not known here: {error}", reason="files") from error

    def _judged(self) -> _Files:
        authorities = certificates.read_authorities(self._ca)
        try:
            own = certificates.check_own(certificates.read_certificate(self._cert), authorities)
        except TlsRefused as error:
            raise TlsRefused(f"{self._cert}: {error}", reason="files") from error
        revoked = certificates.Revoked({})
        if self._crl is not None:
            revoked = certificates.read_revoked(self._crl, authorities)
        return _Files(
            context_of(self._ca, self._cert, self._key, server=True),
            context_of(self._ca, self._cert, self._key, server=False),
            own, frozenset(revoked.uris), revoked.keys,
        )  # fmt: skip

    def _marks(self) -> tuple[object, ...]:
        """Return what tells files from those that were there before.  Blocking."""
        return tuple(None if path is None else mark_of(path) for path in (self._cert, self._key, self._ca, self._crl))

    def _warn_of_end(self) -> None:
        own = self._files.own
        if own != self._warned and own.expires - time.time() < EXPIRES_SECONDS:
            self._warned = own
            log.warning("tls_certificate_expires", serial=f"{own.serial:x}", expires=_moment(own.expires))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
