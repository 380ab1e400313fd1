"""Every help fits: few lines, texts for all options and commands, panels where options are many."""

from __future__ import annotations

from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from p2prdf_cli.app import app
from p2prdf_cli.panels import COMMANDS, OPTIONS, OPTIONS_MAX

LINES_MAX: Final = 60
"""Lines of the help of a command at 100 columns."""
PROGRAM_LINES_MAX: Final = 50
"""Lines of the help of the program."""

ROOT: Any = typer.main.get_command(app)


def _all(command: Any = ROOT, path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    found = [(" ".join(path), command)]
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        found += _all(command.get_command(None, name), (*path, name))
    return found


@pytest.mark.parametrize("path", [path for path, _ in _all()])
def test_help_fits(path: str) -> None:
    outcome = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": "100"})
    assert outcome.exit_code == 0
    lines = outcome.output.strip().splitlines()
    most = LINES_MAX if path else PROGRAM_LINES_MAX
    assert len(lines) <= most, f"p2prdf {path} --help has {len(lines)} lines"


@pytest.mark.parametrize(("path", "command"), _all(), ids=lambda each: each if isinstance(each, str) else "")
def test_commands_and_options_have_texts(path: str, command: Any) -> None:
    assert command.help, path
    assert [each.opts for each in command.params if not each.help] == []


@pytest.mark.parametrize(("path", "command"), _all(), ids=lambda each: each if isinstance(each, str) else "")
def test_many_options_are_in_panels_with_the_everyday_ones_first(path: str, command: Any) -> None:
    options = [each for each in command.params if each.param_type_name == "option"]
    if len(options) <= OPTIONS_MAX:
        return
    panels = [each.rich_help_panel for each in options]
    assert panels[0] is None, path
    assert sum(each is None for each in panels) <= OPTIONS_MAX + 2, path
    assert len(set(panels)) > 1, path
    assert [each for n, each in enumerate(panels) if each not in panels[:n]] == list(dict.fromkeys(panels))


def test_every_command_of_the_program_stands_in_a_panel() -> None:
    names = [name for texts in COMMANDS.values() for name in texts]
    assert ROOT.list_commands(None) == names


def test_panels_name_options_that_exist() -> None:
    known = {name for _, command in _all() for each in command.params for name in each.opts}
    named = [name for names in OPTIONS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= known
