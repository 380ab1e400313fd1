"""Settings of one peer of an overlay without a view."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["SUCCESSORS_MAX", "ChordConfig", "RoutedConfig"]

SUCCESSORS_MAX: Final = 16
"""Maximum length of a successor list: an answer must fit into one datagram of some 1,200 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedConfig:
    """Settings that Chord and Kademlia have in common."""

    tend_seconds: float = 1.0
    """Pause between two rounds of maintenance (pings, a finger or an exchange), plus or minus a quarter."""
    timeout_seconds: float = 0.25
    """An unanswered question is repeated after so long."""
    silences: int = 2
    """Number of unanswered repetitions in a row after which a peer counts as gone."""
    silent_seconds: float = 10.0
    """How long a silent peer is not read although the successor names it as predecessor, unless it sends a message."""
    contacts_max: int = 64
    """Maximum number of live peers that are watched beyond those that the routing table needs."""
    meetings_max: int = 64
    """Maximum number of first pings to unknown peers; further ones are ignored until their next message."""
    lookups_max: int = 32
    """Maximum number of lookups in flight; others queue."""
    lookups_waiting_max: int = 4096
    """Maximum number of queued lookups; further ones fail at once."""

    def __post_init__(self) -> None:
        """Refuse values that are not positive."""
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value < 0 or (value == 0 and name != "contacts_max"):
                raise LocalProtocolError(f"{name} must be more than 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChordConfig(RoutedConfig):
    """Settings of one peer of a ring; all peers should agree on ``successors``."""

    successors: int = 8
    """Length of the successor lists, R; up to R - 1 successive peers may fail at once."""
    stabilise_seconds: float = 1.0
    """Pause between two stabilisations, plus or minus a quarter."""
    retry_seconds: float = 0.05
    """Pause before a busy peer is asked again; it grows with each try."""
    join_seconds: float = 1.0
    """Pause before the next attempt to join."""

    def __post_init__(self) -> None:
        """Refuse values that are not positive, and a successor list that is too long."""
        RoutedConfig.__post_init__(self)
        if self.successors > SUCCESSORS_MAX:
            raise LocalProtocolError(f"successors must be at most {SUCCESSORS_MAX}, not {self.successors}")
