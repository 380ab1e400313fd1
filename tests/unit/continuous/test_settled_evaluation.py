"""A settled evaluation is bounded as other evaluations are."""

from __future__ import annotations

from p2prdf.columns import LISTS
from p2prdf.continuous import evaluation
from p2prdf.continuous.home import Home
from p2prdf.continuous.identities import home_key
from p2prdf.continuous.settled import SettledEvaluation
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.rdf.standing.settling import settled_query
from p2prdf.wire.messages import Contact, OpenSubscription

PRODUCT = "SELECT * { ?a <urn:p> ?b . ?c <urn:q> ?d }"


def test_a_product_is_given_up_soon_after_it_exceeds_the_bound_on_rows(monkeypatch):
    monkeypatch.setattr(evaluation, "PAIRS", 1000)
    query, dictionary = settled_query(parse_query(PRODUCT)), TermDictionary()
    opening = OpenSubscription(1, home_key(query, Algorithm.CSBV), query, "csbv", False, Contact(5, "h", 5), 60.0)
    home = Home(LISTS, log_rows_max=1000)
    group, _ = home.open_group(opening, 7)
    subscription = home.subscribe(group, opening, 1, now=0.0)
    settled = SettledEvaluation(query, group.leaves, dictionary, 1)
    for number, leaf in enumerate(group.leaves):
        rows = list(range(100))
        changes = leaf.answers.take(rows, [5] * 100, [5] * 100, [rows, rows])
        settled.changed(number, changes)
        settled.work(subscription.contents, subscription.log, 200)
    assert 200 < settled.rows_held < 200 + 2 * 1000
