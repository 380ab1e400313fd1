"""The index of standing full-text queries that p2prdf uses.

A query requires a set of features (:mod:`p2prdf.text.features`): predicates with words, objects, subjects.
Candidates for a publication are the queries with a set that is contained in the publication's set.  A trie finds them
(:mod:`p2prdf.text.set_trie`); each set is a path with its rarest feature first.

Each query has flags for requirements that features cannot express:

* SAME: one triple must have all features of a pattern.  To be verified only if a publication has several triples with
  the predicate of such a pattern.
* SUBJECT: variables are shared between patterns as subjects only, or a subject is given along with other features.  To
  be verified only if a publication has several subjects.
* ALWAYS: anything else, such as phrases, nearness, negation, languages and other joins.

A candidate without a flag to be verified is satisfied.  Others are verified pattern by pattern, equal patterns once,
and joined.  See docs/explanation/full-text.md for disjunctions and rarity.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Final

import numpy as np

from p2prdf.errors import LocalProtocolError
from p2prdf.text.alternatives import Alternative, alternatives, count, required
from p2prdf.text.checks import Check, Checks, Verification, shape_of
from p2prdf.text.features import ANY_PREDICATE, Feature, Features
from p2prdf.text.joins import is_joined
from p2prdf.text.matcher import Semantics, refuse_known, refuse_unknown
from p2prdf.text.publication import Publication
from p2prdf.text.query import ANY, TextPattern, TextQuery, is_constant
from p2prdf.text.set_trie import END, SetTrie

__all__ = ["PATHS_MAX", "FullTextIndex"]

PATHS_MAX: Final = 16
"""Most paths of one query."""
_SAMPLED: Final = 8
"""The features of one in this many publications are counted."""
_KEYS_END: Final = 1 << 63

_SAME, _SUBJECT, _ALWAYS = 1, 2, 4
_Shape = tuple[int, ...]


class _Entry:
    """A query, and the numbers of all subscriptions to it."""

    __slots__ = ("checks", "flags", "joined", "keys", "paths", "shape")

    def __init__(self, checks: tuple[Check, ...], shape: _Shape, flags: int, joined: bool):
        self.checks = checks
        self.shape = shape
        self.flags = flags
        self.joined = joined
        """Whether patterns share variables."""
        self.keys: int | array[int] = array("q")
        """The one number, or several in ascending order."""
        self.paths = b""
        """The paths in the encoding of :func:`_packed`."""

    def add(self, key: int) -> None:
        """Add a number."""
        if isinstance(self.keys, int):
            self.keys = array("q", sorted((self.keys, key)))
        elif self.keys:
            insort(self.keys, key)
        else:
            self.keys = key

    def remove(self, key: int) -> bool:
        """Remove a number; tell whether others remain."""
        if isinstance(self.keys, int):
            return False
        del self.keys[bisect_left(self.keys, key)]
        if len(self.keys) == 1:
            self.keys = self.keys[0]
        return True


class FullTextIndex:
    """Standing queries, indexed by the features that they require of a publication."""

    def __init__(self, semantics: Semantics = Semantics.EXACT):
        self.semantics = semantics
        self.touched = 0
        self._features = Features()
        self._trie: SetTrie[_Entry] = SetTrie()
        self._checks = Checks()
        self._entries: dict[tuple[tuple[Check, ...], _Shape], _Entry] = {}
        self._of_key: dict[int, _Entry] = {}
        self._shapes: dict[_Shape, _Shape] = {}
        self._publications = 0

    def __len__(self) -> int:
        return len(self._of_key)

    def add(self, key: int, query: TextQuery) -> None:
        """Add a query under a number that the caller chooses.

        Raises LocalProtocolError if the number is in use, or needs more than 64 bits.
        """
        refuse_known(key, key in self._of_key)
        if not -_KEYS_END <= key < _KEYS_END:
            raise LocalProtocolError(f"the number {key} of a full-text query exceeds 64 bits")
        patterns = query.patterns
        if self.semantics is Semantics.PAPER:
            patterns = tuple(_nameless(each) for each in patterns)
        patterns = tuple(sorted(patterns, key=_order))
        checks = tuple(self._checks.use(each) for each in patterns)
        shape = shape_of(patterns)
        shape = self._shapes.setdefault(shape, shape)
        entry = self._entries.get((checks, shape))
        if entry is None:
            entry = self._entries[checks, shape] = self._made(patterns, checks, shape)
        else:
            for check in checks:
                self._checks.release(check)
        entry.add(key)
        self._of_key[key] = entry

    def remove(self, key: int) -> None:
        """Remove a query.  Raises LocalProtocolError if the number is unknown."""
        refuse_unknown(key, key in self._of_key)
        entry = self._of_key.pop(key)
        if entry.remove(key):
            return
        del self._entries[entry.checks, entry.shape]
        for path in _unpacked(entry.paths):
            self._trie.remove(path, entry)
            for feature in path:
                self._features.release(feature)
        for predicate in _several(entry.checks, _choices(entry.checks)):
            self._features.several(predicate, -1)
        for check in entry.checks:
            self._checks.release(check)

    def match(self, publication: Publication) -> list[int]:
        """Return the numbers of the queries that a publication satisfies, ascending."""
        if not publication.triples:
            return []
        present, hidden = self._features.of(publication)
        if self._publications % _SAMPLED == 0:
            self._features.count(present)
        self._publications += 1
        several = len({s for s, _, _ in publication.triples}) > 1
        question = _ALWAYS | (_SAME if hidden else 0) | (_SUBJECT if several else 0)
        candidates = self._trie.find(present)
        self.touched += len(candidates)
        satisfied = [entry for entry in candidates if not entry.flags & question]
        if len(satisfied) < len(candidates):
            verification = Verification(publication)
            doubtful = [entry for entry in candidates if entry.flags & question]
            satisfied += [
                entry
                for entry in dict.fromkeys(doubtful)  # each once, even if several of its paths were found
                if verification.holds(entry.checks, entry.shape if entry.joined else None)
            ]
            self.touched += len(doubtful) + verification.evaluated
        return _numbers(satisfied)

    def _made(self, patterns: tuple[TextPattern, ...], checks: tuple[Check, ...], shape: _Shape) -> _Entry:
        """Return the entry of a new query, and add its paths to the trie."""
        choices = _choices(patterns)
        entry = _Entry(checks, shape, _flags(patterns, choices), is_joined(patterns))
        paths = []
        for choice in choices:
            asked = dict.fromkeys(
                feature for pattern, needs in zip(patterns, choice, strict=True) for feature in _asked(pattern, needs)
            )
            paths.append(self._rarest_first([self._features.use(each) for each in asked]))
        entry.paths = _packed(paths)
        for path in paths:
            self._trie.add(path, entry)
        for predicate in _several(patterns, choices):
            self._features.several(predicate, 1)
        return entry

    def _rarest_first(self, path: Iterable[int]) -> tuple[int, ...]:
        of, queries, publications = self._features.frequency, len(self._of_key), self._publications // _SAMPLED
        return tuple(sorted(path, key=lambda number: (of(number, queries, publications), number)))


def _numbers(entries: list[_Entry]) -> list[int]:
    """Return the numbers of entries, ascending.

    Popular queries have many numbers in one array: numpy sorts them without making an object for each.
    """
    found = [entry.keys for entry in entries if type(entry.keys) is int]
    if len(found) < len(entries):
        runs = [entry.keys for entry in entries if type(entry.keys) is not int]
        ordered = np.frombuffer(bytearray().join((array("q", found), *runs)), dtype=np.int64)  # type: ignore[arg-type]
        ordered.sort()
        found = ordered.tolist()
    else:
        found.sort()
    return found


def _packed(paths: Iterable[tuple[int, ...]]) -> bytes:
    """Return paths as bytes, separated by END; they are needed when the query is removed."""
    packed = array("i")
    for number, path in enumerate(paths):
        packed.extend((END, *path) if number else path)
    return packed.tobytes()


def _unpacked(packed: bytes) -> Iterator[tuple[int, ...]]:
    path: list[int] = []
    for element in memoryview(packed).cast("i"):
        if element == END:
            yield tuple(path)
            path.clear()
        else:
            path.append(element)
    yield tuple(path)


def _nameless(pattern: TextPattern) -> TextPattern:
    s, p, o = (part if is_constant(part) else ANY for part in pattern.parts)
    return TextPattern(s, p, o, pattern.condition)


def _order(pattern: TextPattern) -> tuple[str, ...]:
    """Return a sort key of patterns that is independent of the names of variables."""
    constants = (part if is_constant(part) else "" for part in (pattern.p, pattern.o, pattern.s))
    return (*constants, "" if pattern.condition is None else str(pattern.condition))


def _choices(patterns: Sequence[TextPattern | Check]) -> list[tuple[Alternative, ...]]:
    """Return each combination of one alternative per pattern; too many become the common requirements."""
    counts = [count(each.condition, whole=True) for each in patterns]
    whole = [False] * len(patterns)
    while prod(counts) > PATHS_MAX:
        most = counts.index(max(counts))
        counts[most], whole[most] = 1, True
    return list(
        product(
            *(
                (required(each.condition),)
                if untouched and each.condition is not None
                else alternatives(each.condition, whole=True)
                for each, untouched in zip(patterns, whole, strict=True)
            )
        )
    )


def _flags(patterns: Sequence[TextPattern], choices: list[tuple[Alternative, ...]]) -> int:
    """Return the flags for requirements that the features of a query cannot express."""
    flags = _ALWAYS if len(choices) > 1 or any(needs.rest is not None for needs in choices[0]) else 0
    if _several(patterns, choices):
        flags |= _SAME
    shared = {
        name for name, number in Counter(name for each in patterns for name in each.variables).items() if number > 1
    }
    for each in patterns:
        if shared.intersection((each.p, each.o)):
            flags |= _ALWAYS
        if each.s in shared or (is_constant(each.s) and (is_constant(each.p) or is_constant(each.o) or each.condition)):
            flags |= _SUBJECT
    return flags


def _several(patterns: Sequence[TextPattern | Check], choices: list[tuple[Alternative, ...]]) -> list[str]:
    """Return the predicates of patterns that require more than one feature besides a subject."""
    return [
        _predicate(each.p)
        for at, each in enumerate(patterns)
        if any(len(choice[at].words) + len(choice[at].globs) + len(choice[at].similars) > 1 for choice in choices)
    ]


def _predicate(part: str) -> str:
    return part if is_constant(part) else ANY_PREDICATE


def _asked(pattern: TextPattern, needs: Alternative) -> list[Feature]:
    """Return the features that a pattern requires; none if any triple matches it."""
    predicate = _predicate(pattern.p)
    asked = [Feature("word", predicate, word) for word in needs.words]
    asked += [Feature("glob", predicate, glob) for glob in needs.globs]
    asked += [Feature("similar", predicate, condition) for condition in needs.similars]
    if is_constant(pattern.o):
        asked.append(Feature("object", predicate, pattern.o))
    if not asked and predicate != ANY_PREDICATE:
        asked.append(Feature("itself", predicate, ""))
    if is_constant(pattern.s):
        asked.append(Feature("subject", "", pattern.s))
    return asked
