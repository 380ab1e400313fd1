"""Items and queries of the full-text workload have the statistics that it describes."""

from __future__ import annotations

from itertools import islice
from statistics import fmean

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.text import Publication
from p2prdf_lab.workloads.texts import TextShape, TextWorkload

PASSAGES = [[f"Word{n % 97}," for n in range(start, start + 400)] for start in range(0, 4000, 400)]


def _workload(**shape) -> TextWorkload:
    return TextWorkload(TextShape(**shape), PASSAGES)


def test_items_have_seven_triples_one_subject_and_53_words_on_average() -> None:
    items = list(_workload().publications(3000))
    assert {len(item) for item in items} == {7}
    assert all(len({s for s, _, _ in item}) == 1 for item in items)
    publications = map(Publication, items)
    words = [sum(len(t.words) for n in range(7) if (t := each.text(n)) is not None) for each in publications]
    assert 48 < fmean(words) < 59


@pytest.mark.parametrize(("probability", "least", "most"), [(0.0, 0.0, 0.0), (0.5, 0.4, 0.6), (1.0, 1.0, 1.0)])
def test_patterns_have_text_with_the_probability_given(probability: float, least: float, most: float) -> None:
    queries = list(_workload(text_probability=probability).queries(2000))
    assert {len(query.patterns) for query in queries} == {1, 2, 3, 4}
    others = [each for query in queries for each in query.patterns if each.p != "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"]
    share = sum(each.condition is not None for each in others) / len(others)
    assert least <= share <= most
    assert all(each.condition.expression.size <= 3 for each in others if each.condition)


def test_a_smaller_count_is_the_beginning_of_a_larger_one_and_seeds_differ() -> None:
    assert list(_workload().queries(50)) == list(islice(_workload().queries(500), 50))
    assert list(_workload(seed=2).queries(50)) != list(_workload().queries(50))


@pytest.mark.parametrize(
    "wrong", [{"text_probability": 1.5}, {"classes": 0}, {"properties": 3}, {"patterns_max": 9}, {"words_max": 0}]
)
def test_shapes_that_there_cannot_be_are_refused_by_name(wrong: dict) -> None:
    with pytest.raises(LocalProtocolError, match=next(iter(wrong))):
        _workload(**wrong)
