"""Growth of a quantity with the stream, and its extrapolation to a longer stream.

Joins grow faster than their stream: any two triples may form a partial result, so twice the triples give up to four
times the partial results of two patterns, and 2^k times those of k.  The actual rate depends on the data, so it is
measured: the exponent of each of the sample's last two doublings.  The extrapolation assumes that the data continues
alike.  An estimate is a range, between the results of the two exponents, and there is none beyond ``TIMES_MAX`` times
the sample.
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
"""Longest extrapolation, in lengths of the sample."""

COUNT_MIN: Final = 30
"""Least count for an exponent; with fewer it would be random."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A quantity after about a quarter, a half and all of the sample.

    ``exponents``: b of count ~ triples^b, over the first and the second doubling; None if the counts are too small.
    ``power_max``: the greatest possible exponent, by the number of patterns of the queries.
    """

    name: str
    triples: tuple[int, int, int]
    counts: tuple[int, int, int]
    power_max: float

    @property
    def exponents(self) -> Range | None:
        """The exponent of each doubling, or None if the counts are too small."""
        if self.counts[0] < COUNT_MIN or not self.triples[0] < self.triples[1] < self.triples[2]:
            return None
        found = [
            math.log(self.counts[at + 1] / self.counts[at]) / math.log(self.triples[at + 1] / self.triples[at])
            for at in range(2)
        ]
        return found[0], found[1]

    @property
    def bounds(self) -> Range:
        """Least and greatest exponent of the extrapolation: 1 and ``power_max`` if the counts are too small."""
        if self.exponents is None:
            return min(1.0, self.power_max), self.power_max
        low, high = sorted(max(0.0, min(each, self.power_max)) for each in self.exponents)
        return low, high

    def after(self, times: float) -> Range:
        """Return the least and greatest factor of the quantity after ``times`` the sample's triples."""
        if not 0 < times <= TIMES_MAX:
            raise LocalProtocolError(
                f"a stream of {times:,.0f} times the sample: estimates reach {TIMES_MAX} times"
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
