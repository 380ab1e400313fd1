"""Mutual TLS: whose certificate is at the other end of a connection, and what it means if there will be none.

Everybody in a cluster, node or client, has a certificate of the cluster's own authority.  It says who that is by one
URI among its alternative names: ``urn:p2prdf:node:KEY`` (the node's ring position, 16 hexadecimal digits) or
``urn:p2prdf:client:NAME``.  Host names and addresses are not looked at: they change, and whoever has the certificate of
a node is that node wherever it runs.  So there are two questions after a handshake: is this certificate of an authority
that is trusted here (the handshake itself answers that), and does the URI name who was meant.

TLS is 1.3 alone.  There the client's certificate is judged when the client takes the handshake for done already, so
that a refusal comes as an alert a moment later, where an answer was expected: :func:`refusal` makes one error of all
ways in which a handshake ends badly, on either side.

Nothing here keeps a context: whoever connects again reads the files again, so that a renewed certificate is used.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p2prdf.errors import TlsRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CLIENT", "CLIENT_NAME", "NODE", "Identity", "Tls", "context_of", "identity_in", "node_in", "read_identity",
    "refusal", "speaks_tls",
]  # fmt: skip

NODE: Final = "node"
CLIENT: Final = "client"
CLIENT_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,63}")
"""What a client can be called: what needs no quoting in a URI, a log or a file's name."""

_URI: Final = re.compile(rf"urn:p2prdf:(?:{NODE}:([0-9a-f]{{16}})|{CLIENT}:({CLIENT_NAME.pattern}))")
_PREFIX: Final = "urn:p2prdf:"
_ALERT: Final = 0x15
"""First byte of a record that carries an alert; none of our frames is long enough to begin with it."""

_VERIFICATION: Final = {
    9: ("not-yet-valid", "the certificate of the other side is not valid yet (or this clock is slow)"),
    10: ("expired", "the certificate of the other side has expired"),
    23: ("revoked", "the certificate of the other side was revoked"),
    26: ("role", "the certificate of the other side is not for this use: a client's, where a node's is needed"),
}
"""By OpenSSL's codes of verification; all others mean that no trusted authority has issued it."""
_UNTRUSTED: Final = ("unknown-ca", "the certificate of the other side is of no authority that is trusted here")

_REASONS: Final = (
    ("DID_NOT_RETURN_A_CERTIFICATE", "no-certificate", "the other side showed no certificate"),
    ("CERTIFICATE_REQUIRED", "no-certificate", "the other side wants a certificate, and was shown none"),
    ("ALERT_UNKNOWN_CA", "unknown-ca", "the other side does not trust the authority of our certificate"),
    ("ALERT_CERTIFICATE_EXPIRED", "expired", "the other side says that our certificate has expired"),
    ("ALERT_CERTIFICATE_REVOKED", "revoked", "the other side says that our certificate was revoked"),
    ("ALERT_UNSUPPORTED_CERTIFICATE", "role", "the other side says that our certificate is not for this use"),
    ("ALERT_BAD_CERTIFICATE", "not-yet-valid", "the other side takes our certificate for damaged, or not valid yet"),
    ("ALERT_CERTIFICATE_UNKNOWN", "unknown-ca", "the other side cannot judge our certificate"),
    ("ALERT_PROTOCOL_VERSION", "version", "the other side speaks another version of TLS: 1.3 is needed"),
    ("UNSUPPORTED_PROTOCOL", "version", "the other side speaks another version of TLS: 1.3 is needed"),
    ("NO_PROTOCOLS_AVAILABLE", "version", "the other side speaks another version of TLS: 1.3 is needed"),
    ("HTTP_REQUEST", "not-tls", "what came is not TLS: the other side speaks without"),
    ("WRONG_VERSION_NUMBER", "not-tls", "what came is not TLS: the other side speaks without"),
    ("PACKET_LENGTH_TOO_LONG", "not-tls", "what came is not TLS: the other side speaks without"),
    ("RECORD_TOO", "not-tls", "what came is not TLS: the other side speaks without"),
    ("UNKNOWN_PROTOCOL", "not-tls", "what came is not TLS: the other side speaks without"),
)
"""By part of OpenSSL's names of errors; the first that is found counts."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A client's files, in PEM: ``ca``, the authorities it trusts, its certificate ``cert`` and its private ``key``.

    They are read whenever a connection is made, so they may be renewed while a client runs.
    """

    ca: str | Path
    cert: str | Path
    key: str | Path

    def context(self) -> ssl.SSLContext:
        """Read the files.  Raises TlsRefused, naming the one that is missing or damaged."""
        return context_of(self.ca, self.cert, self.key, server=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose certificate it is: a node's or a client's (``role``), and which one (``name``).

    ``serial``: the certificate's number.  ``expires``: until when it is valid, in seconds since 1970.
    """

    role: str
    name: str
    serial: int
    expires: float

    @property
    def key(self) -> int:
        """Ring position of a node."""
        assert self.role == NODE
        return int(self.name, 16)

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


def read_identity(uris: list[str], *, serial: int, expires: float) -> Identity:
    """Return whose certificate has these URIs among its alternative names.

    Raises TlsRefused unless exactly one of them is of this project, and is well-formed.
    """
    ours = [uri for uri in uris if uri.startswith(_PREFIX)]
    match = _URI.fullmatch(ours[0]) if len(ours) == 1 else None
    if match is None:
        said = f"says {', '.join(ours)}" if ours else "does not say whose it is"
        raise TlsRefused(f"the certificate of the other side {said}: it must name one node or client", reason="role")
    return Identity(NODE, match[1], serial, expires) if match[1] else Identity(CLIENT, match[2], serial, expires)


def identity_in(certificate: Mapping[str, Any] | None) -> Identity:
    """Return whose certificate :meth:`ssl.SSLObject.getpeercert` has returned.  Raises TlsRefused."""
    if not certificate:
        raise TlsRefused("the other side showed no certificate, or it was not verified", reason="no-certificate")
    uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    return read_identity(
        uris, serial=int(certificate["serialNumber"], 16), expires=ssl.cert_time_to_seconds(certificate["notAfter"])
    )


def node_in(certificate: Mapping[str, Any] | None) -> Identity:
    """Return whose certificate it is, if it is a node's.  Raises TlsRefused."""
    identity = identity_in(certificate)
    if identity.role != NODE:
        raise TlsRefused(f"the other side is {identity}, not a node", reason="role")
    return identity


def context_of(ca: str | Path, cert: str | Path, key: str | Path, *, server: bool) -> ssl.SSLContext:
    """Return the context of one who shows a certificate and demands one, of authorities in ``ca``.

    TLS 1.3 alone, and no session is taken up again: each connection shows its certificates anew, so that one which was
    revoked or has expired meanwhile is not passed by.  Raises TlsRefused, naming the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if server:
        context.num_tickets = 0
    try:
        context.load_verify_locations(cafile=ca)
    except OSError as error:
        raise _unusable("authorities", ca, error) from error
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except OSError as error:
        raise _unusable("certificate and key", f"{cert}, {key}", error) from error
    return context


def refusal(error: BaseException) -> TlsRefused:
    """Return what an error of a handshake, or an alert after it, means."""
    if isinstance(error, TlsRefused):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        reason, text = _VERIFICATION.get(error.verify_code, _UNTRUSTED)
        return TlsRefused(f"{text} ({error.verify_message})", reason=reason)
    name = (getattr(error, "reason", None) or str(error)).upper().replace(" ", "_")
    for part, reason, text in _REASONS:
        if part in name:
            return TlsRefused(text, reason=reason)
    if isinstance(error, ssl.SSLEOFError | ConnectionError | TimeoutError) or not isinstance(error, ssl.SSLError):
        return TlsRefused(f"the handshake was broken off: {error or type(error).__name__}", reason="closed")
    return TlsRefused(f"TLS failed: {error}", reason="other")


def speaks_tls(data: bytes) -> bool:
    """Tell whether the first bytes of an answer are an alert of TLS, as one is sent to who speaks without."""
    return len(data) > 1 and data[0] == _ALERT and data[1] == 0x03


def _no_password() -> bytes:
    """Keys are not encrypted: nobody is there to be asked, and OpenSSL would ask on the terminal."""
    text = "a private key is encrypted: keep it in a file that only its owner can read instead"
    raise TlsRefused(text, reason="files")


def _unusable(what: str, where: str | Path, error: OSError) -> TlsRefused:
    if isinstance(error, ssl.SSLError):
        reason = "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else "this is no valid PEM"
    else:
        reason = error.strerror or str(error)
    return TlsRefused(f"TLS {what} ({where}): {reason}", reason="files")
