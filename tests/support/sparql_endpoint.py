"""A SPARQL endpoint as a process of its own: HTTP in front of a store of pyoxigraph in a folder.

``python -m sparql_endpoint FOLDER [--host ADDRESS] [--port N] [--auth HEADER] [--die-at N --when before|after]
[--stutter N]``

Prints its port.  ``--die-at``: it dies at the N-th update, before the store has it or after, and without an answer.
``--stutter``: each update but every N-th is refused with 503, half of them after it took effect.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyoxigraph as ox


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        path = urlsplit(self.path).path
        if self.server.options.auth and self.headers.get("Authorization") != self.server.options.auth:
            self._answer(401, b"who are you?")
        elif path == "/elsewhere":
            self._answer(307, b"", {"Location": "/update"})
        elif path == "/update":
            self._update(body)
        else:
            self._query(body)

    def _update(self, body: str) -> None:
        server, options = self.server, self.server.options
        server.updates += 1
        dies = options.die_at == server.updates
        if dies and options.when == "before":
            os._exit(1)
        refused = options.stutter and server.updates % options.stutter
        if not refused or server.updates % 2:
            try:
                server.store.update(body)
            except (SyntaxError, ValueError) as error:
                self._answer(400, str(error).encode())
                return
        if dies:
            os._exit(1)
        self._answer(503 if refused else 204, b"")

    def _query(self, body: str) -> None:
        found = self.server.store.query(body)
        if isinstance(found, ox.QueryTriples):
            data = found.serialize(format=ox.RdfFormat.N_TRIPLES)
        else:
            data = found.serialize(format=ox.QueryResultsFormat.JSON)
        self._answer(200, data)

    def _answer(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if status != 204:
            self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.store = ox.Store(str(options.folder))
        self.updates = 0
        super().__init__((options.host, options.port), _Handler)


class EndpointProcess:
    """The process, begun; again on the same port and folder after it died."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> EndpointProcess:
        """Begin the process, and wait until it listens."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sparql_endpoint", str(self._folder), "--port", str(self.port), *options],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    @property
    def url(self) -> str:
        """Where it is, without the path."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def store(self) -> ox.Store:
        """Return the store that it has written; the process has to be dead."""
        assert self._process is None
        return ox.Store(str(self._folder))


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--auth", default="")
    parser.add_argument("--die-at", type=int, default=0)
    parser.add_argument("--when", default="before")
    parser.add_argument("--stutter", type=int, default=0)
    server = _Server(parser.parse_args())
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
