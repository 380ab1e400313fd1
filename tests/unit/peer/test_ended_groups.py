"""A peer that has not heard of the end of a query hears of it from the receivers of its rows or query steps."""

from __future__ import annotations

import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer.replication.anti_entropy import OFFER_SECONDS
from p2prdf.rdf.query import ConjunctiveQuery
from p2prdf.rdf.standing.settling import settled_query
from p2prdf.wire.messages import Envelope, Fetch, Forward, GroupsGone, IndexQuery

MATERIALS = pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
CHAIN = ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), ("<p>", "<q>"), (0, 2), ("s", "o"))


def receive(pair, at, message):
    """Let one of the peers take in a message of the other once more."""
    peer, sender = pair.peers[at.key], LOW if at is HIGH else HIGH
    pair._carry_out(peer, peer.receive(Envelope(0, 0, message), sender=sender, now=pair.now))
    pair.pass_time(0.0)


@MATERIALS
@pytest.mark.parametrize("kind", [IndexQuery, Forward])
def test_a_peer_that_sends_data_of_an_ended_query_is_told_of_the_end(columns, kind):
    pair = Pair(columns, replicas=2, copies_min=1)
    pair.compare()
    heard = {contact: pair.listen(contact) for contact in (LOW, HIGH)}
    pair.subscribe(HIGH, CHAIN)
    pair.publish(HIGH, ("<a>", "<p>", "<b>"))
    pair.pass_time(5.0)
    at, message = next((at, each) for at, some in heard.items() for each in some if isinstance(each, kind))
    sender, group = LOW if at is HIGH else HIGH, as_list(message.groups.ids)
    heard[sender].clear()
    receive(pair, at, message)
    assert not any(isinstance(each, GroupsGone) for each in heard[sender]), "it lives"
    receive(pair, at, GroupsGone(columns.column(group)))
    heard[sender].clear()
    receive(pair, at, message)
    assert [as_list(each.groups) for each in heard[sender] if isinstance(each, GroupsGone)] == [group]
    assert set(group) <= set(pair.peers[sender.key].ended_groups)


def test_a_comparisons_fetch_is_no_answer_to_the_offer_of_a_leaving_peer():
    """Fetches of others' comparisons came all the time, so it never repeated an offer that was lost on the way."""
    pair = Pair(ARRAYS, replicas=2, copies_min=1)
    pair.compare()
    repair = pair.peers[LOW.key]._anti_entropy
    repair.leave(lambda _: None)
    repair._offer_again_at = due = pair.now + OFFER_SECONDS
    pair.now += 1.0
    kind = repair._order[0]
    pair.peers[LOW.key]._messenger.observe(pair.now)
    repair.want(HIGH, Fetch(1, kind, True, ARRAYS.column([])))
    assert repair._offer_again_at == due
    repair.want(HIGH, Fetch(1, kind, False, ARRAYS.column([])))
    assert repair._offer_again_at == pair.now + OFFER_SECONDS


@MATERIALS
def test_ended_groups_are_released_only_when_no_row_names_a_group(columns):
    """A queued row names its group by a number, which a release changes."""
    pair = Pair(columns, replicas=2, copies_min=1)
    pair.compare()
    heard = {contact: pair.listen(contact) for contact in (LOW, HIGH)}
    for _ in range(2):
        pair.subscribe(HIGH, CHAIN)
        pair.publish(HIGH, ("<a>", "<p>", "<b>"))
        pair.pass_time(5.0)
    message = next(each for some in heard.values() for each in some if isinstance(each, Forward))
    engine = pair.peers[HIGH.key]._engine
    rows = engine._rows_of(message)
    engine._todo.add(rows)
    engine._tables.end_groups(as_list(message.groups.ids))
    engine.release_ended()
    assert engine._tables.has_ended
    assert as_list(engine._tables.group_ids(rows.plan, rows.group)) == [
        as_list(message.groups.ids)[at] for at in as_list(message.rows.group)
    ]
    pair.pass_time(5.0)
    assert not engine._tables.has_ended
    assert engine._tables.sizes().plans == 0
    receive(pair, HIGH, message)
    assert (engine._tables.sizes().plans, engine._tables.sizes().rows) == (0, 0), "a late message starts it again"


@MATERIALS
@pytest.mark.parametrize("kind", [IndexQuery, Forward])
def test_a_late_message_of_an_ended_settled_query_does_not_begin_its_events_again(columns, kind):
    pair = Pair(columns, replicas=2, copies_min=1)
    pair.compare()
    heard = pair.listen(HIGH)
    pair.subscribe(LOW, settled_query(CHAIN))
    engine = pair.peers[HIGH.key]._engine
    messages = [each for each in heard if isinstance(each, IndexQuery)]
    numbers = engine._tables.add_groups(messages[0].plan, messages[0].groups)
    if kind is IndexQuery:
        late = messages[0]
    else:  # as a comparison of replicas sends it
        (late,) = engine._out.forwards(engine._as_rows(messages[0], numbers))
    assert engine.exact.active
    for each in messages:
        receive(pair, HIGH, GroupsGone(each.groups.ids))
    assert not engine.exact.active
    receive(pair, HIGH, late)
    assert not engine.exact.active
