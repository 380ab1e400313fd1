"""Settings of one member of a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from p2prdf.errors import LocalProtocolError

__all__ = ["VIEW_MAX", "ZONE_CHARACTERS_MAX", "Entropy", "SwimConfig", "is_zone"]

VIEW_MAX: Final = 1000
"""Members of a view, the own peer among them: news must reach everyone within seconds."""
ZONE_CHARACTERS_MAX: Final = 63
"""As long as a label of a host name or of Kubernetes."""


class Entropy(Protocol):
    """Where randomness comes from; ``random.Random`` fits."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """Return ``k`` random bits."""
        ...


@dataclass(frozen=True, slots=True)
class SwimConfig:
    """Settings of one member.  All may differ between members."""

    probe_seconds: float = 0.5
    """The period: so often another member is probed, in turn."""
    probe_timeout_seconds: float = 0.25
    """A probe unanswered for so long is asked of others, and a connection is tried."""
    helpers: int = 3
    """How many others are asked; SWIM's k."""
    examine_seconds: float = 0.3
    """How long an examination after a broken connection takes; refused and silent for a third to two thirds of it is
    dead."""
    suspicion_seconds: float = 1.5
    """How long a suspected member has to object; times log10 of the number of members, if they are more than ten."""
    linked_seconds: float = 6.0
    """How long it has while a connection with it stands: then it is busy rather than gone."""
    gossip_seconds: float = 0.1
    """Pause between two rounds of news, while there are any."""
    gossip_peers: int = 3
    """How many others a round of news goes to."""
    news_factor: float = 3.0
    """News are passed on this times log2 of the number of members; SWIM's lambda."""
    exchange_seconds: float = 2.0
    """Pause between two comparisons of the whole view with somebody, give or take a quarter."""
    join_seconds: float = 0.1
    """The same while joining."""
    gone_seconds: float = 600.0
    """How long the dead are remembered, and tried again now and then."""
    gone_max: int = 512
    """How many of them."""
    view_max: int = VIEW_MAX
    clock_differs_seconds: float = 0.4
    """Clocks that differ by more disagree."""
    clock_fresh_seconds: float = 60.0
    """How long a measured difference counts."""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        for name in self.__slots__:
            value = getattr(self, name)
            if value <= 0:
                raise LocalProtocolError(f"{name} must be more than 0, not {value!r}")
        if self.view_max > VIEW_MAX:
            raise LocalProtocolError(f"view_max must be at most {VIEW_MAX}, not {self.view_max}")


def is_zone(text: str) -> bool:
    """Return whether a text can name a failure zone: short, visible ASCII without blanks, or nothing."""
    return len(text) <= ZONE_CHARACTERS_MAX and text.isascii() and all("!" <= each <= "~" for each in text)
