"""Semantic channels in an overlay of real nodes: subscribers hear each valid binding once, from any channel worker."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections import Counter
from random import Random

import pytest
from channel_histories import CHANNELS, PREFIXES, RULES, random_history, random_settings, states
from channel_hosts import SECONDS, ChannelWorkerProcess, channel_worker, evaluated_by, given, subscribed

import p2prdf
from p2prdf.channel_workers.worker import ChannelWorker
from p2prdf.channels import Channels, KnowledgeBase
from p2prdf.channels.publication import GRAPH, GRAPH_BYTES_MAX
from p2prdf.channels.registration import CHANNEL, CHANNELS_GRAPH, notifications_graph, subject_of
from p2prdf.errors import DataRefused, LocalProtocolError, QueryRefused
from p2prdf.rdf import terms
from p2prdf.reasoning import parse_rules

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
PEOPLE = "SELECT ?x { ?x a <urn:Person> }"
STUDENTS = "?x a <urn:Person> :- ?x a <urn:Student> ."
KEEN = {"threshold": 2, "switched": False}
HISTORIES = int(os.environ.get("HISTORIES", "4"))
_names = itertools.count()


@pytest.fixture
def base():
    """A knowledge base of this test's own, as the overlay is shared."""
    return f"<urn:campus{next(_names)}>"


def student(number):
    return [(f"<urn:s{number}>", TYPE, "<urn:Student>"), (f"<urn:s{number}>", "<urn:mail>", f'"s{number}@x"')]


def people(*numbers):
    return {(f"<urn:s{number}>",) for number in numbers}


async def content(client, base):
    """Return the triples in the graph of a knowledge base."""
    return (await client.query(f"SELECT ?p ?o {{ GRAPH {base} {{ {base} ?p ?o }} }}")).rows


async def test_consequences_are_tentative_then_confirmed_and_reported_again_after_a_deletion(keeping_all, base):
    reference = Channels(KnowledgeBase(parse_rules(STUDENTS)), lambda: 0.0)
    async with (
        p2prdf.connect(keeping_all[0].address) as client,
        p2prdf.connect(keeping_all[4].address) as other,
        channel_worker(keeping_all[2].address, settle_seconds=0.1) as host,
    ):
        await client.add_rules(base, parse_rules(STUDENTS))
        await client.channels.publish(base, student(0))
        assert await client.channels.create("people", base, PEOPLE, settings=KEEN)
        assert await client.channels.create("people", base, PEOPLE, settings=KEEN), "again is no change"
        reference.knowledge.add(student(0))
        reference.create("people", PEOPLE)
        async with subscribed(other, "people") as subscriber:
            await subscriber.exactly(people(0))
            for number in range(1, 12):
                await (client, other)[number % 2].channels.publish(base, student(number))
                reference.publish(student(number))
                reference.evaluate()
                await subscriber.exactly(reference.bindings("people"))
            assert subscriber.told("initial") == [*people(0)]
            assert sorted(subscriber.told("confirmed")) == sorted(people(*range(1, 12))), "each once"
            early = subscriber.told("tentative")
            assert len(early) == len(set(early)) >= 5
            for each in early:
                assert subscriber.heard.index(("tentative", each, False)) < subscriber.heard.index(
                    ("confirmed", each, False)
                )
            # A deletion takes back the consequences of the deleted triples only; published again, they are reported
            # again.
            await other.channels.delete(base, ("<urn:s3>", "?p", "?o"))
            await subscriber.exactly(people(0, 1, 2, *range(4, 12)))
            await client.channels.publish(base, student(3))  # acknowledged after the deletion was
            await subscriber.exactly(people(*range(12)))
            assert subscriber.told("confirmed").count(("<urn:s3>",)) == 2
            # The graph holds only the triples published since the deletion: the log does not grow.
            async with asyncio.timeout(SECONDS):
                while len([p for p, _ in await content(client, base) if p == GRAPH]) != 12:
                    await asyncio.sleep(0.05)
            # A graph that loses a part keeps the rest.
            await client.channels.delete(base, ("<urn:s4>", TYPE, "?o"))
            await subscriber.exactly(people(0, 1, 2, 3, *range(5, 12)))
            async with asyncio.timeout(SECONDS):
                while (await client.channels.stats("people"))[0]["graphs"] != 12 or not any(
                    "s4@x" in o and "Student" not in o for _, o in await content(client, base)
                ):
                    await asyncio.sleep(0.05)
            # Rules added later take effect: their consequences are reported.
            await client.add_rules(base, parse_rules("?x a <urn:Person> :- ?x <urn:mail> ?m ."))
            await subscriber.exactly(people(*range(12)))
            (stats,) = await client.channels.stats("people")
            assert (stats["worker"], stats["state"], stats["bindings"]) == (host.name[1:-1], "evaluated", 12)
            assert (stats["rules"], stats["deletions"]) == (2, 2)
        # A second subscriber hears the valid bindings; a subscriber from now on hears none of them.
        async with subscribed(client, "people") as late:
            await late.exactly(people(*range(12)))
        assert [each["worker"] for each in await client.channels.list()] == [host.name[1:-1]]
        assert await client.channels.drop("people") == 1
        assert await client.channels.drop("people") == 0
        async with asyncio.timeout(SECONDS):
            while (await client.query(f"SELECT ?s {{ GRAPH {notifications_graph(base)} {{ ?s ?p ?o }} }}")).rows:
                await asyncio.sleep(0.05)


async def test_publications_without_a_worker_are_kept_and_a_later_worker_reports_the_bindings(keeping_all, base):
    async with p2prdf.connect(keeping_all[1].address) as client:
        assert not await client.channels.create("lone", base, PEOPLE, begin_seconds=0)
        await client.channels.publish(base, [("<urn:a>", TYPE, "<urn:Person>")])
        await client.channels.publish(base, [("<urn:b>", TYPE, "<urn:Person>")])
        await client.channels.delete(base, ("<urn:b>", "?p", "?o"))
        (found,) = await client.channels.list()
        assert (found["name"], found["state"], "worker" in found) == ("lone", "unassigned", False)
        async with subscribed(client, "lone") as subscriber:
            async with channel_worker(keeping_all[3].address):
                await subscriber.exactly({("<urn:a>",)})
            # That worker has left in order, and another goes on in its place.
            await client.channels.publish(base, [("<urn:c>", TYPE, "<urn:Person>")])
            async with channel_worker(keeping_all[0].address):
                await subscriber.exactly({("<urn:a>",), ("<urn:c>",)})
            assert subscriber.heard == [("initial", ("<urn:a>",), False), ("confirmed", ("<urn:c>",), False)]
        await client.channels.drop("lone")


async def test_the_same_again_from_the_same_publisher_is_no_other_publication(keeping_all, base):
    graph = [("<urn:a>", TYPE, "<urn:Person>")]
    async with p2prdf.connect(keeping_all[1].address) as client, p2prdf.connect(keeping_all[2].address) as other:
        one = await client.channels.publish(base, graph, publisher="registry")
        assert await other.channels.publish(base, graph, publisher="registry") == one
        await client.channels.create("again", base, PEOPLE, begin_seconds=0)
        async with channel_worker(keeping_all[1].address):
            async with asyncio.timeout(SECONDS):
                while len(await content(client, base)) != 1:
                    await asyncio.sleep(0.05)
            # Its time stamp is that of the first publication, and a deletion between the two takes it.
            await client.channels.delete(base, ("<urn:a>", "?p", "?o"))
            async with subscribed(client, "again") as subscriber:
                await subscriber.exactly(())
                assert await client.channels.publish(base, graph) != one
                await subscriber.exactly({("<urn:a>",)})
        await client.channels.drop("again")


class Stubborn(ChannelWorker):
    """A channel worker that takes itself for the only one."""

    async def _share(self, overlay):
        for member in self.registry.membership.workers():
            if member != self.name:
                self.registry.membership.expired.add(member)
        await super()._share(overlay)


async def test_two_workers_of_one_knowledge_base_report_each_binding_once(keeping_all, base):
    async with (
        p2prdf.connect(keeping_all[0].address) as client,
        channel_worker(keeping_all[1].address, kind=Stubborn) as one,
        channel_worker(keeping_all[3].address, kind=Stubborn) as two,
    ):
        await client.channels.create("both", base, PEOPLE, settings=KEEN)
        async with subscribed(client, "both") as subscriber:
            for number in range(30):
                await client.channels.publish(base, [(f"<urn:s{number}>", TYPE, "<urn:Person>")])
                if number % 10 == 9:
                    await client.channels.delete(base, (f"<urn:s{number - 5}>", "?p", "?o"))
            await subscriber.exactly(people(*({*range(30)} - {4, 14, 24})))
            for host in (one, two):
                assert host.passes.keys() == {base}
        await client.channels.drop("both")


async def test_bad_channels_and_graphs_are_refused_by_name_and_disturb_nobody(keeping_all, base):
    async with p2prdf.connect(keeping_all[0].address) as client, channel_worker(keeping_all[2].address):
        channels = client.channels
        for wrong, error, what in (
            (("no name!", base, PEOPLE), LocalProtocolError, "is no name"),
            (("x", "urn:no-iri", PEOPLE), DataRefused, "not an IRI"),
            (("x", base, "SELECT ?x { { ?x ?y ?z } UNION { ?z ?y ?x } }"), QueryRefused, "UNION"),
            (("x", base, "SELECT ?x ?a { ?x ?y ?z . ?a ?b ?c }"), QueryRefused, "no variable connects"),
        ):
            with pytest.raises(error, match=what):
                await channels.create(*wrong)
        with pytest.raises(LocalProtocolError, match="no setting 'speed'"):
            await channels.create("x", base, PEOPLE, settings={"speed": 9})
        with pytest.raises(LocalProtocolError, match="skip_max: 0 is not between"):
            await channels.create("x", base, PEOPLE, settings={"skip_max": 0})
        for unknown in (channels.subscribe("nobody"), channels.stats("nobody")):
            with pytest.raises(LocalProtocolError, match="there is no channel nobody"):
                await unknown
        assert await channels.create("well", base, PEOPLE)
        with pytest.raises(LocalProtocolError, match="another channel well"):
            await channels.create("well", base, "SELECT ?y { ?y a <urn:Other> }")
        # Bad graphs and deletions.
        for graph, what in (
            ([], "without statements"),
            ([("<urn:a>", "<urn:p>", "_:b")], "not a canonical term"),
            ([("<urn:a>", TYPE, "<http://www.w3.org/2002/07/owl#Class>")], "about classes or properties"),
            ([(f"<urn:s{n}>", "<urn:p>", f'"{"x" * 1000}"') for n in range(5000)], f"at most {GRAPH_BYTES_MAX:,}"),
        ):
            with pytest.raises(DataRefused, match=what):
                await channels.publish(base, graph)
        with pytest.raises(LocalProtocolError, match="neither a canonical term nor a variable"):
            await channels.delete(base, ("<urn:a>", "p", "?o"))
        # The same, published directly: nothing checks it. ``stats`` reports it to its readers, and the rest goes
        # on.
        subclass = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
        schema = terms.literal(f"# {'0' * 32} 1\n<urn:a> {subclass} <urn:b> .\n")
        await client.publish([(base, GRAPH, schema), (base, GRAPH, '"nonsense"'), (base, GRAPH, "<urn:x>"),
                              (base, "<urn:p2prdf:delete>", '"[[]]"')], graph=base)  # fmt: skip
        await client.publish([
            (subject_of("odd"), CHANNEL, '"{}"'), (subject_of("twice"), CHANNEL, '"1"'),
            (subject_of("twice"), CHANNEL, '"2"'), ("<urn:else>", CHANNEL, "<urn:else>"),
        ], graph=CHANNELS_GRAPH)  # fmt: skip
        await client.publish([("<urn:p2prdf:request:1>", "<urn:p2prdf:asks>", '"]"')],
                             graph="<urn:p2prdf:channel-requests>")  # fmt: skip
        # The largest permitted graph is accepted, and comes back.
        most = [(f"<urn:s{n}>", "<urn:p>", terms.literal("x" * 970)) for n in range(4200)]
        async with subscribed(client, "well") as subscriber:
            await channels.publish(base, [*most, ("<urn:big>", TYPE, "<urn:Person>")])
            await channels.publish(base, [("<urn:a>", TYPE, "<urn:Person>")])
            await subscriber.exactly({("<urn:a>",), ("<urn:big>",)})
            # Forged reports in the graph of reports are corrected.
            forged = (subject_of("well"), "<urn:p2prdf:confirmed>", '"[\\"<urn:false>\\"]"')
            await client.publish([forged], graph=notifications_graph(base))
            await subscriber.until(lambda each: ("confirmed", ("<urn:false>",), True) in each.heard)
            await subscriber.exactly({("<urn:a>",), ("<urn:big>",)})
        by_name = {each["name"]: each for each in await channels.stats()}
        assert {name: each["state"] for name, each in by_name.items()} == {
            "odd": "refused", "twice": "refused", "well": "evaluated",
        }  # fmt: skip
        assert "registered twice" in by_name["twice"]["error"]
        reasons = " ".join(each["reason"] for each in by_name["well"]["refused"])
        assert by_name["well"]["refused_publications"] == 4
        assert "about classes or properties" in reasons
        assert "not a deletion" in reasons
        for name in ("odd", "twice", "well"):
            assert await channels.drop(name) == 1


@pytest.mark.long  # a lease has to run out
async def test_a_host_that_is_killed_or_hangs_amid_publications_is_replaced(keeping_all, base):
    hosts = [await ChannelWorkerProcess.start(keeping_all[n].address, "--lease", "2") for n in (1, 2, 3)]
    stopped = None
    try:
        async with p2prdf.connect(keeping_all[0].address) as client:
            await client.add_rules(base, parse_rules(STUDENTS))
            assert await client.channels.create("people", base, PEOPLE, settings=KEEN)
            async with subscribed(client, "people") as subscriber:
                number = 0
                for how in (signal.SIGKILL, signal.SIGSTOP, None):
                    one = await evaluated_by(client, "people", hosts)
                    for step in range(40):
                        await client.channels.publish(base, student(number))
                        number += 1
                        if step == 20 and how is not None:
                            one.process.send_signal(how)
                    if how is not None:
                        hosts.remove(one)
                        if how is signal.SIGSTOP:
                            stopped = one
                        else:
                            await one.end()
                    await client.channels.delete(base, (f"<urn:s{number - 10}>", "?p", "?o"))
                    await subscriber.exactly(people(*({*range(number)} - {*range(30, number, 40)})))
                stopped.process.send_signal(signal.SIGCONT)  # it has pending reports that are not valid any more
                await client.channels.publish(base, student(number))
                await subscriber.exactly(people(*({*range(number + 1)} - {*range(30, number, 40)})))
                for kind in ("tentative", "confirmed"):
                    assert {*Counter(subscriber.told(kind)).values()} == {1}, "each is told once"
            await client.channels.drop("people")
    finally:
        for host in (*hosts, *([stopped] if stopped else [])):
            await host.end(signal.SIGTERM)  # in order: others use this overlay


@pytest.mark.long  # a lease has to run out, and an overlay of its own is started
async def test_the_node_that_the_host_is_at_is_killed_and_then_the_host(launcher, base):
    nodes = launcher.overlay(5)
    addresses = ",".join(node.address for node in (nodes[3], nodes[1]))
    hosts = [await ChannelWorkerProcess.start(addresses, "--lease", "3") for _ in range(2)]
    try:
        async with p2prdf.connect(nodes[0].address) as client:
            await client.add_rules(base, parse_rules(STUDENTS))
            assert await client.channels.create("people", base, PEOPLE, settings=KEEN)
            async with subscribed(client, "people") as subscriber:
                for number in range(60):
                    await client.channels.publish(base, student(number))
                    if number == 20:
                        nodes[3].kill()
                    if number == 40:
                        await (hosts.pop(0)).end()
                await client.channels.delete(base, ("<urn:s7>", "?p", "?o"))
                await subscriber.exactly(people(*({*range(60)} - {7})))
                for kind in ("tentative", "confirmed"):
                    assert {*Counter(subscriber.told(kind)).values()} == {1}, "each is told once"
    finally:
        for host in hosts:
            await host.end()


@pytest.mark.long  # leases have to run out
@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_random_histories_end_with_the_oracles_bindings_though_workers_are_killed(keeping_all, base, seed):
    """pyoxigraph computes closures and bindings; a binding that it never found is never reported."""
    history, rng = random_history(seed), Random(seed)
    answers = states(history)
    names = rng.sample(sorted(CHANNELS), 5)
    killed_at = rng.randrange(1, len(history.operations))
    options = "--lease", "2", "--settle", "0.2"
    hosts = [await ChannelWorkerProcess.start(keeping_all[n].address, *options) for n in (1, 3)]
    try:
        async with p2prdf.connect(keeping_all[0].address) as client, p2prdf.connect(keeping_all[4].address) as other:
            await client.add_rules(base, parse_rules(PREFIXES + "\n".join(RULES)))
            settings = given(random_settings(seed))
            for name in names:
                await client.channels.create(name, base, PREFIXES + CHANNELS[name], settings=settings, begin_seconds=0)
            one = await evaluated_by(client, names[-1], hosts)
            async with subscribed(other, *names) as subscribers:
                for at, operation in enumerate(history.operations):
                    if at == killed_at:
                        await one.end()
                        hosts.remove(one)
                    if isinstance(operation[0], str):
                        await client.channels.delete(base, operation)
                    else:
                        await client.channels.publish(base, operation)
                for name, subscriber in zip(names, subscribers, strict=True):
                    await subscriber.exactly(answers[-1][name])
                    ever = set().union(*(each[name] for each in answers))
                    assert {binding for _, binding, _ in subscriber.heard} <= ever, "nothing false was told"
            for name in names:
                await client.channels.drop(name)
    finally:
        for host in hosts:
            await host.end(signal.SIGTERM)
