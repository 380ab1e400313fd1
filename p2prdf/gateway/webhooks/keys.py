"""Keys of the operator that sign requests and seal registrations.

*Problem.*  A receiver must recognise genuine requests, so requests are signed with a shared secret.  Any gateway may
have to sign, but data in the overlay is readable, so the secret cannot be stored there.  And other clients can write
to the overlay: a gateway that trusted every registration would send data that one client may read to a URL of
another.

*Solution.*  The operator gives all gateways the same *key*, in a file.  A webhook's secret is derived from the key
and the webhook's random identity: it is returned once, at the registration, and stored nowhere.  The same key *seals*
registrations, so that only gateways can register.

Rejected: *secrets chosen by clients*, because they would have to be stored, encrypted, and a lost one could not be
recovered either; *secrets in the operator's file, by name*, because each webhook would need the operator, and several
would share one.

Signatures follow Standard Webhooks (standardwebhooks.com): HMAC-SHA-256 over identifier, time and body.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from pathlib import Path
from typing import Final

from p2prdf.errors import LocalProtocolError
from p2prdf.private_files import read_private

__all__ = ["SECRET_PREFIX", "SigningKeys", "read_keys", "signature"]

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the prefix that marks a secret, not a secret
_KEY_BYTES_MIN: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,40}")


class SigningKeys:
    """Keys by name.  Their representation hides them from messages and logs."""

    __slots__ = ("_keys", "newest")

    def __init__(self, text: str, *, source: str):
        """``text``: one name and key (base64, at least 32 bytes) per line; the first key is used for new webhooks.

        Raises LocalProtocolError with the line number, never with the line's content.
        """
        self._keys: dict[str, bytes] = {}
        self.newest = ""
        """Name of the key for new webhooks."""
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            if len(words) != 2 or not _NAME.fullmatch(words[0]):
                raise LocalProtocolError(f"{source}:{number}: not NAME KEY, a name and a key in base64")
            try:
                key = base64.b64decode(words[1], validate=True)
            except (binascii.Error, ValueError):
                raise LocalProtocolError(f"{source}:{number}: the key is not in base64") from None
            if len(key) < _KEY_BYTES_MIN:
                raise LocalProtocolError(f"{source}:{number}: a key has at least {_KEY_BYTES_MIN} bytes")
            if words[0] in self._keys:
                raise LocalProtocolError(f"{source}:{number}: a second key of the same name")
            self._keys[words[0]] = key
            self.newest = self.newest or words[0]
        if not self._keys:
            raise LocalProtocolError(f"{source}: there is no key in it")

    def __contains__(self, name: str) -> bool:
        """Tell whether a key has this name."""
        return name in self._keys

    def secret(self, name: str, webhook: str) -> str:
        """Return the secret of the webhook with identity ``webhook``, in the format for its receiver."""
        made = self._made(name, b"secret", webhook.encode())
        return SECRET_PREFIX + base64.b64encode(made).decode()

    def seal(self, name: str, text: str) -> str:
        """Return the seal of a registration's text."""
        return self._made(name, b"seal", text.encode()).hex()

    def _made(self, name: str, purpose: bytes, data: bytes) -> bytes:
        return hmac.digest(self._keys[name], b"p2prdf webhook " + purpose + b"\n" + data, hashlib.sha256)

    def __repr__(self) -> str:
        return "SigningKeys(...)"


def read_keys(file: Path) -> SigningKeys:
    """Read the keys from a file that only its owner may read.

    Raises LocalProtocolError for a file that other users may read or that is unreadable, and for a malformed line.
    """
    return SigningKeys(read_private(file, "signing keys"), source=str(file))


def signature(secret: str, identifier: str, seconds: int, body: bytes) -> str:
    """Return the header ``webhook-signature`` of a request; ``seconds``: its time since 1970."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    made = hmac.digest(key, f"{identifier}.{seconds}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(made).decode()}"
