"""All matchers against the slow way, while queries come and go; the paper's example, and its quirks."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_workloads import random_publication, random_query, satisfied

from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.rdf.fulltext import condition_holds, parse_condition
from p2prdf.text import ANY, FullTextIndex, Publication, Semantics, TextPattern, TextQuery, similars
from p2prdf_lab.competitors.full_text.brute import BruteForce
from p2prdf_lab.competitors.full_text.ibroker import IBroker, Starts
from p2prdf_lab.competitors.full_text.memory import held_bytes
from p2prdf_lab.competitors.full_text.rtf_m import RtfM
from p2prdf_lab.competitors.full_text.rtf_s import RtfS
from p2prdf_lab.competitors.full_text.split import SPLITS_MAX, split

SEEDS = int(os.environ.get("HISTORIES", "40"))
TYPE, TITLE, BODY = "<urn:type>", "<urn:title>", "<urn:body>"
ARTICLE = "<urn:Article>"

MATCHERS = {
    "brute": BruteForce,
    "rtf m": RtfM,
    "rtf m, scans": lambda semantics: RtfM(semantics, scans=True),
    "rtf s": RtfS,
    "rtf s, scans": lambda semantics: RtfS(semantics, scans=True),
    "index": FullTextIndex,
    **{f"ibroker, {each.value}": lambda semantics, each=each: IBroker(semantics, starts=each) for each in Starts},
}


def make_all(semantics):
    return {name: make(semantics) for name, make in MATCHERS.items()}


@pytest.fixture(params=MATCHERS, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def make(request):
    return MATCHERS[request.param]


class History:
    """Queries that come and go in all matchers at once, and the queries that each publication satisfies."""

    def __init__(self, semantics):
        self.matchers = make_all(semantics)
        self.semantics = semantics
        self.held = {}
        self.made = 0

    def add(self, query):
        try:
            split(query)
        except QueryRefused:
            return
        self.made += 1
        self.held[self.made] = query
        for matcher in self.matchers.values():
            matcher.add(self.made, query)

    def remove(self, key):
        del self.held[key]
        for matcher in self.matchers.values():
            matcher.remove(key)

    def publish(self, triples):
        joins = self.semantics is Semantics.EXACT
        expected = sorted(key for key, query in self.held.items() if satisfied(query, triples, joins))
        found = {name: matcher.match(Publication(triples)) for name, matcher in self.matchers.items()}
        assert found == dict.fromkeys(found, expected), triples
        return len(expected)

    def end(self):
        """Take all queries out; nothing may be left of them."""
        for key in list(self.held):
            self.remove(key)
        for name, matcher in self.matchers.items():
            assert len(matcher) == 0
            for attribute in LEFT[name]:
                assert not _content(getattr(matcher, attribute, None)), f"{name}: {attribute}"


LEFT = {
    name: {
        "brute": ("_queries",),
        "rtf": ("_roots", "_words", "_table", "_key_of", "_of_pattern", "_pattern", "_rest", "_ends", "_joined",
                "_languages", "_stemmed"),
        "ibroker": ("_buckets", "_parts", "_joined", "_languages"),
        "index": ("_trie", "_features", "_checks", "_entries", "_of_key"),
    }[name.split(",")[0].removesuffix(" m").removesuffix(" s")]
    for name in MATCHERS
}
"""Parts that must be empty when no query is left, by matcher."""


def _content(part):
    for attribute in ("children", "_root", "_held"):
        if hasattr(part, attribute):
            return getattr(part, attribute) or getattr(part, "globs", None)
    return part._by_predicate or part._subjects if hasattr(part, "_subjects") else part


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_matchers_equal_the_slow_one_while_queries_come_and_go(seed, semantics):
    rng, history = random.Random(seed), History(semantics)
    for _ in range(50):
        draw = rng.random()
        if draw < 0.15 and history.held:
            history.remove(rng.choice(list(history.held)))
        elif draw < 0.65:
            history.add(random_query(rng, depth=rng.choice([0, 1, 2])))
        else:
            history.publish(random_publication(rng, subjects=rng.choice([1, 2, 2])))
    history.end()


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(Semantics))
def test_any_history_that_hypothesis_makes_up(rng, semantics):
    history = History(semantics)
    for _ in range(rng.randint(1, 8)):
        history.add(random_query(rng, depth=1))
    for key in list(history.held)[:: rng.randint(1, 3)]:
        history.publish(random_publication(rng))
        history.remove(key)
    history.publish(random_publication(rng))
    history.end()


# --- the paper's example --------------------------------------------------------------------------


def _query(*patterns):
    return TextQuery(tuple(TextPattern(s, p, o, parse_condition(c) if c else None) for s, p, o, c in patterns))


OLYMPIC = _query(
    ("?x", TYPE, ARTICLE, ""),
    ("?x", TITLE, "?t", '"olympic" ftAND "games"'),
    ("?x", BODY, "?b", '"olympic" ftAND ("games" ftNEAR[0,2] "rio")'),
)  # fmt: skip
"""Figure 1 of the paper."""


def _article(title, body, s="<urn:a>", kind=ARTICLE):
    return [(s, TYPE, kind), (s, TITLE, f'"{title}"'), (s, BODY, f'"{body}"')]


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("triples", "found"),
    [
        (_article("Olympic Games", "The olympic games rio"), True),
        (_article("Games, Olympic", "games in sunny Rio, olympic"), True),
        (_article("Olympic Games", "olympic games of a sunny rio"), False),
        (_article("Olympic Games", "olympic: rio games"), False),
        (_article("Olympic", "olympic games rio"), False),
        (_article("Olympic Games", "games rio"), False),
        (_article("Olympic Games", "olympic games rio", kind="<urn:Book>"), False),
        (_article("Olympic Games", "olympic games rio")[1:], False),
    ],
)
def test_the_papers_query_about_the_olympic_games(make, semantics, triples, found):
    matcher = make(semantics)
    matcher.add(1, OLYMPIC)
    assert matcher.match(Publication(triples)) == [1] * found


def test_two_subjects_satisfy_a_query_together_in_the_paper_but_not_in_truth(make):
    """Names of variables are forgotten in the tries: one article has the title, another the body."""
    triples = _article("Olympic Games", "nothing") + _article("nothing", "olympic games rio", "<urn:b>")
    for semantics, found in ((Semantics.PAPER, [1]), (Semantics.EXACT, [])):
        matcher = make(semantics)
        matcher.add(1, OLYMPIC)
        assert matcher.match(Publication(triples)) == found
        assert matcher.match(Publication(_article("Olympic Games", "olympic games rio"))) == [1]


def test_words_of_one_text_are_not_combined_with_the_structure_of_another_triple(make):
    matcher = make(Semantics.PAPER)
    matcher.add(1, _query(("?x", TITLE, "?t", '"red tea"')))
    matcher.add(2, _query(("?x", TITLE, "?t", '"red" ftAND "tea"')))
    matcher.add(3, _query(("<urn:a>", TITLE, "?t", '"red"')))
    matcher.add(4, _query(("?x", ANY, "?t", '"red" ftAND "tea"')))
    assert matcher.match(Publication([("<urn:a>", TITLE, '"red"'), ("<urn:a>", TITLE, '"tea"')])) == [3]
    assert matcher.match(Publication([("<urn:a>", TITLE, '"red"'), ("<urn:a>", BODY, '"tea"')])) == [3]
    assert matcher.match(Publication([("<urn:a>", TITLE, '"red"'), ("<urn:a>", BODY, '"red tea"')])) == [3, 4]
    assert matcher.match(Publication([("<urn:b>", TITLE, '"red"'), ("<urn:a>", BODY, '"tea"')])) == []
    assert matcher.match(Publication([("<urn:b>", TITLE, '"red tea"')])) == [1, 2, 4]


def test_constants_with_stars_and_question_marks_in_them_are_constants(make):
    matcher = make(Semantics.EXACT)
    matcher.add(1, TextQuery((TextPattern(ANY, ANY, '"2*3"'),)))
    matcher.add(2, TextQuery((TextPattern(ANY, "<urn:p?>", '"?"'),)))
    matcher.add(3, TextQuery((TextPattern(ANY, ANY, ANY),)))
    assert matcher.match(Publication([("<urn:a>", TITLE, '"2*3"')])) == [1, 3]
    assert matcher.match(Publication([("<urn:a>", "<urn:p?>", '"?"')])) == [2, 3]
    assert matcher.match(Publication([])) == []


def test_each_query_is_reported_once_though_its_disjunction_is_several(make):
    matcher = make(Semantics.EXACT)
    matcher.add(7, _query(("?x", TITLE, "?t", '"red" ftOR "tea" ftOR "p*t"')))
    assert matcher.match(Publication([("<urn:a>", TITLE, '"red tea pot"')])) == [7]


def test_the_paper_would_have_reported_it_three_times():
    matcher = RtfM(Semantics.PAPER)
    matcher.add(7, _query(("?x", TITLE, "?t", '"red" ftOR "tea" ftOR "p*t"')))
    matcher.match(Publication([("<urn:a>", TITLE, '"red tea pot"')]))
    assert matcher.repeated == 2


def test_numbers_are_taken_once_and_forgotten_once(make):
    matcher = make(Semantics.EXACT)
    matcher.add(1, OLYMPIC)
    with pytest.raises(LocalProtocolError, match="query 1 exists already"):
        matcher.add(1, OLYMPIC)
    with pytest.raises(LocalProtocolError, match="no full-text query 2"):
        matcher.remove(2)
    matcher.remove(1)
    with pytest.raises(LocalProtocolError, match="no full-text query 1"):
        matcher.remove(1)
    assert matcher.match(Publication(_article("Olympic Games", "olympic games rio"))) == []


def test_numbers_are_in_order_however_many_queries_are_equal(make):
    """Equal queries are held once by the index, which then has many numbers for one and one for others."""
    matcher, rng = make(Semantics.EXACT), random.Random(1)
    title, either = _query(("?x", TITLE, "?t", '"games"')), _query(("?x", TITLE, "?t", '"olympic"'))
    keys = rng.sample(range(-500, 2**40, 7919), 40)
    for at, key in enumerate(keys):
        matcher.add(key, title if at else either)
    publication = Publication([("<urn:a>", TITLE, '"olympic games"')])
    assert matcher.match(publication) == sorted(keys)
    for left in (39, 20, 2):
        while len(keys) > left:
            matcher.remove(keys.pop(0))
        assert matcher.match(publication) == sorted(keys)
    matcher.remove(keys.pop())
    for key in (-1007, -1006):  # below the one that is left
        matcher.add(key, title)
    matcher.remove(-1007)
    assert matcher.match(publication) == [-1006, *keys]


def test_the_index_refuses_numbers_beyond_64_bits():
    index = FullTextIndex()
    for key in (2**63, -(2**63) - 1):
        with pytest.raises(LocalProtocolError, match=f"number {key} of a full-text query exceeds 64 bits"):
            index.add(key, OLYMPIC)
    index.add(2**63 - 1, OLYMPIC)
    index.add(-(2**63), OLYMPIC)
    assert index.match(Publication(_article("Olympic Games", "olympic games rio"))) == [-(2**63), 2**63 - 1]


def test_disjunctions_too_many_to_split_are_refused_by_the_papers_structures_and_not_by_the_index(make):
    many = " ftAND ".join(f'("a{n}" ftOR "b{n}")' for n in range(60))
    query = _query(("?x", TITLE, "?t", many))
    matcher = make(Semantics.EXACT)
    if isinstance(matcher, BruteForce | FullTextIndex):
        matcher.add(1, query)
        text = " ".join(f"{'ab'[n % 2]}{n}" for n in range(60))
        assert matcher.match(Publication([("<urn:a>", TITLE, f'"{text}"')])) == [1]
        assert matcher.match(Publication([("<urn:a>", TITLE, f'"{text[3:]}"')])) == []
    else:
        with pytest.raises(QueryRefused, match=f"{2**60} queries, more than {SPLITS_MAX}"):
            matcher.add(1, query)
        assert len(matcher) == 0


def test_memory_grows_with_queries_and_is_given_back(make):
    matcher, rng = make(Semantics.EXACT), random.Random(1)
    empty = held_bytes(vars(matcher))
    for key in range(200):
        matcher.add(key, random_query(rng, depth=0))
    held = held_bytes(vars(matcher))
    assert held > empty + 200 * 50
    for key in range(200):
        matcher.remove(key)
    assert held_bytes(vars(matcher)) < empty + (held - empty) / 2, "dictionaries keep their size, what was in them goes"


def test_the_index_looks_only_at_similarities_with_rare_words_of_the_text():
    """However many there are: all have two frequent words, which alone are not similar enough."""
    index = FullTextIndex()
    for number in range(1000):
        counts = f'using corpus[1000, "w{number}" 1, "tea" 700, "red" 600]'
        index.add(number, _query(("?x", TITLE, "?t", f'ftSIMILAR[0.6] "red tea w{number}" {counts}')))
    assert index.match(Publication([("<urn:a>", TITLE, '"red tea"')])) == []
    assert index.touched == 0
    assert index.match(Publication([("<urn:a>", TITLE, '"red tea w7 w8"')])) == [7, 8]
    assert index.match(Publication([("<urn:a>", TITLE, '"w9 and many other words that are none of these"')])) == []
    assert index.touched == 2


def test_of_similarities_that_share_words_with_a_text_those_near_their_threshold_are_decided(monkeypatch):
    tried = []
    monkeypatch.setattr(similars, "condition_holds", lambda *both: tried.append(both[0]) or condition_holds(*both))
    index = FullTextIndex()
    for number in range(300):
        words = f"red tea w{number} w{number + 1}"
        index.add(number, _query(("?x", TITLE, "?t", f"ftSIMILAR[{0.51 if number % 2 else 0.9}] \"{words}\"")))
    assert index.match(Publication([("<urn:a>", TITLE, '"red tea pot w8"')])) == [7]
    assert len(tried) == 1
    index.remove(7)
    assert index.match(Publication([("<urn:a>", TITLE, '"red tea pot w8"')])) == []
    assert len(tried) == 1
