"""JSON-LD with a context at another address: a gateway and the command fetch it from a permitted host."""

from __future__ import annotations

import asyncio
import itertools
import sys

from aiohttp import web
from gateways import gateway
from web_site import served

import p2prdf
from p2prdf.replica.contexts import WebContexts
from p2prdf.replica.hosts import Hosts

_names = itertools.count()


async def test_contexts_come_from_permitted_hosts_only(keeping_all, tmp_path):
    ns = f"urn:contexts{next(_names)}:"

    def answer(path):
        if path != "/c.jsonld":
            return web.Response(status=503)
        return web.json_response({"@context": {"name": f"{ns}name"}})

    async with asyncio.timeout(120), served(answer) as (address, asked):
        contexts = WebContexts(Hosts([address], private=True))
        body = f'{{"@context": "http://{address}/c.jsonld", "@id": "{ns}%d", "name": "x"}}'
        kind = {"Content-Type": "application/ld+json"}
        async with gateway(keeping_all[0].address, contexts=contexts) as (session, _):
            async with session.post("/publish", data=body % 1, headers=kind) as answer:
                assert (answer.status, (await answer.json())["statements"]) == (200, 1)
            async with session.put("/graphs", params={"graph": f"{ns}g"}, data=body % 2, headers=kind) as answer:
                assert answer.status == 201
            assert asked == ["/c.jsonld"]
            for name, status, reason in (
                (f"http://{address}/other", 503, "answers 503"), ("http://127.0.0.2/c", 400, "--context-from"),
            ):  # fmt: skip
                data = (body % 3).replace(f"http://{address}/c.jsonld", name)
                for path in ("/publish", f"/graphs?graph={ns}g"):
                    async with session.post(path, data=data, headers=kind) as answer:
                        assert answer.status == status
                        assert reason in (await answer.json(content_type=None))["detail"]
        async with (
            gateway(keeping_all[0].address) as (session, _),
            session.post("/publish", data=body % 4, headers=kind) as answer,
        ):
            assert answer.status == 400
            assert "permit its host (--context-from)" in (await answer.json(content_type=None))["detail"]
        path = tmp_path / "d.jsonld"
        path.write_text(body % 5)
        words = ("publish", str(path), "--peer", keeping_all[1].address, "--context-from", address)
        errors = []
        for more in ((), ("--allow-private",)):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "p2prdf_cli", *words, *more, "--state", str(tmp_path / "state"),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            _, error = await process.communicate()
            errors.append((process.returncode, error.decode()))
        assert errors[0][0] != 0
        assert "private networks are not permitted" in errors[0][1]
        assert errors[1] == (0, "")
        async with p2prdf.connect(keeping_all[2].address) as client:
            named = f"?s <{ns}name> 'x'"
            found = await client.query(f"SELECT ?s {{ {{ {named} }} UNION {{ GRAPH ?g {{ {named} }} }} }}")
        assert sorted(row[0] for row in found.rows) == [f"<{ns}{number}>" for number in (1, 2, 5)]
