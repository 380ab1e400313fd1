"""The judge finds every kind of error, and none in a right history."""

from __future__ import annotations

import pytest
from chaos.faults import Kill
from chaos.following import Followed
from chaos.judge import Judge
from chaos.probes import Probes
from chaos.publishing import Attempt, Publication
from chaos.queries import NS, Query, evaluate, store_of
from chaos.report import Report, gaps, percentile

from p2prdf import hlc
from p2prdf.client import Batch

P, Q = "<urn:p>", "<urn:q>"
INVENTORY_P = Query((("?s", P, "?o"),), ("?s", "?o"))
INVENTORY_Q = Query((("?s", Q, "?o"),), ("?s", "?o"))
JOIN = Query((("?x", P, "?y"), ("?y", Q, "?z")), ("?x",))
EVENTS = Query((("?s", P, "?o"),), ("?s",), per_event=True)


def publication(*triples, acknowledged=True, at=1.0, attempts=1):
    """A publication at a moment; its attempts are a second apart."""
    calls = [Attempt(f"node{n}", at + n) for n in range(attempts)]
    return Publication(list(triples), at, 7, 0, calls, at + attempts - 0.5 if acknowledged else 0.0)


def followed(query, *rows, called=0.0, live=0.1):
    """A query to which rows were delivered, each with its place as identity."""
    held = Followed(query, called_at=called, live_at=live)
    take(held, 1, rows)
    return held


def take(held, first, rows, identities=None):
    if rows:
        columns = tuple(list(column) for column in zip(*rows, strict=True))
        identities = identities or list(range(first, first + len(rows)))
        held.take(Batch(held.query.select, first, 0, identities, [0] * len(rows), columns))


A, B, C = ("<urn:a>", P, "<urn:b>"), ("<urn:b>", Q, "<urn:c>"), ("<urn:x>", P, "<urn:b>")
ALL_P = (("<urn:a>", "<urn:b>"), ("<urn:x>", "<urn:b>"))
LEDGER = [publication(A), publication(B, at=2.0), publication(C, acknowledged=False, at=3.0)]


def test_verdict_is_good_with_the_owed_answers_alone_and_with_all_possible_ones():
    judge = Judge(LEDGER)
    for rows in ((("<urn:a>",),), (("<urn:a>",), ("<urn:x>",))):
        verdict = judge.judge(followed(JOIN, *rows))
        assert (verdict.acknowledged, verdict.attempted) == (1, 2)
        assert verdict.good
    assert judge.complete([followed(JOIN, ("<urn:a>",))])


def test_lost_phantom_and_duplicated_answers_are_counted():
    judge = Judge(LEDGER)
    assert judge.judge(followed(JOIN)).lost == 1
    assert not judge.complete([followed(JOIN)])
    assert judge.judge(followed(JOIN, ("<urn:a>",), ("<urn:nobody>",))).phantom == 1
    twice = followed(JOIN, ("<urn:a>",))
    take(twice, 2, [("<urn:a>",)], identities=[1])
    verdict = judge.judge(twice)
    assert (verdict.duplicated, verdict.phantom, verdict.lost, verdict.delivered) == (1, 0, 0, 1)
    assert not verdict.good


def test_an_answer_that_is_taken_back_and_comes_again_is_held_once_and_was_taken_back():
    held, judge = followed(JOIN, ("<urn:a>",)), Judge(LEDGER)
    held.take(Batch(JOIN.select, 2, 0, [1 ^ 1 << 63], [hlc.GONE], (["<urn:a>"],)))
    assert judge.judge(held).lost == 1
    assert not judge.complete([held])
    take(held, 3, [("<urn:a>",)])
    verdict = judge.judge(held)
    assert (verdict.lost, verdict.phantom, verdict.delivered, verdict.taken_back) == (0, 0, 1, 1)
    assert not verdict.good, "nothing was removed, so it was true all the time"


def test_an_answer_too_many_under_another_identity_is_a_phantom():
    assert Judge(LEDGER).judge(followed(JOIN, ("<urn:a>",), ("<urn:a>",))).phantom == 1


def test_one_identity_with_two_answers_is_a_phantom_too():
    held = followed(JOIN, ("<urn:a>",))
    take(held, 2, [("<urn:x>",)], identities=[1])
    assert Judge(LEDGER).judge(held).phantom == 1


def test_a_gap_and_a_subscription_that_is_gone_are_not_good():
    held = followed(JOIN, ("<urn:a>",))
    held.gap = 3
    assert not Judge(LEDGER).judge(held).good
    held = followed(JOIN, ("<urn:a>",))
    held.gone = "it was ended"
    assert Judge(LEDGER).judge(held).gone == 1


@pytest.mark.parametrize(
    ("join", "torn"), [((("<urn:a>",), ("<urn:x>",)), 0), ((("<urn:a>",),), 1), ((("<urn:x>",), ("<urn:a>",)), 0)]
)
def test_a_triple_that_shows_in_one_query_must_show_in_all(join, torn):
    """The unacknowledged triple is in the inventory, so the join owes the answers that follow from it."""
    queries = [followed(INVENTORY_P, *ALL_P), followed(INVENTORY_Q, ("<urn:b>", "<urn:c>")), followed(JOIN, *join)]
    total, by_query = Judge(LEDGER).judge_all(queries)
    assert total.torn == torn
    assert (total.lost, total.phantom) == (0, 0)
    assert len(by_query) == 3


def test_a_triple_that_shows_in_a_join_but_in_no_window_is_torn():
    queries = [
        followed(INVENTORY_P, ALL_P[0]), followed(INVENTORY_Q, ("<urn:b>", "<urn:c>")),
        followed(JOIN, ("<urn:a>",), ("<urn:x>",)),
    ]  # fmt: skip
    assert Judge(LEDGER).judge_all(queries)[0].torn == 1


def test_without_windows_nothing_can_be_said_to_be_torn():
    assert Judge(LEDGER).judge_all([followed(INVENTORY_P, *ALL_P), followed(JOIN, ("<urn:a>",))])[0].good


def test_events_count_each_publication():
    ledger = [publication(A), publication(A, at=2.0), publication(A, acknowledged=False, at=3.0)]
    for count, lost, phantom in ((1, 1, 0), (2, 0, 0), (3, 0, 0), (4, 0, 1)):
        verdict = Judge(ledger).judge(followed(EVENTS, *[("<urn:a>",)] * count))
        assert (verdict.lost, verdict.phantom) == (lost, phantom)


@pytest.mark.parametrize(
    ("called", "live", "owed", "possible"),
    [(0.0, 0.5, 1, 1), (1.2, 1.3, 0, 1), (0.9, 1.3, 0, 1), (1.6, 1.7, 0, 0)],
)
def test_a_later_subscription_is_owed_the_publications_after_it(called, live, owed, possible):
    """One publication at 1.0, acknowledged at 1.5."""
    judge = Judge([publication(A)])
    held = followed(INVENTORY_P, called=called, live=live)
    assert judge.owed(held).total() == owed
    assert judge.possible(held).total() == possible


def test_a_repeated_publication_may_count_for_every_subscription_before_its_last_attempt():
    """Attempts at 1.0 and 2.0, acknowledged at 2.5: owed to subscriptions live at 2.0, possible for everybody."""
    judge = Judge([publication(A, attempts=2)])
    assert judge.owed(followed(INVENTORY_P, called=1.4, live=1.5)).total() == 1
    assert judge.owed(followed(INVENTORY_P, called=2.4, live=2.5)).total() == 0
    assert judge.possible(followed(INVENTORY_P, called=9.0, live=9.1)).total() == 1


def test_a_loss_is_explained_by_the_publication_that_completes_it():
    (loss,) = Judge(LEDGER, started_at=1.0).losses([followed(JOIN)])
    assert loss.row == ("<urn:a>",)
    assert (loss.published_at, loss.acknowledged_at) == (1.0, 1.5)
    assert loss.attempts == ("node0 at 1.000",)


def test_distinct_and_bag_answers_of_the_independent_evaluator():
    store = store_of([A, C, B])
    bag = Query((("?x", P, "?y"),), ("?y",))
    assert evaluate(bag, store, {}) == {("<urn:b>",): 2}
    assert evaluate(Query(bag.patterns, ("?y",), distinct=True), store, {}) == {("<urn:b>",): 1}


# --- times ---------------------------------------------------------------------------------------


def probed(*pairs, given_up=()):
    """Probes by their due time and the delay of their answers; None: no answer came."""
    probes = Probes()
    for number, (due, delay) in enumerate(pairs):
        acknowledged = 0.0 if number in given_up else due + 0.01
        probe = Publication([("<urn:p>", f"<{NS}joined/1>", "<urn:l>")], due, acknowledged_at=acknowledged)
        probes.made[str(number)] = probe
        if delay is not None:
            probes.arrived[str(number)] = due + delay
    return probes


def test_the_gap_of_a_kill_is_the_longest_delay_around_it():
    probes = probed((8.0, 5.0), (9.5, 0.2), (10.0, 0.7), (13.9, 0.1), (14.1, 3.0))
    (gap,) = gaps([Kill(1, 10.0, ["a"], back_at=11.0)], probes)
    assert gap.seconds == pytest.approx(0.7)
    assert not gap.of_all


def test_a_probe_that_its_publisher_gave_up_says_nothing():
    probes = probed((10.0, None), (10.1, 0.1), given_up=[0])
    assert [gap.seconds for gap in gaps([Kill(1, 10.0, ["a"])], probes)] == [pytest.approx(0.1)]


def test_probes_that_are_late_one_after_the_other_are_one_outage():
    probes = probed((10.0, 0.1), (11.0, 9.0), (12.0, 8.5), (13.0, 0.1), (30.0, 6.0))
    outages = probes.outages(10.0)
    found = [(each.kind, each.probes, each.first_due, each.last_due, each.last_arrived) for each in outages]
    assert found == [("joined/1", 2, 1.0, 2.0, pytest.approx(10.5)), ("joined/1", 1, 20.0, 20.0, pytest.approx(26.0))]
    assert probes.outages(0.0)[0].first_acknowledged == pytest.approx(11.01)


def test_an_answer_that_never_came_is_an_endless_gap():
    report = Report({}, gaps=gaps([Kill(1, 10.0, ["a"])], probed((10.0, None), (10.1, 0.1))))
    assert report.as_json()["gap_seconds"]["one_node"] == {"count": 1, "p50": None, "p99": None, "largest": None}


def test_a_kill_close_to_one_of_all_nodes_has_no_gap_of_its_own():
    probes = probed(*((float(second), 0.1) for second in range(40)))
    kills = [
        Kill(1, 7.0, ["a"], back_at=8.0), Kill(2, 10.0, ["a", "b"], back_at=13.0), Kill(3, 16.0, ["b"], back_at=17.0),
        Kill(4, 30.0, ["b"], back_at=31.0),
    ]  # fmt: skip
    assert [(gap.kill, gap.of_all) for gap in gaps(kills, probes)] == [(2, True), (4, False)]


def test_percentiles():
    assert percentile([], 0.5) is None
    assert percentile([3.0], 0.99) == 3.0
    assert percentile(range(1, 101), 0.5) == 50
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile([1, 2], 0.99) == 2


def test_a_report_is_good_only_if_everything_is():
    assert Report({}).good
    assert not Report({}, problems=["a node ended"]).good
    assert not Report({}, publications={"errors": 1}).good
