"""Standing full-text queries: which of them a publication satisfies.

``index`` is what is used.  Beside it stand the programs it is compared with, all of them a ``matcher``: ``rtf_m`` and
``rtf_s``, the two variants of the RTF paper's tries (``rtf`` is what they share), ``ibroker``, the paper's baseline,
and ``brute``, which tries every query.  Below them: ``query`` and ``publication`` are what is matched, ``alternatives``
and ``split`` take conditions apart, ``features``, ``globs``, ``similars``, ``set_trie`` and ``checks`` are the parts of
the index, ``joins`` compares variables, ``languages`` knows which texts are stemmed, ``memory`` counts bytes.
``corpus`` counts words over the last texts, for conditions about similarity.

The conditions themselves are those of :mod:`p2prdf.rdf.fulltext`.
"""

from p2prdf.text.corpus import CorpusWindow
from p2prdf.text.index import FullTextIndex
from p2prdf.text.matcher import Matcher, Semantics
from p2prdf.text.publication import Publication, Triple
from p2prdf.text.query import ANY, TextPattern, TextQuery

__all__ = [
    "ANY", "CorpusWindow", "FullTextIndex", "Matcher", "Publication", "Semantics", "TextPattern", "TextQuery", "Triple",
]  # fmt: skip
