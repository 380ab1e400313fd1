"""What replicas ask of a client of an overlay (:mod:`p2prdf.presence.overlay`)."""

from p2prdf.presence.overlay import Batch, Connect, Left, Overlay, Writing

__all__ = ["Batch", "Connect", "Left", "Overlay", "Writing"]
