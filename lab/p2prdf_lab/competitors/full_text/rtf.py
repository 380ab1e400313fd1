"""RTF, tries for standing full-text queries over RDF: the common base of its two variants.

A pattern is a path through a forest: subject, predicate, object, and then the words of its condition.  All variables
share one node, without their names, and wildcards another.  The node at the end of a path lists the numbers of its
patterns (tIDs of the paper).  Beside the forest are the query table, with the patterns of each query, and a side
table with conditions to be verified: distances, negation, language.

A triple follows every path that it matches, at most three at each of three levels, and then the words that its text
contains.  Patterns that are reached and verified are marked; a query with all its patterns marked is satisfied.  The
paper finds these queries by a scan of the query table (``scans``); counting the marked patterns per query gives the
same result without the scan.

Interpretations where the paper is silent or inconsistent:

* Roots for variables and wildcards are visited, not only those with the triple's subject.
* The order of words in a path is chosen when a query is added: existing children first.
* A pattern without further words ends at the node reached, which need not be a leaf.
* Only the required words of a negated condition are in the path; the rest is verified.
* Names of variables are ignored, so a publication about several subjects satisfies queries that it should not:
  :class:`~p2prdf.text.matcher.Semantics` selects this (PAPER) or a join of the candidates (EXACT).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from p2prdf.rdf.fulltext import Text, algorithm_of_key, condition_holds, word_fits
from p2prdf.rdf.fulltext.expression import Condition
from p2prdf.text.joins import agrees, is_joined, joinable
from p2prdf.text.languages import Languages
from p2prdf.text.matcher import Semantics, refuse_known, refuse_unknown
from p2prdf.text.publication import Publication, Triple
from p2prdf.text.query import ANY, TextPattern, TextQuery, is_variable
from p2prdf_lab.competitors.full_text.split import SplitPattern, split

__all__ = ["Node", "Rtf"]

_VARIABLE: Final = "?"
"""The content of the node that all variables share."""


class Node:
    """A node of a trie.  Children are looked up by content; children with a glob are tried one by one."""

    __slots__ = ("children", "content", "globs", "parent", "patterns", "with_text")

    def __init__(self, content: str, parent: Node | None):
        self.content = content
        self.parent = parent
        self.children: dict[str, Node] = {}
        self.globs: dict[str, Node] = {}
        self.patterns: dict[int, None] = {}
        """Numbers of the patterns that end here; only their side conditions remain to be verified."""
        self.with_text: dict[int, None] = {}
        """Numbers of the patterns with words elsewhere: in the word forest of RTFs."""

    def down(self, contents: Iterable[str]) -> Node:
        """Return the node at the end of a path; missing nodes are created."""
        node = self
        for content in contents:
            node = _child(node.children, content, node)
        return node

    def down_words(self, words: Iterable[str]) -> Node:
        """Return a node at the end of a path of these words, existing children first."""
        node, left = self, list(words)
        while left:
            at = next((at for at, word in enumerate(left) if word in node.children or word in node.globs), 0)
            word = left.pop(at)
            node = _child(node.globs if "*" in word else node.children, word, node)
        return node

    def prune(self) -> None:
        """Remove empty nodes, from this one upwards."""
        node = self
        while node.parent is not None and not (node.children or node.globs or node.patterns or node.with_text):
            parent = node.parent
            parent.children.pop(node.content, None)
            parent.globs.pop(node.content, None)
            node = parent

    def reached(self, text: Text, languages: Languages) -> Iterator[Node]:
        """Yield this node and its descendants on paths of words, or stems, that the text contains."""
        keys = languages.keys(text)
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            children = node.children
            if children:
                waiting += [children[word] for word in children.keys() & keys]
            for glob, below in node.globs.items():
                if any(word_fits(glob, word) for word in text.places):
                    waiting.append(below)


def _child(among: dict[str, Node], content: str, parent: Node) -> Node:
    found = among.get(content)
    if found is None:
        found = among[content] = Node(content, parent)
    return found


class Rtf(ABC):
    """Queries in tries.  ``scans``: find satisfied queries by a scan of the query table, as in the paper."""

    def __init__(self, semantics: Semantics = Semantics.EXACT, *, scans: bool = False):
        self.semantics = semantics
        self.scans = scans
        self.touched = 0
        self.repeated = 0
        """Notifications that the paper would send repeatedly, for queries with disjunctions."""
        self._roots = Node("", None)
        self._table: dict[int, frozenset[int]] = {}
        """The query table: the patterns of each query without disjunction, by its number."""
        self._key_of: dict[int, int] = {}
        """The query that each query without disjunction is a part of."""
        self._parts: dict[int, tuple[int, ...]] = {}
        self._of_pattern: dict[int, int] = {}
        """The query without disjunction that each pattern belongs to."""
        self._pattern: dict[int, TextPattern] = {}
        """The patterns, if names of variables matter."""
        self._rest: dict[int, Condition] = {}
        self._ends: dict[int, tuple[Node, ...]] = {}
        self._stemmed: dict[int, tuple[str, ...]] = {}
        """The words of patterns with stems."""
        self._joined: set[int] = set()
        self._languages = Languages()
        self._made = 0

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, key: int, query: TextQuery) -> None:
        """Add a query.  Raises QueryRefused if it has too many disjunctions."""
        refuse_known(key, key in self._parts)
        parts = []
        for patterns in split(query):
            self._made += 1
            number = self._made
            self._table[number] = frozenset(self._insert_pattern(each, number) for each in patterns)
            self._key_of[number] = key
            parts.append(number)
            if self.semantics is Semantics.EXACT and is_joined(query.patterns):
                self._joined.add(number)
        self._parts[key] = tuple(parts)

    def remove(self, key: int) -> None:
        """Remove a query and the nodes that only it used."""
        refuse_unknown(key, key in self._parts)
        for number in self._parts.pop(key):
            for pattern in self._table.pop(number):
                for node in self._ends.pop(pattern):
                    node.patterns.pop(pattern, None)
                    node.with_text.pop(pattern, None)
                    node.prune()
                del self._of_pattern[pattern]
                self._pattern.pop(pattern, None)
                self._rest.pop(pattern, None)
                self._languages.release(self._stemmed.pop(pattern, ()))
            del self._key_of[number]
            self._joined.discard(number)

    def match(self, publication: Publication) -> list[int]:
        """Return the numbers of the queries that a publication satisfies, ascending."""
        marked: set[int] = set()
        passing: dict[int, list[Triple]] = {}
        """Triples of the patterns that are to be joined."""
        exact = self.semantics is Semantics.EXACT
        for number, triple in enumerate(publication.triples):
            text = publication.text(number)
            for patterns in self._reached(triple, text):
                if not exact and not self._rest:
                    marked.update(patterns)
                    continue
                for pattern in patterns:
                    if pattern in self._rest and not condition_holds(self._rest[pattern], text):
                        continue
                    if not exact:
                        marked.add(pattern)
                    elif agrees(self._pattern[pattern], triple):
                        marked.add(pattern)
                        passing.setdefault(pattern, []).append(triple)
        self.touched += len(marked)
        found = self._scanned(marked) if self.scans else self._counted(marked)
        keys = [self._key_of[number] for number in found if number not in self._joined or self._joins(number, passing)]
        distinct = sorted(set(keys))
        self.repeated += len(keys) - len(distinct)
        return distinct

    def _scanned(self, marked: set[int]) -> list[int]:
        self.touched += len(self._table)
        return [number for number, patterns in self._table.items() if patterns <= marked]

    def _counted(self, marked: set[int]) -> list[int]:
        table = self._table
        counts = Counter(map(self._of_pattern.__getitem__, marked))
        return [number for number, found in counts.items() if found == len(table[number])]

    def _joins(self, number: int, passing: dict[int, list[Triple]]) -> bool:
        patterns = sorted(self._table[number])
        return joinable([self._pattern[each] for each in patterns], [passing[each] for each in patterns])

    def _insert_pattern(self, each: SplitPattern, of: int) -> int:
        self._made += 1
        number = self._made
        self._of_pattern[number] = of
        if self.semantics is Semantics.EXACT:
            self._pattern[number] = each.pattern
        if each.needs.rest is not None:
            self._rest[number] = each.needs.rest
        if any(map(algorithm_of_key, each.needs.words)):
            self._stemmed[number] = each.needs.words
            self._languages.use(each.needs.words)
        at_object = self._roots.down(_VARIABLE if is_variable(part) else part for part in each.pattern.parts)
        self._ends[number] = self._put(number, at_object, (*each.needs.words, *each.needs.globs))
        return number

    def _at_object(self, triple: Triple) -> list[Node]:
        """Return the nodes at the end of the paths of subject, predicate and object that a triple matches."""
        nodes = [self._roots]
        for term in triple:
            nodes = [
                node.children[content]
                for node in nodes
                for content in (term, _VARIABLE, ANY)
                if content in node.children
            ]
        self.touched += len(nodes)
        return nodes

    @abstractmethod
    def _put(self, number: int, at_object: Node, words: tuple[str, ...]) -> tuple[Node, ...]:
        """Insert a pattern under its words; return the nodes that list it."""

    @abstractmethod
    def _reached(self, triple: Triple, text: Text | None) -> Iterator[Collection[int]]:
        """Yield the numbers of the patterns that a triple and the words of its text reach, each once, in parts."""
