"""Conditional transactions at two peers: grants of a majority, refusals with the present stamp, and lost answers."""

from __future__ import annotations

import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.errors import Busy, ChangedMeanwhile, error_from_code
from p2prdf.peer.replication import conditions
from p2prdf.wire.contract import Failed, Publish, Published
from p2prdf.wire.messages import AskGrants, GrantsKept

S, P = "<urn:s>", "<urn:p>"


@pytest.fixture(params=[ARRAYS, LISTS], ids=["arrays", "lists"])
def pair(request):
    made = Pair(request.param, replicas=2, copies_min=2, durable=True)
    made.compare()
    return made


def commit(pair, statements, version, *, at=LOW, attempt=0, deletions=0):
    """Submit a conditional transaction of statements; return the number of its request."""
    pair.requests += 1
    intern, make = pair.dictionary.intern_all, pair.columns.column
    s, p, o = (make(intern(each), "uint32") for each in zip(*statements, strict=True))
    pair.submit(at, Publish(
        pair.requests, pair.requests, 0, s, p, o, deletions=deletions, atomic=True,
        versions=(make([version] * len(statements)),),
        attempt=attempt or pair.requests,
    ))  # fmt: skip
    return pair.requests


def outcome(pair, *args, **options):
    """Return the outcome of a conditional transaction after a second."""
    request = commit(pair, *args, **options)
    pair.pass_time(1.0)
    return pair.completed.get(request)


def refused(pair, *args, **options):
    """Return the error of a conditional transaction that is refused because its subject changed."""
    failed = outcome(pair, *args, **options)
    assert isinstance(failed, Failed), failed
    error = error_from_code(failed.code, failed.text)
    assert isinstance(error, ChangedMeanwhile), error
    return error


def now(pair):
    """Return a stamp after everything so far, at or after the floors of both peers."""
    refused(pair, [(S, P, "<urn:probe>")], 1)  # sets the floors
    pair.pass_time(1.0)
    return max(peer._messenger.tick() for peer in pair.peers.values())


def test_of_two_transactions_on_one_version_the_first_takes_effect(pair):
    version = now(pair)
    first = outcome(pair, [(S, P, "<urn:1>")], version)
    assert isinstance(first, Published)
    assert first.time > version
    error = refused(pair, [(S, P, "<urn:2>")], version, at=HIGH)
    assert (error.subject, error.expected) == (S, version)
    assert error.present >= first.time
    objects = [pair.dictionary.texts(as_list(peer.triples()[2])) for peer in pair.peers.values()]
    assert objects == [["<urn:1>"], ["<urn:1>"]]


def test_a_later_read_gives_a_version_for_the_next(pair):
    for number in range(5):
        done = outcome(pair, [(S, P, f"<urn:{number}>")], now(pair), at=(LOW, HIGH)[number % 2])
        assert isinstance(done, Published)


def test_an_unconditional_publication_and_a_deletion_are_changes(pair):
    version = now(pair)
    pair.publish(LOW, (S, P, "<urn:x>"))
    pair.pass_time(1.0)
    published = refused(pair, [(S, P, "<urn:y>")], version).present
    assert published == max(as_list(pair.peers[LOW.key].triples()[3]))
    version = published
    intern, make = pair.dictionary.intern_all, pair.columns.column
    s, p, o = (make(intern([each]), "uint32") for each in (S, P, "<urn:x>"))
    pair.requests += 1
    pair.submit(HIGH, Publish(pair.requests, 3, 0, s, p, o, removed=True))
    pair.pass_time(1.0)
    assert refused(pair, [(S, P, "<urn:y>")], version).present == pair.completed[pair.requests - 1].time


def test_other_subjects_do_not_matter_and_every_subject_of_the_condition_does(pair):
    version = now(pair)
    pair.publish(LOW, ("<urn:other>", P, "<urn:x>"))
    pair.pass_time(1.0)
    assert isinstance(outcome(pair, [(S, P, "<urn:1>")], version), Published)
    both = [("<urn:third>", P, "<urn:1>"), ("<urn:other>", P, "<urn:1>")]
    assert refused(pair, both, version).subject == "<urn:other>"


def test_a_repeated_attempt_takes_effect_again_unless_another_one_came_between(pair):
    version = now(pair)
    assert isinstance(outcome(pair, [(S, P, "<urn:1>")], version, attempt=7), Published)
    again = outcome(pair, [(S, P, "<urn:1>")], version, attempt=7, at=HIGH)
    assert isinstance(again, Published)
    assert isinstance(outcome(pair, [(S, P, "<urn:2>")], now(pair), attempt=8), Published)
    refused(pair, [(S, P, "<urn:1>")], version, attempt=7)


def test_without_a_majority_it_is_refused_as_busy_and_nothing_is_published(pair):
    version = now(pair)
    pair.cut = True
    request = commit(pair, [(S, P, "<urn:1>")], version)
    pair.pass_time(conditions.GIVE_UP_SECONDS + 0.5)
    assert pair.completed[request].code == Busy.code
    assert pair.peers[LOW.key].publications_open == 0
    pair.cut = False
    pair.pass_time(20.0)
    assert not len(pair.peers[LOW.key].triples()[0])


def test_a_transaction_whose_grants_are_gone_when_it_is_staged_is_not_indexed(pair, monkeypatch):
    version = now(pair)
    low = pair.peers[LOW.key]
    monkeypatch.setattr(low._engine.staging, "ring_known", lambda: None)
    with monkeypatch.context() as gone:  # a replica, until its successor has come
        gone.setattr(low._engine.staging, "_all_there", lambda _: False)
        first = commit(pair, [(S, P, "<urn:1>")], version)
        pair.pass_time(1.0)
    assert first not in pair.completed
    term = pair.dictionary.intern_all([S])[0]
    for peer in pair.peers.values():  # as if another writer, with a later version, were granted
        peer._conditions._note(term, peer._messenger.tick(), 99)
    monkeypatch.undo()
    low._engine.staging.ring_known()
    pair.pass_time(10.0)
    assert pair.completed[first].code == "unavailable"
    assert not len(low.triples()[0])
    assert low.publications_open == 0


def test_an_open_transaction_holds_low_watermarks_back(pair):
    version = now(pair)
    low = pair.peers[LOW.key]
    pair.cut = True
    commit(pair, [(S, P, "<urn:1>")], version)
    (held,) = low._conditions.queued()
    assert as_list(held.time)[0] > version
    assert low._low_watermarks._under_way().low == as_list(held.time)[0]


def test_a_replica_that_forgets_a_grant_refuses_the_versions_before_it(pair, monkeypatch):
    monkeypatch.setattr(conditions, "GRANTS_MAX", 2)
    version = now(pair)
    done = [outcome(pair, [(f"<urn:{number}>", P, S)], version) for number in range(3)]
    assert all(isinstance(each, Published) for each in done)
    error = refused(pair, [("<urn:new>", P, S)], version)
    assert error.present >= done[0].time


def test_grants_survive_a_restart(pair):
    version = now(pair)
    low = pair.peers[LOW.key]
    done = outcome(pair, [(S, P, "<urn:1>")], version)
    (kept,) = low._conditions.kept()
    assert isinstance(kept, GrantsKept)
    low._conditions._grants.clear()
    low._conditions._restore(kept)
    term = pair.dictionary.intern_all([S])[0]
    assert low._conditions._grants[term][0] >= done.time


def test_a_replica_in_another_view_or_that_has_not_compared_cannot_tell(pair):
    version = now(pair)
    low = pair.peers[LOW.key]
    term = pair.columns.column(pair.dictionary.intern_all([S]), "uint32")
    question = AskGrants(term, pair.columns.column([version]), version + 1, 5, low._messenger.view + 1)
    assert low._conditions._decide(as_list(term)[0], version, question) == conditions._NOT_YET
    low._messenger.recovery.pass_completed = False
    question = AskGrants(term, pair.columns.column([version]), version + 1, 5, low._messenger.view)
    assert low._conditions._decide(as_list(term)[0], version, question) == conditions._NOT_YET


def test_with_one_copy_the_owner_decides_alone(pair):
    alone = Pair(pair.columns)
    version = now(alone)
    assert isinstance(outcome(alone, [(S, P, "<urn:1>")], version), Published)
    refused(alone, [(S, P, "<urn:2>")], version, at=HIGH)
