"""What a subscriber gets: solutions one by one, or whole batches as columns."""

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
    """Solutions that were dropped before they were taken: by their sequence numbers, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


class Bindings(Mapping[str, str]):
    """Variables with their terms: name of each bound variable to its term as N-Triples spells it.

    A blank node is ``_:`` and the label that every format of results has for it (:func:`p2prdf.rdf.terms.spelled`).
    ``bindings["x"]`` is the term's text, :meth:`value` its value in Python, :meth:`term` a term of pyoxigraph.
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
        """The names of the query's projection, unbound ones as well."""
        return self._names

    @property
    def terms(self) -> tuple[str | None, ...]:
        """The canonical terms in the order of the query's projection; None where a variable is unbound.

        A blank node is its skolem IRI here (:mod:`p2prdf.rdf.terms`), by which it can be published again.
        """
        return self._terms

    def value(self, name: str) -> PythonValue | None:
        """Return the value of a variable as Python has it; None where it is unbound.

        Integers are ``int``, decimals ``Decimal``, floats and doubles ``float``, booleans ``bool``, dateTimes, dates
        and times those of :mod:`datetime`, durations without months ``timedelta``, IRIs and other literals ``str``.
        So is a literal whose text is none of its datatype's.  Raises KeyError for a name that the query does not have.
        """
        term = self._terms[self._place(name)]
        return None if term is None else python_value(term)

    def term(self, name: str) -> PyoxigraphTerm | None:
        """Return the term of a variable as pyoxigraph has it; None where it is unbound.

        The IRI that stands for a blank node of a file stays an IRI.  For a term of rdflib call
        ``rdflib.util.from_n3(solution[name])``.  Raises KeyError for a name that the query does not have.
        """
        term = self._terms[self._place(name)]
        return None if term is None else rdf_terms.to_pyoxigraph(term)

    def _place(self, name: str) -> int:
        try:
            return self._names.index(name)
        except ValueError:
            raise KeyError(name) from None


class Solution(Bindings):
    """One solution: name of each bound variable to canonical N-Triples term.

    :meth:`value` and :meth:`term` give a variable as a value of Python or a term of pyoxigraph.

    That of an ASK query has no variables: it is given out when the query has become true, and removed when it is not.

    ``sequence``: its number among those given out (and lost), over the whole life of the subscription.
    ``identity``: 64-bit name, equal for equal derivations wherever and however often they are made.
    ``born``: publication time of the newest triple it is made of, seconds since the epoch.
    ``lost``: solutions right before this one that were dropped because the subscriber was too slow.
    ``removed``: it is not true any more.  It was given out before, under the same ``identity``; ``born`` is the time of
    the removal then.
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
        """What is missing right before this one; None if nothing is."""
        return Gap(self.sequence - self.lost, self.sequence - 1) if self.lost else None

    def age_seconds(self, now: float) -> float:
        """Return how long ago its newest triple was published, at time ``now`` since the epoch.

        The moment a solution is received this is the answer's latency, up to the difference
        between this clock and that of the node the triple was published at, and to the millisecond.
        """
        return now - self.born


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive solutions as columns; ``first`` is the sequence number of the first row.

    ``identities`` and ``born_stamps`` are as they came; :attr:`removed` tells which solutions are not true any more.

    ``columns`` are in the order of ``names``; an empty text stands for no value.  ``lost`` solutions are missing right
    before the first.
    ``bookmark``: after this batch no solution follows that is ``born`` at or before this time (seconds since the
    epoch), but of publications that were not acknowledged when the bookmark was made; after the first one that is later
    than the opening none either that was true at the opening.  None: nothing is said.
    """

    names: tuple[str, ...]
    first: int
    lost: int
    identities: list[int]
    born_stamps: list[int]
    columns: tuple[list[str], ...]
    bookmark: float | None = None

    def __len__(self) -> int:
        return len(self.identities)

    @property
    def last(self) -> int:
        """Sequence number of the last row."""
        return self.first + len(self.identities) - 1

    @property
    def gap(self) -> Gap | None:
        """What is missing right before the first row; None if nothing is."""
        return Gap(self.first - self.lost, self.first - 1) if self.lost else None

    @property
    def born(self) -> list[float]:
        """Publication times in seconds since the epoch; of removed solutions, when they were."""
        return [hlc.seconds(_stamp(time)) for time in self.born_stamps]

    @property
    def stamps(self) -> list[int]:
        """Publication times as stamps (:mod:`p2prdf.hlc`), which tell apart what is of one millisecond."""
        return [_stamp(time) for time in self.born_stamps]

    @property
    def removed(self) -> list[bool]:
        """Of each row, whether it is a solution given out before that is not true any more."""
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
        """Return the first rows, and the bookmark only if these are all."""
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
            tuple(column[skip:] for column in self.columns), self.bookmark,
        )  # fmt: skip
