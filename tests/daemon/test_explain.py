"""Explanations by real nodes: of a query, of a subscription, from any node; and refusals of the unexplainable."""

from __future__ import annotations

import asyncio
import uuid

import pytest

import p2prdf


async def test_queries_and_subscriptions_are_explained_at_any_node(overlay, until):
    ns = f"urn:{uuid.uuid4().hex}:"
    query = f"SELECT ?a ?c {{ ?a <{ns}p> ?b . ?b <{ns}q> ?c }}"
    async with p2prdf.connect(overlay[0].address) as first, p2prdf.connect(overlay[3].address) as other:

        async def unknown():
            with pytest.raises(p2prdf.SubscriptionGone):
                await other.explain(0xFEED)

        refused = asyncio.create_task(unknown())  # a coordinator needs some seconds to be certain of that
        subscription = await first.subscribe(query)
        await first.publish([(f"<{ns}a{n}>", f"<{ns}p>", f"<{ns}b{n}>") for n in range(12)])

        async def all_wait():  # a publication is acknowledged before its consequences have arrived
            one, two = (await first.explain(subscription))["parts"][0]["steps"]
            return (one["triples"], two["waiting"]) == (12, 12)  # a counter is reported a moment after the start

        await until(all_wait)
        for what in (subscription.id, subscription, f"{subscription.id:016x}"):
            said = await other.explain(what)
            assert said["subscription"]["subscriber"] == overlay[0].address
            assert said["asked"] == {
                "nodes": len(overlay), "missing": [], "missing_total": 0, "all_nodes_known": True,
            }  # fmt: skip
            one, two = said["parts"][0]["steps"]
            assert (one["triples"], one["waiting"], two["triples"], two["waiting"]) == (12, 1, 0, 12)
            assert set(one["nodes"]) < {node.address for node in overlay}
            assert "there are 12 partial results waiting for it" in said["findings"][-1]
        planned = await other.explain(query, algorithm="cqc")
        rates = {step["pattern"]: (step["triples"], step["varies_with"]) for step in planned["parts"][0]["steps"]}
        assert rates == {1: (12, []), 2: (0, [])}
        assert (planned["kind"], planned["algorithm"]) == ("query", "cqc")
        assert planned["unmatched"] == [{"part": 1, "pattern": 2}]
        standing = await first.explain(f"SELECT ?a {{ ?a <{ns}p> ?b OPTIONAL {{ ?b <{ns}n> ?n }} }}")
        assert [each["operator"] for each in standing["operators"]][-2:] == ["LeftJoin", "Project"]
        await refused
        with pytest.raises(p2prdf.QueryRefused, match="line 2") as refusal:
            await other.explain("SELECT\n nonsense")
        assert (refusal.value.line, refusal.value.column) == (2, 2), "its place has come through"
        for bad in (0, -1, 1 << 64, "0" * 16):
            with pytest.raises(p2prdf.LocalProtocolError, match="number of a subscription"):
                await other.explain(bad)
        with pytest.raises(p2prdf.LocalProtocolError, match="neither csbv nor cqc"):
            await other.explain(query, algorithm="magic")
        with pytest.raises(p2prdf.QueryRefused, match="per event"):
            await other.explain(f"ASK {{ ?a <{ns}p> ?b }}", per_event=True)
        assert (await other.status())["key"] == overlay[3].key, "the session lives on"
