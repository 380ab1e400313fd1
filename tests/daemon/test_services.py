"""SERVICE in one-time queries: a client, a gateway and the command ask a gateway as the other endpoint."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys

import pytest
from gateways import gateway

import p2prdf
from p2prdf.errors import QueryRefused
from p2prdf.replica.endpoints import WebEndpoints
from p2prdf.replica.hosts import Hosts

_names = itertools.count()
LOOPBACK = Hosts(["127.0.0.1"], private=True)


async def test_a_query_joins_the_overlay_with_another_endpoint(keeping_all):
    ns = f"urn:service{next(_names)}:"
    endpoints = WebEndpoints(LOOPBACK)
    async with (
        p2prdf.connect(keeping_all[0].address) as client,
        gateway(keeping_all[1].address, endpoints=endpoints) as (session, _),
    ):
        await client.publish((f"<{ns}x{n}>", f"<{ns}p>", f"<{ns}y{n % 3}>") for n in range(6))
        await client.publish((f"<{ns}y{n}>", f"<{ns}q>", f'"{n}"', f"<{ns}remote>") for n in range(2))
        url = session._base_url / "sparql"
        query = f"""SELECT ?x ?z {{ ?x <{ns}p> ?y
            SERVICE <{url}> {{ GRAPH <{ns}remote> {{ ?y <{ns}q> ?z }} }} }} ORDER BY ?x"""
        expected = [(f"<{ns}x{n}>", f'"{n % 3}"') for n in (0, 1, 3, 4)]
        assert (await client.query(query, endpoints=endpoints)).rows == expected
        async with session.post("/sparql", data={"query": query}) as answer:
            assert answer.status == 200
            found = (await answer.json(content_type=None))["results"]["bindings"]
        assert [(f"<{each['x']['value']}>", f'"{each["z"]["value"]}"') for each in found] == expected
        words = ("query", query, "--peer", keeping_all[2].address, "--json", "--service-from", "127.0.0.1")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "p2prdf_cli", *words, "--allow-private", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert len(json.loads(output)["results"]["bindings"]) == 4
        describing = query.replace("SELECT ?x ?z", "DESCRIBE ?x").partition("ORDER")[0]
        described = await client.query(describing, endpoints=endpoints)
        assert {row[0] for row in described.rows} == {row[0] for row in expected}

        failing = query.replace(str(url), f"{url}/nowhere")
        with pytest.raises(QueryRefused, match="the endpoint answers 404"):
            await client.query(failing, endpoints=endpoints)
        silent = await client.query(failing.replace("SERVICE", "SERVICE SILENT"), endpoints=endpoints)
        assert [row[1] for row in silent.rows] == [None] * 6
        elsewhere = query.replace("127.0.0.1", "127.0.0.2")
        async with session.post("/sparql", data={"query": elsewhere}) as answer:
            assert answer.status == 400
            problem = await answer.json(content_type=None)
        assert problem["construct"] == "SERVICE"
        assert "not on the list of permitted hosts" in problem["detail"]
        where = query.partition("{")[2].rpartition("}")[0]
        update = f"INSERT {{ ?x <{ns}r> ?z }} WHERE {{ {where} }}"
        async with session.post("/sparql", data={"update": update}) as answer:
            assert (answer.status, (await answer.json())["inserted"]) == (200, 4)
        found = await client.query(f"SELECT ?x ?z {{ ?x <{ns}r> ?z }} ORDER BY ?x")
        assert found.rows == expected
        words = ("update", update.replace("INSERT", "DELETE"), "--peer", keeping_all[2].address, "--json")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "p2prdf_cli", *words, "--service-from", "127.0.0.1", "--allow-private",
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, _ = await process.communicate()
        assert json.loads(output)["deleted"] == 4
        async with session.post("/sparql", data={"update": update.replace("127.0.0.1", "127.0.0.2")}) as answer:
            assert answer.status == 400

        with pytest.raises(QueryRefused) as caught:
            await client.subscribe(query)
        assert caught.value.construct == "SERVICE"
        assert "one-time queries" in caught.value.reason
