"""Real texts: sections of an encyclopaedia and a dictionary's glosses, and which queries each satisfies.

Each subject is a publication; expected are the subjects that satisfy each query, as a program found them that shares
nothing with this one.
"""

from __future__ import annotations

import pytest
from text_data import needs_texts, publications, real_queries

from p2prdf.text import FullTextIndex, Publication, Semantics
from p2prdf_lab.competitors.full_text.ibroker import IBroker
from p2prdf_lab.competitors.full_text.rtf_m import RtfM
from p2prdf_lab.competitors.full_text.rtf_s import RtfS

pytestmark = needs_texts


APART = {("http://en.wikipedia.org/wiki/Apollo_11", 294)}
"""Texts and queries that the expected answers do not have: 21½ holds the word 21 by UAX #29, there it is one word."""


@pytest.mark.parametrize("name", ["wikipedia", "wordnet"])
def test_real_texts_satisfy_the_queries_that_they_are_expected_to(name: str) -> None:
    queries, texts = real_queries(name), publications(name)
    matchers = [FullTextIndex()]
    if name == "wikipedia":
        matchers += [RtfM(), RtfS(), IBroker(Semantics.EXACT)]
    for matcher in matchers:
        for key, each in enumerate(queries):
            matcher.add(key, each.query)
    expected = {s: [] for s in texts}
    for key, each in enumerate(queries):
        for subject in each.answers:
            expected[subject].append(key)
    if name == "wikipedia":
        for subject, key in APART:
            expected[f"<{subject}>"] = sorted([*expected[f"<{subject}>"], key])
    assert sum(map(len, expected.values())) > 1000
    for subject, triples in texts.items():
        for matcher in matchers:
            assert matcher.match(Publication(triples)) == expected[subject], f"{type(matcher).__name__}: {subject}"
