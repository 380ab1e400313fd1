"""Commands and files named in the documents exist, and their links lead somewhere."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from documents import parse
from rich.emoji import Emoji
from typer.testing import CliRunner

import p2prdf
from p2prdf_cli.app import app
from p2prdf_lab.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("clients/*/*.md")])
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")


def _typed(program: str) -> list[tuple[str, str]]:
    """Return (document, command line) of each line in a code block that runs a program."""
    found = []
    for document in DOCUMENTS:
        for block in parse(document.read_text("utf-8")):
            if block.language == "console":  # typed as it stands: tests/daemon/test_documents_typed.py
                continue
            for line in block.text.replace("\\\n", " ").splitlines():
                parts = re.split(r"\s\|\s|&&|;", line.removeprefix("$ "))
                commands = [re.sub(r"^(?:\w+=\S+\s+)*", "", part.strip()) for part in parts]
                found += [(document.name, each) for each in commands if re.match(rf"{program}(\s|$)", each)]
    return found


@functools.cache
def _help(*command: str) -> str:
    outcome = CliRunner().invoke(app, [*command, "--help"], terminal_width=200)
    assert outcome.exit_code == 0, f"there is no command {' '.join(command)}"
    return outcome.output


GROUPS = {"ca", "changesets", "channel", "corpus", "experiment", "interest", "member", "replica", "rules", "serve"}
"""Commands that are followed by another."""


def _commands(group: Any) -> dict[str, Any]:
    return {name: group.get_command(None, name) for name in group.list_commands(None)}


PROGRAM = _commands(typer.main.get_command(app))


@pytest.mark.parametrize(("document", "line"), _typed("p2prdf"), ids=lambda value: value[:60])
def test_commands_and_options_that_documents_show_exist(document: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    while words[:1] and words[0] in ("--tls-ca", "--tls-cert", "--tls-key"):  # of all commands that connect
        words = words[2:]
    assert words, f"{document}: {line}"
    if words[0].startswith("-"):
        assert words[0] in ("--help", "--version", "--install-completion", "--show-completion")
        return
    command = words[: 2 if words[0] in GROUPS and words[1:2] != ["--help"] else 1]
    used = {word.split("=")[0] for word in words[1:] if OPTION.fullmatch(word.split("=")[0])}
    known = set(OPTION.findall(_help(*command)))
    assert used <= known, f"{document}: {line}: no such option {sorted(used - known)}"


@pytest.mark.parametrize(("document", "line"), _typed("make"), ids=lambda value: value[:60])
def test_make_targets_that_documents_show_exist(document: str, line: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    words = shlex.split(line, comments=True)[1:]
    used = {word for word in words if not word.startswith("-") and "=" not in word}
    assert used <= targets, f"{document}: {line}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(document: Path) -> None:
    targets = LINK.findall(document.read_text("utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_every_command_has_a_help_with_an_example() -> None:
    commands = {name for name in PROGRAM if name not in GROUPS}
    expected = "node publish spark-publish query subscribe unsubscribe status explain update derive trace export backup"
    assert commands == {*expected.split(), "simulate", "demo", "mcp"}
    assert {name for name, each in PROGRAM.items() if hasattr(each, "commands")} == GROUPS
    for command in commands | GROUPS:
        assert "Example" in _help(command)
    for name in (*EXPERIMENTS, "incremental-reasoning", "full-text", "interest-replica", "semantic-channels", "plan"):
        assert "Example" in _help("experiment", name)


def test_no_example_of_a_help_becomes_a_picture() -> None:
    """The printer of helps takes ``:x:`` for an emoji."""
    commands = {(name,): each for name, each in PROGRAM.items()}
    commands |= {
        (name, inner): each
        for name, group in PROGRAM.items() if name in GROUPS for inner, each in _commands(group).items()
    }  # fmt: skip
    assert len(commands) > 30
    for name, command in commands.items():
        assert Emoji.replace(command.help) == command.help, f"{' '.join(name)}: write another word between the colons"


def test_continuous_integration_runs_the_targets_and_nothing_else() -> None:
    script = (ROOT / ".ci/run").read_text()
    assert re.findall(r"^make .*?(\w+)$", script, re.MULTILINE) == ["check", "test"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
    listed = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for target in ("demo", "test", "check", "bench", "simulate", "wheel-test", "clean"):
        assert f"make {target} " in listed


def test_the_reference_of_the_python_client_has_every_public_name() -> None:
    page = (ROOT / "docs/reference/python.md").read_text("utf-8")
    missing = [name for name in p2prdf.__all__ if not re.search(rf"`(?:p2prdf\.)?{name}\b", page)]
    assert not missing
