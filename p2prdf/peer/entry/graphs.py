"""Statements of named graphs in their indexed form: qualified predicates and the graph directory.

:mod:`p2prdf.rdf.quads` defines the form.  This module converts a whole publication at once, and creates terms per
distinct pair of predicate and graph.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from p2prdf import hlc, keys
from p2prdf.columns import Column, as_array
from p2prdf.errors import DataRefused
from p2prdf.rdf import quads
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.limits import TERM_BYTES_MAX

__all__ = ["Indexed", "element_times", "index_elements", "index_quads"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_GRAPH_OF_PREDICATE: Final = np.uint64(0x6772617068)
_PREDICATE: Final = np.uint64(0x7072656469)
"""Mixed into an event's identity, these two constants give the identities of its directory rows.

The rows are not events of the publisher, but a repeated publication gives them the same identities.
"""


class Indexed(NamedTuple):
    """The statements of a publication as triples, in order, followed by the directory's rows."""

    s: U32
    p: U32
    o: U32
    event: U64


def index_quads(
    dictionary: TermDictionary, s: Column, p: Column, o: Column, graph: Column, event: Column, *, removed: bool
) -> Indexed:
    """Return statements, each in the graph at its place, in indexed form.

    Deletions (``removed``) add no directory rows.

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


def index_elements(dictionary: TermDictionary, p: Column, stream: Column) -> Column:
    """Return the predicates of stream elements in indexed form.

    Raises DataRefused for an element without a stream, or a predicate and stream too long for one term; Busy if there
    is no room for terms.
    """
    predicates, streams = as_array(p, np.uint32), as_array(stream, np.uint32)
    pairs = predicates.astype(np.uint64) << np.uint64(32) | streams
    distinct, place = np.unique(pairs, return_inverse=True)
    spelled = dictionary.texts((distinct >> np.uint64(32)).tolist())
    named = dictionary.texts(distinct.astype(np.uint32).tolist())
    if quads.DEFAULT in named:
        raise DataRefused("an element has no stream")
    found: Column = _taken(dictionary, list(map(quads.streamed, spelled, named)))[place]
    return found


def element_times(dictionary: TermDictionary, time: Column, stream: Column) -> U64:
    """Return the times of elements: event times (ms since 1970), with the marks of their streams.

    Raises DataRefused for an event time that is out of range.
    """
    times = as_array(time)
    latest = int(times.max(initial=0))
    if latest > hlc.ELEMENT_MS_MAX:
        raise DataRefused(f"an event time of {latest} ms since 1970; {hlc.ELEMENT_MS_MAX} is the last")
    hashes = dictionary.hash_array()[as_array(stream, np.intp)]
    marks = hashes & np.uint64((1 << hlc.COUNTER_BITS) - 1)
    label: U64 = np.uint64(hlc.ELEMENT) | times << np.uint64(hlc.COUNTER_BITS) | marks
    return label


def _taken(dictionary: TermDictionary, texts: list[str]) -> npt.NDArray[Any]:
    for text in texts:
        if len(text) * 4 > TERM_BYTES_MAX and len(text.encode()) > TERM_BYTES_MAX:
            raise DataRefused(f"a predicate and its graph have more than {TERM_BYTES_MAX} bytes: {text[:60]!r}...")
    return dictionary.take(texts).astype(np.uint32)
