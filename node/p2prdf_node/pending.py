"""What a node's peer is asked to do for a client, and to whom the outcome is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2prdf.rdf.reach import Reach
    from p2prdf_node.session import ClientSession

__all__ = ["Pending"]


@dataclass(frozen=True, slots=True)
class Pending:
    """A request the peer is working on."""

    session: ClientSession
    request: int
    kind: str
    names: tuple[str, ...] = ()
    subscription: int = 0
    began: float = 0.0
    """Of a publication: the monotonic time at which it came."""
    level: str = ""
    once: bool = False
    reach: Reach | None = None
    size: int = 0
    """Bytes of a publication."""
