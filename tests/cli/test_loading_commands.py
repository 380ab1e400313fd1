"""A call of the program loads one command and no package that this command does not use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CALL = """
import json, sys
from p2prdf_cli.__main__ import main
try:
    main()
except SystemExit:
    print(json.dumps(sorted(sys.modules)))
"""
SECONDS = 60
UNUSED = {"aiohttp", "cryptography", "matplotlib", "pandas", "pyarrow", "rdflib", "rich", "zstandard"}
"""Packages of other commands, and those that take long to import."""
PROGRAM = {
    "__main__", "app", "attached", "commands", "connecting", "exits", "options", "panels", "rule_files", "query_text",
    "loading", "render",
}  # fmt: skip
"""Modules of the command line that several commands share."""


def _loaded(*arguments: str) -> set[str]:
    given = [sys.executable, "-c", CALL, *arguments]
    done = subprocess.run(given, check=True, capture_output=True, text=True, timeout=SECONDS)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("query", ["ASK { ?s <urn:p> ?o }", "--peer", "127.0.0.1:1"]),
        ("update", ["INSERT DATA { <urn:s> <urn:p> <urn:o> }", "--peer", "127.0.0.1:1"]),
    ],
)
def test_a_command_loads_no_other_one_and_no_package_of_another(command: str, arguments: list[str]) -> None:
    loaded = _loaded(command, *arguments)
    assert "p2prdf.client.client" in loaded
    assert loaded & UNUSED == set()
    own = {name.removeprefix("p2prdf_cli.") for name in loaded if name.startswith("p2prdf_cli.")}
    assert own - PROGRAM == {command}
