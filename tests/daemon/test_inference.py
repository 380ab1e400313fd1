"""Queries with rules through real nodes: consequences are answered, circles included, and leave with their support."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from commands import command
from held import Held, pairs

import p2prdf
from p2prdf.reasoning import parse_rules

SECONDS = 60.0
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:inference{next(_names)}:"


def transitive(ns):
    return f"PREFIX : <{ns}> ?x :isIn ?z :- ?x :isIn ?y , ?y :isIn ?z ."


def places(ns, *pairs):
    return [(f"<{ns}{a}>", f"<{ns}isIn>", f"<{ns}{b}>") for a, b in pairs]


def asked(ns):
    return f"PREFIX : <{ns}> SELECT ?x ?y {{ ?x :isIn ?y }}"


async def test_consequences_come_and_go_with_their_premises(keeping_all, ns):
    rules = parse_rules(transitive(ns))
    async with p2prdf.connect(keeping_all[0].address) as client, p2prdf.connect(keeping_all[3].address) as other:
        await other.publish(places(ns, "ab", "bc"))
        with_rules = Held(await client.subscribe(asked(ns), rules=rules, since="beginning"))
        explicit = Held(await client.subscribe(asked(ns), since="beginning"))
        await with_rules.until(ns, "ab", "bc", "ac")
        await explicit.until(ns, "ab", "bc")
        await other.publish(places(ns, "ca"))  # a circle: each is in each, and in itself
        await with_rules.until(ns, *("".join(each) for each in itertools.product("abc", repeat=2)))
        await other.retract(places(ns, "bc"))
        await with_rules.until(ns, "ca", "ab", "cb")
        await other.retract(places(ns, "ab", "ca"))
        await with_rules.until(ns)
        await explicit.until(ns)


async def test_rules_kept_in_the_overlay_serve_every_client_that_names_them(keeping_all, ns):
    name = f"<{ns}rules>"
    async with p2prdf.connect(keeping_all[1].address) as client, p2prdf.connect(keeping_all[4].address) as other:
        assert await client.add_rules(name, parse_rules(transitive(ns))) == 1
        await client.publish(places(ns, "ab", "bc"))
        assert pairs(ns, (await other.query(asked(ns), rules=name)).rows) == ["ab", "ac", "bc"]
        assert pairs(ns, (await other.query(asked(ns))).rows) == ["ab", "bc"]
        standing = Held(await other.subscribe(asked(ns), rules=name, since="beginning"))
        assert [str(rule) for rule in (await other.rules())[name]] == [str(*parse_rules(transitive(ns)))]
        assert await other.remove_rules(name) == 1
        with pytest.raises(p2prdf.QueryRefused, match="no rules are stored"):
            await client.query(asked(ns), rules=name)
        await client.publish(places(ns, "cd"))
        await standing.until(ns, "ab", "ac", "bc", "ad", "bd", "cd")


async def test_windows_and_rules_together(keeping_all, ns):
    """Consequences in a window follow from its elements and from triples outside of any stream."""
    query = f"""PREFIX : <{ns}> REGISTER ISTREAM :out AS
        SELECT ?x ?y FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s] WHERE {{ WINDOW :w {{ ?x :isIn ?y }} }}"""
    async with p2prdf.connect(keeping_all[2].address) as client:
        await client.publish(places(ns, "bc"))
        subscription = await client.subscribe(query, rules=parse_rules(transitive(ns)), since="beginning")
        async with client.stream(f"{ns}s") as stream:
            await stream.publish(places(ns, "ab"), time=1000.0)
            await stream.heartbeat(1005.0)
            taking, got = aiter(subscription), []
            async with asyncio.timeout(SECONDS):
                while len(got) < 3:
                    got.append(tuple((await anext(taking)).terms))
    assert pairs(ns, [row[:2] for row in got]) == ["ab", "ac", "bc"]
    assert {row[2].partition('"^^')[0] for row in got} == {'"1970-01-01T00:16:40Z'}


async def test_bad_rules_and_unanswerable_queries_are_refused_by_name(keeping_all, ns):
    async with p2prdf.connect(keeping_all[0].address) as client:
        for text, reason in (
            (f"RULES {{ ?x <{ns}p> ?z :- ?x <{ns}p> ?y . }} SELECT * {{ ?x <{ns}p> ?y }}", r"\?z.*line 1"),
            (f"RULES {{ ?x <{ns}p> ?y :- ?y <{ns}p> ?x . }} SELECT * {{ ?x ?p ?y }}", "variable predicate with rules"),
            (f"RULES SELECT * {{ ?x <{ns}p> ?y }}", "in braces"),
            (f"RULES {{ {'?x <urn:p> ?y :- ?y <urn:p> ?x . ' * 20_000} }} SELECT * {{ ?x <urn:p> ?y }}", "bytes"),
        ):
            with pytest.raises(p2prdf.QueryRefused, match=reason):
                await client.subscribe(text)


def test_the_command_line_keeps_lists_and_removes_rules_and_asks_with_them(keeping_all, ns, tmp_path):
    peer, name = keeping_all[0].address, f"{ns}rules"
    file = tmp_path / "places.rules"
    file.write_text(transitive(ns))
    data = tmp_path / "places.nt"
    data.write_text("".join(f"{' '.join(triple)} .\n" for triple in places(ns, "ab", "bc")))

    def ran(*arguments):
        code, out, errors = command(*arguments, "--peer", peer)
        assert code == 0, errors
        return out

    ran("publish", data)
    assert "1 rules stored" in ran("rules", "add", name, "--rules", file)
    listed = ran("rules", "list", name)
    assert parse_rules(listed) == parse_rules(transitive(ns))
    assert name in json.loads(ran("rules", "list", "--json"))
    for rules in (name, file):
        out = ran("query", asked(ns), "--rules", rules, "--format", "json")
        assert len(json.loads(out)["results"]["bindings"]) == 3
    out = ran("subscribe", asked(ns), "--rules", name, "--since", "beginning", "--count", "3", "--json")
    assert len(out.splitlines()) == 3
    assert "1 rules removed" in ran("rules", "remove", name)
    code, _, errors = command("query", asked(ns), "--rules", name, "--peer", peer)
    assert (code, "no rules are stored" in errors) == (4, True)
