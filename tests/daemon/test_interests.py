"""Interests registered in an overlay of real nodes: every target ends exact, from any sync worker."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import time
from random import Random

import pytest
from dataset_histories import INTEREST, history, slice_of
from member_process import MemberProcess
from sparql_endpoint import EndpointProcess

import p2prdf
from p2prdf.errors import TargetRefused
from p2prdf.interest import Changeset
from p2prdf.replica.endpoint import Endpoint, EndpointConfig
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.publishing import DatasetPublisher
from p2prdf.replica.worker import InterestWorker, InterestWorkerConfig

SECONDS = 60.0
OTHER = "SELECT * { ?t <urn:label> ?l . ?t <urn:in> ?c }"
ALL = "SELECT * { ?a <urn:team> ?t . ?a ?p ?o }"
_names = itertools.count()


@pytest.fixture
def dataset():
    """A dataset of this test's own, as the overlay is shared."""
    return f"<urn:kept{next(_names)}>"


@pytest.fixture
def endpoint(tmp_path):
    """A SPARQL endpoint in a process of its own."""
    found = EndpointProcess(tmp_path / "endpoint").start()
    yield found
    found.kill()


def opened(registration, hosts=None):
    """Open the target of an interest."""
    config = EndpointConfig(registration.target, registration.query_url, registration.graph, attempts=2,
                            pause_seconds=0.05)  # fmt: skip
    return Endpoint(config, dataset=registration.dataset, hosts=hosts or Hosts(["127.0.0.1"], private=True))


@contextlib.asynccontextmanager
async def keeping(addresses, *, lease_seconds=4.0, kind=InterestWorker, potential_max=None):
    """Run a sync worker in this process; it leaves in order."""
    worker = kind(
        lambda reconnect_seconds: p2prdf.connect(addresses, reconnect_seconds=reconnect_seconds), opened,
        InterestWorkerConfig(
            ("127.0.0.1",), lease_seconds=lease_seconds, check_seconds=0.5, potential_max=potential_max or {}
        ),
    )  # fmt: skip
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def held(endpoint, dataset, graph):
    """Return the triples in a graph of an endpoint."""
    config = EndpointConfig(f"{endpoint.url}/update", f"{endpoint.url}/query", graph, attempts=1)
    target = Endpoint(config, dataset=dataset, hosts=Hosts(["127.0.0.1"], private=True))
    try:
        return {triple async for triple in target.triples()}
    finally:
        await target.close()


async def exact(endpoint, dataset, expected):
    """Wait until graphs hold the expected triples."""
    async with asyncio.timeout(SECONDS):
        for graph, triples in expected.items():
            while await held(endpoint, dataset, graph) != triples:
                await asyncio.sleep(0.05)


async def reported(client, name, state):
    """Wait until an interest is in a state; return its status."""
    async with asyncio.timeout(SECONDS):
        while True:
            (found,) = await client.interests.status(name)
            if found["state"] == state:
                return found


async def test_targets_are_exact_at_each_point_of_their_interests_lives(keeping_all, dataset, endpoint):
    days = history(Random(5), 9)
    update = f"{endpoint.url}/update"
    async with p2prdf.connect(keeping_all[0].address) as client, keeping(keeping_all[2].address):
        publisher = DatasetPublisher(client, dataset)
        await publisher.begin()
        await publisher.start([])

        async def on():
            position, changeset, triples = next(days)
            await publisher.publish(position, changeset)
            return triples

        await on()
        one = await client.interests.add(dataset, update, INTEREST, name="one", graph="<urn:g:one>")
        assert await client.interests.add(dataset, update, INTEREST, name="one", graph="<urn:g:one>") == one
        there = await on()
        await exact(endpoint, dataset, {"<urn:g:one>": slice_of(there)})
        # An interest added later begins with the current data.
        two = await client.interests.add(dataset, update, OTHER, graph="<urn:g:two>")
        await exact(endpoint, dataset, {"<urn:g:one>": slice_of(there), "<urn:g:two>": slice_of(there, OTHER)})
        there = await on()
        await exact(endpoint, dataset, {"<urn:g:one>": slice_of(there), "<urn:g:two>": slice_of(there, OTHER)})
        # Paused, and resumed.
        await client.interests.pause("one")
        before = slice_of(there)
        assert (await reported(client, "one", "paused"))["target_triples"] == len(before)
        there = await on()
        await exact(endpoint, dataset, {"<urn:g:two>": slice_of(there, OTHER)})
        assert await held(endpoint, dataset, "<urn:g:one>") == before != slice_of(there)
        await client.interests.resume("one")
        await exact(endpoint, dataset, {"<urn:g:one>": slice_of(there)})
        # Changes by others at the target are found, and repaired.
        found = await reported(client, "one", "current")
        assert found["position"] == publisher.position
        assert found["lag_seconds"] < 10
        endpoint_store = opened((await client.interests.registered())[0].registration)
        await endpoint_store._post(update, b"INSERT DATA { GRAPH <urn:g:one> { <urn:x> <urn:y> <urn:z> } }",
                                   "application/sparql-update", {}, 100)  # fmt: skip
        await endpoint_store.close()
        verified = await client.interests.verify("one")
        assert (verified["equal"], verified["foreign"], verified["lacking"]) == (False, 1, 0)
        assert (await client.interests.repair("one"))["foreign"] == 1
        assert (await client.interests.verify("one"))["equal"]
        there = await on()
        await exact(endpoint, dataset, {"<urn:g:one>": slice_of(there), "<urn:g:two>": slice_of(there, OTHER)})
        # A variable predicate needs the whole dataset.
        await client.interests.add(dataset, update, ALL, name="all", graph="<urn:g:all>")
        there = await on()
        expected = {"<urn:g:one>": slice_of(there), "<urn:g:all>": slice_of(there, ALL)}
        await exact(endpoint, dataset, expected)
        await client.interests.remove("all")
        # A removed interest leaves its target unchanged.
        assert await client.interests.remove(two) == 1
        assert [each.name for each in await client.interests.registered()] == ["one"]
        left = slice_of(there, OTHER)
        there = await on()
        await exact(endpoint, dataset, {"<urn:g:one>": slice_of(there)})
        assert await held(endpoint, dataset, "<urn:g:two>") == left
        await client.interests.remove("one")


async def test_a_target_that_a_bound_left_wanting_is_made_whole_by_repair(keeping_all, dataset, endpoint):
    label, team = ("<urn:t>", "<urn:label>", '"T"'), ("<urn:a>", "<urn:team>", "<urn:t>")
    text = "SELECT * { ?a <urn:team> ?t . ?t <urn:label> ?l }"
    async with (
        p2prdf.connect(keeping_all[0].address) as client,
        keeping(keeping_all[2].address, potential_max={None: 10, dataset: 0}),
    ):
        publisher = DatasetPublisher(client, dataset)
        await publisher.begin()
        await publisher.start([])
        await publisher.publish("000001", Changeset.of([], [label]))
        await client.interests.add(dataset, f"{endpoint.url}/update", text, name="one", graph="<urn:g:one>")

        async def said(position):
            async with asyncio.timeout(SECONDS):
                while True:
                    (found,) = await client.interests.status("one")
                    if (found["state"], found.get("position")) == ("current", position) and "target_triples" in found:
                        return found

        found = await said("000001")
        assert (found["evicted_triples"], found["potential_triples"], found["target_triples"]) == (1, 0, 0)
        whole = found["whole_as_of"]
        await publisher.publish("000002", Changeset.of([], [team]))
        found = await said("000002")
        assert (found["evicted_triples"], found["target_triples"]) == (2, 0), "nobody knows the label any more"
        assert found["whole_as_of"] == whole < found["as_of"]
        assert await held(endpoint, dataset, "<urn:g:one>") == set()
        assert (await client.interests.repair("one"))["evicted_triples"] == 2
        assert await held(endpoint, dataset, "<urn:g:one>") == {label, team}
        found = await said("000002")
        assert found["target_triples"] == 2
        assert not {"evicted_triples", "whole_as_of"} & found.keys()
        await client.interests.remove("one")


class Stubborn(InterestWorker):
    """A sync worker that takes itself for the only one."""

    def _keep(self, overlay, own):
        registered = self.registry.registrations().own
        super()._keep(overlay, registered)


async def test_two_workers_at_one_target_do_no_harm(keeping_all, dataset, endpoint):
    update = f"{endpoint.url}/update"
    async with (
        p2prdf.connect(keeping_all[0].address) as client,
        keeping(keeping_all[1].address, kind=Stubborn) as one,
        keeping(keeping_all[3].address, kind=Stubborn) as other,
    ):
        publisher = DatasetPublisher(client, dataset)
        await publisher.begin()
        await publisher.start([])
        await client.interests.add(dataset, update, INTEREST, name="both", graph="<urn:g:both>")
        for position, changeset, triples in history(Random(11), 6):
            await publisher.publish(position, changeset)
            await exact(endpoint, dataset, {"<urn:g:both>": slice_of(triples)})
        for worker in (one, other):
            async with asyncio.timeout(SECONDS):
                while not worker.kept["both"].target.is_current:
                    await asyncio.sleep(0.05)
        assert one.passes.keys() == other.passes.keys() == {dataset}
        assert await held(endpoint, dataset, "<urn:g:both>") == slice_of(triples)
        await client.interests.remove("both")


async def test_forbidden_and_silent_targets_are_reported_and_delay_no_other_target(
    keeping_all, dataset, endpoint, free_port
):
    update = f"{endpoint.url}/update"
    async with p2prdf.connect(keeping_all[0].address) as client, keeping(keeping_all[2].address):
        publisher = DatasetPublisher(client, dataset)
        await publisher.begin()
        await publisher.start([])
        add = client.interests.add
        await add(dataset, "http://elsewhere.example/update", INTEREST, name="elsewhere")
        await add(dataset, f"http://127.0.0.1:{free_port}/update", INTEREST, name="silent")
        await add(dataset, update, INTEREST, name="well", graph="<urn:g:well>")
        with pytest.raises(p2prdf.LocalProtocolError, match="the target of the interest well"):
            await add(dataset, update, OTHER, name="again", graph="<urn:g:well>")
        with pytest.raises(p2prdf.LocalProtocolError, match="another interest well"):
            await add(dataset, update, OTHER, name="well", graph="<urn:g:well>")
        with pytest.raises(TargetRefused, match="credentials do not belong"):
            await add(dataset, "http://me:secret@127.0.0.1/update", OTHER)
        with pytest.raises(p2prdf.QueryRefused, match="UNION"):
            await add(dataset, update, "SELECT * { { ?a ?b ?c } UNION { ?c ?b ?a } }")
        for position, changeset, triples in history(Random(3), 3):
            await publisher.publish(position, changeset)
            await exact(endpoint, dataset, {"<urn:g:well>": slice_of(triples)})
        refused = await reported(client, "elsewhere", "refused")
        assert "elsewhere.example/update: no interest worker permits this host" in refused["error"]
        assert f"127.0.0.1:{free_port}" in (await reported(client, "silent", "failing"))["error"]
        assert (await client.interests.verify("elsewhere"))["error"] == refused["error"]
        # A graph with foreign triples is not emptied because an interest names it.
        taken = opened((await client.interests.registered())[2].registration)
        await taken._post(update, b"INSERT DATA { GRAPH <urn:g:taken> { <urn:x> <urn:y> <urn:z> } }",
                          "application/sparql-update", {}, 100)  # fmt: skip
        await taken.close()
        await add(dataset, update, INTEREST, name="taken", graph="<urn:g:taken>")
        assert "holds triples and no cursor" in (await reported(client, "taken", "failing"))["error"]
        assert await held(endpoint, dataset, "<urn:g:taken>") == {("<urn:x>", "<urn:y>", "<urn:z>")}
        await client.interests.repair("taken")
        assert await held(endpoint, dataset, "<urn:g:taken>") == slice_of(triples)
        for name in ("elsewhere", "silent", "well", "taken"):
            await client.interests.remove(name)
    async with p2prdf.connect(keeping_all[0].address) as client:
        await client.interests.add(dataset, update, INTEREST, name="nobody")
        (found,) = await client.interests.status("nobody")
        assert (found["state"], found["error"]) == ("unassigned", "no interest worker answers for it")
        await client.interests.remove("nobody")


async def subscriptions(nodes):
    """Return how many subscriptions are delivered in an overlay; each node is asked."""
    count = 0
    for node in nodes:
        async with p2prdf.connect(node.address, reconnect_seconds=0) as client:
            count += (await client.status())["peer"]["subscriptions_local"]
    return count


async def test_two_hundred_interests_are_one_subscription(keeping_all, dataset, endpoint):
    update, count = f"{endpoint.url}/update", 200
    kind = "SELECT * {{ ?a <urn:type> <urn:A{}> ; <urn:goals> ?g }}"
    async with p2prdf.connect(keeping_all[0].address) as client:
        publisher = DatasetPublisher(client, dataset)
        await publisher.begin()
        await publisher.start([])
        async with keeping(keeping_all[2].address, lease_seconds=1000) as worker:  # it renews nothing meanwhile
            async with asyncio.timeout(SECONDS):
                while not worker.registry.workers():
                    await asyncio.sleep(0.05)
            before = await subscriptions(keeping_all)
            registered = [
                registration_of(f"n{number}", dataset, update, kind.format(number)) for number in range(count)
            ]
            began = time.monotonic()
            await client.publish([each.triple for each in registered], graph="<urn:p2prdf:interests>")
            async with asyncio.timeout(SECONDS):
                while len(worker.kept) < count or not all(each.target.is_current for each in worker.kept.values()):
                    await asyncio.sleep(0.05)
            assert await subscriptions(keeping_all) == before + 1, "one for the dataset, however many interests"
            begun = time.monotonic() - began
            (one,) = worker.passes.values()
            spent = one.seconds
            read, requests = one.read, {name: each.target.requests for name, each in worker.kept.items()}
            come = [(f"<urn:s{n}>", p, o) for n in (7, 8) for p, o in (("<urn:type>", f"<urn:A{n}>"),
                                                                     ("<urn:goals>", '"1"'))]  # fmt: skip
            await publisher.publish("000001", Changeset.of([], come))
            for number in (7, 8):
                own = {each for each in come if each[0] == f"<urn:s{number}>"}
                await exact(endpoint, dataset, {f"<urn:g:n{number}>": own})
            assert one.read - read <= len(come) + 2, "each triple travels once, and the position"
            touched = {name for name, each in worker.kept.items() if each.target.requests > requests[name]}
            assert touched == {"n7", "n8"}
            told = f"{one.read - read} solutions came for a changeset of {len(come)} triples"
            print(f"{count} interests: begun in {begun:.1f} s; {told}; engine {1000 * (one.seconds - spent):.2f} ms")
            await client.retract([each.triple for each in registered], graph="<urn:p2prdf:interests>")


def registration_of(name, dataset, update, query):
    from p2prdf.interest.registration import Registration

    return Registration(name, dataset, update, update.replace("/update", "/query"), f"<urn:g:{name}>", query)


class InterestWorkerProcess(MemberProcess):
    """A sync worker as a process of its own."""

    words = ("serve", "interests", "--allow-host", "127.0.0.1", "--allow-private")


async def maintained_by(client, name, workers):
    """Return the sync worker that maintains an interest, once one of these does."""
    async with asyncio.timeout(SECONDS):
        while True:
            (found,) = await client.interests.status(name)
            known = [each for each in workers if each.name == found.get("worker")]
            if found["state"] == "current" and known:
                return known[0]


async def test_a_worker_that_is_killed_or_hangs_is_replaced(keeping_all, dataset, endpoint):
    days = history(Random(9), 4)
    workers = [await InterestWorkerProcess.start(keeping_all[n].address, "--lease", "4") for n in (1, 2, 3)]
    stopped = None
    try:
        async with p2prdf.connect(keeping_all[0].address) as client:
            publisher = DatasetPublisher(client, dataset)
            await publisher.begin()
            await publisher.start([])
            await client.interests.add(dataset, f"{endpoint.url}/update", INTEREST, name="one", graph="<urn:g:one>")
            for how in (signal.SIGKILL, signal.SIGSTOP, None):
                position, changeset, triples = next(days)
                await publisher.publish(position, changeset)
                await exact(endpoint, dataset, {"<urn:g:one>": slice_of(triples)})
                one = await maintained_by(client, "one", workers)
                if how is not None:
                    workers.remove(one)
                    if how == signal.SIGSTOP:  # it hangs, and its connections stand
                        one.process.send_signal(how)
                        stopped = one
                    else:
                        await one.end(how)
            known = await client.query("SELECT ?k { GRAPH <urn:p2prdf:keepers> { ?k <urn:p2prdf:keeps> ?o } }")
            assert [k for (k,) in known.rows] == [f"<{workers[0].name}>"], "nothing is left of those that are gone"
            stopped.process.send_signal(signal.SIGCONT)  # it finds out, and comes again under another name
            async with asyncio.timeout(SECONDS):
                while json.loads(await stopped.process.stdout.readline())["event"] != "ready":
                    pass
            position, changeset, triples = next(days)
            await publisher.publish(position, changeset)
            await exact(endpoint, dataset, {"<urn:g:one>": slice_of(triples)})
            await client.interests.remove("one")
    finally:
        for worker in (*workers, *([stopped] if stopped else [])):
            await worker.end(signal.SIGTERM)  # in order: others use this overlay


@pytest.mark.long
async def test_targets_are_exact_though_workers_a_node_and_the_endpoint_are_killed(launcher, dataset, endpoint):
    nodes = launcher.overlay(5)
    addresses = ",".join(node.address for node in nodes[:2])
    workers = [await InterestWorkerProcess.start(addresses, "--lease", "3") for _ in range(2)]
    wanted = {f"<urn:g:{number}>": text for number, text in enumerate((INTEREST, OTHER))}
    seconds = []
    try:
        async with p2prdf.connect(nodes[0].address) as client:
            publishers = [DatasetPublisher(client, f"{dataset[:-1]}:{number}>") for number in range(4)]
            days = [list(history(Random(number), 7)) for number in range(4)]
            for number, publisher in enumerate(publishers):
                await publisher.begin()
                await publisher.start([])
                for graph, text in wanted.items():
                    await client.interests.add(
                        publisher.dataset, f"{endpoint.url}/update", text, graph=f"{graph[:-1]}:{number}>"
                    )
            for day in range(7):
                began = time.monotonic()
                for publisher, history_of in zip(publishers, days, strict=True):
                    position, changeset, _ = history_of[day]
                    await publisher.publish(position, changeset)
                    if day in (1, 3) and publisher is publishers[1]:
                        await workers.pop(0).end()
                        workers.append(await InterestWorkerProcess.start(addresses, "--lease", "3"))
                    if day == 2 and publisher is publishers[2]:
                        nodes[3].kill()
                    if day == 4 and publisher is publishers[2]:
                        endpoint.kill()
                        endpoint.start()
                for number, publisher in enumerate(publishers):
                    triples = days[number][day][2]
                    expected = {
                        f"{graph[:-1]}:{number}>": slice_of(triples, text) for graph, text in wanted.items()
                    }
                    await exact(endpoint, publisher.dataset, expected)
                seconds.append(round(time.monotonic() - began, 1))
            for each in await client.interests.registered():
                assert (await client.interests.verify(each.name))["equal"]
            print("seconds until all targets are exact, day by day:", seconds)
    finally:
        for worker in workers:
            await worker.end()
