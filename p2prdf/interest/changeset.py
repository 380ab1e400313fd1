"""Changesets: the triples that a dataset lost and gained from one moment to the next (iRap, definition 3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from p2prdf.errors import DataRefused

__all__ = ["Changeset", "NotApplied", "Triple"]

Triple: TypeAlias = tuple[str, str, str]
"""Canonical terms (:mod:`p2prdf.rdf.terms`)."""


class NotApplied(NamedTuple):
    """A file of a published changeset that was read and is not applied, with its number of triples."""

    source: str
    triples: int


@dataclasses.dataclass(frozen=True, slots=True)
class Changeset:
    """Triples to delete, then triples to insert, both without an order.

    A triple in both is present afterwards, present before or not; deleting a missing triple and inserting a present
    one changes nothing.  ``sequence``: its number in its dataset, consecutive from an arbitrary first one.
    ``not_applied``: a part of the published changeset that is in neither; comparisons ignore it.
    """

    removed: tuple[Triple, ...] = ()
    added: tuple[Triple, ...] = ()
    sequence: int = 0
    not_applied: NotApplied | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.sequence < 0:
            raise DataRefused(f"the number of a changeset is at least 0, not {self.sequence}")

    def __len__(self) -> int:
        return len(self.removed) + len(self.added)

    @classmethod
    def of(cls, removed: Iterable[Triple] = (), added: Iterable[Triple] = (), sequence: int = 0) -> Changeset:
        """Return a changeset of triples that may repeat."""
        return cls(tuple(dict.fromkeys(removed)), tuple(dict.fromkeys(added)), sequence)
