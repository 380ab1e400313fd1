"""The changes that a step of maintenance reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from p2prdf.reasoning.facts import Fact

__all__ = ["FOREVER", "Change"]

FOREVER: Final = (1 << 63) - 1
"""The label of facts that do not expire: background knowledge."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change of the present facts by a step."""

    added: dict[Fact, int] = field(default_factory=dict)
    """The new facts with their labels."""
    removed: list[Fact] = field(default_factory=list)
    relabelled: dict[Fact, int] = field(default_factory=dict)
    """New labels of facts that hold longer than known before, or less long after a retraction.

    Empty after a step that recomputed (``anew``), since nearly all facts would be listed, and in programs without
    labels.
    """
    anew: bool = False
