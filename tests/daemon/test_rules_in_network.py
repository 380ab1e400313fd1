"""Rules left in real nodes: they derive together, also when one of them is killed."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys

import pytest
from commands import command
from held import Held

import p2prdf
from p2prdf.reasoning import parse_rules

SECONDS = 60.0
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:concluded{next(_names)}:"


def transitive(ns):
    return f"PREFIX : <{ns}> ?x :isIn ?z :- ?x :isIn ?y , ?y :isIn ?z . ?x :near ?y :- ?x :isIn ?z , ?y :isIn ?z ."


def places(ns, *pairs):
    return [(f"<{ns}{a}>", f"<{ns}isIn>", f"<{ns}{b}>") for a, b in pairs]


def concluded(ns, predicate="isIn"):
    return f"PREFIX : <{ns}> SELECT ?x ?y {{ GRAPH :all {{ ?x :{predicate} ?y }} }}"


async def test_consequences_are_in_the_graph_for_all_and_go_with_their_support(keeping_all, ns):
    rules, graph = parse_rules(transitive(ns)), f"<{ns}all>"
    async with p2prdf.connect(keeping_all[0].address) as client, p2prdf.connect(keeping_all[3].address) as other:
        await other.publish(places(ns, "ab", "bc"))
        async with client.conclude(rules, graph) as concluding:
            assert concluding.rules == 4
            reader = Held(await other.subscribe(concluded(ns), since="beginning"))
            near = Held(await other.subscribe(concluded(ns, "near"), since="beginning"))
            await reader.until(ns, "ab", "bc", "ac")
            await near.until(ns, "aa", "ab", "ba", "bb")
            await client.publish(places(ns, "ca"))
            await reader.until(ns, *map("".join, itertools.product("abc", repeat=2)))
            await client.retract(places(ns, "bc"))
            await reader.until(ns, "ca", "ab", "cb")
            await near.until(ns, "cc", "ca", "ac", "aa")

            async def counts():
                found = await other.query(f"SELECT ?p (COUNT(*) AS ?n) {{ GRAPH {graph} {{ ?x ?p ?y }} }} GROUP BY ?p")
                return {p.rstrip(">").removeprefix(f"<{ns}"): n.split('"')[1] for p, n in found.rows}

            async with asyncio.timeout(SECONDS):  # a triple that loses one of its derivations goes, and comes again
                while await counts() != {"isIn": "3", "near": "4"}:
                    pass
            text = f"CONSTRUCT {{ ?x <{ns}p> ?y }} WHERE {{ GRAPH {graph} {{ ?x ?p ?y }} }}"
            with pytest.raises(p2prdf.QueryRefused, match="derived from itself"):
                await anext(other.derive(text, graph))


async def test_a_node_that_is_killed_is_not_missed(launcher, ns):
    """Others derive and take back the facts of its gates; every change of the graph comes once."""
    nodes = launcher.overlay(5)
    rules, graph = parse_rules(transitive(ns)), f"<{ns}all>"
    addresses = ",".join(node.address for node in nodes[:2])
    async with p2prdf.connect(addresses) as client, client.conclude(rules[:1], graph):
        reader = Held(await client.subscribe(concluded(ns), since="beginning"))
        await client.publish(places(ns, "ab", "bc", "cd", "da"))
        await reader.until(ns, *map("".join, itertools.product("abcd", repeat=2)))
        nodes[3].kill()
        await client.retract(places(ns, "da"))
        await reader.until(ns, "ab", "bc", "cd", "ac", "bd", "ad")
        await client.publish(places(ns, "de"))
        await reader.until(ns, "ab", "bc", "cd", "ac", "bd", "ad", "de", "ce", "be", "ae")


async def test_the_command_leaves_rules_until_it_is_stopped(keeping_all, ns, tmp_path):
    rules = tmp_path / "places.rules"
    rules.write_text(transitive(ns))
    address = keeping_all[2].address
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "p2prdf_cli", "derive", "--peer", address, "--graph", f"{ns}all", "--rules", str(rules),
        "--in-network", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SECONDS), p2prdf.connect(keeping_all[1].address) as client:
            assert (await process.stdout.readline()).decode() == "4 rules in use\n"
            reader = Held(await client.subscribe(concluded(ns), since="beginning"))
            await client.publish(places(ns, "ab", "bc"))
            await reader.until(ns, "ab", "bc", "ac")
            process.send_signal(signal.SIGINT)
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_options_that_the_command_cannot_leave_in_the_network_are_refused(keeping_all, ns, tmp_path):
    rules, ontology = tmp_path / "places.rules", tmp_path / "places.ttl"
    rules.write_text(transitive(ns))
    ontology.write_text(f"<{ns}a> <http://www.w3.org/2002/07/owl#sameAs> <{ns}b> .\n")
    wanted = ("derive", "--peer", keeping_all[2].address, "--graph", f"{ns}all", "--in-network")
    for more, why in (
        (("--rules", rules, "--once"), "without --once"),
        (("SELECT * { ?s ?p ?o }",), "goes with rules"),
        (("--rules", rules, "--ontology", ontology), "statements about individuals: publish them"),
    ):
        code, _, said = command(*wanted, *more)
        assert (code, why in " ".join(said.split())) == (2, True), said
