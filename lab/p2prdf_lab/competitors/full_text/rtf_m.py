"""RTFm: many word tries, each below the object node of its patterns."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from p2prdf.rdf.fulltext import Text
from p2prdf.text.publication import Triple
from p2prdf_lab.competitors.full_text.rtf import Node, Rtf

__all__ = ["RtfM"]


class RtfM(Rtf):
    """Words continue the path of their pattern, so a text meets only words of patterns that match its triple."""

    def _put(self, number: int, at_object: Node, words: tuple[str, ...]) -> tuple[Node, ...]:
        end = at_object.down_words(words)
        end.patterns[number] = None
        return (end,)

    def _reached(self, triple: Triple, text: Text | None) -> Iterator[Collection[int]]:
        for node in self._at_object(triple):
            if text is None:
                yield node.patterns
                continue
            for below in node.reached(text, self._languages):
                self.touched += 1
                yield below.patterns
