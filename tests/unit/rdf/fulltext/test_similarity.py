"""Similarity: a worked example, exactness, required words, and dependence on condition and text alone."""

from __future__ import annotations

import decimal
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_workloads import STEMS, WORDS, cosine, random_literal, random_similar

from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.rdf.fulltext import (
    And,
    Condition,
    Corpus,
    Not,
    Phrase,
    Similar,
    Using,
    condition_holds,
    needed,
    parse_call,
    parse_condition,
    similarity_of,
    text_of,
)
from p2prdf.rdf.fulltext.expression import WORDS_MAX
from p2prdf.rdf.fulltext.similarity import frequency_weight, vector_of


def similar(condition: str, text: str) -> float:
    expression = parse_condition(condition).expression
    assert isinstance(expression, Similar)
    return similarity_of(expression, text_of(f'"{text}"'))


def test_an_example_worked_out_by_hand() -> None:
    """Of 99 texts 9 have rio and all have games: rio weighs 1 + ln 10, games weighs 1."""
    condition = 'ftSIMILAR[0.5] "games rio" using corpus[99, "games" 99, "rio" 9]'
    rio = 1 + math.log(10)
    query = math.hypot(1, rio)
    assert similar(condition, "rio") == pytest.approx(rio / query, abs=1e-4)
    assert similar(condition, "games") == pytest.approx(1 / query, abs=1e-4)
    twice = 1 + math.log(2)
    expected = (1 + twice * rio) / query / math.hypot(1, twice, 1)
    assert similar(condition, "rio rio games x") == pytest.approx(expected, abs=1e-4)
    assert similar(condition, "") == similar(condition, "x y") == 0
    assert condition_holds(parse_condition(condition), text_of('"rio"'))
    assert not condition_holds(parse_condition(condition), text_of('"games"'))


@pytest.mark.parametrize(
    ("condition", "text", "holds"),
    [
        ('ftSIMILAR[1] "a b"', "a b", True),
        ('ftSIMILAR[1] "a a b b"', "B, a", True),
        ('ftSIMILAR[1] "a b"', "a b b", False),
        ('ftSIMILAR[1] "a b" using corpus[10, "a" 10, "b" 10]', "b a", True),
        ('ftSIMILAR[0.5] "a b c d"', "a", True),
        ('ftSIMILAR[0.5] "a b c d"', "a b x y", True),
        ('ftSIMILAR[0.5001] "a b c d"', "a b x y", False),
        ('ftSIMILAR[0.0001] "a"', "b", False),
        ('ftSIMILAR[0.0001] "a"', "", False),
        ('ftNOT ftSIMILAR[0.0001] "a"', "", True),
    ],
)
def test_similarity_is_compared_exactly(condition: str, text: str, holds: bool) -> None:
    """A text with a cosine of exactly the threshold satisfies the condition."""
    assert condition_holds(parse_condition(condition), text_of(f'"{text}"')) is holds


def test_stems_and_stop_words_count_on_neither_side() -> None:
    wish = 'ftSIMILAR[1] "the running of games" using stemming using stop words, "en"'
    assert condition_holds(parse_condition(wish), text_of('"And they run a game"@en'))
    assert not condition_holds(parse_condition(wish), text_of('"run, game, win"@en'))
    assert not condition_holds(parse_condition(wish), text_of('"run, game"'))
    assert not condition_holds(parse_condition(wish.replace(" using stop words", "")), text_of('"they run a game"@en'))


def test_words_of_one_stem_are_as_frequent_as_the_most_frequent() -> None:
    counted = 'using stemming using corpus[10, "game" 2, "games" 7, "rio" 1], "en"'
    same = 'using stemming using corpus[10, "games" 7, "rio" 1], "en"'
    found = [
        similarity_of(parse_condition(f'ftSIMILAR[1] "game games rio" {each}').expression, text_of('"rio"@en'), "en")
        for each in (counted, same)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(10))
def test_similarity_is_the_cosine_as_worked_out_slowly(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        language = rng.choice([None, "en", "fr"])
        expression, literal = random_similar(rng, language), random_literal(rng)
        text = text_of(literal)
        assert text is not None
        expected = cosine(expression, text.words, language)
        assert similarity_of(expression, text, language) == pytest.approx(expected, abs=2e-4)


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([None, "en", "fr"]))
def test_a_similar_text_has_the_required_words(rng, language) -> None:
    """The oracle knows nothing of required words; the required words are a subset of the condition's words."""
    expression = random_similar(rng, language)
    all_of, one_of = needed(expression, language)
    assert len(one_of) != 1
    stems = STEMS[language] if language and expression.using.stemming else {}
    for _ in range(30):
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, 4))]
        if cosine(expression, words, language) >= expression.threshold / 10_000:
            there = {stems.get(word, word) for word in words}
            assert there.issuperset(each.partition("=")[0] for each in all_of)
            assert not one_of or not there.isdisjoint(each.partition("=")[0] for each in one_of)


def test_few_words_are_needed_where_the_threshold_is_high() -> None:
    """The rarest, and no more of them than it takes."""
    counts = '"a" 1, "b" 10, "c" 100, "d" 500, "e" 900'
    found = [
        needed(parse_condition(f'ftSIMILAR[{least}] "a b c d e" using corpus[1000, {counts}]').expression, None)
        for least in (0.1, 0.3, 0.6, 0.8, 0.99)
    ]
    assert found == [
        ((), ("a", "b", "c", "d", "e")),
        ((), ("a", "b", "c")),
        ((), ("a", "b")),
        (("a",), ("b", "c")),
        (("a", "b", "c", "d"), ()),
    ]


def test_similarity_does_not_depend_on_the_programs_settings() -> None:
    condition = 'ftSIMILAR[0.3] "a b" using corpus[{}, "a" 1]'
    plain = similar(condition.format(12), "a b b c")
    frequency_weight.cache_clear()
    vector_of.cache_clear()
    with decimal.localcontext() as context:
        context.prec, context.rounding = 3, decimal.ROUND_UP
        assert similar(condition.format(12), "a b b c") == plain
        fresh = similar(condition.format(1234), "a b b b b b c")
    assert similar(condition.format(1234) + ' , "*"', "a b b b b b c") == fresh


def test_order_and_counts_of_nothing_make_no_difference() -> None:
    """Equal conditions are equal, so that rows that wait for them are found together."""
    one = parse_condition('ftSIMILAR[0.40] "rio games rio" using corpus[7, "rio" 2, "games" 0]')
    assert one == parse_condition('ftsimilar[.4] "games RIO rio" using corpus[7, "rio" 2]')
    assert str(one) == 'ftSIMILAR[0.4] "games rio rio" using corpus[7, "rio" 2]'
    assert parse_condition('ftSIMILAR[1] "a" using corpus[0, "a" 0]') == parse_condition('ftSIMILAR[1] "a"')
    assert one not in (parse_condition('ftSIMILAR[0.4] "games rio rio"'), parse_condition('"games rio rio"'))


def test_it_stands_in_conditions_as_phrases_do() -> None:
    found = parse_condition('("a" ftAND ftNOT ftSIMILAR[0.25] "b" using corpus[2]) using stemming, "en"')
    stems = Using(stemming=True)
    assert found == Condition(And((Phrase(("a",), stems), Not(Similar(("b",), 2500, stems, Corpus(2))))), "en")
    assert parse_condition(str(found)) == found


def test_a_call_is_one_of_the_same_conditions() -> None:
    call = 'FtSimilar(?v, "the games of Rio" using stop words using corpus[9, "rio" 1], 0.4, "en-gb")'
    variable, condition, end = parse_call(f"FILTER({call} || ?x)", 7)
    assert (variable, end) == ("v", 7 + len(call))
    assert str(condition) == 'ftSIMILAR[0.4] "games of rio the" using stop words using corpus[9, "rio" 1], "en-gb"'
    assert parse_call('ftsimilar(?v, "a", 1)').condition == Condition(Similar(("a",), 10_000))


@pytest.mark.parametrize(
    ("condition", "column", "named"),
    [
        ('ftSIMILAR[0] "a"', 11, "0 is no valid threshold: it must be more than 0 and at most 1"),
        ('ftSIMILAR[1.1] "a"', 11, "1.1 is no valid threshold"),
        ('ftSIMILAR[0.12345] "a"', 11, "at most four decimals"),
        ('ftSIMILAR[-0.4] "a"', 11, "at most four decimals"),
        ('ftSIMILAR[4e-1] "a"', 11, "at most four decimals"),
        ('ftSIMILAR["0.4"] "a"', 11, "at most four decimals"),
        (f'ftSIMILAR[{"9" * 5000}] "a"', 11, "at most four decimals"),
        ('ftSIMILAR "a"', 11, "out of place"),
        ('ftSIMILAR[0.4] "--"', 16, "contains no word"),
        ('ftSIMILAR[0.4] "gam*"', 16, "not a single word without '*'"),
        ('ftSIMILAR[0.4] ("a" ftAND "b")', 16, "out of place"),
        ('ftSIMILAR[0.4] "a" ftNEAR[0,2] "b"', 1, "connects words and phrases"),
        ('"a" using corpus[3]', 11, "'stemming' or 'stop words' is expected here, not 'corpus'"),
        ('ftSIMILAR[0.4] "a" using corpus[3, "b" 1]', 16, "the given words only, not 'b'"),
        ('ftSIMILAR[0.4] "a b" using corpus[3, "a b" 1]', 38, "belongs to a single word"),
        ('ftSIMILAR[0.4] "a" using corpus[3, "a" 4]', 16, "the count 4 of 'a' is not between 0 and 3"),
        ('ftSIMILAR[0.4] "a" using corpus[3, "a" 1, "a" 2]', 16, "each word once"),
        ('ftSIMILAR[0.4] "a" using corpus[3, "a"]', 39, "a number of texts"),
        ('ftSIMILAR[0.4] "a" using corpus[9999999999]', 33, "exceeds 1000000000 texts"),
        ('ftSIMILAR[0.4] "a" using corpus[-1]', 33, "a number of texts"),
        ('ftSIMILAR[0.4] "a" using stemming', 1, "using stemming needs the language"),
        ('ftSIMILAR[0.4] "of the" using stop words, "en"', 43, "has no word left"),
        (f'ftSIMILAR[0.4] "{"a " * (WORDS_MAX + 1)}"', 16, f"more than {WORDS_MAX}"),
    ],
)  # fmt: skip
def test_refusals_name_the_reason_and_point_at_the_place(condition: str, column: int, named: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_condition(condition)
    assert named in str(refused.value)
    assert (refused.value.line, refused.value.column) == (1, column), refused.value


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ('ftsimilar("a", "b", 0.4)', "the variable with the text"),
        ('ftsimilar(?v, "b")', "out of place"),
        ('ftsimilar(?v, 0.4, "b")', "cannot have a language or datatype"),
        ('ftsimilar(?v, "b", 2)', "2 is no valid threshold"),
        ("ftsimilar = 3", "out of place"),
    ],
)
def test_refusals_of_a_call(call: str, named: str) -> None:
    with pytest.raises(QueryRefused, match=named):
        parse_call(call)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Similar((), 1),
        lambda: Similar(("a",), 0),
        lambda: Similar(("a",), 10_001),
        lambda: Similar(("A",), 1),
        lambda: Similar(("a*",), 1),
        lambda: Similar(("a",), 1, corpus=Corpus(-1)),
        lambda: Similar(("a",), 1, corpus=Corpus(2, (("b", 1),))),
    ],
)
def test_no_tree_is_made_that_could_not_be_read_back(make) -> None:
    with pytest.raises(LocalProtocolError):
        make()
