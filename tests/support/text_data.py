"""Real texts, sections of an encyclopaedia and a dictionary's glosses, and which subjects satisfy some queries.

Expected are those that a program found which shares nothing with this one.  All lies beside the repository.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from p2prdf.rdf.fulltext import And, Condition, Gap, Near, Not, Or, Phrase
from p2prdf.rdf.ntriples import read_triples
from p2prdf.rdf.terms import iri
from p2prdf.text import TextPattern, TextQuery

__all__ = ["RealQuery", "needs_texts", "publications", "real_queries"]

DATA = Path(__file__).parents[2] / "../shared/data/text"

OTHER_WORDS = {("wikipedia", 208, "http://en.wikipedia.org/wiki/Azerbaijan#s33")}
"""Query and subject: a folded capital I with a dot is an i and a combining mark, which ends no word here."""

needs_texts = pytest.mark.skipif(not DATA.exists(), reason="the texts of shared/data are not beside the repository")

Triple = tuple[str, str, str]


class RealQuery(NamedTuple):
    """Patterns with one variable as their subject, ``?s``, and the subjects that match all of them."""

    query: TextQuery
    answers: frozenset[str]


def publications(name: str) -> dict[str, list[Triple]]:
    """Return the triples of each subject."""
    found = defaultdict(list)
    with lzma.open(DATA / f"{name}.nt.xz") as stream:
        for batch in read_triples(stream, publication_id="text", strict=True):
            for triple in zip(batch.s, batch.p, batch.o, strict=True):
                found[triple[0]].append(triple)
    return found


def real_queries(name: str) -> list[RealQuery]:
    """Return the queries and their answers, in the order of the file."""
    told = json.loads(gzip.decompress((DATA / f"{name}.fulltext.json.gz").read_bytes()))
    return [
        RealQuery(
            _query(each["conditions"]),
            frozenset(iri(subject) for subject in each["answers"] if (name, key, subject) not in OTHER_WORDS),
        )
        for key, each in enumerate(told)
    ]


def _expression(told):
    ((kind, value),) = told.items()
    match kind:
        case "word":
            return Phrase((value,))
        case "phrase":
            return Phrase(tuple(value))
        case "near":
            first, second, least, most = value
            return Near((Phrase((first,)), Phrase((second,))), (Gap(least, most),))
        case "not":
            return Not(_expression(value))
    parts = tuple(_expression(each) for each in value)
    return parts[0] if len(parts) == 1 else (And if kind == "and" else Or)(parts)


def _query(conditions) -> TextQuery:
    return TextQuery(
        tuple(
            TextPattern(
                "?s", iri(each["p"]), iri(each["o"]) if "o" in each else f"?o{number}",
                Condition(_expression(each["text"])) if "text" in each else None,
            )
            for number, each in enumerate(conditions)
        )
    )  # fmt: skip
