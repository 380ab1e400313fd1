"""Faults of the simulated network, as named probabilities and delays.

Reordering needs no switch of its own: two envelopes with random delays overtake each other.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from p2prdf.errors import LocalProtocolError

__all__ = ["CALM", "HARSH", "Faults"]


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities are in 0..1, delays in seconds and drawn evenly from their range.

    ``delay_*``: time a transfer takes.
    ``straggler_*``: now and then a transfer takes this much longer, so that late envelopes
    overtake whole conversations.
    ``loss_probability``: a transfer never arrives; the sender's outbox repeats important ones.
    ``duplicate_probability``: a transfer arrives a second time, with a delay of its own.
    ``turn_seconds_max``: delay of a peer with pending work; envelopes that arrive meanwhile join the batch.
    ``skew_seconds_max``: constant error of each peer's clock, in either direction.
    ``acknowledge_seconds_max``: delay of a subscriber before it acknowledges a delivery.
    """

    delay_min_seconds: float = 0.005
    delay_max_seconds: float = 0.005
    straggler_probability: float = 0.0
    straggler_seconds: float = 1.0
    loss_probability: float = 0.0
    duplicate_probability: float = 0.0
    turn_seconds_max: float = 0.0
    skew_seconds_max: float = 0.0
    acknowledge_seconds_max: float = 0.0

    def validate(self) -> None:
        """Raise LocalProtocolError for a value out of range."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value < 0 or (field.name.endswith("probability") and value > 1):
                raise LocalProtocolError(f"faults: {field.name}={value} is out of range")
        if self.loss_probability > 0.9:
            raise LocalProtocolError(
                f"faults: loss_probability={self.loss_probability} leaves no chance that all ever arrives"
            )
        if self.delay_min_seconds > self.delay_max_seconds:
            raise LocalProtocolError(
                f"faults: delay_min_seconds={self.delay_min_seconds} is above "
                f"delay_max_seconds={self.delay_max_seconds}"
            )


CALM = Faults()
"""Every transfer takes 5 ms and arrives once."""

HARSH = Faults(
    delay_min_seconds=0.001, delay_max_seconds=0.2, straggler_probability=0.05, straggler_seconds=1.5,
    loss_probability=0.1, duplicate_probability=0.1, turn_seconds_max=0.01, acknowledge_seconds_max=0.3,
)  # fmt: skip
"""Transfers overtake each other; one in ten is lost, one in ten is duplicated."""
