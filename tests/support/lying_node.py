"""``python -m lying_node ...``: a node with a genuine certificate and one changed part.

The setting ``zone`` names the part: a key of ``LIES``.  The node does all else as nodes do.
"""

from __future__ import annotations

import sys

from p2prdf.peer.engine import Engine
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf_node.__main__ import main

__all__: list[str] = []

TRUE, FALSE = "<urn:e:alice>", "<urn:evil:mallory>"


def lie_about_terms():
    """Send one term in place of another, with the digest of the other."""
    texts_of = TermDictionary.texts

    def texts(self, identifiers):
        return [FALSE if text == TRUE else text for text in texts_of(self, identifiers)]

    TermDictionary.texts = texts


def withhold_solutions():
    """Acknowledge triples and partial results, and send none of their results."""
    Engine.route = lambda *_: None
    Engine._route = lambda *_: None


LIES = {"terms": lie_about_terms, "withhold": withhold_solutions}

if __name__ == "__main__":
    LIES[sys.argv[sys.argv.index("--zone") + 1]]()
    sys.exit(main())
