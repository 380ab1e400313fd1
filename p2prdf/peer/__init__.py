"""One overlay node, composed: see :mod:`p2prdf.peer.core` for the contract with its driver."""

from p2prdf.continuous.home import home_key
from p2prdf.peer.core import Entropy, Peer
from p2prdf.peer.network.config import PeerConfig
from p2prdf.peer.network.pace import Pace

__all__ = ["Entropy", "Pace", "Peer", "PeerConfig", "home_key"]
