"""A receiver of webhooks as a process of its own, with answers set by the test and a report of each request.

``python -m webhook_receiver`` prints its port, then a line of JSON for each request: path, headers, body, and
its answer.  Lines of JSON on its standard input set the answer of a path from then on: a status, ``hang``
(nothing, until that is changed), ``close`` (the connection), ``redirect`` (to the path ``/elsewhere``),
``endless`` (500, with a body that does not end).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Receiver"]

SECONDS = 60.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        server = self.server
        with server.changed:
            mode = server.modes.get(self.path, 200)
            told = {"path": self.path, "headers": dict(self.headers), "body": body, "mode": mode}
            print(json.dumps(told), flush=True)
            while mode == "hang":
                server.changed.wait()
                mode = server.modes.get(self.path, 200)
                if mode != "hang":
                    self.close_connection = True
                    return
        self._answer(mode)

    def _answer(self, mode):
        if mode == "close":
            self.close_connection = True
            return
        with contextlib.suppress(ConnectionError):
            self.send_response(307 if mode == "redirect" else 500 if mode == "endless" else mode)
            if mode == "redirect":
                self.send_header("Location", "/elsewhere")
            if mode == "endless":
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while True:
                    self.wfile.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            said = f"it is {mode}".encode()
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    def log_message(self, *args):
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignore errors: clients may go away at any moment."""


def main():
    """Serve until the standard input ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.modes, server.changed = {}, threading.Condition()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for line in sys.stdin:
        with server.changed:
            server.modes.update(json.loads(line))
            server.changed.notify_all()
            print(json.dumps({"set": True}), flush=True)
    os._exit(0)


class Receiver:
    """The process, and the requests received so far."""

    def __init__(self, process, port):
        self.process = process
        self.port = port
        self.requests = []

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls):
        """Start one; it ends with the context."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "webhook_receiver", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, limit=1 << 24,
        )  # fmt: skip
        try:
            yield cls(process, int(await asyncio.wait_for(process.stdout.readline(), SECONDS)))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    @property
    def url(self):
        """Where it is, without the path."""
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, path, mode):
        """Set the answer to requests of a path from now on."""
        self.process.stdin.write(json.dumps({path: mode}).encode() + b"\n")
        await asyncio.wait_for(self._line(until_set=True), SECONDS)

    async def all_of_it(self):
        """Read all requests received so far."""
        await self.answer("/nobody", 200)

    async def _line(self, *, until_set=False):
        while True:
            told = json.loads(await self.process.stdout.readline())
            if "path" in told:
                told["message"] = json.loads(told["body"])
                self.requests.append(told)
            if until_set == ("set" in told):
                return

    async def until(self, holds, seconds=SECONDS):
        """Wait until a condition holds for the requests of a path, or for all; return them."""
        try:
            async with asyncio.timeout(seconds):
                while not holds(self):
                    await self._line()
        except TimeoutError:
            told = [(each["path"], each["mode"], each["body"][:300]) for each in self.requests]
            raise AssertionError(f"it did not come true: {told}") from None

    def taken(self, path):
        """Return the messages of a path that were taken."""
        return [each["message"] for each in self.of(path) if each["mode"] == 200]

    def of(self, path):
        """Return the requests of a path."""
        return [each for each in self.requests if each["path"] == path]

    def held(self, path, name):
        """Return the values of a variable that were added and not removed, by the identities of answers.

        A removed answer is not added any more: a request may arrive after a later one of another gateway.
        """
        found, gone = {}, set()
        for message in self.taken(path):
            told = message.get("notification", {"addedIds": [], "removedIds": []})
            for identity, row in zip(told["addedIds"], _rows(told, "addedResults"), strict=True):
                found[identity] = row[name]["value"]
            gone.update(told["removedIds"])
            found = {identity: value for identity, value in found.items() if identity not in gone}
        return sorted(found.values())


def _rows(told, what):
    return told.get(what, {"results": {"bindings": []}})["results"]["bindings"]


if __name__ == "__main__":
    main()
