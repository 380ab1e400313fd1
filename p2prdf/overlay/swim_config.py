"""Settings of one member of a SWIM view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from p2prdf.errors import LocalProtocolError

__all__ = ["VIEW_MAX", "ZONE_CHARACTERS_MAX", "Entropy", "SwimConfig", "is_zone"]

VIEW_MAX: Final = 1000
"""Maximum number of members, this peer included: gossip must reach all members within seconds."""
ZONE_CHARACTERS_MAX: Final = 63
"""Maximum length of a label of a host name, and in Kubernetes."""


class Entropy(Protocol):
    """A source of random numbers; ``random.Random`` fits."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return ``k`` random bits."""
        ...


@dataclass(frozen=True, slots=True)
class SwimConfig:
    """Settings of one member.  They may differ between members."""

    probe_seconds: float = 0.5
    """The probe period: pause between two probes in turn."""
    probe_timeout_seconds: float = 0.25
    """After so long without an answer, helpers are asked and a TCP connection is tried."""
    helpers: int = 3
    """Number of helpers that probe on behalf of this peer; SWIM's k."""
    rapid_probe_seconds: float = 0.3
    """Duration of a rapid probe.  A member that refuses connections is declared dead after one to two thirds of it."""
    suspicion_seconds: float = 1.5
    """Time that a suspected member has to refute; times log10 of the number of members if that is more than ten."""
    linked_seconds: float = 6.0
    """Time to refute while a connection with the member stands: it is probably busy."""
    gossip_seconds: float = 0.1
    """Pause between two rounds of gossip, while there is any."""
    gossip_peers: int = 3
    """Number of members that a round of gossip goes to."""
    gossip_factor: float = 3.0
    """Each state is gossiped so many times log2 of the number of members; SWIM's lambda."""
    sync_seconds: float = 2.0
    """Pause between two push-pull syncs, plus or minus a quarter."""
    join_seconds: float = 0.1
    """Pause between two syncs while joining."""
    gone_seconds: float = 600.0
    """How long dead members are remembered and contacted from time to time."""
    gone_max: int = 512
    """Maximum number of remembered dead members."""
    view_max: int = VIEW_MAX
    clock_differs_seconds: float = 0.4
    """Clocks disagree if they differ by more."""
    clock_fresh_seconds: float = 60.0
    """How long a measured clock offset counts."""

    def __post_init__(self) -> None:
        """Refuse values that are not positive, and a view that is too large."""
        for name in self.__slots__:
            value = getattr(self, name)
            if value <= 0:
                raise LocalProtocolError(f"{name} must be more than 0, not {value!r}")
        if self.view_max > VIEW_MAX:
            raise LocalProtocolError(f"view_max must be at most {VIEW_MAX}, not {self.view_max}")


def is_zone(text: str) -> bool:
    """Return whether a text can name a failure zone: short, visible ASCII without blanks, or nothing."""
    return len(text) <= ZONE_CHARACTERS_MAX and text.isascii() and all("!" <= each <= "~" for each in text)
