"""An authority for a test, and folders of certificates of all kinds."""

from __future__ import annotations

import datetime
import shutil
import ssl
from pathlib import Path

import p2prdf
from p2prdf_node import certificates
from p2prdf_node.authority import AuthorityFolder

__all__ = ["Certificates", "careless", "tls_of"]

DAY = datetime.timedelta(days=1)


class Certificates:
    """An authority in a folder, and the certificates issued beside it."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.authority = AuthorityFolder(folder / name)
        self.authority.create(f"authority {name}")
        self.name = name
        self.count = 0

    @property
    def crl(self) -> Path:
        """The list that all nodes of a test read."""
        return self.authority.folder / "crl.pem"

    def node(self, **how: object) -> Path:
        """Return a folder for a new node."""
        return self._issued(**how)

    def client(self, name: str = "alice", **how: object) -> Path:
        """Return a folder for a client."""
        return self._issued(client=name, **how)

    def _issued(self, **how: object) -> Path:
        self.count += 1
        out = self.folder / f"{self.name}-{self.count}"
        self.authority.issue(out, **how)
        return out

    def dated(self, folder: Path, start: datetime.timedelta, days: float) -> Path:
        """Return a copy of a folder with a certificate that begins ``start`` from now, and lasts so many days."""
        out = folder.with_name(f"{folder.name}-{start.total_seconds():g}")
        shutil.copytree(folder, out)
        old = certificates.read_certificate(out / "tls.crt")
        identity = certificates.identity_of(old)
        authority, _ = self.authority._open()
        key = certificates.read_key(out / "tls.key").public_key()
        new = certificates.issue(
            authority, key, f"urn:p2prdf:{identity.role}:{identity.name}", days=days,
            start=datetime.datetime.now(datetime.UTC) + start,
        )  # fmt: skip
        (out / "tls.crt").write_bytes(certificates.spell(new))
        return out

    def expired(self, folder: Path) -> Path:
        """Return a copy of a folder with an expired certificate."""
        return self.dated(folder, -10 * DAY, 9)

    def early(self, folder: Path) -> Path:
        """Return a copy of a folder with a certificate that is not valid yet."""
        return self.dated(folder, DAY, 9)

    def revoke(self, folder: Path) -> None:
        """Revoke the certificate in a folder."""
        self.authority.revoke(str(folder / "tls.crt"))

    def settings(self, folder: Path, *, crl: Path | None = None) -> dict[str, object]:
        """Return the settings of a node with the certificate in a folder."""
        return {
            "tls_cert": folder / "tls.crt", "tls_key": folder / "tls.key", "tls_ca": folder / "ca.crt",
            "tls_crl": crl or self.crl, "tls_poll_seconds": 0.1,
        }  # fmt: skip


def tls_of(folder: Path) -> p2prdf.Tls:
    """Return the TLS settings of a client with the certificate in a folder."""
    return p2prdf.Tls(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")


def careless(folder: Path | None) -> ssl.SSLContext:
    """Return the context of a client that shows a folder's certificate, or none, and trusts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if folder is not None:
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context
