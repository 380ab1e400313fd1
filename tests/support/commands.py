"""The command line, run in the process of a test."""

from __future__ import annotations

import os
import signal
import threading
import urllib.request

from typer.testing import CliRunner

from p2prdf_cli.app import app

__all__ = ["SECONDS", "command", "fetched"]

SECONDS = 60.0


def command(*arguments, given=None, environment=None):
    """Run ``p2prdf`` in this process, to its end or the deadline; return its exit code, output and errors."""
    unset = {key: None for key in os.environ if key.startswith("P2PRDF_")}
    environment = unset | {"COLUMNS": "200"} | (environment or {})
    deadline = threading.Timer(SECONDS, os.kill, (os.getpid(), signal.SIGTERM))  # the command ends itself then
    deadline.start()
    try:
        done = CliRunner().invoke(app, [*map(str, arguments)], input=given, env=environment)
    finally:
        deadline.cancel()
        deadline.join()
    return done.exit_code, done.stdout_bytes.decode(), done.stderr


def fetched(url):
    """Return the text at a URL of this machine."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return answer.read().decode()
