"""Sealed datagrams: nothing unauthenticated is ever decoded, answered or remembered.

Discovery runs over datagrams, whose sender anyone can forge.  Each one is therefore sealed with a
key that only members of the cluster hold, and is opened before a single byte of it is decoded:

    version (1) | milliseconds since the epoch (8) | nonce (8) | receiver (8) | payload | tag (16)

The tag is a keyed BLAKE2b over all that precedes it.  A copy is refused by its nonce while its time
is within the window, and by its time afterwards.  ``receiver`` is the key of the peer it is meant for
(0 while the sender does not know it yet), so that a datagram recorded on its way to one peer does
nothing at another.  What it does not give: any member can speak for any other, as all share one key.

Opening costs two microseconds; the replay memory is bounded and fails closed.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final

__all__ = ["OVERHEAD", "Sealer"]

_HEADER: Final = struct.Struct(">BQ8sQ")
_VERSION: Final = 1
_TAG_BYTES: Final = 16
OVERHEAD: Final = _HEADER.size + _TAG_BYTES

WINDOW_SECONDS: Final = 10.0
"""Clocks of a cluster may differ by this much."""
NONCES_MAX: Final = 1 << 17
"""Datagrams opened per two windows; more are refused.  5,000 a second, some 20 MB."""

_REASONS: Final = ("short", "version", "forged", "receiver", "time", "replayed", "full")


class Sealer:
    """Seals and opens datagrams; ``refused`` counts by reason what was not opened."""

    def __init__(self, key: bytes, receiver: int):
        self._key = key
        self._receiver = receiver
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()
        self._rotate_at = 0.0
        self.refused = dict.fromkeys(_REASONS, 0)

    def seal(self, payload: bytes, *, receiver: int, nonce: bytes, now: float) -> bytes:
        """Return the datagram that carries ``payload`` to the peer ``receiver`` (0: whoever is there).

        ``nonce``: 8 fresh random bytes.  ``now``: seconds since the epoch.
        """
        body = _HEADER.pack(_VERSION, int(now * 1000), nonce, receiver) + payload
        return body + self._tag(body)

    def open(self, datagram: bytes, *, now: float) -> bytes | None:
        """Return the payload of a genuine, fresh datagram meant for this peer, else None."""
        reason = self._judge(datagram, now)
        if reason:
            self.refused[reason] += 1
            return None
        return datagram[_HEADER.size : -_TAG_BYTES]

    def _judge(self, datagram: bytes, now: float) -> str:
        """Return why a datagram is refused, or nothing."""
        if len(datagram) < OVERHEAD:
            return "short"
        version, milliseconds, nonce, receiver = _HEADER.unpack_from(datagram)
        if version != _VERSION:
            return "version"
        if not hmac.compare_digest(self._tag(datagram[:-_TAG_BYTES]), datagram[-_TAG_BYTES:]):
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

    def _tag(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=_TAG_BYTES).digest()
