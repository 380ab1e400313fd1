"""The solutions that a subscriber of real nodes holds: pairs of things in a test's own namespace."""

from __future__ import annotations

import asyncio

__all__ = ["Held", "pairs"]

SECONDS = 60.0


def pairs(ns, rows):
    return sorted("".join(term.removeprefix(f"<{ns}").rstrip(">") for term in row) for row in rows)


class Held:
    """The solutions that a subscriber holds."""

    def __init__(self, subscription):
        self.rows = []
        self._taking = aiter(subscription)

    async def until(self, ns, *expected):
        """Take answers until these pairs are held."""
        async with asyncio.timeout(SECONDS):
            while pairs(ns, self.rows) != sorted(expected):
                solution = await anext(self._taking)
                (self.rows.remove if solution.removed else self.rows.append)(tuple(solution.terms))
