"""How a quantity grows with the stream, and what that says of a longer one.

Joins grow faster than the stream that feeds them: a partial result of two triples can be made of any
two, so twice the triples make four times as many, and a path of k patterns up to 2^k times.  How
fast depends on the data, so it is read off the sample: the exponent of each of its last two doublings.
Carrying it on assumes that the data goes on as it did.  That is all there is to assume, so an
estimate is a range, between what the one and the other exponent give, and beyond ``TIMES_MAX``
times the sample there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["COUNT_MIN", "TIMES_MAX", "Growth", "Range", "grown"]

Range = tuple[float, float]
"""Least and most."""

TIMES_MAX: Final = 64
"""How many times longer than the sample a stream may be that is spoken of."""

COUNT_MIN: Final = 30
"""Below so many an exponent would be chance."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A quantity after about a quarter, a half and all of the sample, and how it grew.

    ``exponents``: b of count ~ triples^b, over the first and the second doubling; None: too few to tell.
    ``power_max``: the most it can be, by the queries' patterns.
    """

    name: str
    triples: tuple[int, int, int]
    counts: tuple[int, int, int]
    power_max: float

    @property
    def exponents(self) -> Range | None:
        """The exponent of each doubling, or None if there was too little to tell."""
        if self.counts[0] < COUNT_MIN or not self.triples[0] < self.triples[1] < self.triples[2]:
            return None
        found = [
            math.log(self.counts[at + 1] / self.counts[at]) / math.log(self.triples[at + 1] / self.triples[at])
            for at in range(2)
        ]
        return found[0], found[1]

    @property
    def bounds(self) -> Range:
        """Least and greatest exponent to carry on with: 1 and the most it can be if there was too little to tell."""
        if self.exponents is None:
            return min(1.0, self.power_max), self.power_max
        low, high = sorted(max(0.0, min(each, self.power_max)) for each in self.exponents)
        return low, high

    def after(self, times: float) -> Range:
        """Return how many times as much there is after ``times`` the sample's triples."""
        if not 0 < times <= TIMES_MAX:
            raise LocalProtocolError(
                f"a stream of {times:,.0f} times the sample: nothing is foretold beyond {TIMES_MAX} times"
            )
        ends = [times**each for each in self.bounds]
        return min(ends), max(ends)

    def as_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "name": self.name, "triples": list(self.triples), "counts": list(self.counts),
            "exponents": None if self.exponents is None else [round(each, 3) for each in self.exponents],
        }  # fmt: skip


def grown(name: str, triples: Sequence[int], counts: Sequence[int], power_max: float) -> Growth:
    """Return the growth of a quantity counted after ``triples``, from the counts nearest to a quarter and a half."""
    end = triples[-1]
    quarter, half = (_nearest(triples, end * part) for part in (0.25, 0.5))
    return Growth(name, (triples[quarter], triples[half], end), (counts[quarter], counts[half], counts[-1]), power_max)


def _nearest(triples: Sequence[int], wanted: float) -> int:
    return min(range(len(triples)), key=lambda at: abs(triples[at] - wanted))
