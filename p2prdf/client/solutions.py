"""Solutions that a subscriber receives: one by one, or in batches as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from p2prdf import hlc
from p2prdf.rdf import terms as rdf_terms
from p2prdf.rdf.python_values import PythonValue, python_value
from p2prdf.wire.messages import SURE, WITHDRAWN

if TYPE_CHECKING:
    from p2prdf.rdf.terms import PyoxigraphTerm

__all__ = ["Batch", "Bindings", "Gap", "Solution"]


def _stamp(time: int) -> int:
    return hlc.plain(time) & ~SURE


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of solutions dropped before delivery: first and last sequence number, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


class Bindings(Mapping[str, str]):
    """A mapping from the name of each bound variable to its term as N-Triples spells it.

    A blank node is ``_:`` and the label that it has in every result format (:func:`p2prdf.rdf.terms.spelled`).
    ``bindings["x"]`` is the text of the term, :meth:`value` its Python value, :meth:`term` a pyoxigraph term.
    """

    __slots__ = ("_names", "_terms")

    def __init__(self, names: tuple[str, ...], terms: tuple[str | None, ...]):
        self._names = names
        self._terms = terms

    def __getitem__(self, name: str) -> str:
        term = self._terms[self._names.index(name)] if name in self._names else None
        if term is None:
            raise KeyError(name)
        return rdf_terms.spelled(term)

    def __iter__(self) -> Iterator[str]:
        return (name for name, term in zip(self._names, self._terms, strict=True) if term is not None)

    def __len__(self) -> int:
        return len(self._terms) - self._terms.count(None)

    def __repr__(self) -> str:
        bound = " ".join(f"?{name}={term}" for name, term in self.items())
        return f"<{type(self).__name__} {bound}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the query's projection, including unbound ones."""
        return self._names

    @property
    def terms(self) -> tuple[str | None, ...]:
        """The canonical terms in the order of the query's projection; None where a variable is unbound.

        A blank node is its skolem IRI here (:mod:`p2prdf.rdf.terms`), under which it can be published again.
        """
        return self._terms

    def value(self, name: str) -> PythonValue | None:
        """Return a variable's value as a Python object; None where it is unbound.

        Integers are ``int``, decimals ``Decimal``, floats and doubles ``float``, booleans ``bool``, dateTimes,
        dates and times those of :mod:`datetime`, durations without months ``timedelta``. IRIs, other literals
        and literals with a text invalid for their datatype are ``str``. Raises KeyError for a name that the
        query does not have.
        """
        term = self._terms[self._place(name)]
        return None if term is None else python_value(term)

    def term(self, name: str) -> PyoxigraphTerm | None:
        """Return a variable's term as a pyoxigraph object; None where it is unbound.

        The IRI that stands for a blank node of a file stays an IRI. For an rdflib term call
        ``rdflib.util.from_n3(solution[name])``. Raises KeyError for a name that the query does not have.
        """
        term = self._terms[self._place(name)]
        return None if term is None else rdf_terms.to_pyoxigraph(term)

    def _place(self, name: str) -> int:
        try:
            return self._names.index(name)
        except ValueError:
            raise KeyError(name) from None


class Solution(Bindings):
    """One solution: a mapping from the name of each bound variable to its canonical N-Triples term.

    :meth:`value` and :meth:`term` return a variable as a Python value or a pyoxigraph term. The solution of an
    ASK query has no variables: it is delivered when the query becomes true and retracted when it becomes false.

    ``sequence``: its number among delivered and lost solutions, over the whole life of the subscription.
    ``identity``: 64-bit name, the same for each derivation from the same triples.
    ``born``: publication time of the newest triple it is made of, seconds since the epoch.
    ``lost``: number of solutions right before this one that were dropped because the subscriber was too slow.
    ``removed``: the solution, delivered before under the same ``identity``, is retracted; ``born`` is the time
    of the deletion.
    """

    __slots__ = ("born", "identity", "lost", "removed", "sequence")

    def __init__(
        self, names: tuple[str, ...], terms: tuple[str | None, ...], *,
        sequence: int, identity: int, born: float, lost: int, removed: bool = False,
    ):  # fmt: skip
        super().__init__(names, terms)
        self.sequence = sequence
        self.identity = identity
        self.born = born
        self.lost = lost
        self.removed = removed

    def __repr__(self) -> str:
        bound = " ".join(f"?{name}={term}" for name, term in self.items())
        return f"<Solution {self.sequence} {'removed ' if self.removed else ''}{bound}>"

    @property
    def gap(self) -> Gap | None:
        """The gap right before this solution; None if there is none."""
        return Gap(self.sequence - self.lost, self.sequence - 1) if self.lost else None

    def age_seconds(self, now: float) -> float:
        """Return how long ago its newest triple was published, at time ``now`` since the epoch.

        At the moment of receipt this is the end-to-end latency, to the millisecond and up to the difference
        between the clocks of this machine and the node of the publication.
        """
        return now - self.born


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive solutions as columns; ``first`` is the sequence number of the first row.

    ``identities`` and ``born_stamps`` are as received; :attr:`removed` tells which rows are retractions.
    ``columns``: in the order of ``names``; an empty text stands for an unbound variable. ``lost``: number of
    solutions missing right before the first.

    ``bookmark``: after this batch no solution follows that is ``born`` at or before this time (seconds since
    the epoch), except from publications that were unacknowledged when the bookmark was made. The first bookmark
    later than :class:`Subscription`'s ``opened`` also ends the backfill: no solution follows that was true at
    the opening. None: the batch has no bookmark. ``bookmark_stamp``: the exact stamp of the bookmark, which a
    conditional transaction takes (:meth:`p2prdf.client.Client.transaction`); 0: there is none.
    """

    names: tuple[str, ...]
    first: int
    lost: int
    identities: list[int]
    born_stamps: list[int]
    columns: tuple[list[str], ...]
    bookmark: float | None = None
    bookmark_stamp: int = 0

    def __len__(self) -> int:
        return len(self.identities)

    @property
    def last(self) -> int:
        """Sequence number of the last row."""
        return self.first + len(self.identities) - 1

    @property
    def gap(self) -> Gap | None:
        """The gap right before the first row; None if there is none."""
        return Gap(self.first - self.lost, self.first - 1) if self.lost else None

    @property
    def born(self) -> list[float]:
        """Publication times in seconds since the epoch; of retracted solutions, times of the deletion."""
        return [hlc.seconds(_stamp(time)) for time in self.born_stamps]

    @property
    def stamps(self) -> list[int]:
        """Publication times as stamps (:mod:`p2prdf.hlc`), which order events within a millisecond."""
        return [_stamp(time) for time in self.born_stamps]

    @property
    def removed(self) -> list[bool]:
        """For each row, whether it retracts a solution delivered before."""
        return [time >= hlc.GONE for time in self.born_stamps]

    def solution(self, row: int) -> Solution:
        """Return one row."""
        time = self.born_stamps[row]
        removed = time >= hlc.GONE
        return Solution(
            self.names,
            tuple(column[row] or None for column in self.columns),
            sequence=self.first + row,
            identity=self.identities[row] ^ (WITHDRAWN if removed else 0),
            born=hlc.seconds(_stamp(time)),
            lost=self.lost if row == 0 else 0,
            removed=removed,
        )

    def __iter__(self) -> Iterator[Solution]:
        return (self.solution(row) for row in range(len(self)))

    def head(self, count: int) -> Batch:
        """Return the first rows, with the bookmark only if these are all."""
        if count >= len(self):
            return self
        return Batch(
            self.names, self.first, self.lost, self.identities[:count], self.born_stamps[:count],
            tuple(column[:count] for column in self.columns),
        )  # fmt: skip

    def since(self, after: int) -> Batch | None:
        """Return the rows after sequence number ``after``, or None if there are none."""
        skip = after + 1 - self.first
        if skip <= 0:
            return self
        if skip >= len(self):
            return None
        return Batch(
            self.names, after + 1, 0, self.identities[skip:], self.born_stamps[skip:],
            tuple(column[skip:] for column in self.columns), self.bookmark, self.bookmark_stamp,
        )  # fmt: skip
