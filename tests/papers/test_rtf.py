"""Filtering with full-text conditions: sentences of seed 002 (RTF), and the behaviour of the product's index for each.

Quotations and sections are those of the notes on the paper.  Section 6.3 numbers its ambiguities, with their
resolutions.  The paper's tries RTFm and RTFs and its baseline are competitors in the laboratory.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from p2prdf.rdf.fulltext import parse_condition
from p2prdf.text import ANY, FullTextIndex, Publication, Semantics, TextPattern, TextQuery

TYPE, TITLE, BODY, ARTICLE = "<urn:type>", "<urn:title>", "<urn:body>", "<urn:Article>"
A, B = "<urn:a>", "<urn:b>"

both_semantics = pytest.mark.parametrize("semantics", Semantics, ids=lambda each: each.value)


def query(*patterns: tuple[str, str, str, str]) -> TextQuery:
    return TextQuery(tuple(TextPattern(s, p, o, parse_condition(c) if c else None) for s, p, o, c in patterns))


def index(*queries: TextQuery, semantics: Semantics = Semantics.EXACT) -> FullTextIndex:
    """Return an index of queries under the numbers 1, 2, ..."""
    found = FullTextIndex(semantics)
    for key, each in enumerate(queries, 1):
        found.add(key, each)
    return found


def article(title: str, body: str, s: str = A) -> list[tuple[str, str, str]]:
    return [(s, TYPE, ARTICLE), (s, TITLE, f'"{title}"'), (s, BODY, f'"{body}"')]


def titled(text: str) -> Publication:
    return Publication([(A, TITLE, f'"{text}"')])


OLYMPIC = query(
    ("?x", TYPE, ARTICLE, ""),
    ("?x", TITLE, "?t", '"olympic" ftAND "games"'),
    ("?x", BODY, "?b", '"olympic" ftAND ("games" ftNEAR[0,2] "rio")'),
)
"""The query of Figure 1 of the paper."""


# --- model -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "body", "found"),
    [
        ("Olympic Games", "the olympic games rio", True),
        ("Games, Olympic", "games in sunny Rio, olympic", True),
        ("Olympic Games", "olympic games of a sunny rio", False),
        ("Olympic Games", "olympic rio games", False),
        ("Olympic", "olympic games rio", False),
        ("Olympic Games", "games rio", False),
    ],
)
@both_semantics
def test_the_query_about_the_olympic_games(semantics: Semantics, title: str, body: str, found: bool) -> None:
    """Section 9.3: "RTF: Fig 1 query (type article; title olympic AND games; body ...); gaps 0,2,3; reversed order"."""
    assert index(OLYMPIC, semantics=semantics).match(Publication(article(title, body))) == [1] * found


@both_semantics
def test_every_tuple_of_a_query_is_matched_by_a_triple_of_one_publication(semantics: Semantics) -> None:
    """Section 6.1: "every tuple of q is matched by some triple of the *same* publication"."""
    both = index(OLYMPIC, semantics=semantics)
    whole = article("Olympic Games", "olympic games rio")
    assert both.match(Publication(whole)) == [1]
    for left_out in whole:
        parts = [each for each in whole if each != left_out]
        assert both.match(Publication(parts)) == []
        assert both.match(Publication([left_out])) == []


@pytest.mark.parametrize(
    ("text", "found"), [("games rio", True), ("games a rio", True), ("games a b rio", True), ("games a b c rio", False),
                        ("rio games", False)],
)  # fmt: skip
def test_nearness_is_ordered_and_counts_the_words_between(text: str, found: bool) -> None:
    """Section 6.1: "ftNEAR[0,2](games,rio): rio follows games with 0..2 words between"."""
    assert bool(index(query(("?x", TITLE, "?t", '"games" ftNEAR[0,2] "rio"'))).match(titled(text))) == found


def test_a_phrase_is_a_chain_of_words_without_words_between() -> None:
    """Section 6.1: "Phrase = chain of NEAR[0,0]"."""
    phrase = query(("?x", TITLE, "?t", '"red tea pot"'))
    chain = query(("?x", TITLE, "?t", '"red" ftNEAR[0,0] "tea" ftNEAR[0,0] "pot"'))
    both = index(phrase, chain)
    for text, found in (("my red tea pot", [1, 2]), ("red hot tea pot", []), ("tea red pot", [])):
        assert both.match(titled(text)) == found


def test_words_are_compared_in_lower_case_and_without_punctuation() -> None:
    """Section 6.1: "lower-case, split on non-alphanumerics, no stemming, no stop words"."""
    both = index(query(("?x", TITLE, "?t", '"the" ftAND "games"')))
    assert both.match(titled("THE-Games!")) == [1]
    assert both.match(titled("the game")) == []


def test_a_wildcard_stands_for_any_term_at_any_position() -> None:
    """Section 6.1: "`*` wildcard in any position"."""
    both = index(query((ANY, TITLE, "?t", '"tea"')), query((A, ANY, "?t", '"tea"')), query((A, TITLE, ANY, "")))
    assert both.match(titled("tea")) == [1, 2, 3]
    assert both.match(Publication([(A, BODY, '"tea"')])) == [2]
    assert both.match(Publication([(B, TITLE, '"tea"')])) == [1]


# --- ambiguities -----------------------------------------------------------------------------------


def test_a_query_with_a_variable_subject_is_found() -> None:
    """Section 6.3, 1: "Text mentions visiting only root content = S | Also VAR and STAR roots"."""
    both = index(query((A, TITLE, "?t", "")), query(("?x", TITLE, "?t", "")), query((ANY, TITLE, "?t", "")))
    assert both.match(titled("tea")) == [1, 2, 3]


def test_two_subjects_do_not_satisfy_a_query_together_but_in_the_semantics_of_the_paper() -> None:
    """Section 6.3, 2: "variable names are erased: false positives if the publication describes several subjects"."""
    triples = article("Olympic Games", "nothing") + article("nothing", "olympic games rio", B)
    for semantics, found in ((Semantics.PAPER, [1]), (Semantics.EXACT, [])):
        assert index(OLYMPIC, semantics=semantics).match(Publication(triples)) == found


def test_a_variable_that_occurs_twice_in_a_tuple_needs_equal_terms() -> None:
    """Section 6.3, 3: "Repeated variable inside one tuple | Verify at leaf"."""
    both = index(query(("?x", TITLE, "?x", "")))
    assert both.match(Publication([(A, TITLE, B)])) == []
    assert both.match(Publication([(A, TITLE, A)])) == [1]


def test_matches_do_not_depend_on_the_order_of_insertion() -> None:
    """Section 6.3, 4: "All give the same matches"."""
    words = ["red", "tea", "pot", "cup", "hot"]
    draw = random.Random(1)
    queries = [
        query(("?x", TITLE, "?t", " ftAND ".join(f'"{word}"' for word in draw.sample(words, draw.randint(1, 3)))))
        for _ in range(40)
    ]
    publications = [titled(" ".join(draw.sample(words, 4))) for _ in range(10)]
    found = []
    for _ in range(3):
        order = draw.sample(range(40), 40)
        both = FullTextIndex(Semantics.EXACT)
        for key in order:
            both.add(key, queries[key])
        found.append([both.match(each) for each in publications])
    assert found[0] == found[1] == found[2]
    assert any(found[0])


def test_a_disjunction_is_reported_once_for_a_publication() -> None:
    """Section 6.3, 5: "One notification per (subscriber, original query, publication)"."""
    both = index(query(("?x", TITLE, "?t", '"red" ftOR "tea" ftOR "pot"')))
    assert both.match(titled("red tea pot")) == [1]
    assert both.match(titled("cup")) == []


def test_a_negated_word_is_verified_and_a_negation_alone_is_possible() -> None:
    """Section 6.3, 6: "negated parts verified after traversal; purely negative F indexed at the structural leaf"."""
    both = index(query(("?x", TITLE, "?t", '"tea" ftAND ftNOT "red"')), query(("?x", TITLE, "?t", 'ftNOT "red"')))
    assert both.match(titled("green tea")) == [1, 2]
    assert both.match(titled("red tea")) == []
    assert both.match(titled("cup")) == [2]


def test_a_query_with_fewer_words_is_found_on_the_way_to_one_with_more() -> None:
    """Section 6.3, 7: "a tuple with fewer words ends higher"."""
    both = index(*(query(("?x", TITLE, "?t", condition)) for condition in (
        '"red"', '"red" ftAND "tea"', '"red" ftAND "tea" ftAND "pot"')))  # fmt: skip
    assert both.match(titled("red tea")) == [1, 2]
    assert both.match(titled("pot tea red")) == [1, 2, 3]


def test_the_cost_of_a_publication_does_not_depend_on_the_number_of_other_queries() -> None:
    """Section 6.3, 8: "QT scan per publication is O(Q) | Counter per query with generation stamps; same result"."""
    touched = []
    for others in (10, 1000):
        both = index(OLYMPIC, *(query(("?x", f"<urn:p{at}>", "?t", f'"word{at}"')) for at in range(others)))
        assert both.match(Publication(article("Olympic Games", "olympic games rio"))) == [1]
        touched.append(both.touched)
    assert touched[1] <= touched[0] + 2


def test_the_structure_of_one_triple_is_not_combined_with_words_of_another() -> None:
    """Section 6.3, 9: "RTFs must not combine structure from one triple with words from another"."""
    both = index(query(("?x", TITLE, "?t", '"red" ftAND "tea"')), query((A, ANY, "?t", '"red" ftAND "tea"')))
    assert both.match(Publication([(A, TITLE, '"red"'), (A, TITLE, '"tea"')])) == []
    assert both.match(Publication([(A, TITLE, '"red"'), (A, BODY, '"red tea"')])) == [2]


def test_a_word_that_a_phrase_repeats_has_to_be_repeated() -> None:
    """Section 6.3, 10: "Distinct words index; phrase verification keeps multiplicity"."""
    both = index(query(("?x", TITLE, "?t", '"no no"')))
    assert both.match(titled("no way")) == []
    assert both.match(titled("no no")) == [1]


@pytest.mark.parametrize("seed", range(5))
def test_the_index_finds_the_queries_that_a_look_at_each_one_finds(seed: int) -> None:
    """Section 9.1: "O4 RTF: brute-force every query on every publication"."""
    draw = random.Random(seed)
    words = ["red", "tea", "pot", "cup", "hot"]
    tried = {
        '"{0}"': lambda text, a, _: a in text,
        '"{0}" ftAND "{1}"': lambda text, a, b: a in text and b in text,
        '"{0}" ftOR "{1}"': lambda text, a, b: a in text or b in text,
        '"{0} {1}"': lambda text, a, b: (a, b) in pairwise(text),
        '"{0}" ftNEAR[1,1] "{1}"': lambda text, a, b: (a, b) in zip(text, text[2:], strict=False),
        '"{0}" ftAND ftNOT "{1}"': lambda text, a, b: a in text and b not in text,
    }
    made = [(draw.choice(list(tried)), *draw.sample(words, 2)) for _ in range(60)]
    both = index(*(query(("?x", TITLE, "?t", condition.format(a, b))) for condition, a, b in made))
    for _ in range(20):
        text = draw.choices(words, k=draw.randint(1, 5))
        expected = [key for key, (condition, a, b) in enumerate(made, 1) if tried[condition](text, a, b)]
        assert both.match(titled(" ".join(text))) == expected
