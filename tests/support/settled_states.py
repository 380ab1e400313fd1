"""One value that transactions replace, and the states of it that a subscriber was told."""

from __future__ import annotations

from collections import Counter

import p2prdf

__all__ = ["States", "query_of", "replaced"]

REPLACED = 12


def query_of(ns):
    """Return the query for the value; it has an OPTIONAL, so it is not monotone."""
    return f"SELECT ?o {{ <{ns}x> <{ns}p> ?o OPTIONAL {{ ?o <{ns}q> ?z }} }}"


async def replaced(address, ns, *, first=0, count=REPLACED):
    """Publish a value, and replace it in transactions; return the last one and its stamp."""
    subject, predicate, stamp = f"<{ns}x>", f"<{ns}p>", 0
    async with p2prdf.connect(address) as client:
        for number in range(first, first + count):
            async with client.transaction() as transaction:
                if number:
                    transaction.retract([(subject, predicate, f'"{number - 1}"')])
                transaction.publish([(subject, predicate, f'"{number}"')])
            stamp = transaction.stamp
    return str(first + count - 1), stamp


class States:
    """The values that a subscriber holds, and how many of its states never were: there is always one value."""

    def __init__(self):
        self.held = Counter()
        self.told = self.impossible = 0
        self.begun = False

    def take(self, added, removed):
        """Take in changes: a value never comes twice, and only a value that is held goes."""
        self.held.update(added)
        self.held.subtract(removed)
        self.held = +self.held if min(self.held.values(), default=0) >= 0 else self.held
        assert all(count == 1 for count in self.held.values()), self.held

    def mark(self):
        """Count the state that is held now, from the first value on."""
        self.begun = self.begun or bool(self.held)
        self.told += self.begun
        self.impossible += self.begun and len(self.held) != 1

    @property
    def values(self):
        """The values that are held."""
        return sorted(self.held)
