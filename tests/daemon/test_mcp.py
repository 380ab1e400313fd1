"""``p2prdf mcp`` against real nodes, through the client of the protocol's Python SDK over standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import pytest
from settled_states import States, query_of, replaced

import p2prdf

mcp_client = pytest.importorskip("mcp.client.client", reason="the package mcp is not installed (extra mcp)")
stdio = pytest.importorskip("mcp.client.stdio")

READING = ["query", "explain", "watch_start", "watch_poll", "watch_stop", "watch_list"]
WRITING = ["publish", "delete", "update"]


@contextlib.asynccontextmanager
async def tools(address, state, *words):
    """Start the command as a host does; yield a function that calls a tool and returns its texts."""
    server = stdio.StdioServerParameters(
        command=sys.executable,
        args=["-m", "p2prdf_cli", "mcp", "--peer", address, "--state", str(state), *words],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    async with mcp_client.Client(stdio.stdio_client(server), read_timeout_seconds=60) as client:

        async def call(name, *, fails=False, **arguments):
            result = await client.call_tool(name, arguments)
            texts = [each.text for each in result.content]
            assert result.is_error is fails, texts
            call.about = result.structured_content
            return texts[0] if len(texts) == 1 else texts

        call.client = client
        yield call


def number(value):
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def added(answer):
    return [each["added"] for each in json.loads(answer)["changes"]]


async def test_model_publishes_queries_updates_and_explains(keeping_all, tmp_path):
    async with tools(keeping_all[0].address, tmp_path) as call:
        listed = await call.client.list_tools()
        assert sorted(each.name for each in listed.tools) == sorted(READING + WRITING)
        assert all(each.description and each.annotations is not None for each in listed.tools)
        data = "@prefix : <urn:mcp:> . :a :p 1, 2, 3 . :b :p 4 ."
        assert await call("publish", data=data) == "4 statements published and indexed"
        query = "SELECT ?s ?o WHERE { ?s <urn:mcp:p> ?o } ORDER BY ?o"
        assert (await call("query", query=query)).splitlines()[:2] == ["?s\t?o", f"<urn:mcp:a>\t{number(1)}"]
        assert call.about["rows"] == call.about["rows_total"] == 4
        assert call.about["more"] is False
        table, remark = await call("query", query=query, rows_max=2, format="csv")
        assert len(table.splitlines()) == 3
        assert remark.startswith("2 of 4 rows are shown: raise rows_max")
        assert call.about["rows_total"] == 4
        assert call.about["more"] is True
        assert (await call("query", query="ASK { <urn:mcp:b> <urn:mcp:p> 4 }")).strip() == "true"
        triples = "CONSTRUCT { ?s <urn:mcp:q> ?o } WHERE { ?s <urn:mcp:p> ?o }"
        assert len((await call("query", query=triples)).splitlines()) == 4
        assert (await call("query", query="DESCRIBE <urn:mcp:b>")).startswith("<urn:mcp:b> <urn:mcp:p>")
        assert "@id" in await call("query", query=triples, format="jsonld")
        update = "DELETE { ?s <urn:mcp:p> ?o } INSERT { ?s <urn:mcp:r> ?o } WHERE { ?s <urn:mcp:p> ?o FILTER(?o > 2) }"
        assert await call("update", update=update) == "2 statements inserted, 2 deleted"
        assert await call("delete", data="<urn:mcp:a> <urn:mcp:p> 1 .") == "1 statements deleted"
        assert (await call("query", query=query)).splitlines() == ["?s\t?o", f"<urn:mcp:a>\t{number(2)}"]
        assert "findings" in json.loads(await call("explain", query=query))
        await call("publish", data="<urn:mcp:g> <urn:mcp:p> 9 .", graph="urn:mcp:graph", format="ttl")
        in_graph = "SELECT ?o { GRAPH <urn:mcp:graph> { ?s ?p ?o } }"
        assert (await call("query", query=in_graph)).splitlines() == ["?o", number(9)]


async def test_errors_name_reason_and_remedy_and_bad_data_publishes_nothing(keeping_all, tmp_path):
    async with tools(keeping_all[0].address, tmp_path) as call:
        assert "[query-refused]" in await call("query", query="SELECT ?s {", fails=True)
        refused = await call("query", query="ASK { ?s ?p ?o }", format="nt", fails=True)
        assert "ask for tsv, csv, json, xml or table" in refused
        bad = "<urn:mcp-bad:a> <urn:mcp-bad:p> 1 . <urn:mcp-bad:a> nothing"
        assert "[data-refused] data" in await call("publish", data=bad, fails=True)
        assert (await call("query", query="SELECT ?o { <urn:mcp-bad:a> ?p ?o }")).splitlines() == ["?o"]
        assert "blank node" in await call("delete", data="_:a <urn:p> 1 .", fails=True)
        assert "less than or equal to 5000" in await call("query", query="ASK {}", rows_max=10**6, fails=True)
        assert "[query-refused]" in await call("update", update="LOAD <http://localhost/x>", fails=True)
        assert "watch_start" in await call("watch_poll", token="nonsense", fails=True)
        gone = await call("watch_poll", token="00c0ffee00c0ffee-3", fails=True)
        assert "[subscription-gone]" in gone
        assert "start it again with watch_start" in gone


async def test_read_only_server_has_no_tools_that_write(keeping_all, tmp_path):
    async with tools(keeping_all[0].address, tmp_path, "--read-only") as call:
        listed = await call.client.list_tools()
        assert sorted(each.name for each in listed.tools) == sorted(READING)
        assert all(each.annotations.read_only_hint for each in listed.tools)
        with contextlib.suppress(Exception):
            assert (await call.client.call_tool("update", {"update": "CLEAR DEFAULT"})).is_error


async def test_watch_resumes_by_its_token_in_another_process_without_loss_or_repetition(keeping_all, tmp_path):
    query = "SELECT ?o WHERE { <urn:mcp-watch:a> <urn:mcp-watch:p> ?o }"
    async with p2prdf.connect(keeping_all[1].address) as publisher:

        async def publish(*numbers):
            await publisher.publish([("<urn:mcp-watch:a>", "<urn:mcp-watch:p>", each) for each in numbers])

        await publish(0)
        async with tools(keeping_all[0].address, tmp_path) as call:
            started = json.loads(await call("watch_start", query=query, since="beginning"))
            assert started["columns"] == ["o"]
            first = await call("watch_poll", token=started["token"])
            assert added(first) == [[number(0)]]
            token = json.loads(first)["token"]
            empty = json.loads(await call("watch_poll", token=token, wait_seconds=0.2))
            assert (empty["token"], empty["changes"]) == (token, [])
            waiting = asyncio.create_task(call("watch_poll", token=token, wait_seconds=30))
            await asyncio.sleep(0)
            await publish(1)
            second = await waiting
            assert len(added(second)) == 1
            # The answer was lost: the same token reads it again.
            again = await call("watch_poll", token=token)
            assert added(again) == added(second)
            token = json.loads(again)["token"]
        await publish(2, 3)
        async with tools(keeping_all[2].address, tmp_path) as call:
            (listed,) = json.loads(await call("watch_list"))
            assert listed == {"token": token, "query": query, "since": "beginning"}
            rows = []
            while len(rows) < 2:
                answer = await call("watch_poll", token=token, solutions_max=1)
                rows += added(answer)
                token = json.loads(answer)["token"]
            assert sorted(rows) == [[number(2)], [number(3)]]
            await publisher.retract([("<urn:mcp-watch:a>", "<urn:mcp-watch:p>", 2)])
            answer = json.loads(await call("watch_poll", token=token))
            assert [list(each) for each in answer["changes"]] == [["removed"]]
            assert "continue with" in await call("watch_poll", token=started["token"], fails=True)
            assert await call("watch_stop", token=answer["token"]) == "ended"
            assert json.loads(await call("watch_list")) == []
            assert "[subscription-gone]" in await call("watch_poll", token=answer["token"], fails=True)


async def test_settled_watch_answers_states_also_in_parts_and_in_another_process(keeping_all, tmp_path):
    ns, states, token = "urn:mcp-settled:", States(), None
    for round_ in range(2):
        async with tools(keeping_all[2 * round_].address, tmp_path) as call:
            if token is None:
                token = json.loads(await call("watch_start", query=query_of(ns), settled=True))["token"]
                empty = json.loads(await call("watch_poll", token=token, wait_seconds=5))
                assert (empty["changes"], empty["mark"] > 1e9) == ([], True)
            last, _ = await replaced(keeping_all[1].address, ns, first=3 * round_, count=3)
            parts = 0
            while states.values != [f'"{last}"']:
                answer = json.loads(await call("watch_poll", token=token, solutions_max=1))
                told = answer["changes"]
                states.take([each["added"][0] for each in told if "added" in each],
                            [each["removed"][0] for each in told if "removed" in each])  # fmt: skip
                token, parts = answer["token"], parts + (answer["mark"] is None)
                if answer["mark"] is not None:
                    states.mark()
            if round_:
                assert await call("watch_stop", token=token) == "ended"
    assert parts > 0
    assert states.told > 0
    assert states.impossible == 0


async def test_watch_without_its_state_reads_unacknowledged_solutions_again(keeping_all, tmp_path):
    async with tools(keeping_all[0].address, tmp_path / "one") as call:
        token = json.loads(await call("watch_start", query="SELECT ?o { <urn:mcp-other:a> ?p ?o }"))["token"]
        await call("publish", data="<urn:mcp-other:a> <urn:mcp-other:p> 1 .")
        answer = json.loads(await call("watch_poll", token=token))
        assert len(answer["changes"]) == 1
    async with tools(keeping_all[0].address, tmp_path / "two") as call:
        repeated = json.loads(await call("watch_poll", token=answer["token"]))
        assert repeated["changes"] == answer["changes"]
        assert "may repeat" in repeated["repeated"]
        token = repeated["token"]
        await call("publish", data="<urn:mcp-other:a> <urn:mcp-other:p> 2 .")
        following = json.loads(await call("watch_poll", token=token))
        assert len(following["changes"]) == 1
        assert "repeated" not in following
        assert await call("watch_stop", token=following["token"]) == "ended"


async def test_poll_without_waiting_returns_the_solutions_that_wait_at_the_nodes(keeping_all, tmp_path):
    async with tools(keeping_all[0].address, tmp_path) as call:
        await call("publish", data="<urn:mcp-zero:a> <urn:mcp-zero:p> 1, 2, 3 .")
        query = "SELECT ?o { <urn:mcp-zero:a> <urn:mcp-zero:p> ?o }"
        token = json.loads(await call("watch_start", query=query, since="beginning"))["token"]
        answer = await call("watch_poll", token=token, wait_seconds=0, solutions_max=2)
        assert len(added(answer)) == 2
        assert json.loads(answer)["more"] is True
        answer = await call("watch_poll", token=json.loads(answer)["token"], wait_seconds=0)
        assert len(added(answer)) == 1
        assert await call("watch_stop", token=json.loads(answer)["token"]) == "ended"
        assert list(tmp_path.iterdir()) == []


def is_locked(path):
    """Tell whether a process holds the lock of a file; the file exists a moment before."""
    inode = f":{path.stat().st_ino} "
    return any(inode in line for line in Path("/proc/locks").read_text().splitlines())


async def test_two_servers_with_one_folder_read_a_watch_one_after_the_other(keeping_all, tmp_path):
    async with tools(keeping_all[0].address, tmp_path) as one, tools(keeping_all[1].address, tmp_path) as other:
        query = "SELECT ?o { <urn:mcp-two:a> <urn:mcp-two:p> ?o }"
        token = json.loads(await one("watch_start", query=query))["token"]
        waiting = asyncio.create_task(one("watch_poll", token=token, wait_seconds=50))
        async with asyncio.timeout(60):
            while not any(is_locked(each) for each in tmp_path.glob("*.lock")):
                await asyncio.sleep(0.01)
            assert "[busy] another server reads the watch" in await other("watch_poll", token=token, fails=True)
            assert "[busy]" in await other("watch_stop", token=token, fails=True)
            await other("publish", data="<urn:mcp-two:a> <urn:mcp-two:p> 1 .")
            answer = await waiting
        assert len(added(answer)) == 1
        following = json.loads(answer)["token"]
        assert added(await other("watch_poll", token=token, wait_seconds=20)) == added(answer), "the answer was lost"
        assert await other("watch_stop", token=following) == "ended"


async def test_server_starts_without_a_node_and_says_so_when_it_is_asked(tmp_path):
    async with tools("127.0.0.1:9", tmp_path) as call:
        assert "[unavailable]" in await call("query", query="ASK { ?s ?p ?o }", fails=True)


async def test_http_server_checks_tokens_and_their_permissions(keeping_all, tmp_path):
    http = pytest.importorskip("mcp.client.streamable_http")
    httpx = pytest.importorskip("httpx2")
    tokens_file = tmp_path / "tokens"
    tokens_file.write_text("reader-token-0123456789 read\nwriter-token-0123456789 read,write\n")
    tokens_file.chmod(0o600)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "p2prdf_cli", "mcp", "--peer", keeping_all[0].address, "--state", str(tmp_path),
        "--listen", "127.0.0.1:0", "--tokens", str(tokens_file), stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            url = (await process.stdout.readline()).decode().split()[1]
        async with httpx.AsyncClient() as plain:
            answer = await plain.post(url, json={})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")

        async def call(token, tool, **arguments):
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                httpx.AsyncClient(headers=headers, timeout=60) as session,
                mcp_client.Client(http.streamable_http_client(url, http_client=session)) as client,
            ):
                result = await client.call_tool(tool, arguments)
            return result.is_error, result.content[0].text

        data = {"data": "<urn:mcp-http:a> <urn:mcp-http:p> <urn:mcp-http:o> ."}
        assert await call("reader-token-0123456789", "publish", **data) == (
            True, "Error executing tool publish: [request-refused] the bearer token lacks the permission to write"
        )  # fmt: skip
        refused, text = await call("writer-token-0123456789", "publish", **data)
        assert not refused, text
        query = {"query": "ASK { <urn:mcp-http:a> ?p ?o }"}
        assert await call("reader-token-0123456789", "query", **query) == (False, "true\n")
    finally:
        process.terminate()
        await process.wait()


async def test_http_server_refuses_foreign_scripts_at_each_address_of_loopback(tmp_path):
    """By their Host (DNS rebinding) or Origin; the Python SDK checks three names of loopback only."""
    httpx = pytest.importorskip("httpx2")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "p2prdf_cli", "mcp", "--peer", "127.0.0.1:9", "--state", str(tmp_path),
        "--listen", "127.0.0.2:0", stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            url = (await process.stdout.readline()).decode().split()[1]
            own = url.removeprefix("http://").removesuffix("/mcp")
            hello = {
                "jsonrpc": "2.0", "id": 1, "method": "initialize",
                "params": {
                    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
                },
            }  # fmt: skip
            accept = {"Accept": "application/json, text/event-stream"}
            async with httpx.AsyncClient(headers=accept) as plain:
                for headers, status in (
                    ({}, 200), ({"Origin": f"http://{own}"}, 200), ({"Host": "rebound.example.org"}, 403),
                    ({"Origin": "http://example.org"}, 403), ({"Origin": "http://localhost:1"}, 403),
                    ({"Origin": "null"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
                ):  # fmt: skip
                    answer = await plain.post(url, json=hello, headers=headers)
                    assert answer.status_code == status, (headers, answer.text)
    finally:
        process.terminate()
        await process.wait()
