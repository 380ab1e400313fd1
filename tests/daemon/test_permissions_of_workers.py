"""Every helper of an overlay, and every client of one, with the permissions of docs/how-to/secure.md alone."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from channel_hosts import channel_worker, subscribed
from sparql_endpoint import EndpointProcess
from tls_files import Certificates, tls_of

import p2prdf
from p2prdf.interest import Changeset
from p2prdf.reasoning import parse_rules
from p2prdf.replica.endpoint import Endpoint, EndpointConfig
from p2prdf.replica.hosts import Hosts
from p2prdf.replica.publishing import DatasetPublisher
from p2prdf.replica.worker import InterestWorker, InterestWorkerConfig

SECONDS = 60.0
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
STUDENTS = "?x a <urn:Person> :- ?x a <urn:Student> ."
KEEPER = """
may = ["subscribe", "query", "observe"]
read = ["urn:p2prdf:", "urn:data"]
publish = ["<urn:p2prdf:keepers>", "<urn:p2prdf:interest-requests>"]
remove = ["<urn:p2prdf:keepers>", "<urn:p2prdf:interest-requests>"]
"""
PERMISSIONS = f"""
[clients.interest-worker1]
{KEEPER}
[clients.interest-worker2]
{KEEPER}
[clients.registers]
may = ["subscribe", "query"]
read = ["urn:p2prdf:"]
publish = ["<urn:p2prdf:interests>", "<urn:p2prdf:interest-requests>"]
remove = ["<urn:p2prdf:interests>", "<urn:p2prdf:interest-requests>"]
[clients.changesets]
may = ["query"]
read = ["urn:data", "<urn:p2prdf:datasets>"]
publish = ["urn:data", "<urn:p2prdf:datasets>"]
remove = ["urn:data", "<urn:p2prdf:datasets>"]
[clients.host]
may = ["subscribe", "query", "observe"]
read = ["urn:p2prdf:", "urn:campus"]
publish = ["urn:p2prdf:", "urn:campus"]
remove = ["urn:p2prdf:", "urn:campus"]
[clients.tells]
may = ["query", "observe"]
publish = ["urn:campus"]
[clients.hears]
may = ["subscribe", "query"]
read = ["urn:p2prdf:"]
[clients.creates]
may = ["subscribe", "query"]
read = ["urn:p2prdf:"]
publish = ["<urn:p2prdf:channels>", "<urn:p2prdf:channel-requests>"]
remove = ["<urn:p2prdf:channels>", "<urn:p2prdf:channel-requests>", "urn:p2prdf:told:"]
[clients.rules]
may = ["query"]
read = ["<urn:p2prdf:rules>"]
publish = ["<urn:p2prdf:rules>"]
remove = ["<urn:p2prdf:rules>"]
[clients.derives]
may = ["subscribe", "query"]
read = ["default", "urn:derived", "<urn:p2prdf:derivations>"]
publish = ["urn:derived", "<urn:p2prdf:derivations>"]
remove = ["urn:derived", "<urn:p2prdf:derivations>"]
"""


class Place:
    """A node, and clients with their certificates."""

    def __init__(self, folder, launcher):
        self._certificates = Certificates(folder)
        (folder / "permissions.toml").write_text(PERMISSIONS)
        self.node = launcher.start(
            **self._certificates.settings(self._certificates.node()), permissions=folder / "permissions.toml",
            replicas=1, copies_min=1,
        )  # fmt: skip

    def tls(self, name):
        return tls_of(self._certificates.client(name))

    def connect(self, name, **how):
        return p2prdf.connect(self.node.address, tls=self.tls(name), **how)


@pytest.fixture(scope="module")
def place(launcher_in, tmp_path_factory):
    with launcher_in("helpers") as launcher:
        yield Place(tmp_path_factory.mktemp("certificates"), launcher)


def opened(registration):
    config = EndpointConfig(registration.target, registration.query_url, registration.graph, attempts=2)
    return Endpoint(config, dataset=registration.dataset, hosts=Hosts(["127.0.0.1"], private=True))


@contextlib.asynccontextmanager
async def keeping(place, name):
    tls = place.tls(name)
    worker = InterestWorker(
        lambda reconnect_seconds: p2prdf.connect(place.node.address, reconnect_seconds=reconnect_seconds, tls=tls),
        opened, InterestWorkerConfig(("127.0.0.1",), lease_seconds=4.0, check_seconds=0.5),
    )  # fmt: skip
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.long
async def test_permissions_of_sync_workers_and_their_clients_suffice(place, tmp_path):
    endpoint = EndpointProcess(tmp_path / "endpoint").start()
    try:
        async with (
            keeping(place, "interest-worker1") as one, keeping(place, "interest-worker2") as two,
            place.connect("registers") as registers, place.connect("changesets") as changesets,
        ):  # fmt: skip
            publisher = DatasetPublisher(changesets, "<urn:data>")
            await publisher.begin()
            await publisher.start([])
            added = [("<urn:a>", "<urn:label>", '"a"')]
            await publisher.publish("1", Changeset(removed=(), added=tuple(added)))
            query = "SELECT * { ?t <urn:label> ?l }"
            await registers.interests.add(
                "<urn:data>", f"{endpoint.url}/update", query, name="one", graph="<urn:g>"
            )
            config = EndpointConfig(f"{endpoint.url}/update", f"{endpoint.url}/query", "<urn:g>", attempts=1)
            target = Endpoint(config, dataset="<urn:data>", hosts=Hosts(["127.0.0.1"], private=True))
            async with asyncio.timeout(SECONDS):
                while [triple async for triple in target.triples()] != added:
                    await asyncio.sleep(0.1)
                while (await registers.interests.status("one"))[0]["state"] != "current":
                    await asyncio.sleep(0.1)
            await target.close()
            assert await registers.interests.remove("one") == 1
            assert [one.done(), two.done()] == [False, False], "another's lease cannot be looked at, and ends nobody"
    finally:
        endpoint.kill()


@pytest.mark.long
async def test_hosts_of_channels_and_those_they_work_for(place):
    async with (
        channel_worker(place.node.address, tls=place.tls("host"), settle_seconds=0.1),
        place.connect("creates") as creates,
        place.connect("tells") as tells, place.connect("hears") as hears, place.connect("rules") as rules,
    ):  # fmt: skip
        await rules.add_rules("<urn:campus>", parse_rules(STUDENTS))
        assert list(await rules.rules()) == ["<urn:campus>"]
        await creates.channels.create("people", "<urn:campus>", "SELECT ?x { ?x a <urn:Person> }")
        async with subscribed(hears, "people") as subscriber:
            await tells.channels.publish("<urn:campus>", [("<urn:s1>", TYPE, "<urn:Student>")])
            await subscriber.exactly({("<urn:s1>",)})
            await tells.channels.delete("<urn:campus>", ("<urn:s1>", "?p", "?o"))
            await subscriber.exactly(set())
        assert len(await creates.channels.stats("people")) == 1
        assert await creates.channels.drop("people") == 1
        assert await rules.remove_rules("<urn:campus>") == 1


@pytest.mark.long
async def test_permissions_for_deriving_suffice(place):
    async with place.connect("derives") as client:
        query = "CONSTRUCT { ?s <urn:q> ?o } { ?s <urn:p> ?o }"
        async with asyncio.timeout(SECONDS):
            async with contextlib.aclosing(client.derive(query, "<urn:derived:1>")) as steps:
                await anext(steps)
            rules = parse_rules("?x <urn:q> ?z :- ?x <urn:p> ?z .")
            async with client.conclude(rules, "<urn:derived:2>"):
                pass
            assert await client.drop_derived("<urn:derived:1>") == 0
            with pytest.raises(p2prdf.NotAllowed, match="client derives may not publish"):
                async with client.conclude(rules, "<urn:elsewhere>"):
                    pass
