"""Transactions at a peer: one stamp, staged as a whole before any of it is indexed, and refused contradictions."""

from __future__ import annotations

import pytest
from peer_pair import HIGH, LOW, Pair

from p2prdf import hlc
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer.network.batches import TripleBatch
from p2prdf.rdf.quads import DEFAULT
from p2prdf.wire.contract import Failed, Publish, Published
from p2prdf.wire.messages import ACCEPTED, INDEXED, Envelope, IndexTriples, LowWatermark, WatchWatermarks

A, B, C = ("<urn:a>", "<urn:p>", "<urn:x>"), ("<urn:b>", "<urn:p>", "<urn:x>"), ("<urn:c>", "<urn:p>", "<urn:x>")


@pytest.fixture(params=[ARRAYS, LISTS], ids=["arrays", "lists"])
def pair(request):
    return Pair(request.param, replicas=2, copies_min=2)


def commit(pair, deleted, added, *, graph="", publisher=9, level=INDEXED):
    """Submit a transaction at a peer; return its outcome, None while there is none."""
    pair.requests += 1
    rows = [*deleted, *added]
    s, p, o = (pair.columns.column(pair.dictionary.intern_all(each), "uint32") for each in zip(*rows, strict=True))
    graphs = (pair.columns.column(pair.dictionary.intern_all([graph] * len(rows)), "uint32"),) if graph else ()
    pair.submit(
        LOW,
        Publish(pair.requests, publisher, 0, s, p, o, level, graph=graphs, deletions=len(deleted), atomic=True),
    )  # fmt: skip
    return pair.completed.get(pair.requests)


def stored(pair):
    """Return the times of the statements that both peers hold, by subject."""
    found = []
    for peer in pair.peers.values():
        s, _, _, time, *_ = peer.triples()
        found.append(dict(zip(pair.dictionary.texts(as_list(s)), as_list(time), strict=True)))
    assert found[0] == found[1]
    return found[0]


def test_deletions_and_additions_have_one_stamp(pair):
    pair.compare()
    commit(pair, [], [A])
    outcome = commit(pair, [A], [B, C])
    assert isinstance(outcome, Published)
    times = stored(pair)
    assert times["<urn:b>"] == times["<urn:c>"] == outcome.time
    assert times["<urn:a>"] == hlc.GONE | outcome.time


def test_all_of_it_is_staged_in_one_message_before_any_of_it_is_indexed(pair):
    pair.compare()
    heard = pair.listen(HIGH)
    many = [(f"<urn:s{number}>", "<urn:p>", "<urn:o>") for number in range(5000)]  # more than batch_rows_max
    commit(pair, [A], many)
    triples = [each for each in heard if isinstance(each, IndexTriples)]
    assert len(triples[0]) == len(many) + 1
    assert not any(as_list(triples[0].roles)), "the first message is the staged copy"
    assert all(any(as_list(each.roles)) for each in triples[1:])


def test_nothing_is_indexed_while_the_copy_is_not_acknowledged(pair):
    pair.compare()
    pair.cut = True
    assert commit(pair, [], [A, B]) is None
    low = pair.peers[LOW.key]
    assert not len(low.triples()[0])
    pair.cut = False
    pair.pass_time(5.0)
    assert set(stored(pair)) == {"<urn:a>", "<urn:b>"}


def test_no_watermark_passes_an_acknowledged_publication_that_waits_for_an_earlier_deletion(pair, monkeypatch):
    pair.compare()
    low = pair.peers[LOW.key]
    heard = pair.listen(HIGH)
    monkeypatch.setattr(low._engine.staging, "ring_known", lambda: None)
    with monkeypatch.context() as gone:  # a replica, until its successor has come
        gone.setattr(low._engine.staging, "_all_there", lambda _: False)
        assert commit(pair, [A], []) is None
    later = commit(pair, [("<urn:a>", "<urn:q>", "<urn:y>")], [C], level=ACCEPTED)
    assert isinstance(later, Published)
    pair._carry_out(low, low.receive(Envelope(0, 0, WatchWatermarks()), sender=HIGH, now=pair.now))
    pair.pass_time(2.5)
    marks = [each.low for each in heard if isinstance(each, LowWatermark)]
    assert marks
    assert all(each <= later.time for each in marks)
    assert not len(low.triples()[0])


def test_the_copy_alone_leads_to_everything_if_its_origin_is_lost(pair):
    pair.compare()
    heard = pair.listen(HIGH)
    commit(pair, [A], [B, C])
    (copy,) = [each for each in heard if isinstance(each, IndexTriples) and not any(as_list(each.roles))]
    other = Pair(pair.columns, replicas=2, copies_min=2)
    other.dictionary.intern_all(pair.dictionary.texts(range(len(pair.dictionary))))
    other.compare()
    redelivery = other.peers[HIGH.key]._engine.redelivery
    other.peers[HIGH.key]._engine._keep_whole(TripleBatch.received(copy))
    redelivery.finish(copy.origin)
    other.pass_time(5.0)
    assert set(stored(other)) == {"<urn:a>", "<urn:b>", "<urn:c>"}


def test_a_transaction_that_deletes_and_adds_a_statement_is_refused(pair):
    outcome = commit(pair, [A, B], [C, B])
    assert isinstance(outcome, Failed)
    assert outcome.code == "data-refused"
    assert "<urn:b>" in outcome.text


def test_a_graph_is_listed_for_additions_only(pair):
    pair.compare()
    commit(pair, [A], [B], graph="<urn:g>")
    texts = pair.dictionary.texts
    _, p, *_ = pair.peers[LOW.key].triples()
    directory = [each for each in texts(as_list(p)) if each != DEFAULT and not each.startswith("<")]
    commit(pair, [C], [], graph="<urn:h>")
    assert directory
    assert not any(each == "<urn:h>" for each in texts(as_list(pair.peers[LOW.key].triples()[2])))
