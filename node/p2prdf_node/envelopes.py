"""Datagrams of one node: sealed, and marked with the kind of overlay of their sender.

All nodes of a cluster must use the same overlay and the same kind of membership.  Nodes of different kinds share the
cluster's secret, so the first byte under the seal names the sender's kind.  A datagram of another kind is not parsed
further: the node logs both kinds and replies with a *notice*, so that both sides learn the reason instead of waiting
for an answer.  A notice is never answered.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

import structlog

from p2prdf_node.addresses import format_address
from p2prdf_node.seal import Sealer

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf_node.seal import Keyring

__all__ = ["Envelopes"]

_MARKS: Final = {"kademlia": b"k", "chord": b"c", "kademlia view": b"K", "chord view": b"C"}
_KINDS: Final = {mark: kind for kind, mark in _MARKS.items()}
_NOTICE: Final = b"n"
"""Mark of a notice; the mark of its sender's kind follows."""
_LOG_SECONDS: Final = 60.0
_LOGGED_MAX: Final = 256

log = structlog.get_logger("membership")


class Envelopes:
    """Seals and opens the datagrams of one node; ``kind``: its overlay, or the overlay and "view"."""

    def __init__(self, keyring: Keyring, own_key: int, kind: str, clock: Callable[[], float] | None = None):
        """``clock``: the node's clock, if others compare it; the wall clock by default."""
        self.kind = kind
        self._clock = clock or (lambda: time.time())
        self._mark = _MARKS[kind]
        self._sealer = Sealer(keyring, own_key)
        self._logged_at: dict[str, float] = {}
        self._mismatched = 0

    @property
    def refused(self) -> dict[str, int]:
        """Number of refused datagrams, by reason; ``overlay``: sent by another kind of overlay."""
        return {**self._sealer.refused, "overlay": self._mismatched}

    def seal(self, payload: bytes, receiver: int) -> bytes:
        """Return the datagram that carries ``payload`` to the peer with key ``receiver`` (0: unknown)."""
        return self._seal(self._mark + payload, receiver)

    def open(self, datagram: bytes, address: tuple[str, int], reply: Callable[[bytes], object]) -> bytes | None:
        """Return the payload of a genuine datagram of this kind of overlay, else None.

        For a datagram of another kind, ``reply`` is called with a notice for the sender at ``address``.
        """
        body = self._sealer.open(datagram, now=self._clock())
        if not body:
            return None
        if body[:1] == self._mark:
            return body[1:]
        self._mismatched += 1
        if body[:1] == _NOTICE:
            self._log_mismatch(_KINDS.get(body[1:2], "unknown"), address)
        else:
            self._log_mismatch(_KINDS.get(body[:1], "unknown"), address)
            reply(self._seal(_NOTICE + self._mark, 0))
        return None

    def open_untimely(self, datagram: bytes) -> bytes | None:
        """Return the payload of a genuine datagram of this kind that was refused only for its time, else None."""
        body = self._sealer.open_untimely(datagram, now=self._clock())
        return body[1:] if body and body[:1] == self._mark else None

    def _seal(self, body: bytes, receiver: int) -> bytes:
        return self._sealer.seal(body, receiver=receiver, nonce=secrets.token_bytes(8), now=self._clock())

    def _log_mismatch(self, theirs: str, address: tuple[str, int]) -> None:
        """Log a mismatch, at most once a minute per address."""
        where, now = format_address(*address[:2]), time.monotonic()
        if now - self._logged_at.get(where, -_LOG_SECONDS) < _LOG_SECONDS:
            return
        self._logged_at.pop(where, None)
        while len(self._logged_at) >= _LOGGED_MAX:
            del self._logged_at[next(iter(self._logged_at))]
        self._logged_at[where] = now
        log.error(
            "overlay_mismatch", code="local-protocol", address=where, theirs=theirs, own=self.kind,
            reason=_difference(self.kind, theirs),
        )  # fmt: skip


def _difference(own: str, theirs: str) -> str:
    """Name the setting in which two kinds of overlay differ."""
    (overlay, view), (other, other_view) = (each.partition(" ")[::2] for each in (own, theirs))
    if overlay != other:
        return f"setting overlay: this node is of a {overlay} overlay, the node there of {other}"
    return f"setting membership: it is {view or 'overlay'} for this node, for the node there {other_view or 'overlay'}"
