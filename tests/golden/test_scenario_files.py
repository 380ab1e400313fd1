"""The interpreter of scenario files: errors name the line, output is reproducible, CI never rewrites a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from scenario_files import commands, script

ROOT = Path(__file__).parents[2]
PATH = Path("some.txt")

HELLO = """\
# A comment.

nodes 1
publish n0 :a :p :b
  . :b :p :c
deliver
----
n0 at 0...
n0: acknowledged publish :a :p :b

# The end.
"""


def played(text: str) -> list[script.Block]:
    return script.play(script.parse(text, PATH), commands.Scenario(PATH).run)


def test_a_file_that_prints_its_expected_output_is_written_as_it_was() -> None:
    assert script.shown(script.parse(HELLO, PATH)) == HELLO
    assert script.shown(played(HELLO)) == HELLO


def test_rewriting_replaces_wrong_output_and_adds_missing_output() -> None:
    assert script.shown(played(HELLO.replace("acknowledged", "refused"))) == HELLO
    head, _, rest = HELLO.partition("----\n")
    assert script.shown(played(head + rest[rest.index("\n# The end") :])) == HELLO


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nodes 1\n----\n\npublsh n0 :a :p :b\n", "some.txt:4: there is no command 'publsh'; the commands are acknow"),
        ("# x\ndeliver\n", "some.txt:2: deliver: start nodes first"),
        ("nodes 99\n", "some.txt:1: nodes: '99' is not a number from 1 to 16"),
        ("nodes 1\nnodes 1\n", "some.txt:2: nodes: the nodes of this file are started already"),
        ("nodes 1 copies=3\n", "some.txt:1: nodes: 'copies=3' is not a setting of a peer"),
        ("nodes 1\ncrash n4\n", "some.txt:2: crash: there is no node 'n4'"),
        ("nodes 2\ncrash n1\npublish n1 :a :p :b\n", "some.txt:3: publish: n1 is down"),
        ("nodes 1\nrestart n0\n", "some.txt:2: restart: n0 is up"),
        ("nodes 1\npublish n0 :a :p\n", "some.txt:2: publish: ':a :p' is not a list of triples"),
        ("nodes 1\nsubscribe n0 q SELECT * { ?x\n", "some.txt:2: subscribe: "),
        ("nodes 1\nsolutions q\n", "some.txt:2: solutions: there is no subscription 'q'"),
        ("nodes 1\nadvance 5\n", "some.txt:2: advance: '5' is not a time such as 5s"),
        ("nodes 1\ndeliver until Forward\n", "some.txt:2: deliver: no Forward is sent; sent were none"),
        ("nodes 1\ntrace some\n", "some.txt:2: trace: 'some' is not all, off, only or hide"),
        ("nodes 1\ntrace only Forwrd\n", "some.txt:2: trace: there is no message 'Forwrd'"),
        ("nodes 1\ntrace all between n0 bob\n", "some.txt:2: trace: write between and two nodes"),
        ("nodes 1\nstatus n0 colour\n", "some.txt:2: status: status has no key 'colour'"),
        ("----\n", "some.txt:1: ---- follows no command"),
        ("  nodes 1\n", "some.txt:1: an indented line continues a command"),
    ],
)
def test_a_wrong_line_fails_with_its_file_and_number(text: str, error: str) -> None:
    with pytest.raises(script.ScenarioError) as caught:
        played(text)
    assert str(caught.value).startswith(error)


def pytest_in_a_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=clean | environment, check=False, capture_output=True, text=True, timeout=120
    )


def test_ci_cannot_rewrite_golden_files() -> None:
    run = pytest_in_a_process("tests/golden/test_golden.py", "--rewrite-golden", CI="true")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "CI compares golden files and never writes them" in run.stdout + run.stderr
    for path in (".ci/run", "Makefile"):
        assert "--rewrite-golden" not in (ROOT / path).read_text("utf-8")


def test_output_does_not_depend_on_the_order_of_hashes() -> None:
    run = pytest_in_a_process("tests/golden/test_golden.py", "-k", "join", PYTHONHASHSEED="4711")
    assert run.returncode == 0, run.stdout[-3000:]
