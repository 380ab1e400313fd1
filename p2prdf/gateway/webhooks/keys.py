"""What requests are signed with, and what registrations are sealed with: keys of the operator's.

The problem
-----------
A receiver has to know that a request comes from here: requests are signed with a secret that both sides know.  Any
gateway may have to sign, so all of them need the secret; but what lies in the overlay can be read, and what is told of
a webhook as well.  And what lies in the overlay may have been put there by somebody else: a gateway that believed each
registration would send what one client may read to where another wants it.

The idea
--------
The operator gives all gateways the same *key*, in a file.  A webhook's secret is derived from the key and from the
webhook's identity, which is random: it is told once, to who registers, and lies nowhere.  The same key *seals* what is
registered, so only gateways can register.

Rejected: *secrets that are given by who registers*, for they would have to lie somewhere, encrypted, and who loses one
cannot be told it again either way; *secrets in the operator's file, by name*, for each webhook would need the operator,
and several would share one.

Signatures are those of Standard Webhooks (standardwebhooks.com): HMAC-SHA-256 over identifier, time and body.
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

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how secrets are known, and none
_KEY_BYTES_MIN: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,40}")


class SigningKeys:
    """Keys by name.  They do not show themselves in messages and logs."""

    __slots__ = ("_keys", "newest")

    def __init__(self, text: str, *, source: str):
        """``text``: in each line a name and a key in base64, of 32 bytes or more; the first is used for what is new.

        Raises LocalProtocolError, which names the line and does not repeat it.
        """
        self._keys: dict[str, bytes] = {}
        self.newest = ""
        """The name of the key that new webhooks have."""
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
        """Tell whether there is a key of a name."""
        return name in self._keys

    def secret(self, name: str, webhook: str) -> str:
        """Return the secret of a webhook, as its receiver is given it; ``webhook``: its identity."""
        made = self._made(name, b"secret", webhook.encode())
        return SECRET_PREFIX + base64.b64encode(made).decode()

    def seal(self, name: str, text: str) -> str:
        """Return the seal of what is registered."""
        return self._made(name, b"seal", text.encode()).hex()

    def _made(self, name: str, purpose: bytes, data: bytes) -> bytes:
        return hmac.digest(self._keys[name], b"p2prdf webhook " + purpose + b"\n" + data, hashlib.sha256)

    def __repr__(self) -> str:
        return "SigningKeys(...)"


def read_keys(file: Path) -> SigningKeys:
    """Return the keys of a file that nobody else may read.

    Raises LocalProtocolError for a file that others may read, that cannot be read, or that has a line that is none.
    """
    return SigningKeys(read_private(file, "signing keys"), source=str(file))


def signature(secret: str, identifier: str, seconds: int, body: bytes) -> str:
    """Return the header ``webhook-signature`` of a request; ``seconds``: its time since the epoch."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    made = hmac.digest(key, f"{identifier}.{seconds}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(made).decode()}"
