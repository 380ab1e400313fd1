"""Webhooks: real nodes, a receiver in a process of its own, gateways that are killed; every answer arrives."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
import shutil
import signal
import subprocess
from collections import defaultdict
from pathlib import Path
from random import Random

import aiohttp
import pytest
from gateways import GatewayProcess, WebhookGateway, delivering, gateway
from tls_files import Certificates, tls_of
from webhook_receiver import Receiver

import p2prdf
from p2prdf.gateway.access import Permission, Token, _digest
from p2prdf.gateway.webhooks import SigningKeys
from p2prdf.gateway.webhooks.registration import (
    WEBHOOK,
    WEBHOOKS_GRAPH,
    WebhookRegistration,
    failing_triple,
    gap_triple,
)

KEYS_TEXT = f"k1 {base64.b64encode(bytes(range(32))).decode()}\n"
KEYS = SigningKeys(KEYS_TEXT, source="keys")
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "webhooks.md").read_text()
SECONDS = 60.0
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared; it is a name, too."""
    return f"hook{next(_names)}"


def query(ns):
    return f"SELECT ?o {{ ?s <urn:{ns}:p> ?o }}"


def triples(ns, numbers):
    return [(f"<urn:{ns}:{number}>", f"<urn:{ns}:p>", f'"{number}"') for number in numbers]


def texts(numbers):
    return sorted(map(str, numbers))


async def known(session, until):
    """Wait until a gateway knows the webhooks."""

    async def tells():
        async with session.get("/webhooks") as answer:
            return answer.status == 200

    await until(tells, seconds=SECONDS)


@contextlib.asynccontextmanager
async def served(nodes, until, *, keys=KEYS, **how):
    """A gateway of this process with webhooks, and a client."""
    address = nodes[0].address
    async with (
        gateway(address, webhooks=delivering(address, keys, **how)) as (session, _),
        p2prdf.connect(nodes[-1].address) as client,
    ):
        await known(session, until)
        yield session, client


@contextlib.asynccontextmanager
async def taken_up(address, host, ns, until):
    """A receiver, a session and a client; a webhook of that name has delivered its first answer, 1."""
    async with (
        Receiver.started() as receiver, gateway(address, webhooks=host) as (session, _),
        p2prdf.connect(address) as client,
    ):
        await known(session, until)
        await register(session, ns, f"{receiver.url}/{ns}", query(ns))
        await client.publish(triples(ns, [1]))
        await receiver.until(lambda each: each.held(f"/{ns}", "o") == ["1"])
        yield receiver, session, client


async def register(session, name, url, text, *, status=201, headers=None, **more):
    body = {"name": name, "url": url, "query": text, **more}
    async with session.post("/webhooks", json=body, headers=headers) as answer:
        told = await answer.json(content_type=None)
        assert answer.status == status, told
        return told


async def told_of(session, name, *, status=200, **how):
    async with session.get(f"/webhooks/{name}", **how) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json(content_type=None)


async def do(session, name, what="", *, status=204, headers=None):
    """Pause, resume, or remove a webhook."""
    if what:
        sent = session.post(f"/webhooks/{name}/{what}", headers=headers)
    else:
        sent = session.delete(f"/webhooks/{name}", headers=headers)
    async with sent as answer:
        assert answer.status == status, await answer.text()
        return await answer.text()


async def until_state(session, name, state, until):
    async def reached():
        told = await told_of(session, name)
        return told if told["state"] == state else None

    return await until(reached, seconds=SECONDS)


def code_of(language):
    """Return the program in that language on the page."""
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]


def checked(requests):
    """Check that requests of the same name have the same answers, and one body as long as one session sends them."""
    bodies, answers = defaultdict(set), defaultdict(set)
    for each in requests:
        name = each["headers"]["webhook-id"]
        told = each["message"].get("notification", each["message"].get("gap"))
        bodies[name, told["session"]].add(each["body"])
        answers[name].add(json.dumps([told.get("addedIds"), told.get("removedIds")]))
    assert all(len(each) == 1 for each in [*bodies.values(), *answers.values()])


# --- requests to a receiver -------------------------------------------------------------------------------------------


async def test_answers_come_and_go_signed_in_order_and_counted(keeping_all, ns, until):
    page = {}
    exec(code_of("python"), page)
    async with Receiver.started() as receiver, served(keeping_all, until) as (session, client):
        await client.publish(triples(ns, range(5)))
        made = await register(session, ns, f"{receiver.url}/{ns}", query(ns), since="beginning", batch=3)
        await receiver.until(lambda each: each.held(f"/{ns}", "o") == texts(range(5)))
        await client.publish(triples(ns, range(5, 9)))
        await receiver.until(lambda each: each.held(f"/{ns}", "o") == texts(range(9)))
        await client.retract(triples(ns, range(4)))
        await receiver.until(lambda each: each.held(f"/{ns}", "o") == texts(range(4, 9)))
        requests = receiver.of(f"/{ns}")
        told = [each["message"]["notification"] for each in requests]
        assert [each["sequence"] for each in told] == list(range(len(told)))
        assert max(len(each["addedIds"]) + len(each["removedIds"]) for each in told) == 3
        assert {each["spuid"] for each in told} == {f"p2prdf://subscription/{made['subscription']}"}
        identities = [identity for each in told for identity in each["addedIds"]]
        assert len(identities) == len(set(identities)) == 9
        assert {identity for each in told for identity in each["removedIds"]} <= set(identities)
        for each in requests:
            body = each["body"].encode()
            assert page["verified"](each["headers"], body, made["secret"])
            assert not page["verified"](each["headers"], body + b" ", made["secret"])
            assert not page["verified"](each["headers"], body, KEYS.secret("k1", "0" * 32))
            assert not page["verified"](each["headers"], body, made["secret"], now=lambda: 2e9)
        known_of = await told_of(session, ns)
        assert "secret" not in known_of
        counts = {name: known_of[name] for name in ("state", "delivered", "pending", "dropped", "error")}
        assert counts == {"state": "active", "delivered": 13, "pending": 0, "dropped": 0, "error": None}
        await do(session, ns)
        await told_of(session, ns, status=404)
        with pytest.raises(p2prdf.SubscriptionGone):
            await client.attach(int(made["subscription"], 16))


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not on this machine")
async def test_the_node_js_example_of_the_page_verifies_the_same(keeping_all, ns, until, tmp_path):
    async with Receiver.started() as receiver, served(keeping_all, until) as (session, client):
        made = await register(session, ns, f"{receiver.url}/{ns}", query(ns))
        await client.publish([("<urn:s>", f"<urn:{ns}:p>", '"ü\\n☃"')])
        await receiver.until(lambda each: each.of(f"/{ns}"))
        await do(session, ns)
    (request,) = receiver.of(f"/{ns}")
    program = code_of("javascript") + """
const [headers, body, secret] = JSON.parse(require("node:fs").readFileSync(0));
console.log(verified(headers, body, secret), verified(headers, body + " ", secret), verified(headers, body, secret, 0));
"""
    (tmp_path / "verify.js").write_text(program)
    done = await asyncio.to_thread(
        subprocess.run, ["node", str(tmp_path / "verify.js")], capture_output=True, text=True, check=True,
        input=json.dumps([request["headers"], request["body"], made["secret"]]),
    )  # fmt: skip
    assert done.stdout.split() == ["true", "false", "false"]


# --- receivers that fail -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "told"), [
    (500, "it answers 500: 'it is 500'"), (404, "it answers 404"), ("redirect", "a redirect, which is not followed"),
    ("close", "isconnected"), ("hang", "no answer within 1 s"), ("endless", "it answers 500: 'xxx"),
])  # fmt: skip
async def test_a_failed_request_is_repeated_unchanged_and_delays_no_other_webhook(keeping_all, ns, until, mode, told):
    bad, good = f"/{ns}/bad", f"/{ns}/good"
    async with Receiver.started() as receiver, served(keeping_all, until, timeout=1.0) as (session, client):
        await receiver.answer(bad, mode)
        for path in (bad, good):
            await register(session, path.replace("/", "-")[1:], receiver.url + path, query(ns), batch=4)
        await client.publish(triples(ns, range(3)))
        await receiver.until(lambda each: len(each.of(bad)) == 2)
        await client.publish(triples(ns, range(3, 12)))
        await receiver.until(lambda each: each.held(good, "o") == texts(range(12)))
        state = await until_state(session, f"{ns}-bad", "failing", until)
        assert told in state["error"], state
        assert state["failing_since"] > 0
        assert (state["delivered"], state["pending"]) == (0, 12)
        before = len(receiver.of(bad))
        await receiver.until(lambda each: len(each.of(bad)) == before + 1)
        assert len({each["headers"]["webhook-id"] for each in receiver.of(bad)}) == 1
        await receiver.answer(bad, 200)
        await receiver.until(lambda each: each.held(bad, "o") == texts(range(12)))
        checked(receiver.requests)
        taken = [identity for each in receiver.taken(bad) for identity in each["notification"]["addedIds"]]
        assert len(taken) == len(set(taken))
        await receiver.all_of_it()
        assert not receiver.of("/elsewhere")
        state = await until_state(session, f"{ns}-bad", "active", until)
        assert (state["error"], state["failing_since"]) == (None, None)
        for path in (bad, good):
            await do(session, path.replace("/", "-")[1:])


async def test_a_receiver_that_hangs_delays_nobody_else_not_even_at_its_host(keeping_all, ns, until):
    names = [f"{ns}-{number}" for number in range(12)]
    async with Receiver.started() as receiver, served(keeping_all, until, timeout=SECONDS) as (session, client):
        for name in names:
            await receiver.answer(f"/{name}", 200 if name == names[-1] else "hang")
            await register(session, name, f"{receiver.url}/{name}", query(ns))
        for number in range(5):
            await client.publish(triples(ns, [number]))
        await receiver.until(lambda each: each.held(f"/{names[-1]}", "o") == texts(range(5)))
        await receiver.until(lambda each: all(each.of(f"/{name}") for name in names))
        assert all(len(receiver.of(f"/{name}")) == 1 for name in names[:-1]), "they still hang"
        for name in names:
            await receiver.answer(f"/{name}", 200)
            await do(session, name)


async def test_an_answer_taken_but_not_acknowledged_in_time_is_retracted_when_it_goes(
    keeping_all, ns, until, monkeypatch
):
    """Its gateway was killed after the receiver had answered; the next gateway cannot know that it was taken."""
    async with Receiver.started() as receiver:
        with monkeypatch.context() as patched:
            patched.setattr(p2prdf.client.Subscription, "acknowledge", lambda *_: None)
            async with served(keeping_all, until) as (session, client):
                await register(session, ns, f"{receiver.url}/{ns}", query(ns))
                await client.publish(triples(ns, [1, 2]))
                await receiver.until(lambda each: each.held(f"/{ns}", "o") == ["1", "2"])
        async with p2prdf.connect(keeping_all[0].address) as client:
            await client.retract(triples(ns, [1]))
        async with served(keeping_all, until) as (session, client):
            await client.publish(triples(ns, [3]))
            await receiver.until(lambda each: each.held(f"/{ns}", "o") == ["2", "3"])
            await do(session, ns)


async def test_a_receiver_that_is_gone_ends_its_webhook(keeping_all, ns, until):
    async with Receiver.started() as receiver, served(keeping_all, until) as (session, client):
        await receiver.answer(f"/{ns}", 410)
        made = await register(session, ns, f"{receiver.url}/{ns}", query(ns))
        await client.publish(triples(ns, [1]))
        state = await until_state(session, ns, "ended", until)
        assert "it answers 410" in state["error"]

        async def is_gone():
            try:
                await client.explain(int(made["subscription"], 16))
            except p2prdf.SubscriptionGone:
                return True
            return False

        await until(is_gone, seconds=SECONDS)
        assert "register it again" in await do(session, ns, "resume", status=409)
        await receiver.all_of_it()
        assert len(receiver.of(f"/{ns}")) == 1
        await do(session, ns)


async def test_a_receiver_that_fails_for_long_is_left_alone_until_an_operator_resumes(keeping_all, ns, until):
    async with Receiver.started() as receiver, served(keeping_all, until, give_up=0.5, touch=0.1) as (session, client):
        await receiver.answer(f"/{ns}", 503)
        await register(session, ns, f"{receiver.url}/{ns}", query(ns))
        await client.publish(triples(ns, range(3)))
        state = await until_state(session, ns, "paused", until)
        assert re.search(r"its receiver fails for \d+ s: .*it answers 503", state["error"]), state
        await client.publish(triples(ns, range(3, 6)))
        await client.retract(triples(ns, [0]))
        await receiver.answer(f"/{ns}", 200)
        assert {each["mode"] for each in receiver.of(f"/{ns}")} == {503}
        await do(session, ns, "resume")
        await receiver.until(lambda each: each.held(f"/{ns}", "o") == texts(range(1, 6)))
        state = await until_state(session, ns, "active", until)  # the gateway has yet to take note of the response
        assert (state["error"], state["failing_since"]) == (None, None)
        await do(session, ns, "pause")
        assert (await told_of(session, ns))["error"] == "it was asked for"
        await client.publish(triples(ns, [9]))
        await do(session, ns, "resume")
        await receiver.until(lambda each: each.held(f"/{ns}", "o") == texts([*range(1, 6), 9]))
        checked(receiver.requests)
        await do(session, ns)


# --- gaps --------------------------------------------------------------------------------------------------------


async def test_a_gone_subscription_is_renewed_and_its_receiver_notified(keeping_all, ns, until):
    path = f"/{ns}"

    async with Receiver.started() as receiver:
        async with served(keeping_all, until, touch=0.1) as (session, client):
            made = await register(session, ns, receiver.url + path, query(ns))
            await client.publish(triples(ns, [1]))
            await receiver.until(lambda each: each.held(path, "o") == ["1"])
            await do(session, ns, "pause")
            await client.unsubscribe(int(made["subscription"], 16))  # as if its lease had run out

            async def another():
                told = await told_of(session, ns)
                return told["subscription"] if told["subscription"] != made["subscription"] else None

            second = await until(another, seconds=SECONDS)
            assert (await told_of(session, ns))["state"] == "paused"
            await do(session, ns, "resume")
            await receiver.until(lambda each: "gap" in each.requests[-1]["message"])
            assert receiver.requests[-1]["message"]["gap"]["lost"] is None
            await client.publish(triples(ns, [2]))
            await receiver.until(lambda each: "2" in each.held(path, "o"))
            notified = receiver.requests[-1]["message"]["notification"]
            assert notified["addedIds"][0].startswith("1."), "of another generation, so known apart"

        async with p2prdf.connect(keeping_all[0].address) as client:  # no gateway is there
            await client.unsubscribe(int(second, 16))
            await client.publish(triples(ns, [3]))
        before = len(receiver.requests)
        async with served(keeping_all, until) as (session, client):
            await receiver.until(lambda each: len(each.requests) > before)
            assert receiver.requests[before]["message"]["gap"]["lost"] is None
            await client.publish(triples(ns, [4]))
            await receiver.until(lambda each: "4" in each.held(path, "o"))
            assert "3" not in receiver.held(path, "o"), "it was lost with the subscription"
            await until(lambda: is_all(client, WEBHOOK), seconds=SECONDS)  # neither a gap nor a former generation
            await do(session, ns)
            await until(lambda: is_all(client), seconds=SECONDS)


async def test_a_gone_subscription_found_by_several_is_renewed_once_though_one_is_cancelled(keeping_all, ns, until):
    """Several may be, say, the gateway that delivered it until it was paused, and its successor."""
    host = delivering(keeping_all[0].address, KEYS)
    async with gateway(keeping_all[0].address, webhooks=host) as (session, _):
        await known(session, until)
        await register(session, ns, "http://127.0.0.1:1/", query(ns))
        made = host.registry.of_name("", ns)[0]
        publish, publications, under_way, go = host._publish, [], asyncio.Event(), asyncio.Event()

        async def slow(triples):
            if any(predicate == WEBHOOK for _, predicate, _ in triples):
                publications.append(triples)
                under_way.set()
                await go.wait()
            await publish(triples)

        host._publish = slow
        several = [asyncio.create_task(host.resubscribe(made)) for _ in range(3)]
        async with asyncio.timeout(SECONDS):
            await under_way.wait()
            several[0].cancel()
            go.set()
            assert await asyncio.gather(*several, return_exceptions=True) != [None] * 3
            await host.resubscribe(made)  # a later one, that has not read of it yet
        assert len(publications) == 1
        assert await host.seen(lambda registry: registry.of_name("", ns)[0].registration.generation == 1)
        await host.resubscribe(made)
        assert len(publications) == 1
        host._publish = publish
        await do(session, ns)


async def test_a_webhook_removed_during_its_renewal_is_removed_as_well(keeping_all, ns, until):
    """The gateway that delivers it hears of the subscription's end before it hears of the webhook's removal."""
    address, under_way, go = keeping_all[0].address, [], asyncio.Event()
    host = delivering(address, KEYS)
    async with taken_up(address, host, ns, until) as (_, session, client):
        publish = host._publish

        async def late(triples):
            await go.wait()
            await publish(triples)

        async def slow(triples):  # it goes on, even if its caller is cancelled
            under_way.append(asyncio.ensure_future(late(triples)))
            await asyncio.shield(under_way[0])

        host._publish = slow
        changes = await client.subscribe(f"SELECT ?s {{ GRAPH {WEBHOOKS_GRAPH} {{ ?s {WEBHOOK} ?w }} }}", since="now")
        leaving = asyncio.create_task(host.resubscribe(host.registry.of_name("", ns)[0]))
        async with asyncio.timeout(SECONDS):
            while not under_way:
                await asyncio.sleep(0.01)
            await do(session, ns)
            await told_of(session, ns, status=404)
            go.set()
            await under_way[0]
            told = []
            async for each in changes:
                told.append(each.removed)
                if len(told) == 2:
                    break
        await leaving
        assert told == [False, True], "the later one came and went; what was registered came before"
        await until(lambda: is_all(client), seconds=SECONDS)

        async def is_unknown():
            async with session.get(f"/webhooks/{ns}") as answer:
                return answer.status == 404

        await until(is_unknown, seconds=SECONDS)


async def is_all(client, *predicates):
    """Tell whether these are all reports about webhooks in the overlay."""
    told = await client.query(f"SELECT ?s ?p {{ GRAPH {WEBHOOKS_GRAPH} {{ ?s {WEBHOOK} ?w ; ?p ?o }} }}")
    return [row[1] for row in told.rows] == list(predicates)


async def test_a_report_about_no_webhook_is_removed_after_a_while(keeping_all, ns, until, monkeypatch):
    """Its gateway was gone before it knew of the webhook's removal; another gateway's key is no reason."""
    monkeypatch.setattr("p2prdf.gateway.webhooks.host._ORPHAN_SECONDS", 0.3)
    foreign = SigningKeys(f"k1 {base64.b64encode(b'f' * 32).decode()}", source="")
    made = WebhookRegistration("e" * 32, "", ns, "http://127.0.0.1:1/", query(ns), f"{9:016x}", 0, 100, 1, "k1")
    kept = [made.triple(foreign), failing_triple(made.subject, 1.0, "it answers 500")]
    orphan = failing_triple(made.subject.replace("e" * 32, "d" * 32), 1.0, "it answers 500")
    async with served(keeping_all, until) as (_, client):
        await client.publish(kept, graph=WEBHOOKS_GRAPH)
        await client.publish([orphan], graph=WEBHOOKS_GRAPH)

        async def are_left():
            told = await client.query(f"SELECT ?s ?p {{ GRAPH {WEBHOOKS_GRAPH} {{ ?s ?p ?o }} }}")
            return sorted(told.rows) == sorted(each[:2] for each in kept)

        await until(are_left, seconds=SECONDS)
        await client.retract(kept, graph=WEBHOOKS_GRAPH)
        await until(lambda: is_all(client), seconds=SECONDS)


async def test_a_reported_gap_that_could_not_be_recorded_is_recorded_later_and_reported_once(keeping_all, ns, until):
    address, failures = keeping_all[0].address, []
    host = delivering(address, KEYS)
    noted = host.gap_sent

    async def gap_sent(webhook):
        if len(failures) < 2:
            failures.append(webhook)
            raise p2prdf.Unavailable("no node is there")
        await noted(webhook)

    host.gap_sent = gap_sent
    async with taken_up(address, host, ns, until) as (receiver, session, client):
        await host.resubscribe(host.registry.of_name("", ns)[0])

        async def only_registered():
            return len(failures) == 2 and await is_all(client, WEBHOOK)

        await until(only_registered, seconds=SECONDS)
        await receiver.all_of_it()
        assert ["gap" in each["message"] for each in receiver.of(f"/{ns}")] == [False, True]
        await do(session, ns)
        await until(lambda: is_all(client), seconds=SECONDS)


async def test_a_gap_read_after_its_generation_was_taken_up_is_reported_all_the_same(keeping_all, ns, until):
    """Both are written at once, but they are answers of the registry's query, and those come in any order."""
    address = keeping_all[0].address
    host = delivering(address, KEYS)
    async with taken_up(address, host, ns, until) as (receiver, session, client):
        await client.publish([gap_triple(host.registry.of_name("", ns)[0].registration)], graph=WEBHOOKS_GRAPH)
        await receiver.until(lambda each: "gap" in each.requests[-1]["message"])
        await until(lambda: is_all(client, WEBHOOK), seconds=SECONDS)
        await client.publish(triples(ns, [2]))
        await receiver.until(lambda each: each.held(f"/{ns}", "o") == ["1", "2"])
        assert ["gap" in each["message"] for each in receiver.of(f"/{ns}")] == [False, True, False]
        await do(session, ns)
        await until(lambda: is_all(client), seconds=SECONDS)


async def test_answers_dropped_without_a_taker_are_reported_as_a_gap(launcher, ns, until):
    node = launcher.start(replicas=1, copies_min=1, solutions_pending_max=10)
    async with Receiver.started() as receiver, served([node], until) as (session, client):
        await register(session, ns, f"{receiver.url}/{ns}", query(ns))
        await do(session, ns, "pause")
        for number in range(25):
            await client.publish(triples(ns, [number]))

        async def counted():  # some may have been delivered when the pause was not known everywhere yet
            told = await told_of(session, ns)
            return told if told["delivered"] + told["pending"] + told["dropped"] == 25 else None

        counts = await until(counted, seconds=SECONDS)
        assert counts["pending"] == 10
        await do(session, ns, "resume")
        await receiver.until(lambda each: set(texts(range(15, 25))) <= set(each.held(f"/{ns}", "o")))
        gaps = [each["gap"]["lost"] for each in receiver.taken(f"/{ns}") if "gap" in each]
        assert gaps == [counts["dropped"]]
        assert len(receiver.held(f"/{ns}", "o")) + gaps[0] == 25


# --- gateways that come and go -----------------------------------------------------------------------------------


async def test_a_gateway_is_killed_in_the_middle_and_another_goes_on(keeping_all, ns, until, tmp_path):
    """Nothing is lost; repeated answers keep their identities."""
    keys = tmp_path / "webhooks.keys"
    keys.write_text(KEYS_TEXT)
    keys.chmod(0o600)
    names, added = [f"{ns}-{number}" for number in range(6)], itertools.count()
    address, host = keeping_all[0].address, delivering(keeping_all[0].address, KEYS)
    async with (
        Receiver.started() as receiver, gateway(address, webhooks=host) as (session, _),
        p2prdf.connect(keeping_all[4].address) as client,
    ):  # fmt: skip
        await known(session, until)
        for name in names:
            await register(session, name, f"{receiver.url}/{name}", query(ns), batch=7)

        async def others():
            return [each for each in names if (await told_of(session, each))["gateway"] != host.name[1:-1]]

        for mode in ("hang", 200):
            other = await WebhookGateway.start(keeping_all[1].address, keys)
            theirs = await until(others, seconds=SECONDS)
            for each in theirs:
                await receiver.answer(f"/{each}", mode)
            before = len(receiver.requests)
            for _ in range(8):
                await client.publish(triples(ns, itertools.islice(added, 3)))
            await receiver.until(
                lambda each, n=before, paths=[f"/{one}" for one in theirs]: any(
                    one["path"] in paths for one in each.requests[n:]
                )
            )
            await other.kill()
            for each in theirs:
                await receiver.answer(f"/{each}", 200)
            await client.publish(triples(ns, itertools.islice(added, 3)))
        total = next(added)
        await receiver.until(lambda each: all(each.held(f"/{name}", "o") == texts(range(total)) for name in names))
        checked(receiver.requests)
        for name in names:
            seen = {}
            for message in (each["message"]["notification"] for each in receiver.of(f"/{name}")):
                rows = message["addedResults"]["results"]["bindings"]
                for identity, row in zip(message["addedIds"], rows, strict=True):
                    assert seen.setdefault(identity, row) == row, "an identity is an answer, whoever delivers it"
            assert len(seen) == total
            await do(session, name)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
async def test_receivers_hold_the_true_answers_in_the_end_through_all_failures(keeping_all, ns, until, tmp_path, seed):
    """Publications and removals; receivers that fail and recover; gateways killed, hung and stopped, at random."""
    rng = Random(seed)
    keys = tmp_path / "webhooks.keys"
    keys.write_text(KEYS_TEXT)
    keys.chmod(0o600)
    names, true, numbers = [f"{ns}-{number}" for number in range(5)], set(), itertools.count()
    gateways = [await WebhookGateway.start(rng.choice(keeping_all).address, keys) for _ in range(3)]
    async with Receiver.started() as receiver, p2prdf.connect(keeping_all[3].address) as client:
        try:
            async with aiohttp.ClientSession(gateways[0].url) as session:
                await known(session, until)
                for name in names:
                    await register(session, name, f"{receiver.url}/{name}", query(ns), batch=rng.choice([1, 3, 50]))
            for step in range(60):
                added = list(itertools.islice(numbers, rng.randrange(6)))
                removed = rng.sample(sorted(true), min(len(true), rng.randrange(4)))
                await client.publish(triples(ns, added))
                await client.retract(triples(ns, removed))
                true = true - set(removed) | set(added)
                if rng.random() < 0.3:
                    await receiver.answer(f"/{rng.choice(names)}", rng.choice([200, 500, "hang", "close", 200]))
                if step % 12 == 6:
                    victim = gateways.pop(rng.randrange(len(gateways)))
                    how = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
                    victim.process.send_signal(how)
                    gateways.append(await WebhookGateway.start(rng.choice(keeping_all).address, keys))
                    if how is signal.SIGSTOP:
                        async with aiohttp.ClientSession(gateways[-1].url) as session:
                            await known(session, until)  # it has found out that the gateway is gone
                        victim.process.send_signal(signal.SIGCONT)
                        gateways.append(victim)
                    else:
                        await victim.process.wait()
            for name in names:
                await receiver.answer(f"/{name}", 200)
            await receiver.until(lambda each: all(each.held(f"/{name}", "o") == texts(true) for name in names))
            checked(receiver.requests)
            async with aiohttp.ClientSession(gateways[-1].url) as session:
                await known(session, until)
                for name in names:
                    await do(session, name)
        finally:
            for each in gateways:
                await each.kill()


async def test_a_stopping_gateway_hands_over_at_once(keeping_all, ns, until, tmp_path):
    keys = tmp_path / "webhooks.keys"
    keys.write_text(KEYS_TEXT)
    keys.chmod(0o600)
    words = ("--webhooks", str(keys), "--allow-host", "127.0.0.1", "--allow-private", "--allow-http")
    first = await GatewayProcess.start(keeping_all[2].address, *words)
    async with Receiver.started() as receiver, aiohttp.ClientSession(first.url) as there:
        await known(there, until)
        await register(there, ns, f"{receiver.url}/{ns}", query(ns))
        async with served(keeping_all, until) as (session, client):
            await client.publish(triples(ns, range(5)))
            await receiver.until(lambda each: each.held(f"/{ns}", "o") == texts(range(5)))
            first.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(first.process.wait(), SECONDS) in (0, 143, -signal.SIGTERM)
            await client.publish(triples(ns, range(5, 9)))
            await receiver.until(lambda each: each.held(f"/{ns}", "o") == texts(range(9)))
            taken = receiver.taken(f"/{ns}")
            identities = [identity for each in taken for identity in each["notification"]["addedIds"]]
            assert len(identities) == len(set(identities)) == 9, "in order nothing comes twice"
            await do(session, ns)


# --- permissions and refusals ----------------------------------------------------------------------------------


BAD = [
    ("{", 400, "not JSON"), ("[" * 100_000, 400, "not JSON"), ("[]", 400, "JSON object"),
    ('"\\ud800"', 400, "surrogate"), ({"url": ""}, 400, "url: missing"), ({"url": 5}, 400, "url: missing"),
    ({"query": ""}, 400, "query: missing"), ({"name": None}, 400, "is no name"),
    ({"name": "a/b"}, 400, "'a/b' is no name"), ({"name": "x" * 101}, 400, "up to 100"),
    ({"secret": "mine"}, 400, "'secret' is not known"), ({"since": "yesterday"}, 400, "since"),
    ({"batch": 0}, 400, "batch: '0'"), ({"batch": 1001}, 400, "1001"), ({"batch": True}, 400, "batch"),
    ({"batch": "7"}, 400, "batch"), ({"query": "SELECT * {"}, 400, "syntax error"),
    ({"query": "#" * 300_000}, 413, "300,000 characters"), ({"url": "https://10.0.0.1/"}, 400, "not on the list"),
    ({"url": "http://127.0.0.1:1/" + "a" * 2000}, 400, "2019 characters"),
    ({"url": "http://u:p@127.0.0.1/"}, 400, "credentials do not belong"), ({"url": "file:///etc/passwd"}, 400, "http://"),
    ({"url": "http://127.0.0.1.example.org/"}, 400, "not on the list"),
]  # fmt: skip


async def test_a_bad_webhook_is_answered_with_a_problem(keeping_all, until):
    good = {"name": "bad", "url": "http://127.0.0.1:1/", "query": "SELECT * { ?s <urn:bad> ?o }"}
    kind = {"Content-Type": "application/json"}
    async with served(keeping_all, until) as (session, _):
        for body, status, told in BAD:
            sent = json.dumps({**good, **body}) if isinstance(body, dict) else body
            async with session.post("/webhooks", data=sent, headers=kind) as answer:
                problem = await answer.json(content_type="application/problem+json")
                assert (answer.status, problem["status"], told in problem["detail"]) == (status, status, True), problem
        async with session.get("/webhooks") as answer:
            assert "bad" not in [each["name"] for each in (await answer.json())["webhooks"]]


async def test_names_are_unique_and_bounds_are_reported(keeping_all, ns, until):
    async with served(keeping_all, until, client_webhooks_max=2) as (session, _):
        url = "http://127.0.0.1:1/"
        await register(session, "a", url, query(ns))
        assert "DELETE /webhooks/a first" in (await register(session, "a", url, query(ns), status=409))["detail"]
        raced = await asyncio.gather(*(
            session.post("/webhooks", json={"name": "b", "url": url, "query": query(ns)}) for _ in range(4)
        ))  # fmt: skip
        assert sorted(each.status for each in raced) == [201, 409, 409, 409]
        assert "the maximum" in (await register(session, "c", url, query(ns), status=503))["detail"]
        async with session.post("/webhooks", data="x") as answer:
            assert answer.status == 415
        for what in ("pause", "resume", ""):
            await do(session, "none", what, status=404)
        async with session.put("/webhooks/a") as answer:
            assert answer.status == 405
        await do(session, "a")
        await do(session, "b")
    async with gateway(keeping_all[0].address) as (session, _), session.get("/webhooks") as answer:
        assert answer.status == 404
        assert "--webhooks" in await answer.text()


async def test_registrations_forged_in_the_graph_are_never_delivered(keeping_all, ns, until):
    forged = SigningKeys(f"k1 {base64.b64encode(b'f' * 32).decode()}", source="")
    async with Receiver.started() as receiver, served(keeping_all, until) as (session, client):
        left = await client.subscribe(query(ns), lease_seconds=60.0)
        made = WebhookRegistration(
            "f" * 32, "alice", "forged", f"{receiver.url}/forged", query(ns), f"{left.id:016x}", 0, 100, 1, "k1"
        )
        written = [made.triple(forged), (made.subject, WEBHOOK, '"x"')]
        await client.publish(written, graph=WEBHOOKS_GRAPH)
        await register(session, ns, f"{receiver.url}/{ns}", query(ns))
        await client.publish(triples(ns, [1]))
        await receiver.until(lambda each: each.held(f"/{ns}", "o") == ["1"])
        async with session.get("/webhooks") as answer:
            told = await answer.json()
        assert "forged" not in [each["name"] for each in told["webhooks"]]
        assert list(told["refused"]) == [made.subject]
        await client.retract(written, graph=WEBHOOKS_GRAPH)
        await do(session, ns)
        await receiver.all_of_it()
        assert not receiver.of("/forged")


PERMISSIONS = """
[clients.gateway]
may = ["subscribe", "query", "observe"]
read = ["urn:p2prdf:"]
publish = ["<urn:p2prdf:webhooks>", "<urn:p2prdf:webhook-gateways>"]
remove = ["<urn:p2prdf:webhooks>", "<urn:p2prdf:webhook-gateways>"]
speaks_for = ["alice", "bob", "carol"]
[clients.alice]
may = ["subscribe"]
read = ["default"]
[clients.bob]
may = ["subscribe", "observe"]
read = ["default"]
[clients.carol]
may = ["query"]
read = ["default"]
[clients.publisher]
publish = ["default"]
"""


async def test_a_webhook_is_its_clients_and_held_to_its_rights(launcher, tmp_path, ns, until):
    certificates = Certificates(tmp_path)
    (tmp_path / "permissions.toml").write_text(PERMISSIONS)
    node = launcher.start(
        **certificates.settings(certificates.node()), permissions=tmp_path / "permissions.toml", replicas=1,
        copies_min=1,
    )  # fmt: skip
    names = {name: f"{name}-{name}-{name}-{name}" for name in ("alice", "bob", "carol", "gateway")}
    tokens = {
        _digest(token): Token(frozenset(Permission), "" if name == "gateway" else name) for name, token in names.items()
    }
    tokens[_digest("writer-writer-writer")] = Token(frozenset({Permission.WRITE}), "alice")
    alice, bob, carol, own = ({"Authorization": f"Bearer {token}"} for token in names.values())
    tls = tls_of(certificates.client("gateway"))
    async with (
        Receiver.started() as receiver,
        gateway(
            node.address, tokens=tokens, tls=tls, webhooks=delivering(node.address, KEYS, tls=tls)
        ) as (session, _),
        p2prdf.connect(node.address, tls=tls_of(certificates.client("publisher"))) as publisher,
    ):
        async def tells():
            async with session.get("/webhooks", headers=own) as answer:
                return answer.status == 200

        await until(tells, seconds=SECONDS)
        for headers, status in (({}, 401), ({"Authorization": "Bearer writer-writer-writer"}, 403), (carol, 403)):
            await register(session, ns, f"{receiver.url}/no", query(ns), status=status, headers=headers)
        refused = f"SELECT * {{ GRAPH <urn:p2prdf:webhooks> {{ ?s <urn:{ns}:p> ?o }} }}"
        await register(session, ns, f"{receiver.url}/no", refused, status=403, headers=alice)
        for headers, path in ((alice, "/alice"), (bob, "/bob")):
            await register(session, ns, receiver.url + path, query(ns), headers=headers)
        await publisher.publish(triples(ns, [1]))
        await receiver.until(lambda each: each.held("/alice", "o") == each.held("/bob", "o") == ["1"])
        seen = {}
        for who, headers in (("alice", alice), ("bob", bob), ("carol", carol), ("gateway", own)):
            async with session.get("/webhooks", headers=headers) as answer:
                seen[who] = [each["client"] for each in (await answer.json())["webhooks"]]
        assert seen == {"alice": ["alice"], "bob": ["alice", "bob"], "carol": [], "gateway": ["alice", "bob"]}
        await told_of(session, ns, headers=carol, status=404)
        await told_of(session, ns, headers=alice, params={"client": "bob"}, status=403)
        assert (await told_of(session, ns, headers=bob, params={"client": "alice"}))["url"].endswith("/alice")
        assert (await told_of(session, ns, headers=bob))["delivered"] == 1
        assert (await told_of(session, ns, headers=alice))["delivered"] is None, "she may have nothing explained"
        await do(session, ns, headers=alice)
        await told_of(session, ns, headers=alice, status=404)
        await publisher.publish(triples(ns, [2]))
        await receiver.until(lambda each: each.held("/bob", "o") == ["1", "2"])
        await receiver.all_of_it()
        assert receiver.held("/alice", "o") == ["1"]
        assert not receiver.of("/no")
