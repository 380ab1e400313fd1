"""Settled delivery over each transport: no state at a mark that never was, and resumption without loss or repetition.

A transaction replaces one value by the next.  Immediate delivery tells the retraction before the new value, so it shows
a graph without any value, which never was.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools

import pytest
from gateways import Events, delivering, gateway
from settled_states import States, query_of, replaced
from webhook_receiver import Receiver

import p2prdf
import p2prdf.sync
from p2prdf import hlc
from p2prdf.errors import LocalProtocolError
from p2prdf.gateway.webhooks import SigningKeys
from p2prdf.interest import parse_interest
from p2prdf.replica.embedded import EmbeddedStore
from p2prdf.replica.following import follow

_names = itertools.count()
SECONDS = 60.0


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:settling{next(_names)}:"


def values_of(told, which):
    return [each["o"]["value"] for each in told[which]["results"]["bindings"]]


def test_blocking_client_is_told_states_and_resumes(keeping_all, ns):
    states, token = States(), b""
    for first in (0, 12):
        with p2prdf.sync.connect(keeping_all[0].address) as client:
            if first:
                subscription = client.attach(token, query=query_of(ns), auto_acknowledge=False)
            else:
                subscription = client.subscribe(query_of(ns), settled=True, auto_acknowledge=False)
            assert subscription.settled
            last, stamp = asyncio.run(replaced(keeping_all[1].address, ns, first=first))
            for batch in subscription.batches(timeout_seconds=SECONDS):
                rows = [(row.removed, row.value("o")) for row in batch]
                states.take([o for gone, o in rows if not gone], [o for gone, o in rows if gone])
                token = subscription.token()
                subscription.acknowledge()
                if batch.bookmark is not None:
                    states.mark()
                    if batch.bookmark >= hlc.seconds(stamp):
                        break
        assert states.values == [last]
    assert states.told > 0
    assert states.impossible == 0


# --- WebSockets ------------------------------------------------------------------------------------------------------


async def followed(socket, states, last, *, settled, acknowledges=False):
    """Take notifications until the value is the last one; return the token of the last notification."""
    token = None
    async with asyncio.timeout(SECONDS):
        while states.values != [last]:
            message = await socket.receive_json()
            assert "notification" in message, message
            told = message["notification"]
            assert ("mark" in told) == settled
            states.take(values_of(told, "addedResults"), values_of(told, "removedResults"))
            states.mark()
            if acknowledges:
                token = told["token"]
                await socket.send_json({"acknowledge": {"spuid": told["spuid"], "sequence": told["sequence"]}})
    return token


async def test_sockets_tell_states_in_the_notifications_of_sepa(keeping_all, ns):
    immediate, settled = States(), States()
    async with (
        gateway(keeping_all[0].address) as (session, _),
        session.ws_connect("/subscribe") as one,
        session.ws_connect("/subscribe") as other,
    ):
        await one.send_json({"subscribe": {"sparql": query_of(ns), "settled": True}})
        await other.send_json({"subscribe": {"sparql": query_of(ns), "settled": False}})
        for socket in (one, other):
            first = (await socket.receive_json())["notification"]
            assert first["addedResults"]["results"]["bindings"] == []
        last, _ = await replaced(keeping_all[1].address, ns)
        await followed(one, settled, last, settled=True)
        await followed(other, immediate, last, settled=False)
    assert immediate.impossible > 0
    assert settled.impossible == 0


async def test_settled_socket_resumes_from_a_token_at_another_gateway(keeping_all, ns):
    states, begin = States(), {"sparql": query_of(ns), "settled": True, "acknowledge": True, "lease": 60}
    async with gateway(keeping_all[0].address) as (session, _), gateway(keeping_all[3].address) as (other, _):
        for number, through in enumerate((session, other, session)):
            if number:  # nobody listens meanwhile
                await replaced(keeping_all[1].address, ns, first=24 * number - 12)
            async with through.ws_connect("/subscribe") as socket:
                await socket.send_json({"subscribe": begin})
                last, _ = await replaced(keeping_all[1].address, ns, first=24 * number)
                token = await followed(socket, states, last, settled=True, acknowledges=True)
            begin = {"resume": token}
    assert states.impossible == 0


async def test_change_larger_than_a_notification_is_told_in_parts_with_the_mark_in_the_last(keeping_all, ns):
    subscribe = {"sparql": f"SELECT ?o {{ ?s <{ns}p> ?o }}", "settled": True}
    many = [(f"<{ns}x>", f"<{ns}p>", f'"{number}"') for number in range(3000)]
    async with (
        asyncio.timeout(SECONDS),
        gateway(keeping_all[0].address) as (session, _),
        p2prdf.connect(keeping_all[1].address) as client,
        session.ws_connect("/subscribe") as whole,
        session.ws_connect("/subscribe") as parts,
    ):
        await whole.send_json({"subscribe": subscribe})
        await parts.send_json({"subscribe": {**subscribe, "acknowledge": True}})
        for socket in (whole, parts):
            assert (await socket.receive_json())["notification"]["mark"] > 1e9
        async with client.transaction() as transaction:
            transaction.publish(many)
        told = (await whole.receive_json())["notification"]
        assert len(values_of(told, "addedResults")) == 3000
        assert told["mark"] >= hlc.seconds(transaction.stamp)
        found, marks = [], []
        while not marks:
            told = (await parts.receive_json())["notification"]
            found += values_of(told, "addedResults")
            marks += [told["mark"]] if "mark" in told else []
        assert len(found) == 3000 == len({*found})
        assert marks[0] >= hlc.seconds(transaction.stamp)


async def test_change_larger_than_the_window_of_a_coordinator_is_told_to_its_mark(launcher, ns, until):
    """The coordinator sends the rest, and the mark, when the beginning of the change is acknowledged."""
    node, many = launcher.start(solutions_window=100), [(f"<{ns}x>", f"<{ns}p>", f'"{each}"') for each in range(250)]
    keys = SigningKeys(f"k1 {base64.b64encode(bytes(range(32))).decode()}\n", source="keys")
    wanted = {"name": "n", "query": f"SELECT ?o {{ ?s <{ns}p> ?o }}", "settled": True, "batch": 1000}
    async with (
        asyncio.timeout(SECONDS),
        Receiver.started() as receiver,
        gateway(node.address, webhooks=delivering(node.address, keys)) as (session, _),
        p2prdf.connect(node.address) as client,
        session.ws_connect("/subscribe") as socket,
    ):

        async def known():
            async with session.get("/webhooks") as answer:
                return answer.status == 200

        await until(known, seconds=SECONDS)
        async with session.post("/webhooks", json={**wanted, "url": f"{receiver.url}/{ns}settled"}) as answer:
            assert answer.status == 201, await answer.text()
        subscribe = {"sparql": wanted["query"], "settled": True, "acknowledge": True}
        await socket.send_json({"subscribe": subscribe})
        assert (await socket.receive_json())["notification"]["mark"] > 1e9
        async with client.transaction() as transaction:
            transaction.publish(many)
        found, mark = [], None
        while mark is None:
            told = (await socket.receive_json())["notification"]
            found += values_of(told, "addedResults")
            mark = told.get("mark")
            await socket.send_json({"acknowledge": {"spuid": told["spuid"], "sequence": told["sequence"]}})
        assert mark >= hlc.seconds(transaction.stamp)
        assert sorted(map(int, found)) == list(range(250))

        def posted(each):
            told = [request["notification"] for request in each.taken(f"/{ns}settled")]
            marks = [request["mark"] for request in told if "mark" in request]
            values = [value for request in told for value in values_of(request, "addedResults")]
            return len(set(values)) == 250 and marks[-1:] >= [hlc.seconds(transaction.stamp)]

        await receiver.until(posted)


@pytest.mark.parametrize("settled", [True, False])
async def test_resumption_refuses_a_token_of_the_other_delivery(keeping_all, ns, settled):
    async with (
        asyncio.timeout(SECONDS),
        gateway(keeping_all[0].address) as (session, _),
        p2prdf.connect(keeping_all[1].address) as client,
        session.ws_connect("/subscribe") as socket,
    ):
        subscription = await client.subscribe(query_of(ns), settled=settled, auto_acknowledge=False)
        token = base64.urlsafe_b64encode(subscription.token()).decode().rstrip("=")
        await socket.send_json({"subscribe": {"resume": token, "settled": not settled}})
        error = await socket.receive_json()
        assert (error["error"], error["status_code"]) == ("token-mismatch", 409)
        parameters = {"query": query_of(ns), "settled": str(not settled).lower()}
        async with session.get("/events", params=parameters, headers={"Last-Event-ID": token}) as answer:
            assert answer.status == 409
            assert ("settled" if settled else "immediate") in (await answer.json())["detail"]
        await socket.send_json({"subscribe": {"resume": token, "settled": settled, "alias": "same"}})
        await replaced(keeping_all[2].address, ns)
        told = (await socket.receive_json())["notification"]
        assert ("mark" in told) is settled


async def test_settled_delivery_from_a_time_on_is_refused(keeping_all, ns):
    wanted = {"query": query_of(ns), "settled": "true", "since": "now"}
    async with gateway(keeping_all[0].address) as (session, _), session.ws_connect("/subscribe") as socket:
        async with session.get("/events", params=wanted) as answer:
            assert answer.status == 400
            assert "leave since out" in (await answer.json(content_type="application/problem+json"))["detail"]
        await socket.send_json({"subscribe": {"sparql": query_of(ns), "settled": True, "since": "now"}})
        said = await socket.receive_json()
        assert (said["status_code"], "leave since out" in said["error_description"]) == (400, True)
        await socket.send_json({"subscribe": {"sparql": query_of(ns), "settled": 1.5}})
        assert "neither true nor false" in (await socket.receive_json())["error_description"]


# --- server-sent events ----------------------------------------------------------------------------------------------


async def test_settled_events_resume_after_a_break(keeping_all, ns):
    states, last_id = States(), ""
    async with gateway(keeping_all[0].address) as (session, _), gateway(keeping_all[3].address) as (other, _):
        for number, through in enumerate((session, other, session)):
            headers = {"Last-Event-ID": last_id} if last_id else {}
            wanted = {"query": query_of(ns), **({} if last_id else {"settled": "true"})}
            if last_id:  # nobody listens meanwhile
                await replaced(keeping_all[1].address, ns, first=24 * number - 12)
            async with through.get("/events", params=wanted, headers=headers) as answer, asyncio.timeout(SECONDS):
                assert answer.status == 200, await answer.text()
                events = Events(answer)
                assert (await events.next())[0] == "opened"
                last, _ = await replaced(keeping_all[1].address, ns, first=24 * number)
                name = ""
                while states.values != [last] or name != "mark":
                    name, told = await events.next()
                    if name == "notification":
                        states.take(values_of(told, "addedResults"), values_of(told, "removedResults"))
                    else:
                        assert name == "mark", told
                        states.mark()
                last_id = events.last_id
    assert states.told >= 3
    assert states.impossible == 0


# --- derived graphs and replicas -------------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [True, False])
async def test_settled_derived_graph_changes_in_transactions(keeping_all, ns, settled):
    """Immediate derivation deletes at one stamp and publishes at a later one, so the graph is empty in between."""
    states, graph, came, went = States(), f"<{ns}graph>", set(), set()
    query = query_of(ns).replace("SELECT ?o", f"CONSTRUCT {{ <{ns}x> <{ns}r> ?o }}")
    async with (
        asyncio.timeout(SECONDS),
        p2prdf.connect(keeping_all[0].address) as client,
        p2prdf.connect(keeping_all[2].address) as other,
        contextlib.aclosing(client.derive(query, graph, settled=settled)) as steps,
    ):
        await anext(steps)
        content = f"SELECT ?o {{ GRAPH {graph} {{ ?s ?p ?o }} }}"
        told, beside = await other.subscribe(content, settled=True), await other.subscribe(content)

        async def go_on():
            async for _ in steps:
                pass

        going, batches = asyncio.create_task(go_on()), told.batches()
        for first in (0, 3, 6):
            last, _ = await replaced(keeping_all[1].address, ns, first=first, count=3)
            while states.values != [last]:
                batch = await anext(batches)
                rows = [(row.removed, row.value("o")) for row in batch]
                states.take([o for gone, o in rows if not gone], [o for gone, o in rows if gone])
                if batch.bookmark is not None:
                    states.mark()
        async for batch in beside.batches():
            for time, gone in zip(batch.stamps, batch.removed, strict=True):
                (went if gone else came).add(time)
            if any(row.value("o") == last for row in batch):
                break
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going
    assert states.told > 0
    assert states.impossible == 0 or not settled
    assert went
    assert went.issubset(came) is settled


async def test_settled_replica_holds_states_and_goes_on_at_its_cursor(keeping_all, ns):
    """The dataset always has one value; a replica that changes its delivery compares the whole target."""
    dataset, interest = f"<{ns}dataset>", parse_interest(f"SELECT * {{ ?s <{ns}p> ?o }}")
    target, seen, wholes = EmbeddedStore(None, dataset=dataset), [], []

    async def value(number):
        async with client.transaction(graph=dataset) as transaction:
            if number:
                transaction.retract([(f"<{ns}x>", f"<{ns}p>", f'"{number - 1}"')])
            transaction.publish([(f"<{ns}x>", f"<{ns}p>", f'"{number}"')])

    async with asyncio.timeout(SECONDS), p2prdf.connect(keeping_all[0].address) as client:
        await value(0)
        for round_, settled in enumerate((True, True, False)):
            steps = follow(client, interest, dataset, target, settled=settled)
            async with contextlib.aclosing(steps):
                publishing = asyncio.create_task(_each(value, range(10 * round_ + 1, 10 * round_ + 11)))
                first = True
                while not seen or seen[-1] != [f'"{10 * round_ + 10}"']:
                    step = await anext(steps)
                    if first:
                        wholes.append(step.whole)
                    first = False
                    if settled or publishing.done():
                        seen.append(sorted([o async for _, _, o in target.triples()]))
                await publishing
    await target.close()
    assert wholes == [True, False, True]
    assert all(len(each) == 1 for each in seen), seen


async def _each(call, numbers):
    for number in numbers:
        await call(number)


async def test_channels_refuse_settled_delivery(keeping_all):
    async with p2prdf.connect(keeping_all[0].address) as client:
        with pytest.raises(LocalProtocolError, match="it has no states"):
            await client.channels.subscribe("any", settled=True)


# --- webhooks --------------------------------------------------------------------------------------------------------


def told_to(receiver, path):
    """Return the states that the accepted requests of a path told.

    A receiver counts each identity once, and ignores the removal of an answer that it was not told.
    """
    states, added, removed = States(), set(), set()
    for message in receiver.taken(path):
        told = message["notification"]
        came = dict(zip(told["addedIds"], values_of(told, "addedResults"), strict=True))
        went = dict(zip(told["removedIds"], values_of(told, "removedResults"), strict=True))
        states.take(
            [value for identity, value in came.items() if identity not in added],
            [value for identity, value in went.items() if identity in added | came.keys() and identity not in removed],
        )
        added |= came.keys()
        removed |= went.keys()
        if "mark" in told or not path.endswith("settled"):
            states.mark()
    return states


async def test_webhooks_post_states_also_after_refusals(keeping_all, ns, until):
    keys = SigningKeys(f"k1 {base64.b64encode(bytes(range(32))).decode()}\n", source="keys")
    async with (
        Receiver.started() as receiver,
        gateway(keeping_all[0].address, webhooks=delivering(keeping_all[0].address, keys)) as (session, _),
    ):

        async def known():
            async with session.get("/webhooks") as answer:
                return answer.status == 200

        await until(known, seconds=SECONDS)
        for settled in (True, False):
            name = "settled" if settled else "immediate"
            wanted = {
                "name": name, "url": f"{receiver.url}/{ns}{name}", "query": query_of(ns), "settled": settled,
                "batch": 1,
            }  # fmt: skip
            async with session.post("/webhooks", json=wanted) as answer:
                assert answer.status == 201, await answer.text()
                assert (await answer.json())["settled"] is settled
        async with session.post("/webhooks", json={**wanted, "name": "n", "settled": True, "since": "now"}) as answer:
            assert answer.status == 400
        for number, mode in enumerate((200, 503, 200)):
            await receiver.answer(f"/{ns}settled", mode)
            last, _ = await replaced(keeping_all[1].address, ns, first=12 * number)
        await receiver.until(lambda each: told_to(each, f"/{ns}settled").values == [last])
        await receiver.until(lambda each: told_to(each, f"/{ns}immediate").values == [last])
        assert told_to(receiver, f"/{ns}settled").impossible == 0
        assert told_to(receiver, f"/{ns}immediate").impossible > 0
        assert any("mark" in each["message"]["notification"] for each in receiver.of(f"/{ns}settled"))
        for name in ("settled", "immediate"):
            async with session.delete(f"/webhooks/{name}") as answer:
                assert answer.status == 204
