"""Settings of one peer of a Chord ring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["SUCCESSORS_MAX", "ChordConfig"]

SUCCESSORS_MAX: Final = 16
"""Longest successor list: an answer must fit into one datagram of some 1,200 bytes."""


@dataclass(frozen=True, slots=True)
class ChordConfig:
    """Settings of one peer of a ring; all peers should agree on ``successors``."""

    successors: int = 8
    """Length of the successor lists, R: so many may fail at once, less one."""
    stabilise_seconds: float = 1.0
    """Pause between two stabilisations, give or take a quarter."""
    quick_seconds: float = 0.1
    """The same while the own pointers change, and for ``quick_rounds`` times after."""
    quick_rounds: int = 5
    tend_seconds: float = 1.0
    """Pause between two rounds of pings and repairs of a finger, give or take a quarter."""
    timeout_seconds: float = 0.25
    """A question is asked again after so long."""
    silences: int = 2
    """A peer that leaves a question unanswered so often in a row is gone."""
    retry_seconds: float = 0.05
    """Pause before a busy peer is asked again; longer each time."""
    join_seconds: float = 1.0
    """Pause before joining is tried again."""
    gone_seconds: float = 10.0
    """How long a peer that fell silent is asked once more before it is named in an outcome, unless it speaks."""
    contacts_max: int = 64
    """Live peers watched beyond those the ring needs."""
    meetings_max: int = 64
    """Strangers being pinged for the first time; further ones are ignored (they will speak again)."""
    lookups_max: int = 32
    """Lookups under way at once; others wait."""
    lookups_waiting_max: int = 4096
    """Lookups waiting; further ones fail at once."""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        for name in self.__slots__:
            value = getattr(self, name)
            if value < 0 or (value == 0 and name not in ("quick_rounds", "contacts_max")):
                raise LocalProtocolError(f"{name} must be more than 0, not {value!r}")
        if self.successors > SUCCESSORS_MAX:
            raise LocalProtocolError(f"successors must be at most {SUCCESSORS_MAX}, not {self.successors}")
