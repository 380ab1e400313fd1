"""Matching of publications against standing full-text queries.

Nodes use ``index``; the laboratory compares it with others (``matcher`` has the common parts).  ``by_words``
routes publications by keywords.

``query`` and ``publication`` are the input.  ``alternatives`` decomposes conditions.  ``features``, ``globs``,
``similars``, ``set_trie`` and ``checks`` are parts of the index.  ``joins`` compares variables, ``languages`` tracks
the texts that need stems.  ``corpus`` counts words over the last texts, for conditions about similarity.

:mod:`p2prdf.rdf.fulltext` defines the conditions.
"""

from p2prdf.text.corpus import CorpusWindow
from p2prdf.text.index import FullTextIndex
from p2prdf.text.matcher import Semantics
from p2prdf.text.publication import Publication, Triple
from p2prdf.text.query import ANY, TextPattern, TextQuery

__all__ = [
    "ANY", "CorpusWindow", "FullTextIndex", "Publication", "Semantics", "TextPattern", "TextQuery", "Triple",
]  # fmt: skip
