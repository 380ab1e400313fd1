"""Datagrams of one node: sealed, and marked with the kind of overlay they belong to.

A cluster runs one overlay, and its nodes must agree which, and whether they keep a complete view.  Members of all kinds
share the cluster's secret, so the first byte under the seal says whose datagram it is.  One of another kind is not
looked into any further: the log says so, naming both, and the sender is told by a *notice*, so that both ends
know, and nobody waits for an answer that cannot come without learning why.  A notice is never answered.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

import structlog

from p2prdf_node.config import format_address
from p2prdf_node.seal import Sealer

if TYPE_CHECKING:
    from collections.abc import Callable

    from p2prdf_node.seal import Keyring

__all__ = ["Envelopes"]

_MARKS: Final = {"kademlia": b"k", "chord": b"c", "kademlia view": b"K", "chord view": b"C"}
_KINDS: Final = {mark: kind for kind, mark in _MARKS.items()}
_NOTICE: Final = b"n"
"""Followed by the mark of the kind that its sender belongs to."""
_SAID_SECONDS: Final = 60.0
_SAID_MAX: Final = 256

log = structlog.get_logger("membership")


class Envelopes:
    """Seals what goes out and opens what comes in, for one node of one kind: an overlay, or its name and "view"."""

    def __init__(self, keyring: Keyring, own_key: int, kind: str, clock: Callable[[], float] | None = None):
        """``clock``: the node's, if others compare it; without it the wall clock counts."""
        self.kind = kind
        self._clock = clock or (lambda: time.time())
        self._mark = _MARKS[kind]
        self._sealer = Sealer(keyring, own_key)
        self._said_at: dict[str, float] = {}
        self._mismatched = 0

    @property
    def refused(self) -> dict[str, int]:
        """Number of datagrams not opened, by reason; ``overlay``: of another kind of overlay."""
        return {**self._sealer.refused, "overlay": self._mismatched}

    def seal(self, payload: bytes, receiver: int) -> bytes:
        """Return the datagram that carries ``payload`` to the peer of a key (0: whoever is there)."""
        return self._seal(self._mark + payload, receiver)

    def open(self, datagram: bytes, address: tuple[str, int], reply: Callable[[bytes], object]) -> bytes | None:
        """Return the payload of a genuine datagram of this kind of overlay, else None.

        To one of another kind ``reply`` is given a datagram for its sender at ``address``.
        """
        body = self._sealer.open(datagram, now=self._clock())
        if not body:
            return None
        if body[:1] == self._mark:
            return body[1:]
        self._mismatched += 1
        if body[:1] == _NOTICE:
            self._say(_KINDS.get(body[1:2], "unknown"), address)
        else:
            self._say(_KINDS.get(body[:1], "unknown"), address)
            reply(self._seal(_NOTICE + self._mark, 0))
        return None

    def open_untimely(self, datagram: bytes) -> bytes | None:
        """Return the payload of a genuine datagram of this kind that was refused for its time alone, else None."""
        body = self._sealer.open_untimely(datagram, now=self._clock())
        return body[1:] if body and body[:1] == self._mark else None

    def _seal(self, body: bytes, receiver: int) -> bytes:
        return self._sealer.seal(body, receiver=receiver, nonce=secrets.token_bytes(8), now=self._clock())

    def _say(self, theirs: str, address: tuple[str, int]) -> None:
        """Log once in a while for each address."""
        where, now = format_address(*address[:2]), time.monotonic()
        if now - self._said_at.get(where, -_SAID_SECONDS) < _SAID_SECONDS:
            return
        self._said_at.pop(where, None)
        while len(self._said_at) >= _SAID_MAX:
            del self._said_at[next(iter(self._said_at))]
        self._said_at[where] = now
        log.error(
            "overlay_mismatch", code="local-protocol", address=where, theirs=theirs, own=self.kind,
            reason=_difference(self.kind, theirs),
        )  # fmt: skip


def _difference(own: str, theirs: str) -> str:
    """Say which setting two kinds of overlay differ by."""
    (overlay, view), (other, other_view) = (each.partition(" ")[::2] for each in (own, theirs))
    if overlay != other:
        return f"setting overlay: this node is of a {overlay} overlay, the node there of {other}"
    return f"setting membership: it is {view or 'overlay'} for this node, for the node there {other_view or 'overlay'}"
