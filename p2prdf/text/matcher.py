"""The semantics of matching, and refusals that all matchers have."""

from __future__ import annotations

import enum

from p2prdf.errors import LocalProtocolError

__all__ = ["Semantics", "refuse_known", "refuse_unknown"]


class Semantics(enum.Enum):
    """The condition under which a publication satisfies a query."""

    PAPER = "paper"
    """Some triple matches each pattern.  Names of variables are ignored, as in the paper's tries."""
    EXACT = "exact"
    """Some triple matches each pattern, with equal terms for equal variables."""


def refuse_known(key: int, known: bool) -> None:
    """Raise LocalProtocolError if there is a query with this number."""
    if known:
        raise LocalProtocolError(f"full-text query {key} exists already")


def refuse_unknown(key: int, known: bool) -> None:
    """Raise LocalProtocolError if there is no query with this number."""
    if not known:
        raise LocalProtocolError(f"there is no full-text query {key}")
