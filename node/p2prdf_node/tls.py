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
from p2prdf_node.watched import Watched

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


class NodeTls(Watched[_Files]):
    """The TLS of one node.  The constructor raises LocalProtocolError for bad files."""

    def __init__(self, config: NodeConfig):
        assert config.tls_cert is not None, "validate() asks for all three"
        assert config.tls_key is not None
        assert config.tls_ca is not None
        self._cert, self._key, self._ca, self._crl = config.tls_cert, config.tls_key, config.tls_ca, config.tls_crl
        self._warned: Identity | None = None
        paths = (self._cert, self._key, self._ca, self._crl)
        super().__init__("tls_files", *(path for path in paths if path is not None), twice=False)

    @property
    def key(self) -> int:
        """Ring position in this node's certificate."""
        return self.value.own.key

    def is_revoked(self, key: int) -> bool:
        """Tell whether the certificates of the node at a ring position are revoked."""
        return key in self.value.revoked_keys

    # --- connections -----------------------------------------------------------------------------

    def accepted(self, connection: Connection) -> TlsStream:
        """Return the TLS layer of an accepted connection."""
        return TlsStream(connection, self.value.server, server=True, admit=self._admit)

    def made(self, connection: Connection, key: int) -> TlsStream:
        """Return the TLS layer of an outgoing connection to the node at a ring position."""
        return TlsStream(connection, self.value.client, server=False, admit=partial(self._admit_node, key))

    def check_peer(self, identity: Identity | None, key: int) -> None:
        """Raise TlsRefused unless a certificate belongs to the node at a ring position."""
        assert identity is not None, "nothing is decoded before the handshake is done"
        if identity.role != NODE:
            raise TlsRefused(f"the certificate is of {identity}, which is not a node", reason="role")
        if identity.key != key:
            raise TlsRefused(f"the certificate is of {identity}, not of node {key:016x}", reason="other-key")

    def refusal(self, identity: Identity, now: float) -> TlsRefused | None:
        """Return why a trusted authority's certificate is refused at a time (seconds since 1970), or None."""
        if identity.serial in self.value.revoked:
            return TlsRefused(f"the certificate {identity.serial:x} of {identity} is revoked", reason="revoked")
        if identity.role == NODE and identity.key in self.value.revoked_keys:
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
        self._warn_of_end()
        return await super().poll()

    def _take(self, value: _Files) -> None:
        """Take files into use, unless they are not of a node, or of another one than those in use."""
        if value.own.role != NODE:
            raise LocalProtocolError(f"setting tls_cert: {self._cert} is of {value.own}: a node's is needed")
        key = getattr(self, "value", value).own.key
        if value.own.key != key:
            raise LocalProtocolError(f"{self._cert} is of {value.own}, and this is node {key:016x}")
        super()._take(value)

    def facts(self) -> dict[str, Any]:
        """Return the certificate in use and the number of revoked ones."""
        own = self.value.own
        return {"serial": f"{own.serial:x}", "expires": _moment(own.expires), "revoked": len(self.value.revoked)}

    def close_refused(self, connections: Iterable[Connection]) -> None:
        """Close the connections whose certificates are no longer accepted."""
        now = time.time()
        for connection in connections:
            if connection.identity is not None and (error := self.refusal(connection.identity, now)) is not None:
                connection.refuse(error)

    def status(self) -> dict[str, Any]:
        """Return the files in use, for people and monitoring."""
        return {**super().status(), "expires_seconds": round(self.value.own.expires - time.time())}

    def _read(self) -> _Files:
        """Read and validate all files.  Blocking.  Raises LocalProtocolError."""
        try:
            authorities = certificates.read_authorities(self._ca)
            own = self._read_own(authorities)
            revoked = certificates.Revoked({})
            if self._crl is not None:
                revoked = certificates.read_revoked(self._crl, authorities)
            server, client = (context_of(self._ca, self._cert, self._key, server=each) for each in (True, False))
        except TlsRefused as error:
            raise LocalProtocolError(f"settings tls_...: {error}") from error
        except (ValueError, TypeError, certificates.UnsupportedAlgorithm) as error:  # some parts are parsed lazily
            reason = f"damaged, or of a kind that is not known here: {error}"
            raise LocalProtocolError(f"settings tls_...: {reason}") from error
        return _Files(server, client, own, frozenset(revoked.uris), revoked.keys)

    def _read_own(self, authorities: Any) -> Identity:
        try:
            return certificates.check_own(certificates.read_certificate(self._cert), authorities)
        except TlsRefused as error:
            raise TlsRefused(f"{self._cert}: {error}", reason="files") from error

    def _warn_of_end(self) -> None:
        own = self.value.own
        if own != self._warned and own.expires - time.time() < EXPIRES_SECONDS:
            self._warned = own
            log.warning("tls_certificate_expires", serial=f"{own.serial:x}", expires=_moment(own.expires))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
