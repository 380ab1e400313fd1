"""Mutual TLS: identify the other side by its certificate, and classify failed handshakes.

Every node and client of a cluster has a certificate of the cluster's own authority.  One URI among its alternative
names identifies it: ``urn:p2prdf:node:KEY`` (the node's ring position, 16 hexadecimal digits) or
``urn:p2prdf:client:NAME``.  Host names and addresses are ignored: they change, and a process with the certificate of
a node is that node on any host.  Two checks are needed: the handshake verifies the authority, and then the URI is
compared with the intended identity.

Only TLS 1.3 is supported.  There, the server judges the client's certificate after the client considers the handshake
complete, so a refusal arrives as an alert a moment later, in place of the expected response.  :func:`refusal` turns
all failures of a handshake, on either side, into one error.

No context is cached: each connection reads the files again, so renewed certificates are used.
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
"""Names of clients: characters that need no quoting in a URI, a log or a file's name."""

_URI: Final = re.compile(rf"urn:p2prdf:(?:{NODE}:([0-9a-f]{{16}})|{CLIENT}:({CLIENT_NAME.pattern}))")
_PREFIX: Final = "urn:p2prdf:"
_ALERT: Final = 0x15
"""First byte of a record with an alert; no frame is long enough to begin with it."""

_VERIFICATION: Final = {
    9: ("not-yet-valid", "the certificate of the other side is not valid yet (or this clock is slow)"),
    10: ("expired", "the certificate of the other side has expired"),
    23: ("revoked", "the certificate of the other side was revoked"),
    26: ("role", "the certificate of the other side is not for this use: a client's, where a node's is needed"),
}
"""Reasons by OpenSSL's verification codes; all others mean that no trusted authority is the issuer."""
_UNTRUSTED: Final = ("unknown-ca", "no trusted authority issued the certificate of the other side")

_REASONS: Final = (
    ("DID_NOT_RETURN_A_CERTIFICATE", "no-certificate", "the other side showed no certificate"),
    ("CERTIFICATE_REQUIRED", "no-certificate", "the other side requires a certificate and got none"),
    ("ALERT_UNKNOWN_CA", "unknown-ca", "the other side does not trust the authority of our certificate"),
    ("ALERT_CERTIFICATE_EXPIRED", "expired", "the other side says that our certificate has expired"),
    ("ALERT_CERTIFICATE_REVOKED", "revoked", "the other side says that our certificate was revoked"),
    ("ALERT_UNSUPPORTED_CERTIFICATE", "role", "the other side says that our certificate is not for this use"),
    ("ALERT_BAD_CERTIFICATE", "not-yet-valid", "the other side considers our certificate damaged or not valid yet"),
    ("ALERT_CERTIFICATE_UNKNOWN", "unknown-ca", "the other side cannot judge our certificate"),
    ("ALERT_PROTOCOL_VERSION", "version", "the other side speaks another version of TLS: 1.3 is needed"),
    ("UNSUPPORTED_PROTOCOL", "version", "the other side speaks another version of TLS: 1.3 is needed"),
    ("NO_PROTOCOLS_AVAILABLE", "version", "the other side speaks another version of TLS: 1.3 is needed"),
    ("HTTP_REQUEST", "not-tls", "the other side does not use TLS"),
    ("WRONG_VERSION_NUMBER", "not-tls", "the other side does not use TLS"),
    ("PACKET_LENGTH_TOO_LONG", "not-tls", "the other side does not use TLS"),
    ("RECORD_TOO", "not-tls", "the other side does not use TLS"),
    ("UNKNOWN_PROTOCOL", "not-tls", "the other side does not use TLS"),
)
"""Reasons by a part of OpenSSL's error names; the first match counts."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A client's PEM files: trusted authorities ``ca``, its certificate ``cert`` and its private ``key``.

    They are read for each connection, so they may be renewed while a client runs.
    """

    ca: str | Path
    cert: str | Path
    key: str | Path

    def context(self) -> ssl.SSLContext:
        """Return a context from the files.  Raises TlsRefused with the name of a missing or damaged file."""
        return context_of(self.ca, self.cert, self.key, server=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of a certificate: a node or a client (``role``), and its ``name``.

    ``serial``: the certificate's number.  ``expires``: the end of its validity, in seconds since 1970.
    """

    role: str
    name: str
    serial: int
    expires: float

    @property
    def key(self) -> int:
        """The ring position of a node."""
        assert self.role == NODE
        return int(self.name, 16)

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


def read_identity(uris: list[str], *, serial: int, expires: float) -> Identity:
    """Return the owner of a certificate with these URIs among its alternative names.

    Raises TlsRefused unless exactly one of them belongs to this project and is well-formed.
    """
    ours = [uri for uri in uris if uri.startswith(_PREFIX)]
    match = _URI.fullmatch(ours[0]) if len(ours) == 1 else None
    if match is None:
        said = f"names {', '.join(ours)}" if ours else "does not name its owner"
        raise TlsRefused(f"the certificate of the other side {said}: it must name one node or client", reason="role")
    return Identity(NODE, match[1], serial, expires) if match[1] else Identity(CLIENT, match[2], serial, expires)


def identity_in(certificate: Mapping[str, Any] | None) -> Identity:
    """Return the owner of a certificate from :meth:`ssl.SSLObject.getpeercert`.  Raises TlsRefused."""
    if not certificate:
        raise TlsRefused("the other side showed no certificate, or it was not verified", reason="no-certificate")
    uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    return read_identity(
        uris, serial=int(certificate["serialNumber"], 16), expires=ssl.cert_time_to_seconds(certificate["notAfter"])
    )


def node_in(certificate: Mapping[str, Any] | None) -> Identity:
    """Return the owner of a certificate, if it is a node.  Raises TlsRefused."""
    identity = identity_in(certificate)
    if identity.role != NODE:
        raise TlsRefused(f"the other side is {identity}, not a node", reason="role")
    return identity


def context_of(ca: str | Path, cert: str | Path, key: str | Path, *, server: bool) -> ssl.SSLContext:
    """Return a context that presents a certificate and requires one of the authorities in ``ca``.

    It allows TLS 1.3 only and no session resumption: each connection presents its certificates again, so a
    certificate that was revoked or has expired since is noticed.  Raises TlsRefused with the name of the file.
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
    """Return the meaning of an error during a handshake, or of an alert after it."""
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
    """Tell whether a response begins with a TLS alert, as a TLS server sends it to a plain-text client."""
    return len(data) > 1 and data[0] == _ALERT and data[1] == 0x03


def _no_password() -> bytes:
    """Refuse encrypted keys: no user is there to enter a password, and OpenSSL would ask on the terminal."""
    text = "a private key is encrypted: keep it in a file that only its owner can read instead"
    raise TlsRefused(text, reason="files")


def _unusable(what: str, where: str | Path, error: OSError) -> TlsRefused:
    if isinstance(error, ssl.SSLError):
        reason = "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else "this is no valid PEM"
    else:
        reason = error.strerror or str(error)
    return TlsRefused(f"TLS {what} ({where}): {reason}", reason="files")
