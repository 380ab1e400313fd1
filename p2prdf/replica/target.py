"""What every target of a replica is: triples, and a cursor that changes with them in one stroke.

The *cursor* names the changeset that the target is at.  Each update says which cursor it expects and which one it
leaves, and takes effect only if the first is there.  So an update that was sent twice, or that arrives long after its
sender gave it up, does nothing the second time; and who comes back after a crash reads the cursor and knows what is
done.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from typing import Final, Protocol

from p2prdf.interest import Triple

__all__ = ["UPDATE_TRIPLES_MAX", "Digest", "Target", "parts_of"]

UPDATE_TRIPLES_MAX: Final = 5_000
"""Most triples of one update unless told otherwise: what SPARQL servers with small limits still take."""


class Target(Protocol):
    """Where a replica is."""

    triples_max: int
    """Most triples of one update."""
    respells: bool
    """Whether numbers and dates may come back in another spelling than they were sent."""

    async def cursor(self) -> str | None:
        """Return the cursor, None if the target has none yet."""

    async def update(
        self, removed: Iterable[Triple], added: Iterable[Triple], *, before: str | None, after: str
    ) -> None:
        """Delete and insert triples and set the cursor, all or nothing, if the cursor is ``before``.

        Raises TargetMoved if it is another, TargetRefused if the target says no, Unavailable if it cannot be reached;
        after the last of these the update may or may not have taken effect, which the cursor tells.
        """

    def triples(self) -> AsyncIterator[Triple]:
        """Yield what the target holds."""

    async def close(self) -> None:
        """Let go of files and connections."""


def parts_of(
    removed: Iterable[Triple], added: Iterable[Triple], triples_max: int
) -> list[tuple[list[Triple], list[Triple]]]:
    """Divide a change into updates of at most ``triples_max`` triples, deletions first; the same each time."""
    every = [(False, triple) for triple in sorted(removed)] + [(True, triple) for triple in sorted(added)]
    parts = [every[at : at + triples_max] for at in range(0, len(every), triples_max)]
    return [
        ([triple for is_added, triple in part if not is_added], [triple for is_added, triple in part if is_added])
        for part in parts
    ]


class Digest:
    """Names a set of triples, whatever their order: their number, and the sum of their hashes.

    The sum of SHA-256 values modulo 2^256 can be kept as triples come and go, and two sets that nobody chose to deceive
    by have different ones.
    """

    __slots__ = ("_sum", "count")

    def __init__(self, triples: Iterable[Triple] = ()):
        self.count = 0
        self._sum = 0
        for triple in triples:
            self.add(triple)

    def add(self, triple: Triple, times: int = 1) -> None:
        """Count a triple in, or with ``times`` -1 out."""
        line = " ".join(triple).encode()
        self.count += times
        self._sum = (self._sum + times * int.from_bytes(hashlib.sha256(line).digest(), "big")) % (1 << 256)

    def copy(self) -> Digest:
        """Return another one that is equal."""
        made = Digest()
        made.count, made._sum = self.count, self._sum
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and (self.count, self._sum) == (other.count, other._sum)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __str__(self) -> str:
        return f"{self.count}:{self._sum:064x}"
