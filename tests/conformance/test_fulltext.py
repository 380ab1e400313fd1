"""Real texts: sections of an encyclopaedia and a dictionary's glosses, and which queries each satisfies.

Each subject is a publication; expected are the subjects that satisfy each query, as a program found them that shares
nothing with this one.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections import defaultdict
from pathlib import Path

import pytest

from p2prdf.rdf.fulltext import And, Condition, Gap, Near, Not, Or, Phrase
from p2prdf.rdf.ntriples import read_triples
from p2prdf.rdf.terms import iri
from p2prdf.text import FullTextIndex, Publication, Semantics, TextPattern, TextQuery
from p2prdf.text.ibroker import IBroker
from p2prdf.text.rtf_m import RtfM
from p2prdf.text.rtf_s import RtfS

DATA = Path(__file__).parents[2] / "../shared/data/text"

OTHER_WORDS = {("wikipedia", 208, "http://en.wikipedia.org/wiki/Azerbaijan#s33")}
"""Query and subject: a capital I with a dot, folded, is an i and a combining mark, which is no word's end here."""

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the texts of shared/data are not beside the repository")


def _publications(name: str) -> dict[str, list[tuple[str, str, str]]]:
    found = defaultdict(list)
    with lzma.open(DATA / f"{name}.nt.xz") as stream:
        for batch in read_triples(stream, publication_id="text", strict=True):
            for triple in zip(batch.s, batch.p, batch.o, strict=True):
                found[triple[0]].append(triple)
    return found


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


@pytest.mark.parametrize("name", ["wikipedia", "wordnet"])
def test_real_texts_satisfy_the_queries_that_they_are_expected_to(name: str) -> None:
    told = json.loads(gzip.decompress((DATA / f"{name}.fulltext.json.gz").read_bytes()))
    publications = _publications(name)
    matchers = [FullTextIndex()]
    if name == "wikipedia":
        matchers += [RtfM(), RtfS(), IBroker(Semantics.EXACT)]
    for matcher in matchers:
        for key, each in enumerate(told):
            matcher.add(key, _query(each["conditions"]))
    expected = {s: [] for s in publications}
    for key, each in enumerate(told):
        for subject in each["answers"]:
            if (name, key, subject) not in OTHER_WORDS:
                expected[iri(subject)].append(key)
    assert sum(map(len, expected.values())) > 1000
    for subject, triples in publications.items():
        for matcher in matchers:
            assert matcher.match(Publication(triples)) == expected[subject], f"{type(matcher).__name__}: {subject}"
