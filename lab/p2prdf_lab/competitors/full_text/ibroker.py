"""iBroker, the RTF paper's baseline: buckets of patterns, and chains between patterns of one query.

A hash table maps constants to buckets.  An entry of a bucket holds the query, the requirements on a triple beyond the
constant (the value of its object, or a list of words), and the next pattern of the query.  A triple visits the
buckets of its constants; each entry that it matches makes the query a candidate.  The chain is followed from pattern
to pattern, each matched against the publication's triples, until it closes or breaks.  As extended in the RTF paper,
entries may have lists of words, and wildcards in any position.

The paper does not state how many chains are started, which determines the cost:

========================  ===================================================================================
``Starts.FIRST``          one for a query: only its first pattern is in a bucket
``Starts.PATTERNS``       one for each pattern that a triple matches: "at every bucket the publication touches"
``Starts.CONSTANTS``      one for each constant and each word of each pattern in the publication: words
                          are constants of the hash table, too
========================  ===================================================================================

All give the same results.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

from p2prdf.rdf.fulltext import Text, condition_holds, word_fits
from p2prdf.text.joins import agrees, is_joined, joinable
from p2prdf.text.languages import Languages
from p2prdf.text.matcher import Semantics, refuse_known, refuse_unknown
from p2prdf.text.publication import Publication, Triple
from p2prdf.text.query import TextQuery, is_constant
from p2prdf_lab.competitors.full_text.split import SplitPattern, split

__all__ = ["IBroker", "Starts"]

_NO_CONSTANT: Final = "?"
"""The bucket of patterns without a constant, which every triple visits."""


class Starts(enum.Enum):
    """The entries at which chains start."""

    FIRST = "first"
    PATTERNS = "patterns"
    CONSTANTS = "constants"


class _Entry:
    """A pattern in a bucket."""

    __slots__ = ("bucket", "following", "globs", "key", "languages", "o", "p", "pattern", "rest", "s", "words")

    def __init__(self, key: int, each: SplitPattern, exact: bool, languages: Languages):
        self.key = key
        self.pattern = each.pattern if exact else None
        """The pattern, if names of variables matter."""
        self.s, self.p, self.o = (part if is_constant(part) else None for part in each.pattern.parts)
        self.languages = languages
        """The languages of all queries."""
        self.words = each.needs.words
        self.globs = each.needs.globs
        self.rest = each.needs.rest
        self.bucket = self.p or self.o or self.s or _NO_CONSTANT
        self.following = self
        """NextToMatch: the next pattern of the query; after the last one, the first."""

    def fits(self, triple: Triple, text: Text | None) -> bool:
        """Tell whether a triple matches the pattern."""
        if (
            (self.p is not None and self.p != triple[1])
            or (self.o is not None and self.o != triple[2])
            or (self.s is not None and self.s != triple[0])
        ):
            return False
        if self.words or self.globs:
            if text is None:
                return False
            keys = self.languages.keys(text)
            for word in self.words:
                if word not in keys:
                    return False
            for glob in self.globs:
                if not any(word_fits(glob, word) for word in text.places):
                    return False
        if self.rest is not None and not condition_holds(self.rest, text):
            return False
        return self.pattern is None or agrees(self.pattern, triple)


class IBroker:
    """Queries as chains through buckets."""

    def __init__(self, semantics: Semantics = Semantics.EXACT, *, starts: Starts = Starts.PATTERNS):
        self.semantics = semantics
        self.starts = starts
        self.touched = 0
        self.chains = 0
        """Number of chains started so far (candidates)."""
        self._buckets: dict[str, dict[_Entry, None]] = {}
        """The entries at which chains start."""
        self._parts: dict[int, list[list[_Entry]]] = {}
        self._joined: set[int] = set()
        self._languages = Languages()

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, key: int, query: TextQuery) -> None:
        """Add a query.  Raises QueryRefused if it has too many disjunctions."""
        refuse_known(key, key in self._parts)
        parts = []
        for patterns in split(query):
            entries = [_Entry(key, each, self.semantics is Semantics.EXACT, self._languages) for each in patterns]
            for entry, following in zip(entries, [*entries[1:], entries[0]], strict=True):
                entry.following = following
            for entry in entries if self.starts is not Starts.FIRST else entries[:1]:
                for constant in self._constants(entry):
                    self._buckets.setdefault(constant, {})[entry] = None
            parts.append(entries)
            for entry in entries:
                self._languages.use(entry.words)
        self._parts[key] = parts
        if self.semantics is Semantics.EXACT and is_joined(query.patterns):
            self._joined.add(key)

    def remove(self, key: int) -> None:
        """Remove a query."""
        refuse_unknown(key, key in self._parts)
        self._joined.discard(key)
        for entry in (entry for entries in self._parts.pop(key) for entry in entries):
            self._languages.release(entry.words)
            for constant in self._constants(entry):
                bucket = self._buckets.get(constant)
                if bucket is not None:
                    bucket.pop(entry, None)
                    if not bucket:
                        del self._buckets[constant]

    def match(self, publication: Publication) -> list[int]:
        """Return the numbers of the queries that a publication satisfies, ascending."""
        touched_by: dict[str, list[int]] = {}
        """The publication's triples by bucket."""
        for number, triple in enumerate(publication.triples):
            for constant in {*triple, _NO_CONSTANT}:
                touched_by.setdefault(constant, []).append(number)
        found = set()
        for number, triple in enumerate(publication.triples):
            text, o = publication.text(number), triple[2]
            for bucket in self._touched(triple, text):
                self.touched += len(bucket)
                for entry in bucket:
                    if (entry.o is None or entry.o == o) and entry.fits(triple, text):
                        self.chains += 1
                        if self._closes(entry, publication, touched_by):
                            found.add(entry.key)
        return sorted(key for key in found if key not in self._joined or self._joins(key, publication))

    def touches(self, publication: Publication) -> Iterator[tuple[int, bool]]:
        """Yield the query of each entry that a publication visits, and whether the triple matches it."""
        for number, triple in enumerate(publication.triples):
            text = publication.text(number)
            for bucket in self._touched(triple, text):
                for entry in bucket:
                    yield entry.key, entry.fits(triple, text)

    def _touched(self, triple: Triple, text: Text | None) -> list[dict[_Entry, None]]:
        """Return the buckets that a triple visits."""
        constants = dict.fromkeys((*triple, _NO_CONSTANT))
        if self.starts is Starts.CONSTANTS and text is not None:
            constants.update(dict.fromkeys(self._languages.keys(text)))
        return [self._buckets[constant] for constant in constants if constant in self._buckets]

    def _closes(self, start: _Entry, publication: Publication, touched_by: dict[str, list[int]]) -> bool:
        """Follow a chain until it returns to its start, or breaks."""
        entry = start.following
        while entry is not start:
            self.touched += 1
            for number in touched_by.get(entry.bucket, ()):
                if entry.fits(publication.triples[number], publication.text(number)):
                    break
            else:
                return False
            entry = entry.following
        return True

    def _joins(self, key: int, publication: Publication) -> bool:
        for entries in self._parts[key]:
            patterns = [entry.pattern for entry in entries if entry.pattern is not None]
            rows = [
                [
                    triple
                    for number, triple in enumerate(publication.triples)
                    if entry.fits(triple, publication.text(number))
                ]
                for entry in entries
            ]
            if joinable(patterns, rows):
                return True
        return False

    def _constants(self, entry: _Entry) -> list[str]:
        """Return the buckets that hold a pattern."""
        if self.starts is not Starts.CONSTANTS:
            return [entry.bucket]
        found = [part for part in (entry.s, entry.p, entry.o) if part is not None]
        return [*found, *entry.words] or [entry.bucket]
