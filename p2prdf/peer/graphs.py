"""Statements of named graphs, as they are indexed: triples with qualified predicates, and the directory behind them.

What these are is told in :mod:`p2prdf.rdf.quads`.  Here a whole publication is turned into them at once: terms are
made for each distinct pair of predicate and graph, not for each statement.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import Column, as_array
from p2prdf.errors import DataRefused
from p2prdf.rdf import quads
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.shapes import TERM_BYTES_MAX

__all__ = ["Indexed", "index_quads"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_GRAPH_OF_PREDICATE: Final = np.uint64(0x6772617068)
_PREDICATE: Final = np.uint64(0x7072656469)
"""Mixed into an event's identity they give those of the directory's rows that come with it: these are no events of
the publisher's, but whoever publishes the same events again gives the rows the same identities."""


class Indexed(NamedTuple):
    """A publication's statements as triples, in their order, and behind them the directory's."""

    s: U32
    p: U32
    o: U32
    event: U64


def index_quads(
    dictionary: TermDictionary, s: Column, p: Column, o: Column, graph: Column, event: Column, *, removed: bool
) -> Indexed:
    """Return statements, each in the graph named beside it, as they are indexed; what is removed needs no directory.

    Raises DataRefused for a predicate and a graph that are too long for one term, Busy if there is no room for terms.
    """
    subjects, predicates, objects, graphs = (as_array(column, np.uint32) for column in (s, p, o, graph))
    events = as_array(event)
    named = np.flatnonzero(graphs != np.uint32(dictionary.intern(quads.DEFAULT)))
    pairs = predicates[named].astype(np.uint64) << np.uint64(32) | graphs[named]
    distinct, first, place = np.unique(pairs, return_index=True, return_inverse=True)
    predicate, within = (distinct >> np.uint64(32)).astype(np.uint32), distinct.astype(np.uint32)
    spelled = dictionary.texts(predicate.tolist())
    terms = _taken(dictionary, list(map(quads.qualified, spelled, dictionary.texts(within.tolist()))))
    qualified = predicates.copy()
    qualified[named] = terms[place]
    if removed or not len(named):
        return Indexed(subjects, qualified, objects, events)
    heads, head_first = np.unique(predicates[named], return_index=True)
    listed = _taken(dictionary, list(map(quads.directory_term, dictionary.texts(heads.tolist()))))
    of = np.full(len(heads), dictionary.intern(quads.OF), np.uint32)
    own = np.concatenate((events[named[first]] ^ _GRAPH_OF_PREDICATE, events[named[head_first]] ^ _PREDICATE))
    return Indexed(
        np.concatenate((subjects, terms, listed)),
        np.concatenate((qualified, listed[np.searchsorted(heads, predicate)], of)),
        np.concatenate((objects, within, heads)),
        np.concatenate((events, keys.fmix_array(own))),
    )


def _taken(dictionary: TermDictionary, texts: list[str]) -> npt.NDArray[Any]:
    for text in texts:
        if len(text) * 4 > TERM_BYTES_MAX and len(text.encode()) > TERM_BYTES_MAX:
            raise DataRefused(f"a predicate and its graph have more than {TERM_BYTES_MAX} bytes: {text[:60]!r}...")
    return dictionary.take(texts).astype(np.uint32)
