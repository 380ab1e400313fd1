"""The ways to evaluate a channel's query, by name; :mod:`p2prdf.channels.evaluator` implements them."""

from __future__ import annotations

import enum

__all__ = ["Evaluation"]


class Evaluation(enum.Enum):
    """How channels evaluate their queries."""

    REEXECUTED = "re-executed"
    INCREMENTAL = "incremental"
