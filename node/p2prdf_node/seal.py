"""Sealed datagrams: only authenticated datagrams are decoded, answered or remembered.

The sender of a datagram is easily forged.  Discovery therefore seals each datagram with a key that only members of
the cluster hold, and opens it before it decodes a single byte:

    version (1) | key (4) | milliseconds since 1970 (8) | nonce (8) | receiver (8) | payload | tag (16)

``key`` names the key, so that a receiver with several keys tries only one (:mod:`p2prdf_node.seal_keys`).  The tag is
a keyed BLAKE2b over all preceding bytes.  A replay is refused by its nonce while its time is within the window, and
by its time afterwards.  ``receiver`` is the key of the receiving peer (0 while the sender does not know it), so that
a datagram recorded on its way to one peer is refused by another.  Limit: all members share one key, so any member can
impersonate another.

Opening costs two microseconds; the replay memory is bounded and fails closed.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OVERHEAD", "Keyring", "Sealer", "derived_key"]

_HEADER: Final = struct.Struct(">BIQ8sQ")
_VERSION: Final = 2
_TAG_BYTES: Final = 16
OVERHEAD: Final = _HEADER.size + _TAG_BYTES

WINDOW_SECONDS: Final = 10.0
"""Largest accepted difference between clocks in a cluster."""
NONCES_MAX: Final = 1 << 17
"""Datagrams opened per two windows; more are refused.  5,000 a second, some 20 MB."""

_REASONS: Final = ("short", "version", "key", "forged", "receiver", "time", "replayed", "full")


def derived_key(secret: bytes) -> bytes:
    """Return the 32-byte key derived from a secret."""
    return hashlib.blake2b(secret, digest_size=32, person=b"p2prdf-seal").digest()


class Keyring:
    """The keys in use: the first one seals datagrams, any of them opens one."""

    def __init__(self, keys: Sequence[bytes]):
        self.take(keys)

    def take(self, keys: Sequence[bytes]) -> None:
        """Use these keys from now on."""
        self._keys = {_name_of(key): key for key in keys}
        self.own = _name_of(keys[0])
        """Name of the sealing key."""

    def find(self, name: int) -> bytes | None:
        """Return the key with a name, or None."""
        return self._keys.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all keys, the sealing one first; a name reveals nothing about its key."""
        return tuple(f"{name:08x}" for name in self._keys)


def _name_of(key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(key, digest_size=4, person=b"p2prdf-keyname").digest())


class Sealer:
    """Seals and opens datagrams; ``refused`` counts the refused ones by reason."""

    def __init__(self, keyring: Keyring, receiver: int):
        self._keyring = keyring
        self._receiver = receiver
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()
        self._rotate_at = 0.0
        self.refused = dict.fromkeys(_REASONS, 0)

    def seal(self, payload: bytes, *, receiver: int, nonce: bytes, now: float) -> bytes:
        """Return the datagram that carries ``payload`` to the peer ``receiver`` (0: unknown).

        ``nonce``: 8 fresh random bytes.  ``now``: seconds since 1970.
        """
        name = self._keyring.own
        body = _HEADER.pack(_VERSION, name, int(now * 1000), nonce, receiver) + payload
        key = self._keyring.find(name)
        assert key is not None, "it is one of them"
        return body + _tag(key, body)

    def open(self, datagram: bytes, *, now: float) -> bytes | None:
        """Return the payload of a genuine, fresh datagram meant for this peer, else None."""
        reason = self._judge(datagram, now)
        if reason:
            self.refused[reason] += 1
            return None
        return datagram[_HEADER.size : -_TAG_BYTES]

    def open_untimely(self, datagram: bytes, *, now: float) -> bytes | None:
        """Return the payload of a genuine datagram that is refused only for its time, else None; counts nothing.

        It may be an old one replayed; it is fresh only if it repeats a number that this peer has just sent.
        """
        return datagram[_HEADER.size : -_TAG_BYTES] if self._judge(datagram, now) == "time" else None

    def _judge(self, datagram: bytes, now: float) -> str:
        """Return the reason to refuse a datagram, or an empty string."""
        if len(datagram) < OVERHEAD:
            return "short"
        version, name, milliseconds, nonce, receiver = _HEADER.unpack_from(datagram)
        if version != _VERSION:
            return "version"
        key = self._keyring.find(name)
        if key is None:
            return "key"
        if not hmac.compare_digest(_tag(key, datagram[:-_TAG_BYTES]), datagram[-_TAG_BYTES:]):
            return "forged"
        if receiver not in (0, self._receiver):
            return "receiver"
        if abs(now - milliseconds / 1000) > WINDOW_SECONDS:
            return "time"
        return self._remember(nonce, now)

    def _remember(self, nonce: bytes, now: float) -> str:
        # Two generations of two windows each: a nonce is kept for at least as long as the time
        # check alone would let its datagram pass (from one window early to one window late).
        if now >= self._rotate_at:
            self._old = self._new if now < self._rotate_at + 2 * WINDOW_SECONDS else set()
            self._new = set()
            self._rotate_at = now + 2 * WINDOW_SECONDS
        if nonce in self._new or nonce in self._old:
            return "replayed"
        if len(self._new) >= NONCES_MAX:
            return "full"
        self._new.add(nonce)
        return ""


def _tag(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, key=key, digest_size=_TAG_BYTES).digest()
