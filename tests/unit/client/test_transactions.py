"""Transactions: one frame with deletions first, the last change of each statement, and the bounds."""

from __future__ import annotations

import asyncio

import pytest
from scripted_nodes import ScriptedNode, nodes

import p2prdf
from p2prdf.client.session import Session
from p2prdf.columns import as_list
from p2prdf.errors import Busy, ChangedMeanwhile, DataRefused, LocalProtocolError, TransactionTooLarge
from p2prdf.rdf.terms import XSD
from p2prdf.wire import messages
from p2prdf.wire.messages import TRANSACTION_STATEMENTS_MAX

A, B, P, G = "<urn:a>", "<urn:b>", "<urn:p>", "<urn:g>"


def confirm(visit, message):
    visit.send(messages.ClientPublished(message.request, 77))


def rows(visit, message):
    """Return the statements of a frame in order; the graph is "" for the default graph."""
    columns = [message.s, message.p, message.o, *message.graph]
    texts = [visit.terms[message.request].texts(as_list(each)) for each in columns]
    return list(zip(*texts, strict=True))


async def committed(change, **options):
    """Commit a transaction; return its frames, each with its statements, and the transaction."""
    node = ScriptedNode(on={messages.ClientPublish: confirm})
    async with (
        asyncio.timeout(30),
        nodes(node),
        p2prdf.connect(node.address) as client,
        client.transaction(**options) as transaction,
    ):
        change(transaction)
    heard = [(m, rows(visit, m)) for visit in node.visits for m in visit.of(messages.ClientPublish)]
    return heard, transaction


async def test_a_transaction_is_one_frame_with_its_deletions_first():
    def change(transaction):
        transaction.publish([(A, P, 1), (A, P, 2)])
        transaction.retract([(B, P, A)])

    ((message, statements),), transaction = await committed(change)
    assert [each[2] for each in statements] == [A, *(f'"{number}"^^<{XSD}integer>' for number in (1, 2))]
    assert (message.atomic, message.deletions, message.removed) == (True, 1, False)
    assert transaction.stamp == 77
    assert len(transaction) == 3


async def test_the_last_change_of_a_statement_counts():
    def change(transaction):
        transaction.retract([(A, P, A), (A, P, B)])
        transaction.publish([(A, P, A)])
        transaction.retract([(B, P, B)])
        transaction.publish([(B, P, B)])
        transaction.retract([(B, P, B)])

    ((message, statements),), _ = await committed(change)
    assert statements == [(A, P, B), (B, P, B), (A, P, A)]
    assert message.deletions == 2


async def test_statements_belong_to_their_graph_or_that_of_the_call_or_of_the_transaction():
    def change(transaction):
        transaction.publish([(A, P, A), (A, P, A, "<urn:h>")])
        transaction.retract([(A, P, A)], graph="<urn:i>")

    ((_, statements),), _ = await committed(change, graph=G)
    assert statements == [(A, P, A, "<urn:i>"), (A, P, A, G), (A, P, A, "<urn:h>")]


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_nothing_is_sent_after_an_error_in_the_block(error):
    def fail(transaction):
        transaction.publish([(A, P, A)])
        raise error

    node = ScriptedNode(on={messages.ClientPublish: confirm})
    async with asyncio.timeout(30), nodes(node), p2prdf.connect(node.address) as client:
        with pytest.raises(error):
            async with client.transaction() as transaction:
                fail(transaction)
    assert not [m for visit in node.visits for m in visit.of(messages.ClientPublish)]


async def test_a_transaction_without_changes_sends_nothing():
    heard, transaction = await committed(lambda _: None)
    assert (heard, transaction.stamp) == ([], 0)


async def test_a_transaction_beyond_its_bounds_is_refused_before_it_is_sent():
    def too_many(transaction):
        transaction.publish((A, P, f'"{number}"') for number in range(TRANSACTION_STATEMENTS_MAX + 1))

    def too_long(transaction):
        transaction.publish((A, P, f'"{number}{"x" * 10_000}"') for number in range(500))

    for change in (too_many, too_long):
        with pytest.raises(TransactionTooLarge, match="divide it"):
            await committed(change)


async def test_a_transaction_of_the_largest_size_is_one_frame():
    ((message, _),), _ = await committed(
        lambda transaction: transaction.publish((A, P, f'"{n}"') for n in range(TRANSACTION_STATEMENTS_MAX))
    )
    assert len(message) == TRANSACTION_STATEMENTS_MAX


async def test_a_repeated_commit_has_the_same_events_and_further_changes_are_refused():
    node = ScriptedNode(on={messages.ClientPublish: confirm})
    async with asyncio.timeout(30), nodes(node), p2prdf.connect(node.address) as client:
        async with client.transaction() as transaction:
            transaction.publish([(A, P, A)])
        await transaction.commit()
        with pytest.raises(LocalProtocolError, match="is committed"):
            transaction.publish([(A, P, B)])
    first, second = [m for visit in node.visits for m in visit.of(messages.ClientPublish)]
    assert (first.publisher, first.first_event) == (second.publisher, second.first_event)


async def test_an_item_that_is_no_statement_is_refused():
    with pytest.raises(DataRefused):
        await committed(lambda transaction: transaction.publish([(A, P)]))


async def until_lost(session):
    """Wait until a connection breaks, as for a socket that is full."""
    while session.lost is None:
        await asyncio.sleep(0)


def changed(visit, message):
    error = ChangedMeanwhile(A, 5, 9)
    visit.send(messages.ClientError(message.request, error.code, str(error)))


async def refused_after(first_answer):
    """Return the error of a conditional transaction that one node answers so, and the next one as changed."""
    first = ScriptedNode(on={messages.ClientPublish: first_answer})
    second = ScriptedNode(on={messages.ClientPublish: changed})
    async with (
        asyncio.timeout(30),
        nodes(first, second),
        p2prdf.connect(f"{first.address},{second.address}") as client,
    ):
        transaction = client.transaction(if_unchanged=5)
        transaction.publish([(A, P, B)])
        with pytest.raises(ChangedMeanwhile) as refused:
            await transaction.commit()
    return refused.value


@pytest.mark.parametrize("full", [False, True])
async def test_a_change_after_a_lost_answer_may_be_an_earlier_attempt(full, monkeypatch):
    """``full``: the connection breaks before the client begins to wait for the answer."""
    if full:
        monkeypatch.setattr(Session, "room", until_lost)
    error = await refused_after(lambda visit, _: visit.abort())
    assert error.repeated
    assert "an earlier attempt may have taken effect" in str(error)


async def test_a_change_at_the_first_attempt_or_after_a_busy_answer_is_that_of_another():
    answers = iter([Busy("wait"), None])

    def busy_first(visit, message):
        error = next(answers)
        if error is None:
            changed(visit, message)
        else:
            visit.send(messages.ClientError(message.request, error.code, str(error)))

    assert not (await refused_after(busy_first)).repeated
    assert not (await refused_after(changed)).repeated


async def test_a_change_after_a_cancelled_commit_may_be_that_commit():
    """The application gave up without an answer, and repeats the commit."""
    commits = []

    def cancel_first(visit, message):
        if len(visit.of(messages.ClientPublish)) == 1:
            commits[0].cancel()
        else:
            changed(visit, message)

    node = ScriptedNode(on={messages.ClientPublish: cancel_first})
    async with asyncio.timeout(30), nodes(node), p2prdf.connect(node.address) as client:
        transaction = client.transaction(if_unchanged=5)
        transaction.publish([(A, P, B)])
        commits.append(asyncio.create_task(transaction.commit()))
        with pytest.raises(asyncio.CancelledError):
            await commits[0]
        with pytest.raises(ChangedMeanwhile) as refused:
            await transaction.commit()
    assert refused.value.repeated
