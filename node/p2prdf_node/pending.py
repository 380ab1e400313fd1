"""A client's request at the peer, and the session that receives its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2prdf.rdf.reach import Reach
    from p2prdf_node.session import ClientSession

__all__ = ["Pending"]


@dataclass(frozen=True, slots=True)
class Pending:
    """A request that the peer is processing."""

    session: ClientSession
    request: int
    kind: str
    names: tuple[str, ...] = ()
    subscription: int = 0
    began: float = 0.0
    """Monotonic time of a publication's arrival."""
    level: str = ""
    once: bool = False
    reach: Reach | None = None
    settled: bool = False
    size: int = 0
    """Size of a publication, in bytes."""
