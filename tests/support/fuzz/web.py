"""Fuzzed HTTP requests, made from a gateway's own description of its API.

Every operation of the document is requested: with parameters as described, at the border of that and beyond,
with bodies of all media types that it names and of some that it does not, with bad headers, and by methods that
it does not have. No answer may report a failure of the gateway, for any request.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

from gateways import GatewayProcess

from fuzz.target import GROWTH_BYTES_MAX, Report, Target

__all__ = ["Requests", "run"]

_CLIENTS: Final = 8
"""Number of simultaneous connections: below a gateway's bound of queries, so no request is refused as busy."""
_SECONDS: Final = 60.0
_MORE_SECONDS: Final = 0.05
_METHODS: Final = ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X" * 50)
_QUERIES: Final = (
    "SELECT * { ?s <urn:kept:p> ?o } LIMIT 1", "ASK { <urn:fuzz:1> <urn:fuzz:2> ?o }", "ASK {}",
    "CONSTRUCT { ?s <urn:fuzz:1> ?o } WHERE { ?s <urn:kept:p> ?o } LIMIT 1",
    "SELECT (COUNT(*) AS ?n) { ?s <urn:kept:p> ?o }", "SELECT * { ?s <urn:fuzz:1> ?o FILTER(?o > 1) }",
)  # fmt: skip
_UPDATES: Final = (
    "INSERT DATA { <urn:fuzz:s> <urn:fuzz:p> 1 }", "DELETE DATA { <urn:fuzz:s> <urn:fuzz:p> 1 }",
    "DELETE WHERE { <urn:fuzz:s> ?p ?o }", "COPY SILENT <urn:fuzz:g> TO <urn:fuzz:h>", "DROP GRAPH <urn:fuzz:h>",
    "DELETE { <urn:fuzz:s> ?p ?o } INSERT { <urn:fuzz:s> <urn:fuzz:p> 2 } WHERE { OPTIONAL { <urn:fuzz:s> ?p ?o } }",
    "WITH <urn:fuzz:g> INSERT { [] <urn:fuzz:p> ?o } WHERE { GRAPH <urn:fuzz:h> { ?s ?p ?o } }",
)  # fmt: skip
_RDF: Final = (
    "<urn:fuzz:s> <urn:fuzz:p> <urn:fuzz:o> .", '<urn:fuzz:s> <urn:fuzz:p> "x"@en .', "@prefix : <urn:fuzz:> . :s :p 1, 2 .",  # noqa: E501
    "<urn:fuzz:g> { <urn:fuzz:s> <urn:fuzz:p> [] }", "<urn:fuzz:s> <urn:fuzz:p> <urn:fuzz:o> <urn:fuzz:g> .", "",
)  # fmt: skip
_WRONG: Final = (
    "", "x", "\x00", "{" * 3000, "(" * 2000, "é" * 500, "%%%", "1e999", "nan", "-1", "0", "true", "null", "[]", "\ufffe",  # noqa: E501
    "SELECT * { ?s ?p ?o ", "SELECT * FROM <urn:g> { ?s ?p ?o }", "LOAD <http://127.0.0.1:9/>", "DROP EVERYTHING",
    "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", "<urn:a> <urn:b>", "<a b> <c> <d> .", '"x" <urn:p> 1 .',
    "SELECT * { " + "?s ?p ?o . " * 300 + "}", "SELECT * { ?s (" + "<urn:p>/" * 200 + "<urn:p>) ?o }", "a" * 70_000,
    "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "'; --", "${jndi:x}",
)  # fmt: skip
_KINDS: Final = (
    "application/rdf+xml", "application/json", "text/html", "multipart/form-data; boundary=x", "text/turtle; charset=utf-7",  # noqa: E501
    "text/turtle; charset=latin-1", "nonsense", "", "text/", "*/*", "application/ld+json",
)  # fmt: skip
_HEADERS: Final = (
    "Accept: text/csv", "Accept: */*;q=x", "Accept: image/png", "Accept: text/turtle;q=0, */*;q=0.1", "Range: bytes=0-1",  # noqa: E501
    "Authorization: Bearer x", "Authorization: Basic eDp4", "Origin: http://evil.example", "Origin: null",
    "Sec-Fetch-Site: cross-site", "Expect: 100-continue", "Content-Encoding: gzip", "Content-Encoding: deflate",
    "Transfer-Encoding: chunked", "Content-Length: -1", "Content-Length: 99999999999999999999", "Connection: close",
    "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 1", "Cookie: a=b", "traceparent: 00-0-0-0",
    "traceparent: 00-" + "1" * 32 + "-" + "2" * 16 + "-01", "X-Forwarded-For: ::1", "Host: evil.example", "If-Match: *",
    "Last-Event-ID: x", "Idempotency-Key: \x7f", "Idempotency-Key: k", "X: " + "y" * 9000, "no colon", ": x", "A b: c",
)  # fmt: skip
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class Requests:
    """Makes requests, as bytes, from a description."""

    def __init__(self, rng: Random, described: dict[str, Any]):
        self._rng = rng
        self._operations = [
            (path, method.upper(), operation)
            for path, methods in described["paths"].items()
            for method, operation in methods.items()
        ]

    def make(self) -> tuple[str, bytes, bool]:
        """Return the name of an operation, a request for it, and whether the request is complete."""
        rng = self._rng
        path, method, operation = rng.choice(self._operations)
        name = f"{method} {path}"
        parameters: list[tuple[str, str]] = []
        headers = ["Host: 127.0.0.1", "Connection: close"]
        for parameter in operation.get("parameters", ()):
            if not parameter["required"] and rng.random() < 0.4:
                continue
            value = self._value(parameter)
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(value, safe="", errors="replace"))
            elif parameter["in"] == "header":
                headers.append(f"{parameter['name']}: {value.splitlines()[0] if value.strip() else ''}")
            else:
                parameters += [(parameter["name"], value)] * rng.choice((1, 1, 1, 1, 2))
        if rng.random() < 0.05:
            parameters.append((rng.choice(("default-graph-uri", "x", "", "query")), rng.choice(_WRONG)))
        body = self._body(operation, headers)
        whole = not body or any(each.startswith(("Content-Length", "Transfer-Encoding")) for each in headers)
        if rng.random() < 0.25:
            headers.append(rng.choice(_HEADERS))
            whole = whole and not headers[-1].startswith(("Content-Length", "Transfer-Encoding", "Expect", "Upgrade"))
        if rng.random() < 0.06:
            method = rng.choice(_METHODS)
        if rng.random() < 0.03:
            others = ("", "/", "//", "/nothing", "*", path + "/", path + "/..", "http://x/", path.upper(), "/%00")
            path = rng.choice(others)
        text = "&".join(f"{quote(key, errors='replace')}={quote(value, errors='replace')}" for key, value in parameters)
        target = f"{path}?{text}" if text else path
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *headers, "", ""]).encode("utf-8", "replace")
        if rng.random() < 0.05:
            return name, self._damaged(head + body), False
        return name, head + body, whole

    def _value(self, parameter: dict[str, Any]) -> str:
        rng, name, schema = self._rng, parameter["name"], parameter["schema"]
        if rng.random() < 0.35:
            return rng.choice(_WRONG)
        if "enum" in schema:
            return str(rng.choice(schema["enum"]))
        if schema["type"] == "number":
            border = ("0.001", "5", "0", "1e-300", "60", "60.0001", "3600", "3601", "1e308", "inf", "0x10", "\u0661")
            return rng.choice(border)
        if "pattern" in schema:
            return rng.choice(("a" * 255, "a" * 256, "0" * 16, "f" * 16, "0" * 15, "key"))
        return str(rng.choice({
            "query": (*_QUERIES, "SELECT * { ?s ?p ?o } #" + "x" * 60_000), "graph": ("urn:fuzz:g", "no iri", "<urn:g>"),  # noqa: E501
            "name": ("main.js", "style.css", "nothing", "."),
        }.get(name, ("x", "p2prdf", "cDJwcmRmDQoB"))))  # fmt: skip

    def _body(self, operation: dict[str, Any], headers: list[str]) -> bytes:
        """Return a body, and add its description to the headers."""
        rng, content = self._rng, operation.get("requestBody", {}).get("content", {})
        if not content and rng.random() < 0.9:
            return b""
        kind = rng.choice([*content, *content, rng.choice(_KINDS)])
        if rng.random() < 0.95:
            headers.append(f"Content-Type: {kind}")
        text = self._text(kind)
        data = text.encode("utf-8", "replace")
        if rng.random() < 0.1:
            data = bytearray(data or b"x")
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            data = bytes(data)
        if rng.random() < 0.2:
            headers.append("Transfer-Encoding: chunked")
            half = len(data) // 2
            chunks = [each for each in (data[:half], data[half:]) if each]
            return b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in chunks) + b"0\r\n\r\n"
        if rng.random() < 0.97:
            headers.append(f"Content-Length: {len(data)}")
        return data

    def _text(self, kind: str) -> str:
        rng = self._rng
        if rng.random() < 0.25:
            return rng.choice(_WRONG) * rng.choice((1, 1, 1, 3))
        if kind.endswith("sparql-update"):
            return rng.choice(_UPDATES)
        if kind.endswith("sparql-query"):
            return rng.choice(_QUERIES) if rng.random() < 0.95 else "SELECT * {} #" + "x" * 262_131
        if kind.endswith("urlencoded"):
            given = rng.choice((*(("query", each) for each in _QUERIES), *(("update", each) for each in _UPDATES)))
            return "&".join([f"{given[0]}={quote(given[1])}", *(rng.choice(("timeout=5", "timeout=x", "=&=", "query=x", "%zz")) for _ in range(rng.randrange(2)))])  # noqa: E501
        return rng.choice(_RDF) * rng.choice((1, 1, 50))

    def _damaged(self, request: bytes) -> bytes:
        rng, changed = self._rng, bytearray(request)
        for _ in range(rng.randint(1, 5)):
            changed[rng.randrange(min(len(changed), 400))] = rng.choice((0, 10, 13, 32, 0xFF, rng.randrange(256)))
        return bytes(changed[: rng.randrange(1, len(changed) + 1)])


class _Line:
    """A connection to the gateway, opened again whenever it is closed."""

    def __init__(self, port: int):
        self._port = port

    async def ask(self, request: bytes, *, whole: bool = True) -> int | None:
        """Send a request on a connection of its own; return the status, None if it was closed without one.

        An incomplete request (not ``whole``) is waited for only shortly: the gateway may wait for its rest.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        try:
            async with asyncio.timeout(_SECONDS if whole else _MORE_SECONDS):
                writer.write(request)
                head = await self._head(reader)
                while head is not None and head.startswith((b"HTTP/1.1 100", b"HTTP/1.1 101")):
                    if head.startswith(b"HTTP/1.1 101"):
                        return 101
                    head = await self._head(reader)
                if head is None:
                    return None
                if b"text/event-stream" not in head:
                    await reader.read()
                found = _STATUS.match(head)
                return int(found[1]) if found else 0  # an answer to a request that is not HTTP/1.1
        except ConnectionError:
            return None
        except TimeoutError:
            return -1 if whole else None
        finally:
            writer.transport.abort()

    @staticmethod
    async def _head(reader: asyncio.StreamReader) -> bytes | None:
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            return error.partial or None


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * 4096


async def run(count: int, rng: Random, report: Report, *, folder: Path | None = None) -> None:
    """Send ``count`` requests to a gateway of three nodes."""
    from p2prdf.gateway.openapi import description

    async with Target(report, folder=folder) as target:
        gateway = await GatewayProcess.start(target.nodes[0].address, "--lease", "30")
        try:
            await _through(gateway, target, Requests(rng, description()), count, report)
        finally:
            await gateway.kill()


async def _through(gateway: GatewayProcess, target: Target, requests: Requests, count: int, report: Report) -> None:
    watch = await target.begin()
    statuses: Counter[int | None] = Counter()
    asked: Counter[str] = Counter()
    warm, began = 0, time.monotonic()

    async def asking() -> None:
        nonlocal warm
        line = _Line(int(gateway.url.rpartition(":")[2]))
        while asked.total() < count:
            name, request, whole = requests.make()
            asked[name] += 1
            if asked.total() == count // 10 or not count // 10:
                warm = _resident(gateway.process.pid)
                await target.warm()
            status = await line.ask(request, whole=whole)
            statuses[status] += 1
            late = status == 503 and b"timeout=" in request  # its timeout was shorter than any answer takes
            report.check(status is None or 0 <= status < 500 or late, f"{request[:300]!r} was answered with {status}")

    async with asyncio.TaskGroup() as group:
        for _ in range(_CLIENTS):
            group.create_task(asking())
    took = time.monotonic() - began
    await target.finish(watch, same=False)
    grown = _resident(gateway.process.pid) - warm
    report.say(f"gateway: resident {warm / 1e6:.1f} MB after a tenth, {(warm + grown) / 1e6:.1f} MB at the end")
    report.check(grown < GROWTH_BYTES_MAX, f"the gateway has {grown / 1e6:.0f} MB more")
    report.check(gateway.process.returncode is None, f"the gateway ended: {gateway.process.returncode}")
    port = int(gateway.url.rpartition(":")[2])
    ready = await _Line(port).ask(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    report.check(ready == 200, f"/readyz is {ready} afterwards")
    report.say(f"{asked.total():,} in {took:.0f} s ({asked.total() / took:,.0f} a second): {dict(asked)}")
    report.say(f"answered: {dict(sorted(statuses.items(), key=str))}")
