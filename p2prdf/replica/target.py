"""The interface of a replica's target: triples, and a cursor that changes atomically with them.

The *cursor* names the changeset of the target. Each update names the cursors before and after it, and takes
effect only if the first is present (compare and swap). A repeated or delayed update therefore has no effect,
and after a crash the cursor shows the progress.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from typing import Final, Protocol

from p2prdf.interest import Triple

__all__ = ["UPDATE_TRIPLES_MAX", "Digest", "Target", "parts_of"]

UPDATE_TRIPLES_MAX: Final = 5_000
"""Default bound on the triples of one update: SPARQL servers with small limits accept it."""


class Target(Protocol):
    """The target of a replica."""

    triples_max: int
    """Bound on the triples of one update."""
    respells: bool
    """Whether numbers and dates may come back in another spelling."""

    async def cursor(self) -> str | None:
        """Return the cursor, None if the target has none yet."""

    async def update(
        self, removed: Iterable[Triple], added: Iterable[Triple], *, before: str | None, after: str
    ) -> None:
        """Delete and insert triples and set the cursor atomically, if the cursor is ``before``.

        Raises TargetMoved for another cursor, TargetRefused if the target refuses, Unavailable if it cannot be
        reached. After Unavailable the update may have taken effect; the cursor tells.
        """

    def triples(self) -> AsyncIterator[Triple]:
        """Yield the target's triples."""

    async def close(self) -> None:
        """Release files and connections."""


def parts_of(
    removed: Iterable[Triple], added: Iterable[Triple], triples_max: int
) -> list[tuple[list[Triple], list[Triple]]]:
    """Split a change into updates of at most ``triples_max`` triples, deletions first; deterministic."""
    every = [(False, triple) for triple in sorted(removed)] + [(True, triple) for triple in sorted(added)]
    parts = [every[at : at + triples_max] for at in range(0, len(every), triples_max)]
    return [
        ([triple for is_added, triple in part if not is_added], [triple for is_added, triple in part if is_added])
        for part in parts
    ]


class Digest:
    """Identifies a set of triples, independently of their order: their number, and the sum of hashes.

    The sum of SHA-256 values modulo 2^256 can be maintained incrementally. Different sets have different
    digests unless somebody constructs them to collide.
    """

    __slots__ = ("_sum", "count")

    def __init__(self, triples: Iterable[Triple] = ()):
        self.count = 0
        self._sum = 0
        for triple in triples:
            self.add(triple)

    def add(self, triple: Triple, times: int = 1) -> None:
        """Add a triple, or remove it with ``times`` -1."""
        line = " ".join(triple).encode()
        self.count += times
        self._sum = (self._sum + times * int.from_bytes(hashlib.sha256(line).digest(), "big")) % (1 << 256)

    def copy(self) -> Digest:
        """Return a copy."""
        made = Digest()
        made.count, made._sum = self.count, self._sum
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and (self.count, self._sum) == (other.count, other._sum)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __str__(self) -> str:
        return f"{self.count}:{self._sum:064x}"
