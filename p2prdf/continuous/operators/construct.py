"""Construct: the triples of a template for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from p2prdf.continuous.operators.zset import UNBOUND, Delta, OfOne, Row, add

__all__ = ["Construct"]


class Construct(OfOne):
    """Output: the valid triples of the template for each row above zero, with the row's multiplicity.

    Blank nodes of the template are new for each copy of a row: ``blank`` makes them from the row, the number of the
    blank node and the number of the copy.  Copies are therefore distinct, and only their number matters.  Holds the
    input; a changed row costs the size of the template times its change of multiplicity.
    """

    def __init__(
        self,
        template: Sequence[tuple[int, int, int]],
        constants: Sequence[int],
        width: int,
        blank: Callable[[Row, int, int], int],
        is_triple: Callable[[int, int, int], bool],
    ):
        """Slots of the template: see algebra.Construct.  ``width``: the number of columns of the input's rows."""
        super().__init__()
        self._template = template
        self._constants = constants
        self._blank = blank
        self._is_triple = is_triple
        self._blanks = 1 + max((slot - width for triple in template for slot in triple), default=-1)

    def apply(self, *changes: Delta) -> Delta:
        """See the package; one input."""
        out: Delta = {}
        for row, before, after in self._changed(changes[0]):
            first, last = sorted((before, after))
            sign = 1 if after > before else -1
            if self._blanks <= 0:
                self._give(out, row, (last - first) * sign)
                continue
            for copy in range(first, last):
                blanks = tuple(self._blank(row, number, copy) for number in range(self._blanks))
                self._give(out, row + blanks, sign)
        return out

    def _give(self, out: Delta, terms: Row, times: int) -> None:
        if not times:
            return
        for triple in self._template:
            s, p, o = (terms[slot] if slot >= 0 else self._constants[~slot] for slot in triple)
            if UNBOUND not in (s, p, o) and self._is_triple(s, p, o):
                add(out, (s, p, o), times)
