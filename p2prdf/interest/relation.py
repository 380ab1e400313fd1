"""The triples that match patterns, held once for all interests.

A *selection* is a pattern without the names of its variables: its constants, and the places with the same variable.
A *relation* is a selection with conditions and with the places by which its triples are joined: its keys.  Interests
with other patterns share both, so ten thousand interests in names hold each name once, and a new name is looked up
once: by its key, which leads to the interests that it concerns (``watches``).

Terms are numbers here, assigned by :class:`Terms` and released when no triple has the term any more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from p2prdf.interest.expression import Pattern
from p2prdf.rdf.compiled import CompiledFilter
from p2prdf.rdf.standing.syntax import is_variable

if TYPE_CHECKING:
    from p2prdf.interest.node import Node

__all__ = [
    "Columns", "Fact", "Key", "Projection", "Relation", "Selection", "Terms", "Test", "Watch", "identity_of",
    "projection",
]  # fmt: skip

Fact: TypeAlias = tuple[int, int, int]
Key: TypeAlias = int | tuple[int, ...]
"""Numbers of terms: one alone, none or several as a tuple."""
Columns: TypeAlias = tuple[int, ...]
"""Places of a triple: 0 is the subject."""
Projection: TypeAlias = Callable[[Key], Key]


def projection(source: tuple[object, ...], target: tuple[object, ...]) -> Projection:
    """Return the function from keys with some columns to keys with a subset of these."""
    if source == target:
        return _same
    if not target:
        return _nothing
    assert len(source) > 1, "of one column there is nothing but all or none"
    getter: Any = itemgetter(*(source.index(name) for name in target))
    return getter  # type: ignore[no-any-return]  # one place gives a number, several a tuple


def _same(key: Key) -> Key:
    return key


def _nothing(key: Key) -> Key:
    del key
    return ()


class Terms:
    """Numbers for terms in use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._uses: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def use(self, text: str) -> int:
        """Return the number of a term and count one more use."""
        number = self._numbers.get(text)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._texts[number] = text
            else:
                number = len(self._texts)
                self._texts.append(text)
                self._uses.append(0)
            self._numbers[text] = number
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        """Release one use."""
        self._uses[number] -= 1
        if self._uses[number] == 0:
            del self._numbers[self._texts[number]]
            self._texts[number] = ""
            self._free.append(number)

    def find(self, text: str) -> int | None:
        """Return the number of a term, None if it is not in use."""
        return self._numbers.get(text)

    def text(self, number: int) -> str:
        """Return the term of a number."""
        return self._texts[number]


@dataclasses.dataclass(frozen=True, slots=True)
class Test:
    """A condition on the terms in some places of a triple."""

    holds: CompiledFilter
    columns: Columns

    def __call__(self, triple: tuple[str, str, str]) -> bool:
        """Return whether a triple of canonical terms meets the condition."""
        return self.holds(tuple(triple[at] for at in self.columns))


def identity_of(pattern: Pattern) -> tuple[object, ...]:
    """Return the identity of a pattern's selection."""
    return (*(None if is_variable(part) else part for part in pattern), _twice(pattern))


class Selection:
    """The triples that match a pattern; equal for patterns that differ only in the names of variables."""

    def __init__(self, pattern: Pattern):
        self.constants: tuple[str | None, ...] = tuple(None if is_variable(part) else part for part in pattern)
        self.twice = _twice(pattern)
        self.identity = identity_of(pattern)
        self.facts: dict[Fact, None] = {}
        self.relations: list[Relation] = []
        self.added: list[Fact] = []
        self.removed: list[Fact] = []
        """Triples that this round removed; ``added`` holds those that it added."""
        self.given_up = 0
        """Number of triples given up for a bound since all were held."""

    def takes(self, triple: tuple[str, str, str]) -> bool:
        """Return whether a triple matches, given that its constants fit."""
        return all(triple[one] == triple[other] for one, other in self.twice)

    def matches(self, triple: tuple[str, str, str]) -> bool:
        """Return whether a triple matches."""
        fits = all(part is None or part == found for part, found in zip(self.constants, triple, strict=True))
        return fits and self.takes(triple)


def _twice(pattern: Pattern) -> tuple[tuple[int, int], ...]:
    return tuple(
        (one, other)
        for one, other in ((0, 1), (0, 2), (1, 2))
        if is_variable(pattern[one]) and pattern[one] == pattern[other]
    )


class Watch:
    """The nodes that want each value of some columns of a relation.

    ``wanted``: by value, the nodes with the number of keys above them that lead there.
    """

    __slots__ = ("joint_of", "wanted")

    def __init__(self, joint_of: Projection):
        self.joint_of = joint_of
        self.wanted: dict[Key, dict[Node, int]] = {}


_NO_KEYS: Final[dict[Key, None]] = {}
_NO_FACTS: Final[dict[Fact, None]] = {}


class Relation:
    """A selection's triples that meet conditions, by key."""

    def __init__(
        self, identity: tuple[object, ...], selection: Selection, columns: Columns, tests: tuple[Test, ...]
    ):
        self.identity = identity
        self.selection = selection
        self.columns = columns
        self.tests = tests
        self.keys: dict[Key, dict[Fact, None]] = {}
        self.touched: dict[Key, tuple[list[Fact], list[Fact]]] = {}
        """By key, the triples that this round added and removed."""
        self.watches: dict[Columns, Watch] = {}
        self.roots: dict[Node, None] = {}
        """Nodes that want all keys."""
        self.users = 0
        self._indexes: dict[Columns, tuple[Projection, dict[Key, dict[Key, None]]]] = {}
        self._key_of: Callable[[Fact], Key] = projection((0, 1, 2), columns)

    def put(self, fact: Fact, triple: tuple[str, str, str]) -> bool:
        """Add a triple of the selection; return whether it meets the conditions."""
        if not all(test(triple) for test in self.tests):
            return False
        key = self._key_of(fact)
        found = self.keys.get(key)
        if found is None:
            self.keys[key] = {fact: None}
            for joint_of, index in self._indexes.values():
                index.setdefault(joint_of(key), {})[key] = None
        else:
            found[fact] = None
        self._touch(key)[0].append(fact)
        return True

    def drop(self, fact: Fact) -> bool:
        """Remove a triple; return whether it was held."""
        key = self._key_of(fact)
        found = self.keys.get(key)
        if found is None or fact not in found:
            return False
        del found[fact]
        if not found:
            del self.keys[key]
            for joint_of, index in self._indexes.values():
                joint = joint_of(key)
                of = index[joint]
                del of[key]
                if not of:
                    del index[joint]
        self._touch(key)[1].append(fact)
        return True

    def facts(self, key: Key) -> Iterable[Fact]:
        """Return the triples with a key."""
        return self.keys.get(key, _NO_FACTS)

    def facts_before(self, key: Key) -> Iterator[Fact]:
        """Return the triples with a key that were held before this round."""
        added, removed = self.touched.get(key, ((), ()))
        known = frozenset(added)
        yield from (fact for fact in self.facts(key) if fact not in known)
        yield from removed

    def was_there(self, key: Key) -> bool:
        """Return whether a triple with this key was held before this round."""
        added, removed = self.touched.get(key, ((), ()))
        return len(self.keys.get(key, ())) - len(added) + len(removed) > 0

    def with_joint(self, columns: Columns, joint: Key) -> Iterable[Key]:
        """Return the keys with a value in some columns, which must be indexed."""
        if columns == self.columns:
            return (joint,) if joint in self.keys else ()
        return self._indexes[columns][1].get(joint, _NO_KEYS)

    def index(self, columns: Columns) -> None:
        """Index keys by the values in some columns too."""
        if columns == self.columns or columns in self._indexes:
            return
        joint_of = projection(self.columns, columns)
        index: dict[Key, dict[Key, None]] = {}
        for key in self.keys:
            index.setdefault(joint_of(key), {})[key] = None
        self._indexes[columns] = (joint_of, index)

    def watch(self, columns: Columns) -> Watch:
        """Return the watch on some columns: the nodes that want each value."""
        self.index(columns)
        return self.watches.setdefault(columns, Watch(projection(self.columns, columns)))

    def _touch(self, key: Key) -> tuple[list[Fact], list[Fact]]:
        found = self.touched.get(key)
        if found is None:
            found = self.touched[key] = ([], [])
        return found
