"""A collector of OpenTelemetry: takes spans by OTLP over HTTP on a real socket, as long as a test wants."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Receiver", "receiver"]


class Receiver:
    """The received data: spans, and the attributes of their senders."""

    def __init__(self):
        self.url = ""
        self.refuse = False
        self.refused = 0
        self.spans = []
        self.paths = set()

    def take(self, path, body):
        """Take a request; return the HTTP status."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.paths.add(path)
        if self.refuse:
            self.refused += 1
            return 400
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            sender = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.spans += [(sender, span) for scope in resource.scope_spans for span in scope.spans]
        return 200


@contextlib.contextmanager
def receiver():
    """Yield a receiver, which takes spans until the context is left."""
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.headers["Content-Type"] == "application/x-protobuf"
            status = received.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
