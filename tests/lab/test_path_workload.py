"""The path workload has the schema of the seed paper, and its queries have answers in its data."""

from __future__ import annotations

import numpy as np
import pytest

from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.sim.oracle import Oracle, Publication
from p2prdf_lab.workloads.paths import PathSchema, path_queries, path_triples


def test_the_schema_has_121_classes_and_363_properties():
    schema = PathSchema()
    assert (schema.classes, schema.properties) == (121, 363)


def test_triples_lie_along_the_tree_and_levels_are_drawn_evenly():
    dictionary = TermDictionary()
    schema = PathSchema(instances=20, values=10)
    s, p, o = path_triples(dictionary, 20_000, schema=schema, seed=3)
    texts = list(zip(*(dictionary.texts(column.tolist()) for column in (s, p, o)), strict=True))
    levels = np.zeros(5, int)
    for subject, predicate, value in texts:
        kind = int(subject.removeprefix("<http://example.org/c").split("/")[0])
        above, child = map(int, predicate.removeprefix("<http://example.org/p").removesuffix(">").split("-"))
        assert above == kind
        level = int(np.searchsorted(schema.offsets, kind, side="right")) - 1
        levels[level] += 1
        if level == 4:
            assert value.startswith(f'"v{child}-')
        else:
            number = (kind - schema.offsets[level]) * 3 + child
            assert value.startswith(f"<http://example.org/c{schema.offsets[level + 1] + number}/i")
    assert levels.sum() == 20_000
    assert levels.min() > 3_600
    assert len(np.unique(p)) == 363


def test_the_same_seed_gives_the_same_workload_and_another_seed_another():
    def texts(seed: int) -> list[str]:
        dictionary = TermDictionary()
        columns = path_triples(dictionary, 50, seed=seed)
        return [text for column in columns for text in dictionary.texts(column.tolist())]

    assert texts(1) == texts(1) != texts(2)
    assert path_queries(20, seed=1) == path_queries(20, seed=1) != path_queries(20, seed=2)


def test_identifiers_of_a_used_dictionary_are_kept():
    dictionary = TermDictionary()
    first = path_triples(dictionary, 100, seed=1)
    size = len(dictionary)
    again = path_triples(dictionary, 100, seed=1)
    assert len(dictionary) == size
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("length", [1, 3, 5])
def test_queries_are_paths_that_end_in_a_literal_of_the_last_property(length: int):
    for query in path_queries(30, length=length, seed=4):
        assert len(query.patterns) == length
        assert query.variable_count == length
        assert len(query.constants) == length + 1
        owners = [int(text[len("<http://example.org/p") :].split("-")[0]) for text in query.constants[:-1]]
        children = [int(text[:-1].split("-")[-1]) for text in query.constants[:-1]]
        schema = PathSchema()
        for level, (kind, child) in enumerate(zip(owners, children, strict=True), 5 - length):
            number = kind - schema.offsets[level]
            assert 0 <= number < 3**level
            if level < 4:
                assert owners[level - 5 + length + 1] - schema.offsets[level + 1] == number * 3 + child
        assert query.constants[-1].startswith(f'"v{children[-1]}-')


def test_some_queries_have_answers():
    schema = PathSchema(levels=3, branch=2, instances=4, values=3)
    dictionary = TermDictionary()
    columns = [dictionary.texts(column.tolist()) for column in path_triples(dictionary, 600, schema=schema)]
    oracle = Oracle(Publication(1, at, triple) for at, triple in enumerate(zip(*columns, strict=True)))
    answers = [oracle.answers(query, 0).total() for query in path_queries(20, schema=schema, length=3)]
    assert sum(count > 0 for count in answers) > 10
