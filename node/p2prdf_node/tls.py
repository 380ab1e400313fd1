"""TLS of a node: its certificate and its trusted authorities, reloaded when their files change.

The files are checked every ``tls_poll_seconds``; changed files are read outside the event loop and validated as a
whole.  If anything is wrong (half a copy, the key of another certificate, a list that no trusted authority signed),
the reason is logged once and the previous files stay in use.  Valid files serve all later handshakes, and open
connections with revoked or expired certificates are closed.

Revocation is checked by serial number after the handshake, not by OpenSSL: OpenSSL requires a current list of every
authority in the bundle and refuses all certificates without one, and open connections must be checked anyway.  Serial
numbers are long and random, so they need no issuer.  Sessions are not resumed, so every connection passes the check.

A node's certificate holds its ring position, which cannot change while the node runs.
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
"""Time before the expiry of the node's own certificate at which warnings begin."""

log = structlog.get_logger("tls")


@dataclass(frozen=True, slots=True)
class _Files:
    """Content of the files as last read."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    own: Identity
    revoked: frozenset[int]
    revoked_keys: frozenset[int]
    """Ring positions of nodes with revoked certificates."""


class NodeTls:
    """The TLS of one node.  The constructor raises LocalProtocolError for bad files."""

    def __init__(self, config: NodeConfig):
        assert config.tls_cert is not None, "validate() asks for all three"
        assert config.tls_key is not None
        assert config.tls_ca is not None
        self._cert, self._key, self._ca, self._crl = config.tls_cert, config.tls_key, config.tls_ca, config.tls_crl
        self._seen = self._marks()
        self._problem = ""
        self._warned: Identity | None = None
        self.renewed = 0
        """Number of times that changed files were taken into use."""
        try:
            self._files = self._read()
        except TlsRefused as error:
            raise LocalProtocolError(f"settings tls_...: {error}") from error
        if self._files.own.role != NODE:
            raise LocalProtocolError(f"setting tls_cert: {self._cert} is of {self._files.own}: a node's is needed")

    @property
    def key(self) -> int:
        """Ring position in this node's certificate."""
        return self._files.own.key

    def is_revoked(self, key: int) -> bool:
        """Tell whether the certificates of the node at a ring position are revoked."""
        return key in self._files.revoked_keys

    # --- connections -----------------------------------------------------------------------------

    def accepted(self, connection: Connection) -> TlsStream:
        """Return the TLS layer of an accepted connection."""
        return TlsStream(connection, self._files.server, server=True, admit=self._admit)

    def made(self, connection: Connection, key: int) -> TlsStream:
        """Return the TLS layer of an outgoing connection to the node at a ring position."""
        return TlsStream(connection, self._files.client, server=False, admit=partial(self._admit_node, key))

    def check_peer(self, identity: Identity | None, key: int) -> None:
        """Raise TlsRefused unless a certificate belongs to the node at a ring position."""
        assert identity is not None, "nothing is decoded before the handshake is done"
        if identity.role != NODE:
            raise TlsRefused(f"the certificate is of {identity}, which is not a node", reason="role")
        if identity.key != key:
            raise TlsRefused(f"the certificate is of {identity}, not of node {key:016x}", reason="other-key")

    def refusal(self, identity: Identity, now: float) -> TlsRefused | None:
        """Return why a trusted authority's certificate is refused at a time (seconds since 1970), or None."""
        if identity.serial in self._files.revoked:
            return TlsRefused(f"the certificate {identity.serial:x} of {identity} is revoked", reason="revoked")
        if identity.role == NODE and identity.key in self._files.revoked_keys:
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
        """Reload the files if they have changed; return whether new ones are in use."""
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
        """Keep the previous files in use."""
        self._problem = reason
        log.error("tls_files_refused", reason=reason)
        return False

    def close_refused(self, connections: Iterable[Connection]) -> None:
        """Close the connections whose certificates are no longer accepted."""
        now = time.time()
        for connection in connections:
            if connection.identity is not None and (error := self.refusal(connection.identity, now)) is not None:
                connection.refuse(error)

    def status(self) -> dict[str, Any]:
        """Return the files in use, for people and monitoring."""
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
        """Read and validate all files.  Blocking.  Raises TlsRefused."""
        try:
            return self._judged()
        except (ValueError, TypeError, certificates.UnsupportedAlgorithm) as error:  # some parts are parsed lazily
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
        """Return the marks of the files, which change with the files.  Blocking."""
        return tuple(None if path is None else mark_of(path) for path in (self._cert, self._key, self._ca, self._crl))

    def _warn_of_end(self) -> None:
        own = self._files.own
        if own != self._warned and own.expires - time.time() < EXPIRES_SECONDS:
            self._warned = own
            log.warning("tls_certificate_expires", serial=f"{own.serial:x}", expires=_moment(own.expires))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
