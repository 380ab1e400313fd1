"""Names of a worker group, and the assignment of work to its workers without a coordinator.

Each worker has one triple in a known graph.  The triple's subject contains the number of a subscription that the worker
keeps alive: the lease of that subscription decides whether the worker is alive (:mod:`p2prdf.workers.worker`).

Work is assigned by *rendezvous hashing* (Thaler and Ravishankar 1998): every worker ranks all live workers by a hash of
worker and piece of work; the first one does it.  When a worker goes, only its own work moves.  While the memberships of
two workers differ, both may do the same work; duplicate work must therefore be harmless.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["Names", "WorkerGroup", "ranked"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Names:
    """IRIs of things that are registered by name.  ``prefix``: start of each IRI, with the angle bracket."""

    prefix: str

    def subject(self, name: str) -> str:
        """Return the IRI of a name.  Raises LocalProtocolError for a malformed name."""
        if not _NAME.fullmatch(name):
            raise LocalProtocolError(f"{name[:120]!r} is no name: up to 100 of letters, digits, '.', '_', '-'")
        return f"{self.prefix}{name}>"

    def name(self, subject: str) -> str | None:
        """Return the name in an IRI, None for other terms."""
        name = subject.removeprefix(self.prefix).removesuffix(">")
        return name if subject.startswith(self.prefix) and _NAME.fullmatch(name) else None


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """The IRIs of one worker group.

    ``prefix``: start of each worker's IRI, with the angle bracket;
    ``graph``, ``predicate``: of the triples that announce workers; ``asks``: the predicate of requests.
    """

    graph: str
    predicate: str
    prefix: str
    asks: str

    def subject(self, number: int) -> str:
        """Return the IRI of the worker that keeps the subscription of this number alive."""
        return f"{self.prefix}{number:016x}>"

    def number(self, subject: str) -> int | None:
        """Return the number in the IRI of a worker, None for other terms."""
        digits = subject.removeprefix(self.prefix).removesuffix(">")
        known = subject.startswith(self.prefix) and re.fullmatch("[0-9a-f]{16}", digits)
        return int(digits, 16) if known else None


def ranked(what: str, members: Iterable[str]) -> list[str]:
    """Return workers by rank for a piece of work; all processes compute the same order."""
    return sorted(members, key=lambda each: (hashlib.sha256(f"{each}\n{what}".encode()).digest(), each))
