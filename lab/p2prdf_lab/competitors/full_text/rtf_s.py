"""RTFs: one word forest for all patterns, beside the structural forest.

A pattern with words is listed twice, at the end of its structural path and at the end of its path of words, and is
reached if the same triple leads to both.  Words that many patterns share are held, and compared, once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from p2prdf.rdf.fulltext import Text
from p2prdf.text.matcher import Semantics
from p2prdf.text.publication import Triple
from p2prdf_lab.competitors.full_text.rtf import Node, Rtf

__all__ = ["RtfS"]


class RtfS(Rtf):
    """Separate tries for structure and words."""

    def __init__(self, semantics: Semantics = Semantics.EXACT, *, scans: bool = False):
        super().__init__(semantics, scans=scans)
        self._words = Node("", None)

    def _put(self, number: int, at_object: Node, words: tuple[str, ...]) -> tuple[Node, ...]:
        if not words:
            at_object.patterns[number] = None
            return (at_object,)
        at_object.with_text[number] = None
        end = self._words.down_words(words)
        end.patterns[number] = None
        return at_object, end

    def _reached(self, triple: Triple, text: Text | None) -> Iterator[Collection[int]]:
        nodes = self._at_object(triple)
        for node in nodes:
            yield node.patterns
        if text is None or not any(node.with_text for node in nodes):
            return
        asked = [node.with_text.keys() for node in nodes if node.with_text]
        for end in self._words.reached(text, self._languages):
            self.touched += 1
            if end.patterns:
                for each in asked:  # the intersection iterates over the smaller set
                    yield end.patterns.keys() & each
