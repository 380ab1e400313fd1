"""Commands that other distributions attach: the laboratory's, and the error without it."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from p2prdf_cli import attached
from p2prdf_cli.app import app
from p2prdf_cli.attached import ATTACHED

other = typer.Typer(help="Another group.")


@other.command()
def greet() -> None:
    """Greet."""
    print("hello")


@other.command()
def leave() -> None:
    """Leave."""


def _attach(monkeypatch: pytest.MonkeyPatch, *found: EntryPoint) -> None:
    monkeypatch.setattr(attached, "entry_points", lambda **_: EntryPoints(found))


def _names(text: str) -> set[str]:
    return {line.strip("│ ").partition(" ")[0] for line in text.splitlines()}


def test_laboratory_attaches_its_command() -> None:
    outcome = CliRunner().invoke(app, ["experiment", "--help"])
    assert outcome.exit_code == 0
    assert "load-distribution" in outcome.output
    assert "experiment" in _names(CliRunner().invoke(app, ["--help"]).output)


@pytest.mark.parametrize("words", [["experiment"], ["experiment", "--help"], ["experiment", "plan", "--peers", "5"]])
def test_command_of_the_laboratory_without_it_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    _attach(monkeypatch)
    outcome = CliRunner().invoke(app, words)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == f"p2prdf: error [usage]: 'experiment' is a command of {ATTACHED['experiment']}\n"


def test_help_does_not_list_the_command_of_the_laboratory_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _attach(monkeypatch)
    listed = _names(CliRunner().invoke(app, ["--help"]).output)
    assert "simulate" in listed
    assert "experiment" not in listed


def test_any_distribution_attaches_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    _attach(monkeypatch, EntryPoint("other", f"{__name__}:other", attached.GROUP))
    monkeypatch.setattr(EntryPoint, "load", lambda _: other)
    assert CliRunner().invoke(app, ["other", "greet"]).output == "hello\n"
    root: Any = typer.main.get_command(app)
    assert root.list_commands(None)[-1] == "other"


def test_unknown_command_is_refused_as_before() -> None:
    outcome = CliRunner().invoke(app, ["experimental"])
    assert outcome.exit_code == 2
    assert "No such command 'experimental'" in outcome.stderr
