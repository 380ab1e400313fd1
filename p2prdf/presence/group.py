"""The processes of one kind that work for an overlay: their names, and how they share work without asking anybody.

Each has one triple in a known graph.  Its subject has the number of a subscription that the process keeps alive, whose
lease tells whether it lives (:mod:`p2prdf.presence.member`).

Whose a piece of work is follows from those that live alone (*rendezvous hashing*, Thaler and Ravishankar 1998): all
rank them by a hash of process and work, and the first one does it.  When one goes, only what it had moves.  Two that
rank different sets, for a while, do the same work; it must be such that this does no harm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["Group", "Names", "ranked"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Names:
    """IRIs of what is registered under names; ``prefix``: how they begin, with the angle bracket."""

    prefix: str

    def subject(self, name: str) -> str:
        """Return the IRI of a name.  Raises LocalProtocolError for what is none."""
        if not _NAME.fullmatch(name):
            raise LocalProtocolError(f"{name[:120]!r} is no name: up to 100 of letters, digits, '.', '_', '-'")
        return f"{self.prefix}{name}>"

    def name(self, subject: str) -> str | None:
        """Return the name in an IRI, None for other terms."""
        name = subject.removeprefix(self.prefix).removesuffix(">")
        return name if subject.startswith(self.prefix) and _NAME.fullmatch(name) else None


@dataclass(frozen=True, slots=True)
class Group:
    """``word``: what one of them is called; ``graph``, ``predicate``: of their triples; ``asks``: of requests.

    ``prefix``: how their IRIs begin, with the angle bracket.
    """

    word: str
    graph: str
    predicate: str
    prefix: str
    asks: str

    def subject(self, number: int) -> str:
        """Return the IRI of one, by the number of the subscription that it keeps alive."""
        return f"{self.prefix}{number:016x}>"

    def number(self, subject: str) -> int | None:
        """Return the number in the IRI of one, None for other terms."""
        digits = subject.removeprefix(self.prefix).removesuffix(">")
        known = subject.startswith(self.prefix) and re.fullmatch("[0-9a-f]{16}", digits)
        return int(digits, 16) if known else None


def ranked(what: str, members: Iterable[str]) -> list[str]:
    """Return members in the order in which they are asked to do something; the same for everybody."""
    return sorted(members, key=lambda each: (hashlib.sha256(f"{each}\n{what}".encode()).digest(), each))
