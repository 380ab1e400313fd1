"""Parsing of queries in a child process, which can be killed.

Translating a query takes milliseconds if it is honest and far longer if it is hostile, and Python cannot stop a
thread.  Each node therefore keeps one child that only parses.  The child holds no secret and no socket of the
node, its memory is limited, and a query that exceeds its deadline is refused and its child killed.  Texts go in as
length-prefixed UTF-8; the response is a frame of :mod:`p2prdf.wire.codec` with the parsed query or the error.

On Linux a fork server (:mod:`p2prdf_node.fork_server`) forks the child, which shares the modules of the node and of
the parser.  Elsewhere, and if the fork server has ended, the child is a new interpreter.  The child is started by the
first query, at the latest ``WARM_UP_SECONDS`` after the node is ready (:meth:`QueryParser.keep`).

Queries are parsed one after the other, in order of arrival; the number of waiting queries is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import resource
import secrets
import socket
import struct
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Final

import structlog

from p2prdf.columns import LISTS
from p2prdf.errors import Busy, P2PRDFError, QueryRefused, Unavailable
from p2prdf.rdf.dictionary import TermNames
from p2prdf.wire.codec import FrameCodec
from p2prdf.wire.messages import ClientError, Contact, OpenSubscription, client_error, error_of
from p2prdf_node.fork_server import ForkedChild, ForkServer

if TYPE_CHECKING:
    from p2prdf.wire.messages import Query

__all__ = ["QUERY_BYTES_MAX", "QueryParser", "load_parser", "start_fork_server"]

QUERY_BYTES_MAX: Final = 256 << 10
"""Longest query with its rules, in bytes.

Longer queries are refused before they are parsed, as the parser would do."""
MEMORY_BYTES_MAX: Final = 2 << 30
"""Address space of the child."""
RESTART_SECONDS: Final = 1.0
"""First pause before a child that did not start is started again; it doubles up to RESTART_SECONDS_MAX."""
RESTART_SECONDS_MAX: Final = 60.0
"""Longest pause between attempts to start a child."""
WARM_UP_SECONDS: Final = 10.0
"""Time after the start of the node at which the child is started, unless a query came before."""
START_SECONDS: Final = 30.0
"""Deadline for a child to start (it imports the parser) on a loaded machine."""

_HEADER: Final = struct.Struct(">I?")
"""Length of the query's text, and whether the query keeps its order of rows (``ordered``)."""
_LENGTH: Final = struct.Struct(">I")
_READY: Final = b"ready"

log = structlog.get_logger("parsing")


def start_fork_server() -> ForkServer | None:
    """Fork the server of the parser's children: before the process has an event loop, threads, sockets or locks."""
    return ForkServer.start(load_parser, _serve_socket)


@dataclasses.dataclass(frozen=True)
class _Child:
    """A process that parses, and the two streams to it."""

    process: asyncio.subprocess.Process | ForkedChild
    requests: asyncio.StreamWriter
    responses: asyncio.StreamReader


class QueryParser:
    """Parses queries in a child process."""

    def __init__(self, *, parse_seconds: float, queries_pending_max: int, fork_server: ForkServer | None = None):
        self.parse_seconds = parse_seconds
        self.queries_pending_max = queries_pending_max
        self.pending = 0
        self.killed = 0
        self._turn = asyncio.Lock()
        self._child: _Child | None = None
        self._fork_server = fork_server
        self._stopped = False

    async def parse(self, text: str, *, ordered: bool = False) -> Query:
        """Parse a query.  ``ordered`` as in :func:`p2prdf.rdf.standing.query.parse_query`.

        Raises QueryRefused (malformed, unsupported, too long, too slow), Busy, Unavailable.
        """
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) > QUERY_BYTES_MAX:
            raise QueryRefused(f"the query has {len(raw)} bytes, at most {QUERY_BYTES_MAX} are accepted")
        if self.pending >= self.queries_pending_max:
            raise Busy(f"{self.pending} queries are waiting to be parsed")
        self.pending += 1
        try:
            async with self._turn:
                return _unpack(await self._exchange(_HEADER.pack(len(raw), ordered) + raw))
        finally:
            self.pending -= 1

    async def keep(self, warm_up_seconds: float = WARM_UP_SECONDS) -> None:
        """Start the child, and start another one whenever it has ended, until the parser is stopped.

        The first start waits ``warm_up_seconds``: a node that has just come up has more urgent work.
        """
        await asyncio.sleep(warm_up_seconds)
        pause = RESTART_SECONDS
        while not self._stopped:
            try:
                async with self._turn:
                    child = await self._started()
            except (P2PRDFError, OSError) as error:
                if self._stopped:
                    return
                log.warning("parser_not_started", error=str(error), again_in=pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, RESTART_SECONDS_MAX)
                continue
            pause = RESTART_SECONDS
            await child.process.wait()
            if self._child is child:  # it ended by itself; a query in progress notices that, too
                self._child = None
            await asyncio.sleep(RESTART_SECONDS)  # a query that comes meanwhile starts a child itself

    async def stop(self) -> None:
        """End the child and the fork server."""
        self._stopped = True
        await self._kill()
        if self._fork_server is not None:
            self._fork_server.close()

    async def _exchange(self, request: bytes) -> bytes:
        child = await self._started()
        try:
            async with asyncio.timeout(self.parse_seconds):
                child.requests.write(request)
                (length,) = _LENGTH.unpack(await child.responses.readexactly(_LENGTH.size))
                return await child.responses.readexactly(length)
        except TimeoutError:
            self.killed += 1
            await self._kill()
            raise QueryRefused(f"the query could not be parsed within {self.parse_seconds:g} s") from None
        except (OSError, asyncio.IncompleteReadError):
            self.killed += 1
            await self._kill()
            raise QueryRefused("the parser did not survive this query") from None
        except asyncio.CancelledError:
            await self._kill()  # its answer would be read as the answer to the next query
            raise

    async def _started(self) -> _Child:
        if self._stopped:
            raise Unavailable("the node is stopping")
        if self._child is not None:
            return self._child
        try:
            async with asyncio.timeout(START_SECONDS):
                self._child = child = await self._new_child()
                if self._stopped:  # meanwhile
                    await self._kill()
                    raise Unavailable("the node is stopping")
                await child.responses.readexactly(len(_READY))
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            await self._kill()
            raise Unavailable("the query parser does not start") from error
        except asyncio.CancelledError:
            await self._kill()  # the next query would read a late "ready" as its answer
            raise
        log.debug("parser_started", pid=child.process.pid)
        return child

    async def _new_child(self) -> _Child:
        server = self._fork_server
        if server is not None and not server.gone:
            own, other = socket.socketpair()
            try:
                process = await server.fork(other)
                responses, requests = await asyncio.open_unix_connection(sock=own)
            except BaseException:
                own.close()  # a forked child reads the end of its stream, and exits
                raise
            return _Child(process, requests, responses)
        spawned = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "p2prdf_node.parsing", start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert spawned.stdin is not None
        assert spawned.stdout is not None
        return _Child(spawned, spawned.stdin, spawned.stdout)

    async def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                child.process.kill()
            await child.process.wait()
            child.requests.close()


def _unpack(body: bytes) -> Query:
    (answer,) = FrameCodec(TermNames(), LISTS).decode(body)
    if isinstance(answer, OpenSubscription):
        return answer.query
    assert isinstance(answer, ClientError)
    raise error_of(answer)


# --- the child -----------------------------------------------------------------------------------


def _answer(text: str, *, ordered: bool = False) -> bytes:
    from p2prdf.rdf.execution import Execution
    from p2prdf.rdf.standing.insertion import parse_insertion
    from p2prdf.reasoning.ruled_query import parse_ruled  # only the child pays for the import

    answer: OpenSubscription | ClientError
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    try:
        query: Query | None = None if ordered else parse_insertion(text)
        if query is None:
            standing = parse_ruled(text, ordered=ordered, execution=Execution(now, secrets.token_hex(8)))
            query = standing if standing.conjunctive is None or standing.conjunctive.distinct else standing.conjunctive
        answer = OpenSubscription(0, 0, query, "csbv", False, Contact(0, "", 0), 1.0)
    except P2PRDFError as error:
        answer = client_error(error)
    except (RecursionError, MemoryError) as error:
        reason = f"the query is too complex for the parser ({type(error).__name__})"
        answer = ClientError(0, QueryRefused.code, reason)
    return FrameCodec(TermNames(), LISTS).encode([answer])


def load_parser() -> None:
    """Import the parser's modules."""
    _answer("SELECT * WHERE { ?s ?p ?o }")


def serve(inbound: BinaryIO, outbound: BinaryIO) -> None:
    """Parse queries from ``inbound`` until the other side closes."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    load_parser()
    outbound.write(_READY)
    outbound.flush()
    while len(header := inbound.read(_HEADER.size)) == _HEADER.size:
        length, ordered = _HEADER.unpack(header)
        outbound.write(_answer(inbound.read(length).decode("utf-8", "surrogatepass"), ordered=ordered))
        outbound.flush()


def _serve_socket(served: socket.socket) -> None:
    served.setblocking(True)
    serve(served.makefile("rb"), served.makefile("wb"))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
