"""Read, check and make the certificates of a cluster.  The only module that imports ``cryptography``.

A cluster's authority signs with a key on the curve P-256; nodes and clients use the same curve.  Its certificate may
sign others, but no other authority (path length 0).  Certificates are X.509 with the extensions that OpenSSL's strict
check requires; one URI names the subject (:mod:`p2prdf.tls`).

A node's key, its ring position, is the hash of its public key.  To get a position near a wanted one, an attacker
would have to make keys by the thousand.  An ordinal decides the first two bytes, as it does without certificates.
The position stays as long as the key pair does, through any number of renewals.

*Revocation.*  Authorities sign their revocation lists.  An entry also holds the URI, in an extension of our own, if
no valid certificate of that name is left.  Every node thus knows the ring positions that are out of use, even if it
has never met their nodes, and refuses datagrams in their names.  A list never goes stale: it counts until the next
one, so that nothing depends on a timely renewal.
"""

from __future__ import annotations

import datetime
import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from p2prdf.errors import TlsRefused
from p2prdf.keys import even_key
from p2prdf.tls import NODE, Identity, read_identity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "PLACE_BYTES", "SLACK", "Authority", "Certificate", "PrivateKey", "Revoked", "UnsupportedAlgorithm", "check_own",
    "fingerprint", "identity_of", "issue", "new_authority", "new_key", "node_uri", "read_authorities",
    "read_certificate", "read_key", "read_lists", "read_revoked", "revocation_list", "signed", "spell", "spell_key",
]  # fmt: skip

PLACE_BYTES: Final = 2
"""Leading bytes of a node's key that an ordinal decides."""
SLACK: Final = datetime.timedelta(minutes=5)
"""Certificates are valid from this long before their date of issue, because clocks differ."""
FILE_BYTES_MAX: Final = 16 << 20

_NAMED: Final = x509.ObjectIdentifier("2.25.141045137571746478484299497344017050160")
"""Extension of a list entry with the URI; the OID is derived from a UUID, which needs no registration."""
_PEM: Final = serialization.Encoding.PEM
_END_OF_LIST: Final = b"-----END X509 CRL-----"


Certificate = x509.Certificate
PrivateKey = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: its certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Revoked:
    """Revoked serial numbers, each with its URI if that name is out of use, else an empty string."""

    uris: dict[int, str]

    @property
    def keys(self) -> frozenset[int]:
        """Ring positions that are out of use."""
        identities = [read_identity([uri], serial=0, expires=0) for uri in self.uris.values() if uri]
        return frozenset(each.key for each in identities if each.role == NODE)


# --- reading -------------------------------------------------------------------------------------


def read_authorities(path: Path) -> list[x509.Certificate]:
    """Return the certificates of a bundle.  Raises TlsRefused, naming the file."""
    try:
        return x509.load_pem_x509_certificates(_content(path))
    except ValueError as error:
        raise _damaged(path, "certificates", error) from None


def read_certificate(path: Path) -> x509.Certificate:
    """Return the first certificate of a file.  Raises TlsRefused, naming the file."""
    return read_authorities(path)[0]


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return a private key.  Raises TlsRefused, naming the file."""
    try:
        key = serialization.load_pem_private_key(_content(path), password=None)
    except (ValueError, TypeError) as error:
        raise _damaged(path, "a private key", error) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TlsRefused(f"{path}: not a key on an elliptic curve", reason="files")
    return key


def read_revoked(path: Path, authorities: Iterable[x509.Certificate]) -> Revoked:
    """Return the entries of the revocation lists in a file, each signed by one of the authorities.

    Raises TlsRefused for a damaged list, and for one that no trusted authority has signed.
    """
    known = list(authorities)
    uris: dict[int, str] = {}
    for each in read_lists(path):
        if not any(signed(each, authority) for authority in known):
            text = f"{path}: no trusted authority has signed this revocation list"
            raise TlsRefused(text, reason="files")
        uris |= {entry.serial_number: _uri_of(entry) for entry in each}
    return Revoked(uris)


def read_lists(path: Path) -> list[x509.CertificateRevocationList]:
    """Return the revocation lists in a file, without a check of their signatures.  Raises TlsRefused."""
    parts = _content(path).split(_END_OF_LIST)
    if len(parts) == 1 or parts[-1].strip():
        raise TlsRefused(f"{path}: not a list of revoked certificates in PEM", reason="files")
    try:
        return [x509.load_pem_x509_crl(part + _END_OF_LIST + b"\n") for part in parts[:-1]]
    except ValueError as error:
        raise _damaged(path, "a list of revoked certificates", error) from None


def check_own(certificate: x509.Certificate, authorities: Iterable[x509.Certificate]) -> Identity:
    """Return the identity in this process's own certificate.

    Raises TlsRefused if others would refuse it: no authority in the bundle issued it, it is not yet valid or has
    expired, or it names no identity.
    """
    now = datetime.datetime.now(datetime.UTC)
    if now > certificate.not_valid_after_utc:
        text = f"the certificate has expired on {certificate.not_valid_after_utc:%F %T} UTC"
        raise TlsRefused(text, reason="expired")
    if now < certificate.not_valid_before_utc:
        text = f"the certificate is not valid before {certificate.not_valid_before_utc:%F %T} UTC"
        raise TlsRefused(text, reason="not-yet-valid")
    if not any(_issued(certificate, authority) for authority in authorities):
        raise TlsRefused("no trusted authority has issued the certificate", reason="unknown-ca")
    return identity_of(certificate)


def identity_of(certificate: x509.Certificate) -> Identity:
    """Return the identity in a certificate.  Raises TlsRefused if there is none."""
    return read_identity(
        _uris(certificate), serial=certificate.serial_number, expires=certificate.not_valid_after_utc.timestamp()
    )


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """Return the hash of a public key, in hexadecimal digits."""
    spelled = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spelled).hexdigest()


def node_uri(key: ec.EllipticCurvePublicKey, ordinal: int | None = None) -> str:
    """Return the URI of the node with this key pair."""
    place = b"" if ordinal is None else even_key(ordinal).to_bytes(8, "big")[:PLACE_BYTES]
    return f"urn:p2prdf:{NODE}:{(place + bytes.fromhex(fingerprint(key))[len(place) : 8]).hex()}"


# --- making --------------------------------------------------------------------------------------


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh private key."""
    return ec.generate_private_key(ec.SECP256R1())


def spell_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PEM, not encrypted."""
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def spell(item: x509.Certificate | x509.CertificateRevocationList) -> bytes:
    """Return a certificate or revocation list in PEM."""
    return item.public_bytes(_PEM)


def new_authority(name: str, *, days: float, start: datetime.datetime | None = None) -> Authority:
    """Return a fresh authority, valid for ``days``."""
    key = new_key()
    builder = _builder(_name(name), _name(name), key.public_key(), days, start)
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    return Authority(_signed_by(builder, key, key.public_key()), key)


def issue(
    authority: Authority, key: ec.EllipticCurvePublicKey, uri: str, *, days: float,
    start: datetime.datetime | None = None,
) -> x509.Certificate:  # fmt: skip
    """Return a certificate that binds the key pair to the name ``uri``, valid for ``days``."""
    role = read_identity([uri], serial=0, expires=0).role
    common_name = uri.rpartition(":")[2]
    builder = _builder(_name(common_name), authority.certificate.subject, key, days, start)
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH] + [ExtendedKeyUsageOID.SERVER_AUTH] * (role == NODE)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=False
    )
    return _signed_by(builder, authority.key, authority.key.public_key())


def revocation_list(
    authority: Authority, number: int, revoked: Iterable[tuple[int, datetime.datetime, str]]
) -> bytes:
    """Return a revocation list in PEM.  ``revoked``: serial number, date, and URI or "" of each entry."""
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.certificate.subject)
    builder = builder.last_update(now - SLACK).next_update(authority.certificate.not_valid_after_utc)
    builder = builder.add_extension(x509.CRLNumber(number), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
    )
    for serial, since, uri in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(since)
        if uri:
            entry = entry.add_extension(x509.UnrecognizedExtension(_NAMED, uri.encode("ascii")), critical=False)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(_PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float,
    start: datetime.datetime | None,
) -> x509.CertificateBuilder:  # fmt: skip
    first = start or datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(secrets.randbits(158) | 1 << 157)  # positive, and always 20 bytes long
        .not_valid_before(first - SLACK)
        .not_valid_after(first + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed_by(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, public: ec.EllipticCurvePublicKey
) -> x509.Certificate:
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    return builder.sign(key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=key_cert_sign, crl_sign=crl_sign,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _uris(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def _uri_of(entry: x509.RevokedCertificate) -> str:
    """Return the URI that an entry puts out of use; "" without the extension or if it is malformed."""
    try:
        value = entry.extensions.get_extension_for_oid(_NAMED).value
        assert isinstance(value, x509.UnrecognizedExtension)
        uri = value.value.decode("ascii")
        read_identity([uri], serial=0, expires=0)
    except (x509.ExtensionNotFound, ValueError, TlsRefused):
        return ""
    return uri


def signed(each: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    """Tell whether an authority has signed a revocation list."""
    key = authority.public_key()
    if each.issuer != authority.subject or not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    return each.is_signature_valid(key)


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise TlsRefused(f"{path}: longer than {FILE_BYTES_MAX} bytes", reason="files")
        return path.read_bytes()
    except OSError as error:
        raise TlsRefused(f"{path}: {error.strerror}", reason="files") from error


def _damaged(path: Path, what: str, error: Exception) -> TlsRefused:
    return TlsRefused(f"{path}: not {what} in PEM: {' '.join(str(error).split())[:120]}", reason="files")

