"""As much of Kubernetes as Spark's scheduler needs: an API with processes of this machine as pods.

A created pod is started: the arguments of its one container go to the program that is the image's entry point,
with the container's variables.  Requests about pods are answered from the state of the processes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["KubeApi", "variables"]

LOOPBACK = "127.0.0.1"
Manifest = dict[str, Any]


def variables(container: Manifest, fields: dict[str, str]) -> dict[str, str]:
    """Return the environment of a container; ``fields``: of its pod, by their paths."""
    found = {}
    for each in container.get("env", []):
        path = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[each["name"]] = fields[path] if path else each.get("value", "")
    return found


class KubeApi:
    """The API server and the one machine of its cluster."""

    def __init__(self, entrypoint: Path, logs: Path, environment: dict[str, str]):
        """``environment``: variables of the image, ``PATH`` among them."""
        self.created: dict[str, Manifest] = {}
        """Pods by their names, as they were asked for."""
        self.deleted: set[str] = set()
        """Kinds of things that were deleted."""
        self._entrypoint = entrypoint
        self._logs = logs
        self.environment = environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End everything."""
        self._server.shutdown()
        self._server.server_close()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def kill(self, pod: str) -> None:
        """Let a pod die."""
        self._processes[pod].kill()

    def text(self) -> str:
        """Return the output of the pods."""
        return "\n".join(path.read_text(errors="replace") for path in self._logs.glob("*.log"))

    # --- requests -----------------------------------------------------------------------------

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                with api._lock:
                    code, answer = api._asked(self.command, self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815 - names that the base class calls

        return Handler

    def _asked(self, method: str, path: str, body: Manifest | None) -> tuple[int, Manifest]:
        parts = urlsplit(path)
        kind, _, name = parts.path.partition("/namespaces/")[2].partition("/")[2].partition("/")
        if method == "POST":
            assert body is not None
            return 201, self._start(body) if kind == "pods" else body
        if method == "DELETE":
            self.deleted.add(kind)
            for pod in [name] if name else list(self._processes):
                if kind == "pods" and pod in self._processes:
                    self._processes[pod].kill()
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if kind == "pods" and name:
            return (200, self._told(name)) if name in self.created else (404, _missing(name))
        wanted = dict(
            re.findall(r"([\w-]+)=([\w-]+)", parse_qs(parts.query).get("labelSelector", [""])[0])
        ) if kind == "pods" else {}  # fmt: skip
        pods = [self._told(pod) for pod in self.created] if kind == "pods" else []
        items = [each for each in pods if wanted.items() <= each["metadata"]["labels"].items()]
        listed = {"pods": "PodList", "persistentvolumeclaims": "PersistentVolumeClaimList"}.get(kind, "List")
        return 200, {"kind": listed, "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}

    # --- pods ------------------------------------------------------------------------------------

    def driver(self, name: str) -> None:
        """Create the pod in which the driver runs."""
        metadata = {"name": name, "namespace": "default", "uid": "0", "labels": {}}
        self.created[name] = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": []}}

    def _start(self, pod: Manifest) -> Manifest:
        name = pod["metadata"]["name"]
        pod["metadata"].update(uid=str(uuid.uuid4()), namespace="default")
        self.created[name] = pod
        (container,) = pod["spec"]["containers"]
        fields = {"status.podIP": LOOPBACK, "metadata.name": name}
        environment = {**self.environment, **variables(container, fields)}
        environment["SPARK_CONF_DIR"] = str(self._logs)  # a volume of a pod
        with (self._logs / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [self._entrypoint, *container["args"]], env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, cwd=self._logs,
            )  # fmt: skip
        return self._told(name)

    def _told(self, name: str) -> Manifest:
        process = self._processes.get(name)
        code = None if process is None else process.poll()
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        status: Manifest = {"phase": phase, "podIP": LOOPBACK, "conditions": [{"type": "Ready", "status": "True"}]}
        if code is not None:
            status["containerStatuses"] = [
                {"name": "executor", "state": {"terminated": {"exitCode": code & 255, "reason": "Error"}}}
            ]
        return {**self.created[name], "status": status}


def _missing(name: str) -> Manifest:
    failure = {"status": "Failure", "reason": "NotFound", "code": 404, "message": name}
    return {"kind": "Status", "apiVersion": "v1", **failure}


def image_environment(python: str) -> dict[str, str]:
    """Return the variables of an image with this process's Python."""
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
    folder = str(Path(python).parent)
    return {**kept, "PATH": f"{folder}:{os.environ['PATH']}", "PYSPARK_PYTHON": python, "HOME": "/tmp"}
