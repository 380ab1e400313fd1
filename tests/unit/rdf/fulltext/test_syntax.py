"""Conditions as text: a written condition reads back equal, and refusals point at the place."""

from __future__ import annotations

import random

import pytest
from text_workloads import random_condition

from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.rdf.fulltext import (
    And,
    Condition,
    Gap,
    Near,
    Not,
    Or,
    Phrase,
    Using,
    parse_call,
    parse_condition,
    parse_expression,
    spelled,
)
from p2prdf.rdf.fulltext.expression import DEPTH_MAX, WORDS_MAX

A, B, C = (Phrase((word,)) for word in "abc")
STEMMED_A, STEMMED_B = Phrase(("a",), Using(True, True)), Phrase(("b",), Using(stemming=True))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ('"A"', A),
        ('\'a\' ftor "b" FTAND """c"""', Or((A, And((B, C))))),
        ('("a" ftOR "b") ftAND "c"', And((Or((A, B)), C))),
        ('("a" ftAND "b") ftAND "c"', And((And((A, B)), C))),
        ('"a" ftAND "b" ftAND "c"', And((A, B, C))),
        ('ftNOT ftNOT "a" ftAND "b"', And((Not(Not(A)), B))),
        ('ftNOT "a" ftNEAR[0,2] "b"', Not(Near((A, B), (Gap(0, 2),)))),
        ('"a" ftNEAR[0,0] ("b") ftNEAR[1,3,unordered] "c"', Near((A, B, C), (Gap(0, 0), Gap(1, 3, ordered=False)))),
        ('"rock-n-roll"', Phrase(("rock", "n", "roll"))),
        ('"olymp** \\u0041*b"', Phrase(("olymp*", "a*b"))),
        ('((("a")))', A),
        ('"a" using stemming', Phrase(("a",), Using(stemming=True))),
        ('"a" USING Stop Words', Phrase(("a",), Using(stop_words=True))),
        ('"a b" using stop words using stemming using stemming', Phrase(("a", "b"), Using(True, True))),
        ('("a" using stop words ftOR ftNOT "b") using stemming', Or((STEMMED_A, Not(STEMMED_B)))),
        ('("a" using stop words ftNEAR[0,1] "b") using stemming', Near((STEMMED_A, STEMMED_B), (Gap(0, 1),))),
        ('("a") using stemming ftNEAR[0,1] ("b")', Near((Phrase(("a",), Using(stemming=True)), B), (Gap(0, 1),))),
        ('ftNOT "b" using stemming', Not(STEMMED_B)),
    ],
)
def test_a_written_condition_reads_back_equal(text: str, tree) -> None:
    assert parse_expression(text) == tree
    assert parse_expression(spelled(tree)) == tree


def test_conditions_that_compare_words_in_different_ways_are_different() -> None:
    plain, *others = (parse_condition(f'"tea"{wish}, "en"') for wish in ("", " using stemming", " using stop words"))
    assert plain not in others
    assert len({plain, *others}) == 3
    assert parse_condition('"tea" using stemming, "en"') != parse_condition('"tea" using stemming, "fr"')


@pytest.mark.parametrize("seed", range(50))
def test_any_condition_reads_back_as_it_was_spelled(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        condition = random_condition(rng, depth=4)
        assert parse_condition(str(condition)) == condition
        assert parse_call(f"ftContains($v,{condition})") == ("v", condition, len(f"ftContains($v,{condition})"))


def test_a_call_is_read_where_it_stands_in_a_query() -> None:
    call = 'ftcontains(?text, "olympic" ftAND ("games" ftNEAR[0,2] "rio"), "EN-gb")'
    query = f"PREFIX x: <urn:x>\nSELECT ?s {{ ?s x:body ?text FILTER({call} && ?s > 3) }}"
    found = parse_call(query, query.index("ftcontains"))
    games = Near((Phrase(("games",)), Phrase(("rio",))), (Gap(0, 2),))
    assert found.variable == "text"
    assert found.condition == Condition(And((Phrase(("olympic",)), games)), "en-gb")
    assert query[found.end :] == " && ?s > 3) }"


@pytest.mark.parametrize(
    ("text", "column", "named"),
    [
        ("", 1, "ends too early"),
        ('"a" ftAND', 10, "ends too early"),
        ('"a" "b"', 5, "ftAND, ftOR, ftNEAR"),
        ('"a" and "b"', 5, "write ftAND"),
        ('"a" ftAND ?x', 11, "is expected here"),
        ('"--"', 1, "contains no word"),
        ('"a * b"', 1, "'*' alone is no word"),
        ('"a"@en', 1, "cannot have a language or datatype"),
        ('"a"^^<urn:x>', 1, "cannot have a language or datatype"),
        ('"a" ftNEAR[3,2] "b"', 11, "[3,2] is no valid range"),
        ('"a" ftNEAR[0,2', 11, "never closed"),
        ('"a" ftNEAR[-1,2] "b"', 12, "a number of words"),
        ('"a" ftNEAR[0,1.5] "b"', 14, "a number of words"),
        ('"a" ftNEAR[0,9999999] "b"', 14, "exceeds 100000"),
        ('"a" ftNEAR[0,1,any] "b"', 16, "out of place"),
        ('"a" ftNEAR[0,1] ("b" ftOR "c")', 17, "connects words and phrases"),
        ('"a" ftNEAR[0,1] "b" ftAND', 26, "ends too early"),
        ('("a" ftOR "b"', 1, "never closed"),
        ('"a", "e n"', 6, "no language range"),
        ('"a", "en"@de', 6, "a plain string"),
        ('"a" ftAND ftNOT ', 16, "ends too early"),
        ("ftNOT " * DEPTH_MAX + '"a"', 1, f"nests deeper than {DEPTH_MAX}"),
        (" ftOR ".join(['"w"'] * (WORDS_MAX + 1)), 1, f"more than {WORDS_MAX}"),
        ("(" * 100 + '"a"' + ")" * 100, 65, "nest deeper"),
        ('PREFIX x: <urn:x> "a"', 1, "cannot have declarations"),
        ('"a\ud800"', 3, "surrogate"),
        ('"a" using stemming', 1, "using stemming needs the language of the texts, and none is given"),
        ('"a" ftAND "b c" using stop words', 1, "using stop words needs the language"),
        ('"a" using stemming, "*"', 21, "'*' is any"),
        ('"a" using stemming using stop words, "ja"', 38, "does not support the language 'ja'; supported: ar, ca"),
        ('"a" using stop words, "el-gr"', 23, "no stop words for the language 'el-gr'; supported: de, en, es"),
        ('"tea" ftOR "of the" using stop words, "en"', 39, '"of the" has no word left, only stop words of English'),
        ('"a" using', 10, "ends too early"),
        ('"a" using lemmas, "en"', 11, "'stemming' or 'stop words' is expected here, not 'lemmas'"),
        ('"a" using stop, "en"', 15, "out of place"),
        ('using stemming "a"', 1, "not supported"),
    ],
)  # fmt: skip
def test_refusals_name_the_reason_and_point_at_the_place(text: str, column: int, named: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_condition(text)
    assert (refused.value.line, refused.value.column) == (1, column), refused.value
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("call", "column", "named"),
    [
        ('ftcontains(?v "a")', 17, "out of place"),
        ('ftcontains("a", "b")', 14, "the variable with the text"),
        ('ftcontains(?v, "a" && "b")', 22, "out of place"),
        ("ftcontains(?v, )", 18, "out of place"),
        ("ftcontains = 3", 14, "out of place"),
        ("ftcontains ?v", 3, "in parentheses"),
        ("contains(?v)", 3, "ftcontains( is expected"),
    ],
)
def test_refusals_of_a_call_have_the_place_in_the_query_around_it(call: str, column: int, named: str) -> None:
    query = f"SELECT * {{ FILTER(\n  {call}) }}"
    with pytest.raises(QueryRefused) as refused:
        parse_call(query, query.index(call))
    assert (refused.value.line, refused.value.column) == (2, column), refused.value
    assert named in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Phrase(()),
        lambda: Phrase(("Upper",)),
        lambda: Phrase(("two words",)),
        lambda: Phrase(("*",)),
        lambda: Near((A,), ()),
        lambda: Near((A, B), (Gap(2, 1),)),
        lambda: Near((A, B), (Gap(-1, 1),)),
        lambda: And((A,)),
        lambda: Or(()),
        lambda: Condition(A, "EN"),
        lambda: Or((A,) * (WORDS_MAX + 1)),
    ],
)
def test_no_tree_is_made_that_could_not_be_read_back(make) -> None:
    with pytest.raises(LocalProtocolError):
        make()
