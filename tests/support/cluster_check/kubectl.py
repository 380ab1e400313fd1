"""The cluster, reached by kubectl with one kubeconfig, and the overlay's pods in one namespace."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["Cluster", "Failed"]

COMMAND_SECONDS: Final = 120.0
AGAIN_SECONDS: Final = 1.0


class Failed(Exception):
    """A step failed; the text says at which command and why."""


class Cluster:
    """kubectl in a folder, with a kubeconfig.  ``patience`` multiplies all deadlines, for slow clusters."""

    def __init__(self, kubeconfig: Path, folder: Path, *, patience: float = 1.0):
        self.folder = folder
        self.patience = patience
        self.environment: Mapping[str, str] = os.environ | {"KUBECONFIG": str(kubeconfig)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start kubectl with pipes for its input and output."""
        return subprocess.Popen(
            ["kubectl", *words], cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def try_(
        self, *words: str, given: str | None = None, seconds: float = COMMAND_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; return its result.  A deadline that passes is exit code 124."""
        command = ["kubectl", *words]
        try:
            return subprocess.run(
                command, cwd=self.folder, env=self.environment, text=True, input=given, capture_output=True,
                timeout=seconds * self.patience, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"no end within {seconds * self.patience:.0f} s")

    def run(self, *words: str, given: str | None = None, seconds: float = COMMAND_SECONDS) -> str:
        """Run kubectl; return its output.  Raises Failed with its last lines of standard error."""
        done = self.try_(*words, given=given, seconds=seconds)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()[-8:]
            raise Failed(f"kubectl {' '.join(words[:8])}: exit code {done.returncode}: {' | '.join(said)}")
        return done.stdout

    def shell(self, command: str, *, seconds: float = COMMAND_SECONDS) -> str:
        """Run a command of the documentation as it stands.  Raises Failed."""
        try:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command], cwd=self.folder, env=self.environment, text=True,
                capture_output=True, timeout=seconds * self.patience, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"{command}: no end within {seconds * self.patience:.0f} s") from None
        if done.returncode != 0:
            raise Failed(f"{command}: exit code {done.returncode}: {done.stderr.strip()[-600:]}")
        return done.stdout

    def get(self, *words: str) -> Any:
        """Return objects as ``kubectl get -o json`` does."""
        return json.loads(self.run("get", *words, "-o", "json"))

    def exists(self, *words: str) -> bool:
        """Whether an object exists."""
        return bool(self.run("get", *words, "--ignore-not-found", "-o", "name").strip())

    def wait_until(self, holds: Callable[[], bool], purpose: str, *, seconds: float) -> float:
        """Wait until a condition holds; return the seconds it took.  Raises Failed after the deadline."""
        began = time.monotonic()
        while not holds():
            if time.monotonic() - began > seconds * self.patience:
                raise Failed(f"{purpose}: not within {seconds * self.patience:.0f} s")
            time.sleep(AGAIN_SECONDS)
        return time.monotonic() - began

    def ready_pods(self, namespace: str, app: str) -> list[str]:
        """Return the names of the ready pods of an application."""
        found = self.get("pods", "-n", namespace, "-l", f"app.kubernetes.io/name={app}")["items"]
        return sorted(pod["metadata"]["name"] for pod in found if is_ready(pod))

    def rollout(self, namespace: str, what: str, *, seconds: float = 300.0) -> float:
        """Wait for a rollout; return its seconds.  Raises Failed with the state of the pods."""
        began = time.monotonic()
        limit = f"--timeout={seconds * self.patience:.0f}s"
        done = self.try_("-n", namespace, "rollout", "status", what, limit, seconds=seconds + 30)
        if done.returncode != 0:
            pods = self.try_("-n", namespace, "get", "pods", "-o", "wide").stdout
            events = self.try_("-n", namespace, "get", "events", "--sort-by=.lastTimestamp").stdout
            raise Failed(f"{what} is not rolled out: {done.stderr.strip()}\n{pods}\n{_tail(events, 15)}")
        return time.monotonic() - began


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is ready and does not stop."""
    conditions: Sequence[Mapping[str, str]] = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _tail(text: str, lines: int) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
