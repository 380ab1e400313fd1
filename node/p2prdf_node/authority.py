"""A cluster's certificate authority as a folder: its key, the certificates issued, the revocation list.

    ca.crt       its certificate               ca.key       its private key, readable by the owner alone
    issued.json  all certificates issued       crl.pem      the revocation list

Nodes need nothing from this folder: keep it off them, and off the network.  :meth:`AuthorityFolder.issue` writes the
files that a node or client needs into a separate folder, under the names that Kubernetes uses: ``tls.crt``,
``tls.key``, ``ca.crt``, ``crl.pem``.  Issuing into such a folder again *renews*: the private key stays, and with it
the node's ring position.  ``ca.crt`` keeps authorities that it already trusts beside the new one, which is how one
authority replaces another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p2prdf.errors import LocalProtocolError
from p2prdf.tls import CLIENT, CLIENT_NAME, NODE
from p2prdf_node import certificates
from p2prdf_node.config import ORDINALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from p2prdf_node.certificates import Certificate, PrivateKey

__all__ = ["CA_DAYS", "DAYS", "AuthorityFolder", "Issued"]

CA_DAYS: Final = 3650.0
DAYS: Final = 365.0
DAYS_MAX: Final = 36_500.0
"""Longest validity of an authority or certificate; CA_DAYS and DAYS are the defaults."""

_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644


@dataclass(frozen=True, slots=True)
class Issued:
    """One certificate: serial number (hex), URI of its subject, fingerprint of its key pair, dates in ISO 8601.

    ``revoked``: date of the revocation; empty for a certificate that is not revoked.
    """

    serial: str
    uri: str
    key_pair: str
    issued: str
    expires: str
    revoked: str = ""

    def valid(self, now: datetime.datetime) -> bool:
        """Tell whether the certificate is neither revoked nor expired."""
        return not self.revoked and datetime.datetime.fromisoformat(self.expires) > now


class AuthorityFolder:
    """An authority kept in a folder.  All methods raise LocalProtocolError, TlsRefused or OSError."""

    def __init__(self, folder: Path):
        self.folder = folder

    def create(self, name: str, *, days: float = CA_DAYS) -> None:
        """Make the folder and the authority's key; refuse a folder that holds an authority."""
        _check_days(days)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            if (self.folder / "ca.key").exists() or (self.folder / "ca.crt").exists():
                raise LocalProtocolError(f"{self.folder}: there is an authority already")
            authority = certificates.new_authority(name, days=days)
            _write(self.folder / "ca.key", certificates.spell_key(authority.key), _PRIVATE)
            _write(self.folder / "ca.crt", certificates.spell(authority.certificate), _PUBLIC)
            self._write_list(authority, [])

    def issue(
        self, out: Path, *, client: str | None = None, ordinal: int | None = None, place: int | None = None,
        days: float = DAYS,
    ) -> Issued:  # fmt: skip
        """Issue a certificate into the folder ``out``: for the client of that name, or else for a node.

        ``place``: ring position that an existing node keeps.  Without it the key pair decides the position, and
        ``ordinal`` its first two bytes.
        """
        _check_days(days)
        if client is not None and CLIENT_NAME.fullmatch(client) is None:
            raise LocalProtocolError(f"{client!r}: a client's name is up to 63 letters, digits, '.', '_', '@' and '-'")
        if ordinal is not None and not 0 <= ordinal < ORDINALS:
            raise LocalProtocolError(f"ordinal {ordinal} is not between 0 and {ORDINALS - 1}")
        with self._locked():
            authority, issued = self._open()
            out.mkdir(mode=0o700, parents=True, exist_ok=True)
            key = certificates.read_key(out / "tls.key") if (out / "tls.key").exists() else None
            uri = _renewed(out, key, client, ordinal, place) if key is not None else ""
            key = key or certificates.new_key()
            if not uri and place is not None:
                uri = f"urn:p2prdf:{NODE}:{place:016x}"
            elif not uri:
                uri = f"urn:p2prdf:{CLIENT}:{client}" if client else certificates.node_uri(key.public_key(), ordinal)
            pair = certificates.fingerprint(key.public_key())
            _refuse_taken(issued, uri, pair)
            certificate = certificates.issue(authority, key.public_key(), uri, days=days)
            entry = _entry(certificate, uri, pair)
            self._write_list(authority, [*issued, entry])  # first: a certificate outside the list could not be revoked
            if not (out / "tls.key").exists():
                _write(out / "tls.key", certificates.spell_key(key), _PRIVATE)
            _write(out / "tls.crt", certificates.spell(certificate), _PUBLIC)
            _trust(out / "ca.crt", authority.certificate)
            _put_list(out / "crl.pem", self.folder / "crl.pem", authority.certificate)
            return entry

    def revoke(self, which: str) -> tuple[Issued, list[Issued]]:
        """Revoke a certificate, given by serial number or file; return it and the valid others of its name."""
        with self._locked():
            authority, issued = self._open()
            path = Path(which)
            serial = f"{certificates.read_certificate(path).serial_number:x}" if path.is_file() else which.lower()
            found = [each for each in issued if each.serial == serial]
            if not found:
                raise LocalProtocolError(f"{which}: neither a file nor the number of a certificate issued here")
            now = datetime.datetime.now(datetime.UTC)
            gone = dataclasses.replace(found[0], revoked=found[0].revoked or now.isoformat(timespec="seconds"))
            issued = [gone if each.serial == serial else each for each in issued]
            self._write_list(authority, issued)
            return gone, [each for each in issued if each.uri == gone.uri and each.valid(now)]

    def entries(self) -> list[Issued]:
        """Return all certificates ever issued, in order."""
        return self._open()[1]

    # --- files -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the folder: of two concurrent issues, one would overwrite the other's entry."""
        if not self.folder.is_dir():
            raise LocalProtocolError(f"{self.folder}: there is no such folder (p2prdf ca init makes one)")
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _open(self) -> tuple[certificates.Authority, list[Issued]]:
        if not (self.folder / "ca.crt").exists():
            raise LocalProtocolError(f"{self.folder}: there is no authority here (p2prdf ca init makes one)")
        authority = certificates.Authority(
            certificates.read_certificate(self.folder / "ca.crt"), certificates.read_key(self.folder / "ca.key")
        )
        path = self.folder / "issued.json"
        try:
            entries: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
            return authority, [Issued(**each) for each in entries]
        except (ValueError, TypeError) as error:
            raise LocalProtocolError(f"{path}: damaged: {error}") from None

    def _write_list(self, authority: certificates.Authority, issued: list[Issued]) -> None:
        """Write issued.json, then the revocation list; a URI without a valid certificate counts as out of use."""
        entries = json.dumps([dataclasses.asdict(each) for each in issued], indent=1) + "\n"
        _write(self.folder / "issued.json", entries.encode(), _PRIVATE)
        now = datetime.datetime.now(datetime.UTC)
        in_use = {each.uri for each in issued if each.valid(now)}
        since = datetime.datetime.fromisoformat
        revoked = [
            (int(each.serial, 16), since(each.revoked), "" if each.uri in in_use else each.uri)
            for each in issued
            if each.revoked
        ]
        # Milliseconds since 1970 grow even after a folder was restored from a copy.
        number = int(now.timestamp() * 1000)
        _write(self.folder / "crl.pem", certificates.revocation_list(authority, number, revoked), _PUBLIC)


def _entry(certificate: Certificate, uri: str, pair: str) -> Issued:
    first, last = certificate.not_valid_before_utc + certificates.SLACK, certificate.not_valid_after_utc
    return Issued(f"{certificate.serial_number:x}", uri, pair, first.isoformat(), last.isoformat())


def _renewed(
    out: Path, key: PrivateKey, client: str | None, ordinal: int | None, place: int | None
) -> str:
    """Return the URI of the certificate to renew.  Raises LocalProtocolError if the request differs from it."""
    if not (out / "tls.crt").exists():
        return ""
    certificate = certificates.read_certificate(out / "tls.crt")
    identity = certificates.identity_of(certificate)
    if certificate.public_key() != key.public_key():
        raise LocalProtocolError(f"{out}: tls.key and tls.crt do not belong together")
    uri = f"urn:p2prdf:{identity.role}:{identity.name}"
    same = identity.role == (NODE if client is None else CLIENT) and client in (None, identity.name)
    same &= ordinal is None or certificates.node_uri(key.public_key(), ordinal) == uri
    same &= place is None or place == identity.key
    if not same:
        raise LocalProtocolError(f"{out}: the certificate there belongs to {identity}: choose another folder")
    return uri


def _refuse_taken(issued: list[Issued], uri: str, pair: str) -> None:
    """Refuse a revoked key pair, and a node's URI in use: two nodes at one position would look like one."""
    now = datetime.datetime.now(datetime.UTC)
    same_pair = [each for each in issued if each.key_pair == pair]
    if any(each.revoked for each in same_pair) and not any(each.valid(now) for each in same_pair):
        raise LocalProtocolError(
            f"the certificates of this key pair ({uri}) are revoked: issue one into an empty folder, for another pair"
        )
    for each in issued:
        if each.uri == uri and each.key_pair != pair and each.valid(now) and uri.startswith(f"urn:p2prdf:{NODE}:"):
            raise LocalProtocolError(
                f"{uri} belongs to certificate {each.serial}, of another key pair: renew that one in its folder, or"
                " revoke it first"
            )


def _trust(path: Path, authority: Certificate) -> None:
    """Add an authority to a bundle."""
    known = certificates.read_authorities(path) if path.exists() else []
    if authority not in known:
        _write(path, b"".join(map(certificates.spell, [*known, authority])), _PUBLIC)


def _put_list(path: Path, new: Path, authority: Certificate) -> None:
    """Replace an authority's revocation list in a file; lists of other authorities stay."""
    lists = certificates.read_lists(path) if path.exists() else []
    kept = [each for each in lists if not certificates.signed(each, authority)]
    _write(path, b"".join(map(certificates.spell, [*kept, *certificates.read_lists(new)])), _PUBLIC)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Replace a file atomically; the mode holds from the start, so that no other user can read a key."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    fresh.replace(path)


def _check_days(days: float) -> None:
    if not 0 < days <= DAYS_MAX:
        raise LocalProtocolError(f"{days:g} days are not between 0 and {DAYS_MAX:g}")
