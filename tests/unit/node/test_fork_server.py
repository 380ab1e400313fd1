"""The processes that parse queries.  A process of its own runs each story, since pytest's may have threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys

import pytest

from p2prdf_node.parsing import QueryParser

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the fork server")

SECONDS = 60
PRELUDE = """
import asyncio, os, signal, socket, sys, time
from p2prdf.errors import QueryRefused
from p2prdf_node.fork_server import ForkServer
from p2prdf_node.logs import configure_logs
from p2prdf_node.parsing import QueryParser, start_fork_server

configure_logs("json", "error")

def ready(served):
    served.setblocking(True)
    served.sendall(b"ready")
    served.recv(1)

def nothing():
    pass

async def refusal(parser):
    try:
        await parser.parse("ASK { ?s ?p ?o }")
    except QueryRefused as error:
        return str(error)
"""


def _run(story: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + story], check=True, timeout=SECONDS, stdout=subprocess.PIPE, text=True
    ).stdout


def test_a_forked_child_parses_and_refuses_as_a_new_interpreter_does() -> None:
    story = """
async def main():
    parser = QueryParser(parse_seconds=30, queries_pending_max=9, fork_server=server)
    print(type(await parser.parse("SELECT ?s { ?s <urn:p> ?o }")).__name__, server.gone)
    try:
        await parser.parse("SELECT")
    except QueryRefused as error:
        print("refused")
    first = parser._child.process.pid
    os.kill(first, signal.SIGKILL)
    await parser._child.process.wait()
    print(await refusal(parser))
    await parser.parse("ASK { ?s ?p ?o }")
    print(first != parser._child.process.pid, server.gone)
    await parser.stop()
    print(server.gone)
server = start_fork_server()
asyncio.run(main())
"""
    assert _run(story).splitlines() == [
        "ConjunctiveQuery False", "refused", "the parser did not survive this query", "True False", "True",
    ]  # fmt: skip


def test_a_crash_and_a_query_beyond_its_deadline_end_the_child_alone() -> None:
    story = """
def crash(served):
    ready(served)
    os.abort()

def hang(served):
    ready(served)
    while True:
        pass

async def main():
    for server in servers:
        parser = QueryParser(parse_seconds=0.2, queries_pending_max=9, fork_server=server)
        print(await refusal(parser), parser.killed, server.gone)
        print(await refusal(parser), parser.killed, server.gone)
        await parser.stop()
servers = [ForkServer.start(nothing, serve) for serve in (crash, hang)]
asyncio.run(main())
"""
    crashed, late = "the parser did not survive this query", "the query could not be parsed within 0.2 s"
    assert _run(story).splitlines() == [
        f"{crashed} 1 False", f"{crashed} 2 False", f"{late} 1 False", f"{late} 2 False",
    ]  # fmt: skip


def test_a_child_holds_nothing_of_the_node_and_is_outside_its_process_group() -> None:
    story = """
def report(served):
    held = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if each != "99"
            and os.path.exists(f"/proc/self/fd/{each}")]
    kinds = sorted(each.split(":")[0] for each in held if not each.startswith("/proc/"))
    served.setblocking(True)
    served.sendall(repr((kinds, os.getpgid(0) == node)).encode())

async def main():
    own, other = socket.socketpair()
    await server.fork(other)
    reader, writer = await asyncio.open_unix_connection(sock=own)
    print((await reader.read()).decode())
    writer.close()
    server.close()
node = os.getpgid(0)
kept = socket.socket(), open(os.devnull), open(__import__("p2prdf").__file__)
server = ForkServer.start(nothing, report)
asyncio.run(main())
"""
    assert _run(story).strip() == "(['/dev/null', '/dev/null', '/dev/null', 'pipe', 'socket'], False)"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_children_end_with_the_node_also_while_they_parse(end: signal.Signals) -> None:
    story = """
def hang(served):
    while True:
        pass

async def main():
    own, other = socket.socketpair()
    child = await server.fork(other)
    print(server.pid, child.pid, flush=True)
    await asyncio.Event().wait()
server = ForkServer.start(nothing, hang)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", PRELUDE + story], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        watched = [os.pidfd_open(int(each)) for each in node.stdout.readline().split()]
        assert len(watched) == 2
        os.kill(node.pid, end)
        for each in watched:
            assert select.select([each], [], [], SECONDS)[0], "a process outlives its node"
            os.close(each)


def test_without_its_fork_server_a_node_starts_a_new_interpreter() -> None:
    story = """
async def main():
    parser = QueryParser(parse_seconds=30, queries_pending_max=9, fork_server=server)
    await parser.parse("ASK { ?s ?p ?o }")
    os.kill(server.pid, signal.SIGKILL)
    await parser._child.process.wait()
    print(await refusal(parser), server.gone)
    await parser.parse("ASK { ?s ?p ?o }")
    print(type(parser._child.process).__name__)
    await parser.stop()
server = start_fork_server()
asyncio.run(main())
"""
    assert _run(story).splitlines() == ["the parser did not survive this query True", "Process"]


def test_a_process_with_threads_is_not_forked() -> None:
    story = """
import threading
over = threading.Event()
threading.Thread(target=over.wait).start()
print(start_fork_server())
over.set()
"""
    assert _run(story).strip() == "None"


def test_a_failed_start_of_a_node_leaves_no_process() -> None:
    story = """
server = start_fork_server()
pid = server.pid
server.close()
try:
    os.kill(pid, 0)
except ProcessLookupError:
    print("gone")
"""
    assert _run(story).strip() == "gone"


async def test_the_parser_is_there_before_any_query_and_again_after_it_died() -> None:
    parser = QueryParser(parse_seconds=30, queries_pending_max=9)  # as on platforms without a fork
    keeping = asyncio.create_task(parser.keep(0))
    async with asyncio.timeout(SECONDS):
        while parser._child is None:
            await asyncio.sleep(0)
        first = parser._child.process
        await parser.parse("ASK { ?s ?p ?o }")
        assert parser._child.process is first
        first.kill()
        while parser._child is None or parser._child.process is first:
            await asyncio.sleep(0)
    await parser.stop()
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping
